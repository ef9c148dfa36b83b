"""Snapshots of a run: taken from one world, kept in the memory of hosts, brought back into another world.

Consistent by position in the stream, and all or nothing: until every shard is protected against the loss of hosts - in
the memory of two hosts (of one, in a pool of one), or by parity (`stripes`) - the snapshot before stays the one that
counts. The shards themselves never pass the controller.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkpoint import Copy, Kind, Need, Protection, Shard, Stripe, cost, plan, second_homes
from elastic.commands import Command
from elastic.controller import history
from elastic.controller.arrays import Array
from elastic.controller.file_reading import Read
from elastic.controller.hosts import CopyError, Host
from elastic.controller.status_report import SnapshotFacts
from elastic.controller.stored_files import StoredFiles
from elastic.controller.stripes import Digest, Parity, Ways
from elastic.controller.world import World, WorldLost
from elastic.status import Code, StatusError

log = logging.getLogger(__name__)

Record = list[Any]
"""One shard (see `executor.snapshots`)."""

_TWO_COPIES = Protection()

_ROUNDS = 4
"""How often a restore may find that copies are bad before it gives up."""


class SnapshotError(Exception):
    """A snapshot could not be taken; the one before still counts."""


class BadCopyError(SnapshotError):
    """A copy was not where it should be, or not whole; it is not counted on any more."""


class DataLossError(StatusError):
    """Every copy of some shards is gone."""

    def __init__(self, arrays: Iterable[int], bad: str = "") -> None:
        """`bad` says which copies or blocks were bad, if any were."""
        self.arrays = frozenset(arrays)
        text = ", ".join(str(array) for array in sorted(self.arrays))
        why = bad or "too many hosts died at once"
        super().__init__(Code.DATA_LOSS, f"every copy of arrays {text} is lost: {why}")


@dataclass(frozen=True)
class Snapshot:
    """All arrays at one position of the stream.

    Attributes:
        number: grows with each that is tried.
        records: by (array, device); device -1 for what all hosts are told, errors and ends of executions.
        homes: by digest, the hosts that hold the bytes, of shards and of parity.
        seconds: of a processor, that saving took each host.
        stripes: those that protect shards by parity.
        arrays: the client's, by number; None if nothing of the run is stored.
    """

    number: int
    position: int
    records: dict[tuple[int, int], Record]
    homes: dict[Digest, set[str]]
    seconds: dict[str, float]
    stripes: tuple[Stripe, ...] = ()
    arrays: Mapping[int, Array] | None = None

    @property
    def nbytes(self) -> int:
        """Of one copy; equal bytes count once."""
        return sum(size for _, _, size in _shards(self.records.values()).values())


EMPTY = Snapshot(0, 0, {}, {}, {})
"""What there is before the first: no arrays."""


@dataclass(frozen=True)
class _Sources:
    """What to send, what to rebuild on which host, and what to read, so that every host has what is wanted of it."""

    ways: Ways
    rebuilds: dict[Digest, str]
    reads: list[Read]


class Snapshots:
    """The snapshot that counts."""

    def __init__(self, hosts: Mapping[str, Host], protection: Protection = _TWO_COPIES) -> None:
        """`hosts` are those that live; the run keeps it up to date."""
        self.committed = EMPTY
        self.committed_at: float | None = None
        """On the monotonic clock; None while there is none."""
        self.problem = ""
        """Why there is no newer one, as it should be; empty if nothing went wrong."""
        self.exposed = False
        """Whether a host is gone that held a part of it, and `protect` was not called since."""
        self.base: Snapshot | None = None
        """The one that the run can go back to if that one is lost, since it is stored; None if nothing is ever."""
        self.files = StoredFiles(hosts)
        """What is stored of it."""
        self.also_kept: dict[str, Snapshot] = {}
        """Others whose copies hosts have to keep, by what for."""
        self._out_of_reach: dict[str, frozenset[Digest]] = {}
        """What hosts that are gone held; their memory may be whole still."""
        self._taking = False
        """Whether hosts may hold parts of a snapshot that nobody knows of yet."""
        self._tidying = asyncio.Lock()
        """Held while hosts remove something, or are sent something that is not known to be there before it is."""
        self._hosts = hosts
        self._numbers = itertools.count(1)
        self._parity = Parity(hosts, protection)

    async def take(self, world: World, position: int, arrays: Mapping[int, Array] | None = None) -> Snapshot:
        """A snapshot of a world at this point of the stream; it does not count before `commit`.

        `arrays` are what the client calls its arrays, if it may be stored.

        Raises `WorldLost`, or `SnapshotError` if memory is full or copies could not be sent.
        """
        self._taking = True
        try:
            return replace(await self._take(world, position), arrays=arrays)
        except SnapshotError:
            self._taking = False
            raise

    async def _take(self, world: World, position: int) -> Snapshot:
        number = next(self._numbers)
        answers = await world.call_each(Command.SNAPSHOT, lambda _: [number])
        if world.failure is not None:  # After the last answer: what a host has saved may be gone with it.
            raise WorldLost(world.failure)
        records: dict[tuple[int, int], Record] = {}
        homes: dict[Digest, set[str]] = {}
        seconds: dict[str, float] = {}
        for host, answer in answers.items():
            if isinstance(answer, BaseException):
                raise SnapshotError(f"host {host} could not save its arrays: {answer}")
            seconds[host] = answer["seconds"]
            for record in answer["records"]:
                records[record[0], record[1]] = record
                if record[2] == "bytes":
                    homes.setdefault(record[-1], set()).add(host)
        stripes = await self._protect(records.values(), homes)
        return Snapshot(number, position, records, homes, seconds, stripes)

    async def protect(self) -> None:
        """Sends what only one host has any more to a second one, or makes its parity. Raises `SnapshotError`."""
        self.exposed = False
        try:
            snapshot = self.committed
            again = await self._protect_again(snapshot)
            if self.committed is snapshot:
                self.committed = again
                history.tell_holders(self.committed.homes, self.committed.stripes)
            for key, snapshot in list(self.also_kept.items()):
                again = await self._protect_again(snapshot)
                if self.also_kept.get(key) is snapshot:
                    self.also_kept[key] = again
        except SnapshotError:
            self.exposed = True
            raise

    async def _protect_again(self, snapshot: Snapshot) -> Snapshot:
        shards = [record for record in snapshot.records.values() if record[2] == "bytes"]
        there = [record for record in shards if self._living(snapshot.homes[record[-1]])]
        stripes = await self._protect(there, snapshot.homes)
        # Those of shards that nobody has any more stay: these are rebuilt when they are restored.
        gone = {record[-1] for record in shards} - {record[-1] for record in there}
        still = (old for old in snapshot.stripes if any(block.name in gone for block in old.data))
        return replace(snapshot, stripes=(*stripes, *still))

    async def commit(self, snapshot: Snapshot) -> float:
        """Makes it the one that counts, and gives back the memory that only the one before needed.

        Returns how many seconds it has held the run up, by what its hosts say that it took.
        """
        self.committed = snapshot
        self.committed_at = time.monotonic()
        self.problem = ""
        self._taking = False
        self.exposed = any(not holders <= self._hosts.keys() for holders in snapshot.homes.values())
        self._parity.forget_bad()
        await self.tidy()
        works = ((host.take_work(), snapshot.seconds.get(id, 0.0)) for id, host in self._hosts.items())
        return cost(replace(work, seconds=work.seconds + saving) for work, saving in works)

    def facts(self, now: float) -> SnapshotFacts:
        """What there is, at a time of the monotonic clock."""
        snapshot = self.committed
        age = None if snapshot is EMPTY or self.committed_at is None else now - self.committed_at
        sizes = {digest: size for digest, (_, _, size) in _shards(snapshot.records.values()).items()}
        copies = {digest: len(self._living(snapshot.homes[digest])) for digest in sizes}
        return SnapshotFacts(
            snapshot.position,
            age,
            snapshot.nbytes,
            min(copies.values(), default=0),
            protection=str(self._parity.protection),
            copies_bytes=sum(max(0, copies[digest] - 1) * size for digest, size in sizes.items()),
            parity_bytes=sum(block.size for stripe in snapshot.stripes for block in stripe.parity),
            problem=self.problem,
        )

    def forget(self) -> None:
        """The client whose arrays these were has left."""
        self.committed, self.files.paths = EMPTY, {}
        self.base = EMPTY if self.base is not None else None

    def go_back(self) -> bool:
        """Makes the one that is stored the one that counts; False if that is not possible."""
        if self.base is None or self.base is self.committed:
            return False
        there = self.committed.homes
        homes = {digest: set(self._living(there.get(digest, set()))) for digest in self.base.homes}
        self.committed = self.base = replace(self.base, homes=homes, stripes=())
        self.committed_at = time.monotonic()
        # What was computed behind it is lost as well.
        for key, kept in self.also_kept.items():
            self.also_kept[key] = min(kept, self.base, key=lambda snapshot: snapshot.position)
        history.tell("went_back", operation=self.committed.position, to="stored")
        history.tell_holders(self.committed.homes, self.committed.stripes)
        return True

    def host_lost(self, id: str) -> None:
        """What a host held is gone with its agent, or out of reach."""
        if held := self.held_by(id):
            self._out_of_reach[id] = frozenset(held)
        for snapshot in self._all_kept():
            for holders in snapshot.homes.values():
                if id in holders:
                    holders.discard(id)
                    self.exposed = True

    def held_by(self, id: str) -> list[Digest]:
        """What a host holds of it, and of others that are kept."""
        homes = (snapshot.homes for snapshot in self._all_kept())
        return list(dict.fromkeys(digest for of in homes for digest, holders in of.items() if id in holders))

    def survives(self, without: Collection[str]) -> bool:
        """Whether all of it can still be had without these hosts."""
        homes = {digest: self._living(holders).difference(without) for digest, holders in self.committed.homes.items()}
        return self._suffice(homes)

    def would_be_whole(self, back: Collection[str]) -> bool:
        """Whether all of it could be had if these hosts came back with what they held."""
        homes = {digest: self._living(holders) for digest, holders in self.committed.homes.items()}
        for id in back:
            for digest in homes.keys() & self._out_of_reach.get(id, frozenset()):
                homes[digest].add(id)
        return self._suffice(homes, back)

    def _suffice(self, homes: dict[Digest, set[str]], back: Collection[str] = ()) -> bool:
        """Whether all of it can be had if contents are there."""
        found = self._parity.rebuildable(self.committed.stripes, homes, back)
        digests = _shards(self.committed.records.values())
        return all(homes[digest] or digest in found or self.files.has(digest) for digest in digests)

    def host_holds(self, id: str, digests: Iterable[Digest]) -> None:
        """A host has these in its memory already."""
        self._out_of_reach.pop(id, None)
        for digest in digests:
            for snapshot in self._all_kept():
                if digest in snapshot.homes:
                    snapshot.homes[digest].add(id)
        history.tell_holders(self.committed.homes, self.committed.stripes)

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
            # Of a stripe the others are made, so it stays as long as it protects anything.
            stripes = tuple(old for old in snapshot.stripes if any(block.name in needed for block in old.data))
            needed.update(block.name for stripe in stripes for block in stripe.blocks)
            homes = {digest: holders for digest, holders in snapshot.homes.items() if digest in needed}
            self.committed = replace(snapshot, records=records, homes=homes, stripes=stripes)
        return {array: tuple(found) for array, found in devices.items()}

    def go_back_to(self, snapshot: Snapshot) -> None:
        """Makes one that is still kept the one that counts."""
        self.committed, self.committed_at = snapshot, time.monotonic()
        self.exposed = True
        history.tell_holders(snapshot.homes, snapshot.stripes)

    async def restore(self, world: World, snapshot: Snapshot | None = None) -> None:
        """Brings the snapshot that counts, or another that is kept, into a new world, from whoever has the bytes.

        Raises `DataLossError` if nobody has them, `WorldLost` if the world does not live to see it.
        """
        if snapshot is not None:
            async with self._tidying:
                await self._restore(world, snapshot)
        else:
            self.problem = ""  # Of the world before.
            await self._restore(world, self.committed)

    async def _restore(self, world: World, snapshot: Snapshot) -> None:
        missing = dict(snapshot.records)
        for _ in range(_ROUNDS):
            if not missing:
                return
            wanted: dict[str, list[Record]] = {host: [] for host in world.placement.hosts}
            for (_, device), record in missing.items():
                for host in (world.placement.host_of(device),) if device >= 0 else world.placement.hosts:
                    wanted[host].append(record)
            await self._fetch(wanted, snapshot)
            answers = await world.call_each(Command.RESTORE, lambda host: [snapshot.number, wanted[host]])  # noqa: B023
            missing = {}
            for host, bad in answers.items():
                if isinstance(bad, BaseException):
                    raise SnapshotError(f"host {host} could not restore: {bad}")
                for record in wanted[host]:
                    if record[2] == "bytes" and record[-1] in bad:
                        self._parity.note_bad(record[-1], host, snapshot.homes)
                        missing[record[0], record[1]] = record
        if missing:
            bad = self.files.why_bad(record[-1] for record in missing.values())
            raise DataLossError((array for array, _ in missing), "; ".join(bad))

    async def _fetch(self, wanted: Mapping[str, list[Record]], snapshot: Snapshot) -> None:
        """Has every host hold what is wanted of it. Raises `DataLossError` or `SnapshotError`."""
        while True:
            found = self._parity.rebuildable(snapshot.stripes, snapshot.homes)
            sources = self._sources(wanted, snapshot, found)
            if not sources.rebuilds:
                break
            # Each time that something is still not there a bad block was found, which is not used again.
            try:
                await self._parity.rebuild(sources.rebuilds, found, snapshot.homes)
            except CopyError as error:
                raise SnapshotError(str(error)) from None
        try:
            await self._copy(sources.ways, snapshot.homes)
        except BadCopyError:
            return await self._fetch(wanted, snapshot)  # From others, as long as there are any.
        try:
            await self.files.read(sources.reads, snapshot.homes)
        except CopyError as error:
            raise SnapshotError(str(error)) from None

    def _sources(
        self, wanted: Mapping[str, list[Record]], snapshot: Snapshot, found: Mapping[Digest, Stripe]
    ) -> _Sources:
        """Where to take from what every host wants. Raises `DataLossError`.

        `found` are contents that can be rebuilt.
        """
        shards = _shards(record for records in wanted.values() for record in records)
        needs = {
            (host, record[-1]): Need(*shards[record[-1]][:2], record[-2], host)
            for host, records in wanted.items()
            for record in records
            if record[2] == "bytes"
        }
        wanted_by: dict[Digest, list[str]] = {}
        for host, digest in needs:
            wanted_by.setdefault(digest, []).append(host)
        copies: dict[tuple[int, int], list[Copy]] = {}
        for digest, shard in shards.items():
            if there := self._living(snapshot.homes.get(digest, set())):
                copies[shard[:2]] = [Copy(Kind.PEER, host) for host in sorted(there)]
            elif digest in found:
                copies[shard[:2]] = [Copy(Kind.PARITY, host) for host in wanted_by[digest]]
            elif self.files.has(digest):
                copies[shard[:2]] = [Copy(Kind.DURABLE)]
        chosen = plan(list(needs.values()), copies)
        digests = {shard[:2]: digest for digest, shard in shards.items()}
        if chosen.lost:
            lost = {digests[array, shard] for array, gone in chosen.lost.items() for shard in gone}
            records = (record for records in wanted.values() for record in records)
            arrays = (record[0] for record in records if record[2] == "bytes" and record[-1] in lost)
            bad = [self._parity.bad_of(lost, snapshot.stripes), *self.files.why_bad(lost)]
            raise DataLossError(arrays, "; ".join(filter(None, bad)))
        sources = _Sources({}, {}, [])
        for transfer in chosen.transfers:
            need, source = transfer.need, transfer.source
            digest = digests[need.array, need.shard]
            if source.kind is Kind.PARITY:
                sources.rebuilds.setdefault(digest, source.host)
            elif source.kind is Kind.DURABLE:
                sources.reads.append(Read(need.host, digest, need.bytes, self.files.paths[digest]))
            elif source.host != need.host:
                sources.ways.setdefault((source.host, need.host), []).append(digest)
        log.info("restore: %s", chosen.reason)
        return sources

    async def _protect(self, records: Iterable[Record], homes: dict[Digest, set[str]]) -> tuple[Stripe, ...]:
        """Has all shards protected, whose `homes` these are, and notes there what is then where; the stripes.

        Raises `SnapshotError`.
        """
        shards, before = _shards(records), self.committed
        if not all(self._living(homes[digest] | before.homes.get(digest, set())) for digest in shards):
            raise SnapshotError("a host was lost with what it had saved")
        for digest in shards:
            if not self._living(homes[digest]):
                homes[digest] |= self._living(before.homes[digest])
        if self._parity.protection == _TWO_COPIES:
            ways = self._second_homes(shards, homes)
            for digest, holders in homes.items():
                holders |= self._living(before.homes.get(digest, set()))
            await self._copy(ways, homes)
            return ()
        try:
            return await self._parity.protect(shards, homes, before, self._domains(shards, homes), self._copy)
        except CopyError as error:
            raise SnapshotError(str(error)) from None

    def _second_homes(self, shards: Mapping[Digest, tuple[int, int, int]], homes: Mapping[Digest, set[str]]) -> Ways:
        """What to send, so that two hosts have everything."""
        before = self.committed.homes
        digests = {shard[:2]: digest for digest, shard in shards.items()}
        listed = [
            Shard(
                *shard,
                holders=tuple(sorted(homes[digest])),
                kept_by=tuple(sorted(self._living(before.get(digest, set())) - homes[digest])),
            )
            for digest, shard in shards.items()
        ]
        copies = second_homes(listed, self._domains(shards, homes))
        ways: Ways = {}
        for shard, to in copies.peers.items():
            digest = digests[shard]
            ways.setdefault((min(self._living(homes[digest])), to), []).append(digest)
        return ways

    def _domains(self, shards: Iterable[Digest], homes: Mapping[Digest, set[str]]) -> dict[str, str]:
        """Living hosts, each a failure domain; those that are about to go count only while they hold something."""
        going = {id for id, host in self._hosts.items() if host.draining}
        return {id: id for id in self._hosts if id not in going or any(id in homes[digest] for digest in shards)}

    async def _copy(self, ways: Ways, homes: dict[Digest, set[str]]) -> None:
        """Sends copies and notes their new homes. Raises `SnapshotError`."""

        async def send(source: str, to: str, digests: list[Digest]) -> None:
            if source not in self._hosts or to not in self._hosts:
                raise CopyError(f"host {source if to in self._hosts else to} was lost")
            try:
                await self._hosts[source].send_copies(digests, self._hosts[to])
            except CopyError as error:
                for digest in error.bad:
                    self._parity.note_bad(digest, source, homes)
                raise
            for digest in digests:
                homes[digest].add(to)

        sends = [send(source, to, digests) for (source, to), digests in ways.items()]
        for outcome in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(outcome, CopyError):
                raise (BadCopyError if outcome.bad else SnapshotError)(str(outcome))
            if isinstance(outcome, BaseException):
                raise outcome

    async def tidy(self) -> None:
        """Gives back the memory that no snapshot needs; while one is being taken that is left to its end."""
        async with self._tidying:
            if self._taking:
                return
            kept = [snapshot.homes for snapshot in self._all_kept()]
            keeps = [
                host.keep_copies([digest for homes in kept for digest, holders in homes.items() if id in holders])
                for id, host in self._hosts.items()
            ]
            await asyncio.gather(*keeps, return_exceptions=True)

    def _all_kept(self) -> list[Snapshot]:
        return [self.committed, *self.also_kept.values()]

    def _living(self, ids: set[str]) -> set[str]:
        return {id for id in ids if id in self._hosts}


def _shards(records: Iterable[Record]) -> dict[Digest, tuple[int, int, int]]:
    """Each content once: digest -> (array, device, bytes) of one of those that have it."""
    return {record[-1]: (record[0], record[1], record[-2]) for record in records if record[2] == "bytes"}
