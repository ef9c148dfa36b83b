"""What the client has lost for good, where it is told of losses: arrays with a shard on a device that had no place.

Once lost, always lost: an array that the client may have seen as an error stays one when its device is back, and every
world is told so. Plain bookkeeping; sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.controller.journal import Entry, Journal
from elastic.status import Code, StatusError

Arrays = Mapping[int, tuple[int, ...]]
"""Array -> its virtual devices."""

_QUESTIONS = (Command.READ, Command.WAIT, Command.TEXT, Command.COST, Command.HOLD)


class Losses:
    """Virtual devices that have no place now, and arrays that are lost."""

    def __init__(self) -> None:
        self.devices: frozenset[int] = frozenset()
        """Those that have no physical device now."""
        self._why: dict[int, str] = {}
        self._arrays: dict[int, tuple[tuple[int, ...], str]] = {}
        """array -> (its devices, why it is lost)"""

    def __len__(self) -> int:
        return len(self._arrays)

    def place(self, devices: Iterable[int], why: str) -> None:
        """From now on exactly these devices have no place; `why`, in words, if they had one before."""
        self._why = {device: self._why.get(device, why) for device in devices}
        self.devices = frozenset(self._why)

    def add(self, arrays: Arrays, reason: str = "") -> None:
        """These are lost."""
        for array, devices in arrays.items():
            self._arrays.setdefault(array, (devices, reason or self._text(devices)))

    def concern(self, entry: Entry) -> bool:
        """Whether an operation is for a device that has no place."""
        return bool(self.devices) and not self.devices.isdisjoint(entry.devices)

    def take(self, journal: Journal, entry: Entry) -> StatusError | None:
        """Makes an operation of the journal that concerns lost devices what is left of it.

        What would have made arrays makes errors; the result is the answer to a question.
        """
        arrays, reason = made_by(entry), self._text(entry.devices)
        if arrays:
            self.add(dict.fromkeys(arrays, entry.devices))
            entry.program = 0
            message = (Command.FAIL, arrays, int(Code.DATA_LOSS), reason)
            journal.replace(entry, Command.FAIL, wire.frame_header(message, 0))
        return StatusError(Code.DATA_LOSS, reason) if entry.command in _QUESTIONS else None

    def _text(self, devices: Iterable[int]) -> str:
        """What is wrong with some devices, of which one at least has no place; with all that went when that one did."""
        why = self._why[min(self.devices.intersection(devices))]
        lost = [str(device) for device in sorted(self._why) if self._why[device] == why]
        return f"virtual device{'s' * (len(lost) > 1)} {', '.join(lost)} without a physical device since {why}"

    def trimmed(self, entries: Iterable[Entry]) -> None:
        """The journal has dropped these: what they freed need not be known any more."""
        if self._arrays:
            for entry in entries:
                if entry.command is Command.FREE:
                    for array in entry.message()[1]:
                        self._arrays.pop(array, None)

    def forget(self) -> None:
        """Ends the account of a client that has left."""
        self._arrays.clear()

    def told(self) -> list[tuple[tuple[int, ...], list[Any]]]:
        """What a new world has to be told: (devices, arguments of FAIL)."""
        groups: dict[tuple[tuple[int, ...], str], list[int]] = {}
        for array, key in self._arrays.items():
            groups.setdefault(key, []).append(array)
        return [(devices, [arrays, int(Code.DATA_LOSS), reason]) for (devices, reason), arrays in groups.items()]


def made_by(entry: Entry) -> list[int]:
    """The arrays that an operation makes, ends of executions among them."""
    match entry.command:
        case Command.EXECUTE:
            _, _, _, results, _, status = entry.message()
            return [*results, *([status] if status else [])]
        case Command.PUT | Command.ALIAS | Command.COPY:
            return [entry.message()[1]]
    return []
