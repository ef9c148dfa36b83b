"""A run: the one ordered stream of commands, told to one world after the other.

Sessions send here and never learn that a world was lost. What they send stands in the journal; when a host is lost,
the executors that are left are killed, the next generation's world is formed of the hosts that live, and it is told
what the journal holds. Questions that were not answered are answered by the new world.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from checkpoint import Cadence
from elastic import wire
from elastic.commands import Command
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.changes import Changes, Recovered, now_text
from elastic.controller.host_book import HostBook
from elastic.controller.hosts import Host
from elastic.controller.journal import NAME_FILES, Answer, Entry, Journal
from elastic.controller.placement import Candidate, Placement, place
from elastic.controller.programs import ProgramTable
from elastic.controller.replay import Suspicion, Verification, find_culprit, tell_all
from elastic.controller.snapshots import EMPTY, DataLossError, SnapshotError, Snapshots
from elastic.controller.status_report import About, JournalFacts, RunFacts, report
from elastic.controller.watch import Watch
from elastic.controller.world import World, WorldLost
from elastic.errors import HostLostError, PoolError
from elastic.status import Code, StatusError

log = logging.getLogger(__name__)

_MOST_ATTEMPTS = 10
"""Worlds that may fail in a row, none of them told all that the journal holds, before the run is given up."""


_LARGE = 256 << 20
"""Bytes of the journal at which a snapshot is due at once."""

_FULL = 512 << 20
"""Bytes of the journal at which no more is taken from the client."""

_SHORTEST_S = 0.2
"""Seconds between two snapshots at least."""

_UNHURRIED_S = 1.0
"""Seconds until somebody looks again whether one is needed, in a run that takes none by itself."""


async def _no_fence(_: int) -> None:
    pass


class NoPlacementError(PoolError):
    """There are no hosts to place the virtual devices on."""


@dataclass(frozen=True)
class _Move:
    """A reason to go on with other hosts, though none was lost."""

    host: str
    reason: str
    detected_by: str


class Run:
    """The virtual devices of a run and everything that is asked of them."""

    def __init__(
        self,
        virtual_devices: int,
        secret: bytes,
        *,
        snapshot_budget: float = Cadence.budget,
        fence: Callable[[int], Awaitable[None]] = _no_fence,
        released: Callable[[str], None] = lambda _: None,
        recovered: Callable[[Recovered], None] = lambda _: None,
        failed: Callable[[HostLostError], None] = lambda _: None,
    ) -> None:
        """With 0 virtual devices there are as many as the hosts have that the run begins with. `snapshot_budget` is
        the share of the time that saving may take; with 0 a snapshot is only taken when the journal is full or hosts
        come and go.

        `fence(generation)` is awaited before a world is formed: from then on nobody listens to those before it.
        `released(host)` is called when a host that drained holds nothing any more, or is of no use, `recovered` after
        each recovery, `failed` once if the run cannot go on.
        """
        self.callbacks = CallbackSwitch()
        self.programs = ProgramTable()
        self.devices: list[dict[str, Any]] = []
        """What each virtual device is (see `executor.process.describe`)."""
        self.failure: HostLostError | None = None
        self.generation = 0
        self.placement: Placement | None = None
        self.on_congestion: Callable[[], None] = lambda: None
        self.virtual_devices = virtual_devices
        self._secret = secret
        self._budget = snapshot_budget
        self._fence = fence
        self._released = released
        self._recovered = recovered
        self._failed = failed
        self._hosts: dict[str, Host] = {}
        self._watch = Watch()
        self._book = HostBook(self._watch)
        self._changes = Changes()
        self._pause, self._cause = "recovering", ""
        """What goes on while there is no world, and why."""
        self._detect = 0.0
        self._fenced = 0.0
        self._journal = Journal()
        self._snapshots = Snapshots(self._hosts)
        self._snapshotting: asyncio.Task[None] | None = None
        self._requests = itertools.count(1)
        self._world: World | None = None
        self._worlds: list[World] = []
        """The one in use, and the one that is being formed."""
        self._executors: dict[tuple[str, int], tuple[str, int]] = {}
        """(host, pid) -> what the watch knows it by."""
        self._formed = asyncio.Event()
        self._answer_came = asyncio.Event()
        self._large = asyncio.Event()
        self._joined = asyncio.Event()
        self._moves: list[_Move] = []
        self._forgotten = 0
        """Clients whose account was ended."""
        self._replayed = 0
        self._unloaded: set[int] = set()
        """The programs that the world has not been told to load."""
        self._suspicion = Suspicion()
        self.verification = Verification()
        """Of the last replay."""
        self._recovery: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None

    # Hosts

    async def start(self, hosts: int) -> None:
        """Forms the first world when so many hosts have joined.

        Raises `PoolError` or `HostLostError` if it cannot be formed.
        """
        while len(self._hosts) < hosts:
            self._joined.clear()
            await self._joined.wait()
        if not self.virtual_devices:
            self.virtual_devices = sum(host.devices for host in list(self._hosts.values())[:hosts])
        self._moves.clear()
        world = await self._form()
        self.devices = world.devices
        self._use(world)
        self._snapshotting = self._start(self._take_snapshots())

    def host_joined(self, host: Host) -> None:
        """A host more; the run spreads out to it at the next snapshot."""
        self._add(host)
        self._moves.append(_Move(host.id, "it joined", "its registration in the pool"))
        self._joined.set()

    def _add(self, host: Host) -> None:
        self._hosts[host.id] = host
        self._snapshots.host_holds(host.id, host.holds)
        self._book.joined(host, time.monotonic())
        self._watch.begin(host.id, host.incarnation, lambda reason: self._host_silent(host, reason))
        host.on_beat = lambda moved: self._heard(host, moved)
        host.on_wrong_result = lambda check: self._watch.wrong_result(host.id, host.incarnation, check)

    def _heard(self, host: Host, executors: Sequence[int]) -> None:
        self._watch.heard(host.id, host.incarnation)
        for pid in executors:
            if (host.id, pid) in self._executors:
                self._watch.heard(*self._executors[host.id, pid])

    def _host_silent(self, host: Host, reason: str) -> None:
        silent = host.failure is None
        host.close()
        heard = "the failure detector: its agent's heartbeats stopped" if silent else "its agent, by a health check"
        self.host_lost(host.id, reason, heard)

    def host_drains(self, id: str, reason: str) -> None:
        """A host is about to go: what it holds is moved first."""
        host = self._hosts.get(id)
        if host is not None and not host.draining:
            host.draining = True
            self._moves.append(_Move(id, reason, "the host itself, which announced it"))

    def host_lost(
        self, id: str, reason: str, detected_by: str = "the controller: its agent's connection closed"
    ) -> None:
        """A host's agent is gone, and with it all that ran there."""
        host = self._hosts.pop(id, None)
        if host is not None:
            self._book.lost(id, reason)
            self._watch.end(id, host.incarnation)
        self._snapshots.host_lost(id)
        for world in self._worlds:
            if id in world.placement.hosts:
                world.lost(id, reason, detected_by)

    # What is shown of it

    def report(self, about: About, now: float) -> dict[str, Any]:
        """How the run is, at a time of the monotonic clock (see `status_report`)."""
        world, state = self._world, self._state()
        executors = {} if world is None else {host: pid for pid, host in world.executors.items()}
        known = {host: (pid, self._executors.get((host, pid), ("", 0))[0]) for host, pid in executors.items()}
        placed = self.placement.by_host() if self.placement and world is not None else {}
        run = RunFacts(
            id=about.id,
            pid=about.pid,
            generation=self.generation,
            virtual_devices=self.virtual_devices,
            operations=self._journal.end,
            client_connected=about.client_connected,
            wanted=about.wanted,
            state=state,
            reason={
                "failed": str(self.failure),
                "starting": about.waits_for,
                "recovering": self._cause,
                "moving": self._cause,
            }.get(state, ""),
            placement=self.placement.reason if self.placement else "",
            age=now - about.started,
        )
        return report(
            run,
            self._book.facts(self._hosts, placed, known, now),
            self._snapshots.facts(now),
            JournalFacts(len(self._journal.entries), self._journal.nbytes),
            self._changes.told(),
        )

    def _state(self) -> str:
        if self.failure is not None:
            return "failed"
        if self._world is not None:
            return "running"
        return self._pause if self.generation and self.devices else "starting"

    def close(self) -> None:
        """Kills the executors."""
        for task in (self._recovery, self._loading, self._snapshotting):
            if task is not None:
                task.cancel()
        self._watch.close()
        self._world = None
        for world in list(self._worlds):
            self._end(world)

    # The stream

    def send(
        self,
        devices: tuple[int, ...],
        command: Command,
        arguments: Sequence[Any],
        payload: wire.Bytes = b"",
        *,
        file: str | None = None,
        file_bytes: int = 0,
    ) -> None:
        """Sends a command to the hosts that own any of the virtual devices; in order, whatever becomes of hosts.

        `file` is one that the command names: it is kept for as long as the command may have to be told again.
        Raises `StatusError` if a device does not exist.
        """
        self._check(devices)
        header = wire.frame_header((command, *arguments), len(payload))
        program = _program_of(command, arguments)
        self._tell(Entry(devices, command, header, payload, program=program, file=file, file_bytes=file_bytes))

    def ask(
        self,
        devices: tuple[int, ...],
        command: Command,
        arguments: Sequence[Any],
        answer: Answer,
        payload: wire.Bytes = b"",
    ) -> None:
        """Sends a command that each owner of the devices answers; `answer` is called once, when all have.

        It gets the first error, else the result and payload of the first owner. Raises as `send` does.
        """
        self._check(devices)
        if self.failure is not None:
            answer(StatusError(Code.UNAVAILABLE, str(self.failure)), None, b"")
            return
        request = next(self._requests)
        header = wire.frame_header((command, request, *arguments), len(payload))
        self._tell(
            Entry(devices, command, header, payload, request, answer, _program_of(command, [request, *arguments]))
        )

    async def world(self) -> World:
        """The world, once there is one that has been told everything. Raises `StatusError` if the run has failed."""
        while self._world is None:
            if self.failure is not None:
                raise StatusError(Code.UNAVAILABLE, str(self.failure))
            await self._formed.wait()
        return self._world

    def forget(self) -> None:
        """Ends the account of a client that has left: nothing that it had needs to be told again."""
        self._trim(self._journal.end)
        self._snapshots.committed = EMPTY
        self.callbacks.clear()
        self.programs.clear()
        self._forgotten += 1
        self.on_congestion()

    @property
    def congested(self) -> bool:
        """True while a host takes commands more slowly than they are sent, or the journal is full."""
        return self._journal.nbytes > _FULL or (self._world is not None and self._world.congested)

    def _check(self, devices: Sequence[int]) -> None:
        if not all(0 <= device < self.virtual_devices for device in devices):
            raise StatusError(
                Code.INVALID_ARGUMENT,
                f"virtual devices {list(devices)} do not all exist; there are {self.virtual_devices}",
            )

    def _tell(self, entry: Entry) -> None:
        if self.failure is not None:
            entry.discard()
            return
        full = self._journal.nbytes > _FULL
        self._journal.add(entry)
        if self._journal.nbytes > _LARGE:
            self._large.set()
        if self._journal.nbytes > _FULL and not full:
            self.on_congestion()
        if self._world is not None:
            self._tell_world(self._world, entry)

    def _tell_world(self, world: World, entry: Entry) -> None:
        if entry.program in self._unloaded:
            self._load(world, [entry.program] if entry.command != Command.UNLOAD else [])
            self._unloaded.discard(entry.program)
        if entry.answer is not None:
            world.expect(entry.devices, entry.request, lambda *outcome: self._answered(entry, *outcome))
        far = entry.without_file if entry.command in NAME_FILES else None
        world.post(entry.devices, entry.header, entry.payload, far)

    def _answered(self, entry: Entry, error: StatusError | None, result: Any, payload: wire.Bytes) -> None:
        if isinstance(error, WorldLost):
            self._answer_came.set()
            return  # The next world will be asked.
        answer, entry.answer = entry.answer, None
        if entry.command is Command.READ and error is None:
            entry.seen = result
        self._answer_came.set()
        if answer is not None:
            answer(error, result, payload)

    # From one world to the next

    def _use(self, world: World) -> None:
        self._world = world
        world.on_congestion = lambda: self.on_congestion()
        self._formed.set()

    def _leave(self) -> World | None:
        """Sends nothing to the world any more; what comes waits in the journal for the next one."""
        world, self._world = self._world, None
        self._formed.clear()
        self.on_congestion()
        return world

    def _world_failed(self, failure: HostLostError) -> None:
        self._detect = self._silence(failure.host, time.monotonic())
        if self._world is None:
            return  # Whoever works with it has its requests answered with `WorldLost`.
        world = self._leave()
        if world is not None:
            self._end(world)
        self._recovery = self._start(self._recover(failure))

    def _silence(self, host: str, now: float) -> float:
        """Seconds since the last sign of life of a host or of its executor, whichever was silent for longer."""
        executors = [name for (owner, _), (name, _) in self._executors.items() if owner == host]
        return max(filter(None, (self._watch.silence(name, now) for name in (host, *executors))), default=0.0)

    async def _recover(self, failure: HostLostError, kind: str = "lost", began: float | None = None) -> None:
        """Forms worlds until one has been told everything."""
        began = began or time.monotonic()
        noticed = now_text()
        attempts = 0
        while attempts < _MOST_ATTEMPTS:
            self._pause = "moving" if kind == "moved" else "recovering"
            self._cause = f"host {failure.host}: {failure.reason}"
            self._suspicion.world_lost(failure, self._journal)
            try:
                phases = await self._next_world(began)
            except NoPlacementError as error:
                log.warning("%s", error)
                self._joined.clear()
                await self._joined.wait()
                continue
            except DataLossError as error:
                self._give_up(HostLostError(failure.host, f"{failure.reason}; {error.message}"))
                return
            except (PoolError, WorldLost, SnapshotError) as error:
                log.warning("generation %d failed: %s", self.generation, error)
                failure = error.failure if isinstance(error, WorldLost) else failure
                failure = error if isinstance(error, HostLostError) else failure
                # Who kills hosts may go on for as long as there are any.
                attempts += not isinstance(error, (WorldLost, HostLostError)) or failure.by_itself
                for id in [id for id, host in self._hosts.items() if host.failure is not None]:
                    self.host_lost(id, "it cannot have executors any more")
                    self._released(id)
                continue
            plan = self.placement.reason if self.placement else ""
            change = Recovered(
                kind,
                failure.host,
                failure.reason,
                plan,
                phases,
                self._replayed,
                detected_by=failure.detected_by,
                detect=self._detect if kind == "lost" else 0.0,
                time=noticed,
            )
            self._changes.add(change, self.verification)
            self._recovered(change)
            # Until the next snapshot the next loss must not be one too many.
            with contextlib.suppress(SnapshotError):
                await self._snapshots.protect()
            return
        self._give_up(failure)

    async def _next_world(self, began: float) -> dict[str, float]:
        """Forms a world and tells it everything; seconds by phase. Raises `PoolError`, `WorldLost` and the like."""
        self.callbacks.repeat()
        forgotten = self._forgotten
        world = await self._form()
        try:
            formed = time.monotonic()
            # What the journal runs is loaded while the arrays come back; all else when somebody uses it, or afterwards.
            self._unloaded = set(self.programs.numbers)
            self._load(world, self._programs_to_run())
            await self._snapshots.restore(world)
            restored = time.monotonic()
            if self._suspicion.raised:
                await self._find_culprit(world)
                self._end(world)
                return await self._next_world(began)
            if world.failure is not None:
                raise world.failure
            if self._forgotten != forgotten:
                raise WorldLost(HostLostError("", "it was given what a client had that has left meanwhile"))
        except BaseException:
            self._end(world)
            raise
        self._use(world)
        self._replayed, self.verification = tell_all(self._journal, world, partial(self._tell_world, world))
        self.on_congestion()
        self._loading = self._start(self._load_rest(world))
        return {
            "fence": self._fenced - began,
            "world": formed - self._fenced,
            "restore": restored - formed,
            "replay": time.monotonic() - restored,
        }

    async def _load_rest(self, world: World) -> None:
        """Has all other programs loaded, when the hosts have done what the journal holds."""
        with contextlib.suppress(WorldLost):  # Which is the next recovery's matter.
            await world.call_each(Command.PING, lambda _: [])
            if self._world is world:
                self._load(world, [program for program in self.programs.numbers if program in self._unloaded])

    def _load(self, world: World, programs: Sequence[int]) -> None:
        """Has programs loaded by a new world."""
        self._unloaded.difference_update(programs)
        self.programs.post(world, programs)

    def _programs_to_run(self) -> list[int]:
        """The programs that the journal runs, in the order in which it does."""
        entries = (entry for entry in self._journal.entries if not entry.settled)
        return list(dict.fromkeys(entry.program for entry in entries if entry.command == Command.EXECUTE))

    async def _find_culprit(self, world: World) -> None:
        """Uses a world up to find the operation that ends worlds. Raises `WorldLost` if it has ended this one, too."""
        try:
            await find_culprit(self._journal, world)
        except WorldLost as lost:
            if lost.failure.by_itself:
                self._suspicion.settle()
            raise
        self._suspicion.settle()

    async def _form(self) -> World:
        await self._fence(self.generation + 1)
        self._fenced = time.monotonic()
        self.generation += 1
        # Not sooner: while the fence went up, hosts may have come and gone.
        candidates = [
            Candidate(host.id, host.devices, barred="about to go" if host.draining else "")
            for host in self._hosts.values()
        ]
        placement = place(self.generation, candidates, self.virtual_devices, self.placement)
        if not isinstance(placement, Placement):
            raise NoPlacementError(placement.reason)
        self.placement = placement
        try:
            return await World.form(
                placement,
                self._hosts,
                self._secret,
                self.callbacks,
                self._requests,
                self._world_failed,
                self._enlisted,
            )
        except BaseException:
            for world in list(self._worlds):
                self._end(world)
            raise

    def _enlisted(self, world: World) -> None:
        """A world has executors: from now on it can lose them."""
        self._worlds.append(world)
        generation = world.placement.generation
        for pid, host in world.executors.items():
            name = f"executor of {host} in generation {generation}", 1
            self._executors[host, pid] = name
            self._watch.begin(*name, partial(self._frozen, world, host))

    def _frozen(self, world: World, host: str, reason: str) -> None:
        detected_by = "the failure detector: its executor's heartbeats stopped"
        world.lost(host, f"its executor is frozen: {reason}", detected_by)

    def _end(self, world: World) -> None:
        """Kills a world's executors."""
        for pid, host in world.executors.items():
            name = self._executors.pop((host, pid), None)
            if name is not None:
                self._watch.end(*name)
        if world in self._worlds:
            self._worlds.remove(world)
        world.close()

    def _give_up(self, failure: HostLostError) -> None:
        self.failure = failure
        self._formed.set()
        self._changes.add(
            Recovered(
                "failed",
                failure.host,
                failure.reason,
                "none: the run cannot go on",
                {},
                0,
                detected_by=failure.detected_by,
                detect=self._detect,
            )
        )
        status = StatusError(Code.UNAVAILABLE, str(failure))
        waiting = self._journal.waiting_before(self._journal.end)
        self._trim(self._journal.end)
        for entry in waiting:
            self._answered(entry, status, None, b"")
        self.on_congestion()
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

    # Snapshots

    async def _take_snapshots(self) -> None:
        """Takes a snapshot whenever one is due, for as long as the run lives."""
        pause = _SHORTEST_S if self._budget else _UNHURRIED_S
        while self.failure is None:
            await asyncio.sleep(_SHORTEST_S)
            await self._until_large(pause - _SHORTEST_S)
            try:
                world = await self.world()
            except StatusError:
                return  # The run has failed.
            if self._moves:
                await self._move(world)
            elif self._wants_snapshot():
                with contextlib.suppress(WorldLost, SnapshotError):
                    seconds = await self._snapshot(world)
                    pause = max(_SHORTEST_S, seconds / self._budget) if self._budget else _UNHURRIED_S
            elif self._snapshots.exposed:
                with contextlib.suppress(SnapshotError):
                    await self._snapshots.protect()

    def _wants_snapshot(self) -> bool:
        news = self._journal.end != self._snapshots.committed.position
        return self._drained() or (news and (self._budget > 0 or self._journal.nbytes >= _LARGE))

    async def _snapshot(self, world: World) -> float:
        """Takes and commits a snapshot; seconds that saving took. Raises `WorldLost` or `SnapshotError`."""
        try:
            snapshot = await self._snapshots.take(world, self._journal.end)
            await self._settle(world, snapshot.position)
        except SnapshotError as error:
            log.warning("no snapshot: %s", error)
            if world.failure is None:
                await self._snapshots.tidy()
            raise
        if snapshot.position >= self._journal.start:  # Else the client whose arrays these were has left.
            self._trim(snapshot.position)
            self.callbacks.committed(snapshot.number)
            await self._snapshots.commit(snapshot)
            self._release()
            self.on_congestion()
        return snapshot.seconds

    def _trim(self, position: int) -> None:
        forgotten = [entry.program for entry in self._journal.trim(position) if entry.command == Command.UNLOAD]
        self.programs.forget(forgotten)

    def _drained(self) -> bool:
        return any(host.draining for host in self._hosts.values())

    def _release(self) -> None:
        """Lets go of hosts that drained, now that all they held is elsewhere."""
        used = self.placement.hosts if self.placement else ()
        for id in [id for id, host in self._hosts.items() if host.draining and id not in used]:
            host = self._hosts.pop(id)
            self._watch.end(id, host.incarnation)
            self._book.left(id)
            self._snapshots.host_lost(id)
            self._released(id)

    async def _move(self, world: World) -> None:
        """Goes on with other hosts: those that came take part, those that drain do not. Nothing is replayed."""
        began = time.monotonic()
        moves, self._moves = self._moves, []
        self._pause = "moving"
        self._leave()
        failure, kind = HostLostError(moves[0].host, moves[0].reason, moves[0].detected_by), "moved"
        try:
            await self._snapshot(world)
        except WorldLost:
            failure, kind = world.failure or failure, "lost"
        except SnapshotError:
            log.warning("the arrays could not be saved before the hosts change; what is lost will be replayed")
        self._end(world)
        await self._recover(failure, kind, began)

    async def _settle(self, world: World, position: int) -> None:
        """Waits until nobody waits for an answer from before a position. Raises `WorldLost`."""
        waiting = self._journal.waiting_before(position)
        while waiting and world.failure is None:
            self._answer_came.clear()
            await self._answer_came.wait()
            waiting = [entry for entry in waiting if entry.answer is not None]
        # Another world is being formed of the snapshot before: that one has to stay as it is.
        if world.failure is not None:
            raise WorldLost(world.failure)

    async def _until_large(self, seconds: float) -> None:
        """Waits, but not while the journal grows large."""
        self._large.clear()
        if self._journal.nbytes < _LARGE and seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._large.wait(), seconds)


def _program_of(command: Command, arguments: Sequence[Any]) -> int:
    """The program that a command is about, 0 if it is about none."""
    if command == Command.EXECUTE:
        return int(arguments[0])
    return int(arguments[1]) if command in (Command.UNLOAD, Command.TEXT, Command.COST) else 0
