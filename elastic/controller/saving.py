"""When a run's arrays are saved, and what follows: a shorter journal, hosts that may go, a move to others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from elastic.controller import history
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.line import Line
from elastic.controller.recovery import Recovery
from elastic.controller.snapshots import SnapshotError, Snapshots
from elastic.controller.world import World, WorldLost
from elastic.controller.worlds import Worlds
from elastic.errors import HostLostError
from elastic.status import StatusError

log = logging.getLogger(__name__)

_SHORTEST_S = 0.2
"""Seconds between two snapshots at least."""

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
    ) -> None:
        """`budget` is the share of the time that saving may take."""
        self._budget = budget
        self._line = line
        self._worlds = worlds
        self._snapshots = snapshots
        self._callbacks = callbacks
        self._recovery = recovery

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
                    pause = max(_SHORTEST_S, seconds / self._budget) if self._budget else _UNHURRIED_S
            elif self._snapshots.exposed:
                with contextlib.suppress(SnapshotError):
                    await self._snapshots.protect()

    def _wants_snapshot(self) -> bool:
        news = self._line.journal.end != self._snapshots.committed.position
        return bool(self._worlds.left) or (news and (self._budget > 0 or self._line.large))

    async def save(self, world: World) -> float:
        """Takes and commits a snapshot; seconds that saving took. Raises `WorldLost` or `SnapshotError`."""
        journal = self._line.journal
        try:
            snapshot = await self._snapshots.take(world, journal.end)
            await self._line.settle(world, snapshot.position)
        except SnapshotError as error:
            log.warning("no snapshot: %s", error)
            if world.failure is None:
                await self._snapshots.tidy()
            raise
        if snapshot.position >= journal.start:  # Else the client whose arrays these were has left.
            self._line.trim(snapshot.position)
            history.tell("snapshot", number=snapshot.number, operation=snapshot.position, seconds=snapshot.seconds)
            history.tell_holders(snapshot.homes)
            self._callbacks.committed(snapshot.number)
            await self._snapshots.commit(snapshot)
            self._worlds.release()
            self._line.on_congestion()
        return snapshot.seconds

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
        except SnapshotError:
            log.warning("the arrays could not be saved before the hosts change; what is lost will be replayed")
        self._worlds.end(world)
        await self._recovery.recover(failure, kind, began)
