"""Executes again, on other hosts, what a run has computed between two snapshots, and says what came of it.

A world beside the one in use: it is told what the journal holds, of which its callbacks are answered from the account,
and then asked for digests. Nothing of it reaches the client, and nothing of it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.journal import NAME_FILES, Entry
from elastic.controller.line import Line, programs_run
from elastic.controller.majority import Execution, Shard
from elastic.controller.programs import ProgramTable
from elastic.controller.snapshots import Snapshot, Snapshots
from elastic.controller.world import World, WorldLost
from elastic.controller.worlds import Worlds
from elastic.errors import HostLostError
from elastic.status import StatusError


class Again:
    """Executions of what lies between two snapshots that are kept, as is the journal between them."""

    def __init__(
        self, line: Line, worlds: Worlds, snapshots: Snapshots, callbacks: CallbackSwitch, programs: ProgramTable
    ) -> None:
        self._line = line
        self._worlds = worlds
        self._snapshots = snapshots
        self._callbacks = callbacks
        self._programs = programs

    def first(self, start: Snapshot, end: Snapshot) -> dict[Shard, bytes]:
        """What the run itself has got."""
        shards = {Shard(*key): record[-1] for key, record in end.records.items() if record[2] == "bytes"}
        reads = (entry for entry in self._entries(start, end) if entry.seen is not None)
        return shards | {_shard_of(entry): entry.seen or b"" for entry in reads}

    async def execute(
        self, start: Snapshot, end: Snapshot, hosts: Sequence[str], wanted: Collection[Shard]
    ) -> Execution:
        """Once, with these hosts for the virtual devices; what becomes of the shards that are wanted.

        Raises `WorldLost`, `PoolError`, `SnapshotError` or `DataLossError` if that is not possible, and `WorldLost` if
        the client has left meanwhile.
        """
        forgotten = self._line.forgotten
        world = await self._worlds.form_aside(hosts, self._callbacks.account(start.number, end.number))
        try:
            self._programs.post(world, programs_run(self._entries(start, end)))
            await self._snapshots.restore(world, start)
            if self._line.forgotten != forgotten:
                raise WorldLost(HostLostError("", "the client has left meanwhile"))
            asked = self._tell(world, self._entries(start, end), wanted)
            asked |= {shard: _digest(world, shard.array, shard.device, None) for shard in wanted if not shard.read}
            digests = dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))
            if world.failure is not None:
                raise WorldLost(world.failure)
            return Execution(tuple(hosts), digests)
        finally:
            self._worlds.end(world)

    def correct(self, start: Snapshot, end: Snapshot, right: Execution) -> list[Shard]:
        """Has later replays be compared with the right values of reads; those that gave the client another."""
        wrong = []
        for entry in self._entries(start, end):
            if entry.seen is None:
                continue
            digest = right.digests.get(_shard_of(entry), entry.seen)
            if digest != entry.seen:
                entry.seen = digest
                wrong.append(_shard_of(entry))
        return wrong

    def _entries(self, start: Snapshot, end: Snapshot) -> list[Entry]:
        return self._line.journal.between(start.position, end.position)

    def _tell(
        self, world: World, entries: Iterable[Entry], wanted: Collection[Shard]
    ) -> dict[Shard, asyncio.Future[bytes]]:
        """Tells it everything; of what the client has read, only the digests are asked for."""
        reads = {}
        for entry in entries:
            if entry.command is Command.READ and (read := _shard_of(entry)) in wanted:
                reads[read] = _digest(world, read.array, read.device, entry.message()[4])
            elif not entry.settled:
                far = entry.without_file if entry.command in NAME_FILES else None
                world.post(entry.devices, entry.header, entry.payload, far)
        return reads


def _shard_of(read: Entry) -> Shard:
    _, _, array, device, _, _ = read.message()
    return Shard(array, device, read.request)


def _digest(world: World, array: int, device: int, strides: list[int] | None) -> asyncio.Future[bytes]:
    """The digest of a shard; empty if it cannot be read, or the world is lost."""
    found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(error: StatusError | None, digest: Any, _: wire.Bytes) -> None:
        if not found.done():
            found.set_result(digest if error is None else b"")

    world.ask((device,), Command.DIGEST, [array, device, strides], answer)
    return found
