"""Which host writes which file of a checkpoint: a small state machine without clock or I/O.

Every host that has nothing to do takes files that it has, those first that the fewest hosts have. So fast hosts write
more than slow ones, by themselves. Who takes far longer than others for as many bytes is slow: what it was to write is
given to the next idle host that has it, too, and counts as written when either has. Two hosts may write the same bytes
to one name, since files come into being whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

BATCH_BYTES = 16 << 20
BATCH_FILES = 64
"""At most so much is ordered of a host at a time, and no more than its share; a larger file goes alone."""

PATIENCE_S = 2.0
SLOWNESS = 10
"""An order is overdue after so many seconds, or so many times what the fastest host would take, if that is longer."""


@dataclass(frozen=True)
class FileToWrite:
    """A file, and the hosts that have its bytes."""

    name: str
    bytes: int
    homes: frozenset[str]


@dataclass
class _Order:
    files: list[FileToWrite]
    since: float

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass
class Dispatch:
    """Gives files to hosts until all are written, or one cannot be."""

    files: Iterable[FileToWrite]
    problem: str = ""
    """Why a file cannot be written by anybody; then all is in vain."""
    _waiting: dict[str, FileToWrite] = field(default_factory=dict)
    _orders: dict[str, _Order] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)
    _refused: dict[str, dict[str, str]] = field(default_factory=dict)
    """file -> the hosts that could not write it, and why"""
    _most_bytes: int = BATCH_BYTES
    _most_files: int = BATCH_FILES
    _fastest: float = 0.0
    """Bytes per second of the fastest order so far."""

    def __post_init__(self) -> None:
        by_homes = sorted(self.files, key=lambda file: (len(file.homes), -file.bytes))
        self._waiting = {file.name: file for file in by_homes}
        hosts = len(frozenset[str]().union(*(file.homes for file in by_homes))) or 1
        self._most_bytes = min(BATCH_BYTES, -(-sum(file.bytes for file in by_homes) // hosts))
        self._most_files = min(BATCH_FILES, -(-len(by_homes) // hosts))

    @property
    def finished(self) -> bool:
        return not self._waiting and not any(self._open(order) for order in self._orders.values())

    def orders(self, idle: Collection[str], now: float) -> dict[str, list[str]]:
        """What to order now: idle host -> files."""
        made = {}
        for host in idle:
            if host in self._orders:
                continue
            files = self._batch(host, self._waiting.values()) or self._batch(host, self._overdue(now))
            if files:
                for file in files:
                    self._waiting.pop(file.name, None)
                self._orders[host] = _Order(files, now)
                made[host] = [file.name for file in files]
        return made

    def written(self, host: str, now: float) -> None:
        """A host has done what was ordered last."""
        order = self._orders.pop(host)
        self._fastest = max(self._fastest, order.bytes / max(now - order.since, 1e-3))
        self._written |= {file.name for file in order.files}

    def refused(self, host: str, why: str) -> None:
        """A host could not do what was ordered last, at least a part of it; or it is gone."""
        order = self._orders.pop(host, None)
        for file in order.files if order is not None else ():
            self._refused.setdefault(file.name, {})[host] = why
            if file.name not in self._written and not self._is_ordered(file.name):
                self._waiting[file.name] = file
                if file.homes <= self._refused[file.name].keys():
                    self.problem = f"{file.name}: {why}"

    def gone(self, host: str) -> None:
        """A host was lost, with what it had."""
        self.refused(host, f"host {host} was lost")
        for file in list(self._waiting.values()):
            refusals = self._refused.setdefault(file.name, {})
            if host in file.homes:
                refusals[host] = f"host {host} was lost"
            if file.homes <= refusals.keys():
                self.problem = f"{file.name}: host {host} was lost, and nobody else has it"

    def slow(self, now: float) -> Mapping[str, float]:
        """Hosts whose orders are overdue, and for how many seconds they have had them."""
        return {host: now - order.since for host, order in self._orders.items() if self._is_overdue(order, now)}

    def _batch(self, host: str, files: Iterable[FileToWrite]) -> list[FileToWrite]:
        batch: list[FileToWrite] = []
        size = 0
        for file in files:
            if host not in file.homes or host in self._refused.get(file.name, ()):
                continue
            if batch and (size + file.bytes > self._most_bytes or len(batch) == self._most_files):
                break
            batch.append(file)
            size += file.bytes
        return batch

    def _overdue(self, now: float) -> list[FileToWrite]:
        return [file for order in self._orders.values() if self._is_overdue(order, now) for file in self._open(order)]

    def _is_overdue(self, order: _Order, now: float) -> bool:
        expected = order.bytes / self._fastest if self._fastest else 0.0
        return now - order.since > max(PATIENCE_S, SLOWNESS * expected)

    def _open(self, order: _Order) -> list[FileToWrite]:
        """What of an order nobody has written yet."""
        return [file for file in order.files if file.name not in self._written]

    def _is_ordered(self, name: str) -> bool:
        return any(file.name == name for order in self._orders.values() for file in order.files)
