"""Snapshots of a run: taken from one world, kept in the memory of hosts, brought back into another world.

Consistent by position in the stream, and all or nothing: until every shard is in the memory of two hosts (of one, in a
pool of one) the snapshot before stays the one that counts. The shards themselves never pass the controller.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkpoint import Copy, Kind, Need, Shard, plan, second_homes
from elastic.commands import Command
from elastic.controller import history
from elastic.controller.hosts import CopyError, Host
from elastic.controller.status_report import SnapshotFacts
from elastic.controller.world import World, WorldLost
from elastic.status import Code, StatusError

log = logging.getLogger(__name__)

Digest = bytes
Record = list[Any]
"""One shard (see `executor.snapshots`)."""

Ways = dict[tuple[str, str], list[Digest]]
"""(from host, to host) -> what goes that way."""

_ROUNDS = 4
"""How often a restore may find that copies are bad before it gives up."""


class SnapshotError(Exception):
    """A snapshot could not be taken; the one before still counts."""


class DataLossError(StatusError):
    """Every copy of some shards is gone."""

    def __init__(self, arrays: Iterable[int]) -> None:
        self.arrays = frozenset(arrays)
        text = ", ".join(str(array) for array in sorted(self.arrays))
        super().__init__(Code.DATA_LOSS, f"every copy of arrays {text} is lost: too many hosts died at once")


@dataclass(frozen=True)
class Snapshot:
    """All arrays at one position of the stream.

    Attributes:
        number: grows with each that is tried.
        records: by (array, device); device -1 for what all hosts are told, errors and ends of executions.
        homes: by digest, the hosts that hold the bytes.
        seconds: how long the slowest host was busy saving.
    """

    number: int
    position: int
    records: dict[tuple[int, int], Record]
    homes: dict[Digest, set[str]]
    seconds: float

    @property
    def nbytes(self) -> int:
        """Of one copy; equal bytes count once."""
        return sum(size for _, _, size in _shards(self.records.values()).values())


EMPTY = Snapshot(0, 0, {}, {}, 0.0)
"""What there is before the first: no arrays."""


class Snapshots:
    """The snapshot that counts."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        """`hosts` are those that live; the run keeps it up to date."""
        self.committed = EMPTY
        self.committed_at: float | None = None
        """On the monotonic clock; None while there is none."""
        self.exposed = False
        """Whether a host is gone that held a part of it, and `protect` was not called since."""
        self._hosts = hosts
        self._numbers = itertools.count(1)

    async def take(self, world: World, position: int) -> Snapshot:
        """A snapshot of a world at this point of the stream; it does not count before `commit`.

        Raises `WorldLost`, or `SnapshotError` if memory is full or copies could not be sent.
        """
        number = next(self._numbers)
        answers = await world.call_each(Command.SNAPSHOT, lambda _: [number])
        if world.failure is not None:  # After the last answer: what a host has saved may be gone with it.
            raise WorldLost(world.failure)
        records: dict[tuple[int, int], Record] = {}
        homes: dict[Digest, set[str]] = {}
        seconds = 0.0
        for host, answer in answers.items():
            if isinstance(answer, BaseException):
                raise SnapshotError(f"host {host} could not save its arrays: {answer}")
            seconds = max(seconds, answer["seconds"])
            for record in answer["records"]:
                records[record[0], record[1]] = record
                if record[2] == "bytes":
                    homes.setdefault(record[-1], set()).add(host)
        ways = self._second_homes(records.values(), homes)
        for digest, holders in homes.items():
            holders |= self._living(self.committed.homes.get(digest, set()))
        await self._copy(ways, homes)
        return Snapshot(number, position, records, homes, seconds)

    async def protect(self) -> None:
        """Sends what only one host has any more to a second one. Raises `SnapshotError`."""
        snapshot = self.committed
        homes = {digest: self._living(holders) for digest, holders in snapshot.homes.items()}
        there = [record for record in snapshot.records.values() if record[2] == "bytes" and homes[record[-1]]]
        await self._copy(self._second_homes(there, homes), snapshot.homes)
        self.exposed = False
        history.tell_holders(self.committed.homes)

    async def commit(self, snapshot: Snapshot) -> None:
        """Makes it the one that counts, and gives back the memory that only the one before needed."""
        self.committed = snapshot
        self.committed_at = time.monotonic()
        self.exposed = any(not holders <= self._hosts.keys() for holders in snapshot.homes.values())
        await self.tidy()

    def facts(self, now: float) -> SnapshotFacts:
        """What there is, at a time of the monotonic clock."""
        snapshot = self.committed
        age = None if snapshot is EMPTY or self.committed_at is None else now - self.committed_at
        copies = min((len(self._living(holders)) for holders in snapshot.homes.values()), default=0)
        return SnapshotFacts(snapshot.position, age, snapshot.nbytes, copies)

    def host_lost(self, id: str) -> None:
        """What a host held is gone with its agent."""
        for holders in self.committed.homes.values():
            if id in holders:
                holders.discard(id)
                self.exposed = True

    def host_holds(self, id: str, digests: Iterable[Digest]) -> None:
        """A host has these in its memory already."""
        for digest in digests:
            if digest in self.committed.homes:
                self.committed.homes[digest].add(id)
        history.tell_holders(self.committed.homes)

    def lose(self, devices: frozenset[int]) -> dict[int, tuple[int, ...]]:
        """Takes out the arrays that have a shard on any of these virtual devices; array -> its devices."""
        return self.take_out({array for array, device in self.committed.records if device in devices})

    def take_out(self, arrays: Collection[int]) -> dict[int, tuple[int, ...]]:
        """Takes out arrays, so that they are not restored; array -> its devices."""
        snapshot = self.committed
        devices: dict[int, list[int]] = {array: [] for array in arrays}
        for array, device in snapshot.records:
            if array in devices:
                devices[array].append(device)
        if arrays:
            records = {key: record for key, record in snapshot.records.items() if key[0] not in devices}
            needed = {record[-1] for record in records.values() if record[2] == "bytes"}
            homes = {digest: holders for digest, holders in snapshot.homes.items() if digest in needed}
            self.committed = replace(snapshot, records=records, homes=homes)
        return {array: tuple(found) for array, found in devices.items()}

    async def restore(self, world: World) -> None:
        """Brings the snapshot into a new world, from whichever host has the bytes.

        Raises `DataLossError` if nobody has them, `WorldLost` if the world does not live to see it.
        """
        snapshot = self.committed
        missing = dict(snapshot.records)
        for _ in range(_ROUNDS):
            if not missing:
                return
            wanted: dict[str, list[Record]] = {host: [] for host in world.placement.hosts}
            for (_, device), record in missing.items():
                for host in (world.placement.host_of(device),) if device >= 0 else world.placement.hosts:
                    wanted[host].append(record)
            await self._copy(self._fetches(wanted), snapshot.homes)
            answers = await world.call_each(Command.RESTORE, lambda host: [snapshot.number, wanted[host]])  # noqa: B023
            missing = {}
            for host, bad in answers.items():
                if isinstance(bad, BaseException):
                    raise SnapshotError(f"host {host} could not restore: {bad}")
                for record in wanted[host]:
                    if record[2] == "bytes" and record[-1] in bad:
                        log.error("host %s: the copy %s is bad", host, record[-1].hex())
                        snapshot.homes[record[-1]].discard(host)
                        missing[record[0], record[1]] = record
        if missing:
            raise DataLossError(array for array, _ in missing)

    def _fetches(self, wanted: Mapping[str, list[Record]]) -> Ways:
        """What to send, so that every host has what is wanted of it. Raises `DataLossError`."""
        shards = _shards(record for records in wanted.values() for record in records)
        needs = {
            (host, record[-1]): Need(*shards[record[-1]][:2], record[-2], host)
            for host, records in wanted.items()
            for record in records
            if record[2] == "bytes"
        }
        copies = {
            shards[digest][:2]: [Copy(Kind.PEER, host) for host in sorted(self._living(holders))]
            for digest, holders in self.committed.homes.items()
            if digest in shards
        }
        chosen = plan(list(needs.values()), copies)
        digests = {shard[:2]: digest for digest, shard in shards.items()}
        if chosen.lost:
            lost = {digests[array, shard] for array, gone in chosen.lost.items() for shard in gone}
            records = (record for records in wanted.values() for record in records)
            raise DataLossError(record[0] for record in records if record[2] == "bytes" and record[-1] in lost)
        ways: Ways = {}
        for transfer in chosen.transfers:
            need, source = transfer.need, transfer.source.host
            if source != need.host:
                ways.setdefault((source, need.host), []).append(digests[need.array, need.shard])
        log.info("restore: %s", chosen.reason)
        return ways

    def _second_homes(self, records: Iterable[Record], homes: Mapping[Digest, set[str]]) -> Ways:
        """What to send, so that two hosts have everything. Raises `SnapshotError` if nobody has some of it any more."""
        shards = _shards(records)
        before = self.committed.homes
        if not all(self._living(homes[digest] | before.get(digest, set())) for digest in shards):
            raise SnapshotError("a host was lost with what it had saved")
        digests = {shard[:2]: digest for digest, shard in shards.items()}
        listed = [
            Shard(
                *shard,
                holders=tuple(sorted(homes[digest])),
                kept_by=tuple(sorted(self._living(before.get(digest, set())) - homes[digest])),
            )
            for digest, shard in shards.items()
        ]
        # Those that are about to go count only for as long as they hold something.
        going = {id for id, host in self._hosts.items() if host.draining}
        domains = {id: id for id in self._hosts if id not in going or any(id in homes[digest] for digest in shards)}
        copies = second_homes(listed, domains)
        ways: Ways = {}
        for shard, to in copies.peers.items():
            digest = digests[shard]
            ways.setdefault((min(self._living(homes[digest])), to), []).append(digest)
        return ways

    async def _copy(self, ways: Ways, homes: dict[Digest, set[str]]) -> None:
        """Sends copies and notes their new homes. Raises `SnapshotError`."""

        async def send(source: str, to: str, digests: list[Digest]) -> None:
            if source not in self._hosts or to not in self._hosts:
                raise CopyError(f"host {source if to in self._hosts else to} was lost")
            await self._hosts[source].send_copies(digests, self._hosts[to])
            for digest in digests:
                homes[digest].add(to)

        sends = [send(source, to, digests) for (source, to), digests in ways.items()]
        for outcome in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(outcome, CopyError):
                raise SnapshotError(str(outcome))
            if isinstance(outcome, BaseException):
                raise outcome

    async def tidy(self) -> None:
        """Gives back the memory that the snapshot that counts does not need."""
        homes = self.committed.homes
        keeps = [
            host.keep_copies([digest for digest, holders in homes.items() if id in holders])
            for id, host in self._hosts.items()
        ]
        await asyncio.gather(*keeps, return_exceptions=True)

    def _living(self, ids: set[str]) -> set[str]:
        return {id for id in ids if id in self._hosts}


def _shards(records: Iterable[Record]) -> dict[Digest, tuple[int, int, int]]:
    """Each content once: digest -> (array, device, bytes) of one of those that have it."""
    return {record[-1]: (record[0], record[1], record[-2]) for record in records if record[2] == "bytes"}
