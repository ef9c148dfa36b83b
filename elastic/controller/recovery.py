"""Recovery: from a world that is lost, or left, to the next one that has been told everything.

Fence, world, arrays, journal, in this order; over and over, since more may be lost meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from elastic.controller import history
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.changes import Changes, Recovered
from elastic.controller.line import Line
from elastic.controller.placement import Policy
from elastic.controller.programs import ProgramTable
from elastic.controller.replay import Suspicion, Verification, find_culprit
from elastic.controller.snapshots import DataLossError, SnapshotError, Snapshots
from elastic.controller.world import World, WorldLost
from elastic.controller.worlds import NoPlacementError, NoSpareError, Worlds
from elastic.errors import HostLostError, PoolError
from elastic.instants import now_text

log = logging.getLogger(__name__)

_MOST_ATTEMPTS = 10
"""Worlds that may fail in a row, none of them told all that the journal holds, before the run is given up."""

_RETURN_S = 45.0
"""How long hosts that may live are waited for if they hold what nobody else does: they may stand still, or be cut off.
If they have lost power, all is lost in any case."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 5.0
"""Seconds before another attempt if nobody died in the last one; each is twice as long as the one before."""


class Recovery:
    """What is done when a run needs another world."""

    def __init__(
        self,
        line: Line,
        worlds: Worlds,
        snapshots: Snapshots,
        callbacks: CallbackSwitch,
        programs: ProgramTable,
        *,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        waits: Callable[[str, str, str], None],
        recovered: Callable[[Recovered], None],
        give_up: Callable[[HostLostError], None],
    ) -> None:
        """`start(work)` does something in the background. `waits(host, reason, for what)` is called when a recovery has
        to wait for hosts, `recovered` after each, `give_up` if there is none."""
        self.doing, self.cause = "recovering", ""
        """What goes on while there is no world, and why."""
        self.detect = 0.0
        """From the last sign of life of what was lost until that was noticed; seconds."""
        self.changes = Changes()
        self.lost = 0
        """Worlds that were lost, and others formed instead."""
        self.verification = Verification()
        """Of the last replay."""
        self.awaited: Sequence[str] = ()
        """Hosts without which the run cannot go on, while it waits for them."""
        self._line = line
        self._worlds = worlds
        self._snapshots = snapshots
        self._callbacks = callbacks
        self._programs = programs
        self._start = start
        self._waits = waits
        self._recovered = recovered
        self._give_up = give_up
        self._said = ""
        """What was said last that it waits for."""
        self._replayed = 0
        self._suspicion = Suspicion()
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, failure: HostLostError) -> None:
        """A world was lost and is left."""
        self._in_background(self.recover(failure))

    def tell_lost(self, failure: HostLostError) -> None:
        """Has the history know that the world in use was lost."""
        facts = {"detected_by": failure.detected_by, "silence": self.detect}
        generation = self._worlds.generation
        history.tell("lost", host=failure.host, reason=failure.reason, generation=generation, **facts)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks = [*(task for task in self._tasks if not task.done()), self._start(work)]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def recover(self, failure: HostLostError, kind: str = "lost", began: float | None = None) -> None:
        """Forms worlds until one has been told everything."""
        began = began or time.monotonic()
        noticed = now_text()
        attempts, pause, self._said = 0, _FIRST_PAUSE_S, ""
        missed: float | None = None
        """Since when it is known that living hosts do not have everything."""
        while attempts < _MOST_ATTEMPTS:
            self.doing = "moving" if kind == "moved" else "recovering"
            self.cause = f"host {failure.host}: {failure.reason}" if failure.host else failure.reason
            self._suspicion.world_lost(failure, self._line.journal)
            self._worlds.news.clear()
            try:
                phases = await self._next_world(failure, began)
            except NoSpareError as error:
                self._give_up(_hopeless(failure, f"{error} (--spares N keeps N of them, --on-loss wait waits for one)"))
                return
            except NoPlacementError as error:
                missed = None  # Whoever comes first may have it.
                await self._wait(failure, str(error))
                continue
            except DataLossError as error:
                if self._worlds.policy is Policy.SURFACE:
                    self._line.losses.add(self._snapshots.take_out(error.arrays), error.message)
                    continue
                if self._snapshots.go_back():
                    log.warning("%s; the run goes back to what is stored", error.message)
                    self._line.journal.rewind()
                    continue
                missed = missed or time.monotonic()
                if await self._waited_for_return(failure, error, missed + _RETURN_S - time.monotonic()):
                    continue
                self._give_up(_hopeless(failure, error.message))
                return
            except (PoolError, WorldLost, SnapshotError) as error:
                log.warning("generation %d failed: %s", self._worlds.generation, error)
                failure = error.failure if isinstance(error, WorldLost) else failure
                failure = error if isinstance(error, HostLostError) else failure
                somebody_died = isinstance(error, (WorldLost, HostLostError))
                if somebody_died:
                    kind = "lost"  # Also if it began as a move: that somebody died is told in any case.
                # Who kills hosts may go on for as long as there are any, and who is waited for may stay away.
                attempts += (not somebody_died or failure.by_itself) and not self._worlds.indispensable
                self._worlds.lose_useless()
                if not somebody_died:  # A host that has no memory left may soon have some again.
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
                continue
            change = Recovered(
                kind,
                failure.host,
                failure.reason,
                self._worlds.placement.reason if self._worlds.placement else "",
                phases,
                self._replayed,
                detected_by=failure.detected_by,
                detect=self.detect if kind == "lost" else 0.0,
                time=noticed,
            )
            self.changes.add(change, self.verification)
            self.awaited = ()
            self.lost += kind == "lost"
            self._recovered(change)
            # Until the next snapshot the next loss must not be one too many.
            with contextlib.suppress(SnapshotError):
                await self._snapshots.protect()
            return
        self._give_up(failure)

    async def _waited_for_return(self, failure: HostLostError, lost: DataLossError, seconds: float) -> bool:
        """Waits for hosts that may come back with what is lost, or for other news; False if that is hopeless."""
        back = self._worlds.may_return
        if seconds <= 0 or not back or not self._snapshots.would_be_whole(back):
            return False
        with contextlib.suppress(SnapshotError):  # Of what is there nothing must be lost meanwhile.
            await self._snapshots.protect()
        self.awaited = back
        await self._wait(failure, f"{lost.message}; {' and '.join(back)} may come back with them", seconds)
        return True

    async def _wait(self, failure: HostLostError, lack: str, most: float | None = None) -> None:
        """Waits for news since the last attempt began, such as a host that came, for so many seconds at most."""
        history.tell("waits", host=failure.host, reason=failure.reason, what=lack)
        if lack != self._said:
            self._said = lack
            self._waits(failure.host, failure.reason, lack)
        log.warning("%s", lack)
        self.doing, self.cause = "waiting", f"{self.cause}; {lack}"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most):
                await self._worlds.news.wait()

    def _tell_losses(self, world: World, failure: HostLostError) -> None:
        """Notes which devices have no place in a new world, and what is lost with them."""
        lost = world.lost_devices
        if not lost and not self._line.losses.devices:
            return
        self._callbacks.not_again(set(self._programs.callbacks_on(lost)))
        why = f"host {failure.host} was lost: {failure.reason}"
        self._line.lose(world.placement.lost, why, self._snapshots.lose(lost))

    async def _next_world(self, failure: HostLostError, began: float) -> dict[str, float]:
        """Forms a world and tells it everything; seconds by phase. Raises `PoolError`, `WorldLost` and the like."""
        self._callbacks.repeat(self._snapshots.committed.number)
        forgotten = self._line.forgotten
        world = await self._worlds.form(self._line.virtual_devices)
        try:
            formed = time.monotonic()
            self._tell_losses(world, failure)
            self._line.prepare(world)
            await self._snapshots.restore(world)
            position = self._snapshots.committed.position
            history.tell("restored", generation=self._worlds.generation, operation=position)
            restored = time.monotonic()
            if self._suspicion.raised:
                await self._find_culprit(world)
                self._worlds.end(world)
                return await self._next_world(failure, began)
            if world.failure is not None:
                raise world.failure
            if self._line.forgotten != forgotten:
                raise WorldLost(HostLostError("", "it was given what a client had that has left meanwhile"))
        except BaseException:
            self._worlds.end(world)
            raise
        self._replayed, self.verification = self._line.use(world)
        self._in_background(self._line.load_rest(world))
        return {
            "fence": self._worlds.fenced - began,
            "world": formed - self._worlds.fenced,
            "restore": restored - formed,
            "replay": time.monotonic() - restored,
        }

    async def _find_culprit(self, world: World) -> None:
        """Uses a world up to find the operation that ends worlds. Raises `WorldLost` if it has ended this one, too."""
        try:
            await find_culprit(self._line.journal, world)
        except WorldLost as lost:
            if lost.failure.by_itself:
                self._suspicion.settle()
            raise
        self._suspicion.settle()


def _hopeless(failure: HostLostError, why_not: str) -> HostLostError:
    return HostLostError(failure.host, failure.reason, failure.detected_by, failure.by_itself, why_not)
