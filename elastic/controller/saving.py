"""When a run's arrays are saved, and what follows: a shorter journal, hosts that may go, a move to others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from statistics import fmean
from typing import Any

from checkpoint import interval
from elastic.controller import history
from elastic.controller.arrays import Array
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.durable import Durable
from elastic.controller.line import Line
from elastic.controller.recovery import Recovery
from elastic.controller.snapshots import Snapshot, SnapshotError, Snapshots
from elastic.controller.verifying import Verifying
from elastic.controller.world import World, WorldLost
from elastic.controller.worlds import Worlds
from elastic.errors import HostLostError
from elastic.status import StatusError

log = logging.getLogger(__name__)

_STORED = "stored"

_SHORTEST_S = 0.2
"""Seconds between two snapshots at least."""

_COSTS = 8
"""Snapshots whose mean cost says how soon the next one may be taken."""

_UNHURRIED_S = 1.0
"""Seconds until somebody looks again whether one is needed, in a run that takes none by itself."""


class Saving:
    """Takes snapshots on a cadence, and moves the run to other hosts when some came or are about to go."""

    def __init__(
        self,
        budget: float,
        line: Line,
        worlds: Worlds,
        snapshots: Snapshots,
        callbacks: CallbackSwitch,
        recovery: Recovery,
        durable: Durable | None,
        verifying: Verifying | None,
        arrays: Callable[[], Iterable[Array]],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        """`budget` is the share of the time that saving may take while nothing fails. `durable` stores snapshots and
        `verifying` verifies them, if that is wanted; `arrays()` gives those that the client has, `start(work)` does
        something in the background."""
        self._budget = budget
        self._line = line
        self._worlds = worlds
        self._snapshots = snapshots
        self._callbacks = callbacks
        self._recovery = recovery
        self.storing: asyncio.Task[None] | None = None
        """Stores a snapshot, or has done so."""
        self._durable = durable
        self._verifying = verifying
        self._arrays = arrays
        self._start = start
        self._began = time.monotonic()
        self._costs: deque[float] = deque(maxlen=_COSTS)
        """Of the last snapshots; the first of a world costs more than the others."""

    async def keep_on(self) -> None:
        """Takes a snapshot whenever one is due, for as long as the run lives."""
        pause = _SHORTEST_S if self._budget else _UNHURRIED_S
        while self._line.failure is None:
            await asyncio.sleep(_SHORTEST_S)
            await self._line.until_large(pause - _SHORTEST_S)
            try:
                world = await self._line.world()
            except StatusError:
                return  # The run has failed.
            if self._worlds.moves and not self._worlds.may_move(self._line.virtual_devices):
                self._worlds.moves.clear()  # A host whose place nobody can take is used until it is gone.
            if self._worlds.moves:
                await self._move(world)
            elif self._wants_snapshot():
                with contextlib.suppress(WorldLost, SnapshotError):
                    seconds = await self.save(world)
                    pause = self._pause(seconds)
            elif self._snapshots.exposed:
                with contextlib.suppress(SnapshotError):
                    await self._snapshots.protect()

    def _pause(self, seconds: float) -> float:
        """Seconds until the next snapshot, after one that has held the run up for so long."""
        self._costs.append(seconds)
        if not self._budget:
            return _UNHURRIED_S
        observed = time.monotonic() - self._began
        return max(_SHORTEST_S, interval(fmean(self._costs), self._budget, observed, self._recovery.lost))

    def _wants_snapshot(self) -> bool:
        news = self._line.journal.end != self._snapshots.committed.position
        large = self._line.large or (self._durable is not None and self._line.keeps_much)
        due = self._verifying is not None and self._verifying.is_due
        return bool(self._worlds.left) or due or (news and (self._budget > 0 or large))

    async def save(self, world: World) -> float:
        """Takes and commits a snapshot; seconds that it has held the run up. Raises `WorldLost` or `SnapshotError`."""
        journal, arrays = self._line.journal, None
        if self._durable is not None:
            arrays = {array.number: array for array in self._arrays()}  # As they are at this point of the stream.
        try:
            snapshot = await self._snapshots.take(world, journal.end, arrays)
            await self._line.settle(world, snapshot.position)
        except SnapshotError as error:
            log.warning("no snapshot: %s", error)
            if world.failure is None:
                self._snapshots.problem = f"the arrays could not be saved: {error}"
                history.tell("not_saved", operation=journal.end, why=str(error))
                await self._snapshots.tidy()
            raise
        seconds = 0.0
        if snapshot.position >= journal.start:  # Else the client whose arrays these were has left.
            journal.replay_starts(snapshot.position)
            seconds = max(snapshot.seconds.values(), default=0.0)
            history.tell("snapshot", number=snapshot.number, operation=snapshot.position, seconds=seconds)
            history.tell_holders(snapshot.homes, snapshot.stripes)
            if self._verifying is not None:
                self._verifying.taken(snapshot, world.placement)
            else:
                self.stands(snapshot)
            seconds = await self._snapshots.commit(snapshot)
            history.tell("saved", number=snapshot.number, seconds=seconds, bytes=snapshot.nbytes)
            self._worlds.release()
            self._line.on_congestion()
        return seconds

    def stands(self, snapshot: Snapshot) -> None:
        """A snapshot is as good as it will get: verified, or there is nobody who would verify it."""
        # Whether it is due counts now: by the time that hosts came to this point of the stream, much may have passed.
        durable, arrays = self._durable, snapshot.arrays
        if durable is not None and arrays is not None and durable.is_due(self._line.keeps_much):
            self._snapshots.also_kept[_STORED] = snapshot
            self.storing = self._start(self._store(durable, snapshot, arrays))
        self._forget_before(snapshot)

    def _forget_before(self, snapshot: Snapshot) -> None:
        """Forgets what lies before a snapshot, as far as the run will never go back behind it."""
        wanted = [snapshot]
        if self._snapshots.base is not None:
            wanted.append(self._snapshots.base)
        if self._verifying is not None:
            wanted.append(self._verifying.base)
        oldest = min(wanted, key=lambda snapshot: snapshot.position)
        self._line.trim(oldest.position)
        self._callbacks.committed(oldest.number)
        self._line.on_congestion()

    async def _store(self, durable: Durable, snapshot: Snapshot, arrays: Mapping[int, Array]) -> None:
        stored = await durable.store(snapshot, arrays)
        self._snapshots.also_kept.pop(_STORED, None)  # The next snapshot gives its memory back.
        if stored is None:
            history.tell("not_stored", number=snapshot.number, operation=snapshot.position, why=durable.problem)
        # Else the client whose arrays these were has left, or the run has gone back behind it meanwhile.
        wanted = self._line.journal.start <= snapshot.position <= self._snapshots.committed.position
        if stored is not None and wanted:
            self._snapshots.base, self._snapshots.files.paths = snapshot, stored.files
            self._forget_before(snapshot)
            facts = {"path": str(stored.path), "bytes": stored.nbytes, "seconds": stored.seconds}
            history.tell("stored", number=snapshot.number, operation=snapshot.position, **facts)
            await durable.tidy()

    async def _move(self, world: World) -> None:
        """Goes on with other hosts: those that came take part, those that drain do not. Nothing is replayed."""
        began = time.monotonic()
        moves, self._worlds.moves = self._worlds.moves, []
        self._recovery.doing = "moving"
        self._line.leave()
        history.tell("moving", host=moves[0].host, reason=moves[0].reason)
        failure, kind = HostLostError(moves[0].host, moves[0].reason, moves[0].detected_by), "moved"
        try:
            await self.save(world)
        except WorldLost:
            failure, kind = world.failure or failure, "lost"
            self._recovery.tell_lost(failure)
        except SnapshotError:
            log.warning("the arrays could not be saved before the hosts change; what is lost will be replayed")
        self._worlds.end(world)
        await self._recovery.recover(failure, kind, began)
