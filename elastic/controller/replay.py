"""Telling a new world what the journal holds.

Usually all at once: the hosts carry it out in order, and nobody waits. When worlds end over and over at the same place,
for reasons of their own, an operation in the journal is to blame, as XLA aborts its process over some programs. Then
they are told one by one, and the one that ends a world is replaced by an error in its results.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.controller import history
from elastic.controller.journal import NAME_FILES, Entry, Journal
from elastic.controller.world import World, WorldLost
from elastic.errors import HostLostError
from elastic.status import Code, StatusError

log = logging.getLogger(__name__)

_STRIKES = 2
"""So many worlds have to end for reasons of their own, without a snapshot in between, before somebody is to blame."""


@dataclass
class Suspicion:
    """How often worlds have ended for reasons of their own since the last snapshot."""

    _start: int = -1
    _strikes: int = 0

    def world_lost(self, failure: HostLostError, journal: Journal) -> None:
        """A world ended."""
        if journal.replay_from != self._start:
            self._start, self._strikes = journal.replay_from, 0
        self._strikes += failure.by_itself

    @property
    def raised(self) -> bool:
        return self._strikes >= _STRIKES

    def settle(self) -> None:
        """The one to blame was found, or nobody is."""
        self._strikes = 0


@dataclass
class Verification:
    """Reads whose values the client has, compared with what a replay gives.

    Attributes:
        waiting: those that the new world has still to answer.
        equal: those that were the same.
        different: (array, host or hosts in words) of those that were not.
    """

    waiting: int = 0
    equal: int = 0
    different: list[str] = field(default_factory=list)


def tell_all(journal: Journal, world: World, tell: Callable[[Entry], None]) -> tuple[int, Verification]:
    """Tells everything at once; (how many operations, what becomes of the reads that were answered before)."""
    verification = Verification()
    entries = journal.to_replay()
    for entry in entries:
        if not entry.settled:
            tell(entry)
        elif entry.seen is not None:
            _verify(world, entry, verification)
    return sum(not entry.settled for entry in entries), verification


async def find_culprit(journal: Journal, world: World) -> None:
    """Tells one operation after the other, and has the one that ends the world replaced by an error.

    Returns if none does. Raises `WorldLost` after the one to blame was replaced, or if the world was killed. The world
    is of no use afterwards: what was asked has not been answered.
    """
    for entry in journal.to_replay():
        if entry.settled:
            continue
        far = entry.without_file if entry.command in NAME_FILES else None
        world.post(entry.devices, entry.header, entry.payload, far)
        if entry.command is not Command.EXECUTE:
            continue
        _, _, _, results, _, status = entry.message()
        try:
            await world.call(entry.devices, Command.WAIT, [[*results, *([status] if status else [])]])
        except WorldLost as lost:
            if lost.failure.by_itself:
                _replace(journal, entry, lost.failure)
            raise
        except StatusError:
            pass  # An error of its own is how it should end.


def _replace(journal: Journal, entry: Entry, failure: HostLostError) -> None:
    """Makes an execution the error that it ended worlds with."""
    _, program, _, results, _, status = entry.message()
    text = f"the program ended the process that ran it, twice: {failure.reason}"
    log.error("program %d is not run again: %s", program, text)
    arrays = [*results, *([status] if status else [])]
    journal.replace(entry, Command.FAIL, wire.frame_header((Command.FAIL, arrays, int(Code.INTERNAL), text), 0))


def _verify(world: World, entry: Entry, verification: Verification) -> None:
    _, _, array, device, strides, _ = entry.message()
    verification.waiting += 1

    def compare(error: StatusError | None, digest: Any, _: wire.Bytes) -> None:
        verification.waiting -= 1
        if isinstance(error, WorldLost) or (error is not None and error.code is Code.DATA_LOSS):
            return  # There is nothing to compare with.
        if error is None and digest == entry.seen:
            verification.equal += 1
            history.tell("verified", equal=True, what=f"array {array}")
            return
        what = f"array {array} on virtual device {device} of host {world.placement.host_of(device)}"
        found = (
            f"is {digest.hex()} in the replay" if error is None else f"cannot be read in the replay ({error.message})"
        )
        verification.different.append(f"{what} {found}, and was {entry.seen.hex() if entry.seen else ''} before")
        history.tell("verified", equal=False, what=verification.different[-1], number=entry.request)
        log.error("the replay differs: %s", verification.different[-1])
        entry.seen = digest if error is None else None  # Each difference is told once.

    world.ask(entry.devices, Command.DIGEST, [array, device, strides], compare)
