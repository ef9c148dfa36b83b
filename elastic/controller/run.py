"""A run: what sessions, the pool and `elastic health` see of it. Its parts stand in rooms of their own:

line        what was asked, in order, and the world that is told of it
worlds      the hosts, and worlds formed of them and ended
recovery    from one world to the next
saving      when arrays are saved, and moves to other hosts
probing     hosts that do not reach each other
verifying   what was computed, executed again and compared
snapshots   how they are saved and brought back
durable     how snapshots are stored on disk
named_saves checkpoints that the client asks for
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from checkpoint import BUDGET, STORE_EVERY_S, Protection
from elastic.controller import history
from elastic.controller.again import Again
from elastic.controller.arrays import Array
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.changes import Recovered
from elastic.controller.durable import Durable
from elastic.controller.hosts import Host
from elastic.controller.line import Line
from elastic.controller.named_saves import NamedSaves
from elastic.controller.placement import Placement, Policy
from elastic.controller.probing import Probing
from elastic.controller.programs import ProgramTable
from elastic.controller.recovery import Recovery
from elastic.controller.replay import Verification
from elastic.controller.saving import Saving
from elastic.controller.snapshots import EMPTY, Snapshots
from elastic.controller.status_report import About, JournalFacts, RunFacts, report
from elastic.controller.verifying import Verifying
from elastic.controller.worlds import AGENT_CLOSED, NoPlacementError, Worlds
from elastic.errors import HostLostError, PoolError

log = logging.getLogger(__name__)


_TWO_COPIES = Protection()


async def _no_fence(_: int) -> None:
    pass


class Run:
    """The virtual devices of a run and everything that is asked of them."""

    def __init__(
        self,
        virtual_devices: int,
        secret: bytes,
        *,
        snapshot_budget: float = BUDGET,
        protection: Protection = _TWO_COPIES,
        policy: Policy = Policy.STACK,
        checkpoint: Path | None = None,
        checkpoint_every: float = STORE_EVERY_S,
        verify_every: int = 0,
        fence: Callable[[int], Awaitable[None]] = _no_fence,
        released: Callable[[str], None] = lambda _: None,
        waits: Callable[[str, str, str], None] = lambda *_: None,
        recovered: Callable[[Recovered], None] = lambda _: None,
        failed: Callable[[HostLostError], None] = lambda _: None,
    ) -> None:
        """With 0 virtual devices there are as many as the hosts have that the run begins with. `snapshot_budget` is
        the share of the time that saving may take; with 0 a snapshot is only taken when the journal is full or hosts
        come and go. `protection` says how what is saved survives the loss of hosts, `policy` what is done when a host
        is lost and no other can take its place. In the directory `checkpoint` a snapshot is stored every so many
        seconds. One in `verify_every` intervals between snapshots is executed again elsewhere and compared; with 0
        none is.

        `fence(generation)` is awaited before a world is formed: from then on nobody listens to those before it.
        `released(host)` is called when a host that drained holds nothing any more, or is of no use, `waits(host,
        reason, for what)` when a host was lost and the run waits for others, `recovered` after each recovery, `failed`
        once if the run cannot go on.
        """
        self.callbacks = CallbackSwitch()
        self.programs = ProgramTable()
        self.devices: list[dict[str, Any]] = []
        """What each virtual device is (see `executor.process.describe`)."""
        self._failed = failed
        self._line = line = Line(virtual_devices, self.programs)
        line.client_is_called = lambda: self.callbacks.running
        self.callbacks.on_change = lambda: line.on_congestion()
        self.send, self.ask, self.world = line.send, line.ask, line.world
        """What sessions ask of the run (see `Line`)."""
        self._worlds = Worlds(
            secret, self.callbacks, line.requests, policy, fence=fence, released=released, failed=self._world_failed
        )
        self._snapshots = Snapshots(self._worlds.hosts, protection)
        self._worlds.on_lost = self._snapshots.host_lost
        self._recovery = Recovery(
            line,
            self._worlds,
            self._snapshots,
            self.callbacks,
            self.programs,
            start=self._start,
            waits=waits,
            recovered=recovered,
            give_up=self._give_up,
        )
        self.client_arrays: Callable[[], Iterable[Array]] = lambda: ()
        """Those of the client that there is."""
        self._durable = Durable(checkpoint, checkpoint_every, self._worlds.hosts) if checkpoint is not None else None
        if checkpoint is not None:
            self._snapshots.base = EMPTY
        again = Again(line, self._worlds, self._snapshots, self.callbacks, self.programs)
        self._verifying = None
        if verify_every:
            self._verifying = Verifying(
                verify_every,
                line,
                self._worlds,
                self._snapshots,
                self._recovery,
                again,
                stands=lambda snapshot: self._saving.stands(snapshot),
                start=self._start,
                give_up=self._give_up,
            )
        self._saving = Saving(
            snapshot_budget,
            line,
            self._worlds,
            self._snapshots,
            self.callbacks,
            self._recovery,
            self._durable,
            self._verifying,
            lambda: self.client_arrays(),
            self._start,
        )
        self.saves = NamedSaves(self._worlds.hosts, line.ask, self._host_of, self._start)
        """Checkpoints that the client asks for."""
        self._probing = Probing(self._worlds, self._snapshots)
        self._keeps: list[asyncio.Task[None]] = []
        """What goes on for as long as the run does."""

    async def start(self, hosts: int) -> None:
        """Forms the first world when so many hosts have joined.

        Raises `PoolError` or `HostLostError` if it cannot be formed.
        """
        members = self._worlds.hosts
        while len(members) < hosts:
            self._worlds.news.clear()
            await self._worlds.news.wait()
        if not self.virtual_devices:
            self._line.virtual_devices = sum(host.devices for host in list(members.values())[:hosts])
        self._worlds.moves.clear()
        self._keeps.append(self._start(self._probing.keep()))
        try:
            world = await self._worlds.form(self.virtual_devices)
        except NoPlacementError as error:
            raise PoolError(
                f"the run cannot begin: {error}. Virtual devices share physical ones only with --on-loss stack; take "
                "more hosts, or fewer devices of each"
            ) from error
        self.devices = world.devices
        if self._worlds.policy is Policy.SURFACE:
            # A slice is what goes and comes back as one. Scripts that do not ask for it are better off without: jax's
            # make_mesh refuses several slices.
            slices = (rank for rank, _ in world.placement.owners)
            self.devices = [{**device, "slice": rank} for device, rank in zip(world.devices, slices, strict=True)]
        self._line.use(world)
        self._keeps.append(self._start(self._saving.keep_on()))

    def close(self) -> None:
        """Kills the executors."""
        self._recovery.close()
        if self._verifying is not None:
            self._verifying.close()
        for task in self._keeps:
            task.cancel()
        self._line.now = None
        self._worlds.close()

    # What happens to hosts

    def host_joined(self, host: Host) -> None:
        """A host more; the run spreads out to it at the next snapshot."""
        self._snapshots.host_holds(host.id, host.holds)
        self._worlds.join(host)

    def host_drains(self, id: str, reason: str) -> None:
        """A host is about to go: what it holds is moved first."""
        self._worlds.drain(id, reason)

    def host_lost(self, id: str, reason: str, detected_by: str = AGENT_CLOSED) -> None:
        """A host's agent is gone, and with it all that ran there."""
        self._worlds.lose(id, reason, detected_by)

    @property
    def awaited(self) -> Sequence[str]:
        """Hosts without which the run cannot go on, while it waits for them."""
        return self._recovery.awaited

    def _world_failed(self, failure: HostLostError) -> None:
        self._recovery.detect = self._worlds.silence(failure.host, time.monotonic())
        world = self._line.now
        if world is None:
            return  # Whoever works with it has its requests answered with `WorldLost`.
        self._recovery.tell_lost(failure)
        self._line.leave()
        self._worlds.end(world)
        self._recovery.begin(failure)

    # What is asked of it

    def forget(self) -> None:
        """Ends the account of a client that has left: nothing that it had needs to be told again."""
        self._line.forget()
        history.tell("forgotten", operation=self._line.journal.start)
        self._snapshots.forget()
        self._worlds.news.set()
        if self._verifying is not None:
            self._verifying.forget()
        self.saves.forget()
        self.callbacks.clear()
        self.programs.clear()
        self._line.on_congestion()

    @property
    def congested(self) -> bool:
        """True while no more is to be taken from the client (see `Line.congested`)."""
        return self._line.congested

    @property
    def on_congestion(self) -> Callable[[], None]:
        """Called when `congested` may have changed."""
        return self._line.on_congestion

    @on_congestion.setter
    def on_congestion(self, call: Callable[[], None]) -> None:
        self._line.on_congestion = call

    # What is shown of it

    @property
    def waiting_since(self) -> float | None:
        """Since when the client has asked for nothing, on the monotonic clock; None if it has."""
        return self._line.demand.none_since

    @property
    def virtual_devices(self) -> int:
        return self._line.virtual_devices

    @property
    def generation(self) -> int:
        return self._worlds.generation

    @property
    def placement(self) -> Placement | None:
        return self._worlds.placement

    @property
    def failure(self) -> HostLostError | None:
        """Why the run cannot go on."""
        return self._line.failure

    @property
    def verification(self) -> Verification:
        """Of the last replay."""
        return self._recovery.verification

    def report(self, about: About, now: float) -> dict[str, Any]:
        """How the run is, at a time of the monotonic clock (see `status_report`)."""
        state, journal = self._state(), self._line.journal
        run = RunFacts(
            id=about.id,
            pid=about.pid,
            generation=self.generation,
            virtual_devices=self.virtual_devices,
            operations=journal.end,
            client_connected=about.client_connected,
            wanted=about.wanted,
            state=state,
            reason={
                "failed": str(self.failure),
                "starting": about.waits_for,
                "recovering": self._recovery.cause,
                "moving": self._recovery.cause,
                "waiting": self._recovery.cause,
            }.get(state, ""),
            placement=self.placement.reason if self.placement else "",
            age=now - about.started,
            policy=str(self._worlds.policy),
            lost=self.placement.lost if self.placement and self._line.now else (),
        )
        return report(
            run,
            self._worlds.facts(self._line.now, now),
            self._snapshots.facts(now),
            JournalFacts(len(journal.entries), journal.nbytes),
            self._recovery.changes.told(),
            self._durable.facts(now, sorted(self._snapshots.files.slow_readers)) if self._durable is not None else None,
            self._verifying.facts(now) if self._verifying is not None else None,
            about.goodput,
        )

    def _state(self) -> str:
        if self.failure is not None:
            return "failed"
        if self._line.now is not None:
            return "running"
        return self._recovery.doing if self.generation and self.devices else "starting"

    def _host_of(self, device: int) -> str:
        return self._worlds.placement.host_of(device) if self._worlds.placement else ""

    # Its end

    def _give_up(self, failure: HostLostError) -> None:
        plan, detected_by, detect = "none: the run cannot go on", failure.detected_by, self._recovery.detect
        self._recovery.changes.add(
            Recovered("failed", failure.host, failure.reason, plan, {}, 0, detected_by=detected_by, detect=detect)
        )
        self._line.fail(failure)
        self._failed(failure)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose unexpected end ends the run, instead of leaving everyone waiting."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.critical("a bug of elastic's", exc_info=error)
                if self.failure is None:
                    self._give_up(HostLostError("", f"a bug of elastic's: {error!r}"))

        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(ended)
        return task
