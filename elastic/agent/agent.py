"""One host's agent: keeps a standby executor warm and serves the controller that uses this host.

The connection to a controller carries events to it - {"standby": pid, "address"}, {"exited": pid, "reason", ...},
{"done": order, "problem", "seconds": of a processor, that copies took since the last}, {"beat": executors that moved},
with "refusals" if more connections were refused, {"draining": reason}, {"checked": seconds since all devices passed a
health check}, {"wrong_result": what is wrong with a device} - and orders from it - {"use": pid}, {"want": "standby"},
{"kill": pid}, {"quarantine": what its devices computed wrongly}, and on the host's memory {"send": digests, "to":
address, "order"}, {"make": jobs, "order"} (see `elastic.agent.parity`), {"keep": digests, "order"}, {"store": [digest,
path], "mark": of what is held apart or None, "order"}, {"let_go": mark, "order"} and {"fetch": [digest, bytes, path],
"order"}; and {"reach": addresses of other agents, "order"}, answered by {"done", "unreached"}. When it ends, the
executors it used are killed: nobody is left who could tell them anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import elastic
from elastic import fault_points, host_memory, tls, wire
from elastic.agent import blocks, parity
from elastic.agent.beats import BEAT_S, Beats
from elastic.agent.copies import ROLE, Receiver, send
from elastic.agent.device_health import DeviceHealth
from elastic.agent.reach import Reach
from elastic.agent.storage import fetch, store
from elastic.agent.template import Exit, Template
from elastic.agent.work_meter import WorkMeter
from elastic.daemon_threads import DaemonThreads
from elastic.door import Door
from elastic.machine import machine_id
from elastic.refusals import Reason, Refusals
from membership import Etcd, HostRecord, MembershipError, PoolAddress, Registration

log = logging.getLogger(__name__)

_LEASE_S = 5
"""How long etcd remembers a host that it does not hear of."""

_LEAVE_S = 0.3
"""How long the farewell to etcd may take."""

_NOTICE = "it was told to leave (SIGTERM)"

_NEXT_S = 0.5
"""Seconds until a standby that was taken is replaced, if nobody wants one before: who took it is in a hurry, and a fork
takes time of all cores."""

_AGAIN_S = 0.5
"""Until etcd is told again what it could not be told."""

_SENDERS = 4
"""Hosts that it sends copies to at once."""


@dataclass(frozen=True)
class HostSettings:
    """What a host is told at its start."""

    id: str
    devices: int
    """How many devices it contributes."""
    listen: str
    """HOST:PORT of the agent; executors listen on the same host, on ports of their own."""
    secret: bytes = field(repr=False)
    log: Path
    """Where its executors' output goes."""
    memory: Path
    """A directory of shared memory for snapshots; it is made, and emptied if it is there."""
    check_every: float | None = None
    """Seconds between two health checks of its devices; with 0 there are none, with None so few that they cost next to
    nothing."""


@dataclass(frozen=True)
class Reporter:
    """Where an agent says what happens to its host.

    `ready(record)` at each registration in the pool, `claimed(run)` and `released(run)` when a run's controller comes
    and goes, `drains(reason)` when the host is about to leave, `unfit(reason)` when its devices fail a health check,
    and `unfit("")` when they may be used again.
    """

    ready: Callable[[HostRecord], None]
    claimed: Callable[[str], None] = lambda _: None
    released: Callable[[str], None] = lambda _: None
    drains: Callable[[str], None] = lambda _: None
    unfit: Callable[[str], None] = lambda _: None


class Agent:
    """Serves one host until it is closed."""

    def __init__(self, settings: HostSettings, reporter: Reporter, pool: str = "") -> None:
        """`pool` is the name of the pool that the host is in; controllers of others are refused."""
        self._settings = settings
        self._reporter = reporter
        self._pool = pool
        self._run = ""
        """The id of the run that uses this host."""
        self._host, self._port = wire.parse_address(settings.listen)
        self._standbys: dict[int, str] = {}
        self._forking = True
        """Whether a standby is coming; the template begins with one."""
        self._used: dict[int, str] = {}
        self._controller: wire.Link | None = None
        self._broken: str | None = None
        self._beats = Beats()
        self._refusals = Refusals(log.warning, time.monotonic)
        """Connections that were refused here or by an executor of this host."""
        self._refusals_told: dict[str, int] = {}
        self._alone = asyncio.Event()
        self.health: DeviceHealth
        """Of its devices."""
        self.health_changed = asyncio.Event()
        """Set when there is another reason why the host must not be used, or none any more."""
        self._unfit = ""
        """The reason that was told last."""
        self._reach = Reach(settings.secret)
        self._probes: set[asyncio.Task[None]] = set()
        self._meter = WorkMeter()
        """Of copies."""
        self._disk = DaemonThreads(1, "disk")
        """A disk that hangs must hold up nothing else, the end of this process neither."""
        self._workers = ThreadPoolExecutor(_SENDERS, thread_name_prefix="memory")

    async def start(self) -> str:
        """Listens and starts the first standby; returns the address. Raises `OSError` if it cannot listen."""
        self._server = await asyncio.get_running_loop().create_server(
            Door(self._settings.secret, self._serve, self._refusals.add, tls.ours()),
            self._host,
            self._port,
            reuse_port=False,
        )
        self._port = self._server.sockets[0].getsockname()[1]
        memory = self._settings.memory
        shutil.rmtree(memory, ignore_errors=True)
        memory.mkdir(mode=0o700, parents=True)
        self._receiver = Receiver(memory, self._meter)
        environment = executor_environment(dict(os.environ))
        environment[host_memory.DIRECTORY] = str(memory)
        self._template = Template(
            self._host,
            self._settings.log,
            environment,
            on_standby=self._stands_by,
            on_exit=self._exited,
            on_refused=lambda pid, reason, count, words: self._refusals.add(reason, f"executor {pid}: {words}", count),
        )
        self.health = DeviceHealth(
            self._settings.devices,
            self._template,
            self._settings.check_every,
            passed=self._passed_check,
            failed=self._failed_check,
        )
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (self._beat(), self.health.keep())]
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    def drain(self, reason: str) -> asyncio.Event:
        """Tells the controller that this host is about to go; the result is set when it has no controller any more."""
        self._reporter.drains(reason)
        self._tell({"draining": reason})
        if self._controller is None:
            self._alone.set()
        return self._alone

    def close(self) -> None:
        """Ends everything on this host."""
        for task in (*self._tasks, *self._probes):
            task.cancel()
        self._reach.close()
        self._server.close()
        self._template.close()
        self._receiver.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self._settings.memory, ignore_errors=True)

    def _serve(self, hello: dict[str, Any], link: wire.Link) -> None:
        if hello.get("role") == ROLE:
            self._receiver.serve(link)
        elif hello.get("role") == blocks.ROLE:
            blocks.serve(self._settings.memory, link)
        elif hello.get("role") == "probe":
            link.send(wire.frame(self._about()))
        elif hello.get("role") != "controller":
            self._refusals.add(Reason.GARBAGE, "one that knows the secret plays a role that there is not")
            link.close()
        elif hello.get("pool", self._pool) != self._pool:
            words = f"host {self._settings.id} is in pool {self._pool}, and run {hello.get('run')} in {hello['pool']}"
            self._refusals.add(Reason.FOREIGN_POOL, words)
            link.send(wire.frame({"refused": words}))
        elif (wanted := hello.get("host", self._settings.id)) != self._settings.id:
            # Its etcd entry outlives a host for a moment; its address may be another's by then.
            link.send(wire.frame({"refused": f"host {self._settings.id} is at this address, and not {wanted}"}))
        elif self._controller is not None:
            link.send(wire.frame({"refused": f"host {self._settings.id} is in use by another controller"}))
        else:
            self._controller = link
            self._run = str(hello.get("run", ""))
            self._reporter.claimed(self._run)
            self._alone.clear()
            about: dict[str, Any] = {"host": self._settings.id, "devices": self._settings.devices, "pid": os.getpid()}
            about["cores"] = len(os.sched_getaffinity(0))
            self._tell({**about, "holds": host_memory.contents(self._settings.memory)})
            self._refusals_told = {}
            if self.health.unfit:
                self._tell({"wrong_result": self.health.unfit})
            elif (age := self.health.age()) is not None:
                self._tell({"checked": age})
            for pid, address in self._standbys.items():
                self._tell({"standby": pid, "address": address})
            if self._broken:
                broken = {"reason": self._broken, "by_itself": True, "log": self._template.log_tail()}
                self._tell({"exited": 0, **broken})
            link.redirect(self._hear, lambda _: self._controller_left())

    def _about(self) -> dict[str, Any]:
        """What it tells somebody who asks whether it lives."""
        use = f"used by run {self._run}" if self._controller is not None else "no run uses it"
        return {"pid": os.getpid(), "about": use, "executors": self._used, "standbys": self._standbys}

    def _hear(self, order: Any, _: wire.Bytes) -> None:
        try:
            self._ordered(order)
        except (KeyError, TypeError) as error:
            raise wire.FrameError(f"it is no order: {error}") from error

    def _ordered(self, order: dict[str, Any]) -> None:
        if "use" in order:
            address = self._standbys.pop(order["use"], None)
            if address is not None:
                self._used[order["use"]] = address
                asyncio.get_running_loop().call_later(_NEXT_S, self._replace_standby)
        elif "want" in order:
            self._replace_standby()
        elif "kill" in order:
            self._template.kill(order["kill"])
        elif "quarantine" in order:
            self.health.found_wrong(str(order["quarantine"]))
        elif "send" in order:
            memory, secret = self._settings.memory, self._settings.secret
            self._work(order, lambda: send(memory, order["send"], order["to"], secret))
        elif "make" in order:
            memory, secret = self._settings.memory, self._settings.secret
            self._work(order, lambda: parity.carry_out(memory, order["make"], secret))
        elif "keep" in order:
            self._work(order, lambda: host_memory.keep_only(self._settings.memory, set(order["keep"])))
        elif "let_go" in order:
            self._work(order, lambda: host_memory.let_go(self._settings.memory, order["let_go"]))
        elif "store" in order:
            memory, mark = self._settings.memory, order["mark"]
            copies = memory if mark is None else host_memory.held(memory, mark)
            self._work_on_disk(order, lambda: store(copies, order["store"]))
        elif "fetch" in order:
            self._work_on_disk(order, lambda: fetch(self._settings.memory, order["fetch"]))
        elif "reach" in order:
            probe = asyncio.get_running_loop().create_task(self._probe(order["order"], order["reach"]))
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)

    async def _probe(self, order: int, addresses: list[str]) -> None:
        self._tell({"done": order, "problem": None, "unreached": await self._reach.unreached(addresses)})

    def _replace_standby(self) -> None:
        if not self._standbys and not self._forking:
            self._forking = True
            self._template.fork()

    def _work(self, order: dict[str, Any], work: Callable[[], str | dict[str, Any] | None]) -> None:
        """Carries out an order in a thread and tells the controller how it went: what the problem is, or more."""
        loop = asyncio.get_running_loop()

        def done(outcome: Future[str | dict[str, Any] | None]) -> None:
            error = outcome.exception() if not outcome.cancelled() else None
            self._done(loop, order, str(error) if error else outcome.result())

        def metered() -> str | dict[str, Any] | None:
            with self._meter:
                return work()

        self._workers.submit(metered).add_done_callback(done)

    def _work_on_disk(self, order: dict[str, Any], work: Callable[[], str | dict[str, Any] | None]) -> None:
        """The same, in the thread for the disk; what that costs is no cost of snapshots."""
        loop = asyncio.get_running_loop()
        self._disk.submit(lambda: self._done(loop, order, work()))

    def _done(
        self, loop: asyncio.AbstractEventLoop, order: dict[str, Any], result: str | dict[str, Any] | None
    ) -> None:
        """Called in a thread that has carried out an order."""
        said = result if isinstance(result, dict) else {"problem": result}
        event = {"done": order["order"], "seconds": self._meter.take(), **said}
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._tell, event)

    def _controller_left(self) -> None:
        self._controller = None
        self._reporter.released(self._run)
        self._alone.set()
        for pid in self._used:
            self._template.kill(pid)

    def _stands_by(self, pid: int, address: str) -> None:
        self._forking = False
        self._standbys[pid] = address
        self._tell({"standby": pid, "address": address})

    def _exited(self, pid: int, exit: Exit) -> None:
        if pid == 0:
            self._broken = exit.reason
        elif self._standbys.pop(pid, None) is not None:
            self._replace_standby()
        self._used.pop(pid, None)
        # Who is killed from outside has no last words; what stands in the log is another's.
        words = self._template.log_tail() if exit.by_itself or pid == 0 else ""
        self._tell({"exited": pid, "reason": exit.reason, "by_itself": exit.by_itself, "log": words})

    def _passed_check(self) -> None:
        self._tell({"checked": 0.0})
        self._told_health()

    def _failed_check(self) -> None:
        self._tell({"wrong_result": self.health.unfit})
        self._told_health()

    def _told_health(self) -> None:
        if self.health.unfit != self._unfit:
            self._unfit = self.health.unfit
            self._reporter.unfit(self._unfit)
            self.health_changed.set()

    async def _beat(self) -> None:
        """Tells the controller ten times a second that this host moves, and which of its executors do."""
        while True:
            await asyncio.sleep(BEAT_S)
            beat: dict[str, Any] = {"beat": self._beats.moved(self._used)}
            if self._refusals_told != (refusals := self._refusals.counts):
                self._refusals_told = beat["refusals"] = refusals
            self._tell(beat)

    def _tell(self, event: dict[str, Any]) -> None:
        if self._controller is not None:
            self._controller.send(wire.frame(event))


_FORCED_DEVICE_COUNT = "--xla_force_host_platform_device_count"
"""What users set to try several devices on plain JAX; here the pool says how many a host has."""


def executor_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment of executors: not the client's choice of platform, and nothing that starts threads on import."""
    for name in ("JAX_PLATFORMS", "ELASTIC_CONTROLLER", "JAX_BACKEND_TARGET", "JAX_NUM_CPU_DEVICES"):
        environment.pop(name, None)
    flags = environment.get("XLA_FLAGS", "").split()
    environment["XLA_FLAGS"] = " ".join(flag for flag in flags if not flag.startswith(_FORCED_DEVICE_COUNT))
    environment["OPENBLAS_NUM_THREADS"] = "1"
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    return environment


def read_secret(path: Path) -> bytes:
    """The pool's secret from its file. Raises `OSError` or `ValueError`."""
    return bytes.fromhex(path.read_text(encoding="ascii").strip())


async def serve(settings: HostSettings, pool: PoolAddress, lifeline: int | None, reporter: Reporter) -> None:
    """Runs an agent as a member of a pool until it is told to end, or its lifeline, a pipe's read end, ends.

    SIGTERM is a notice: the host leaves when the run that uses it has moved what is here; a second one is obeyed at
    once, as is SIGINT. Raises `MembershipError` if it cannot register,
    `OSError` if it cannot listen.
    """
    os.environ[fault_points.HOST] = settings.id
    agent = Agent(settings, reporter, pool.pool)
    ended, noticed = asyncio.Event(), asyncio.Event()
    with _signals(ended, noticed), _lifeline(lifeline, ended):
        address = await agent.start()
        record = HostRecord(
            settings.id, address, settings.devices, os.getpid(), machine_id(), version=elastic.__version__
        )
        async with Etcd(pool) as etcd:
            registration = Registration(etcd, record, _LEASE_S, reporter.ready)
            tasks: list[asyncio.Task[None]] = []
            try:
                await registration.start()
                loop = asyncio.get_running_loop()
                tasks = [
                    loop.create_task(work) for work in (registration.keep(), _register_health(agent, registration))
                ]
                await _first(ended, noticed)
                if not ended.is_set():
                    alone = agent.drain(_NOTICE)
                    with contextlib.suppress(MembershipError):  # The controller has heard it from the agent itself.
                        await registration.drain(_NOTICE)
                    await _first(ended, alone)
            finally:
                for task in tasks:
                    task.cancel()
                agent.close()
                with contextlib.suppress(MembershipError, TimeoutError):
                    async with asyncio.timeout(_LEAVE_S):
                        await registration.leave()


async def _register_health(agent: Agent, registration: Registration) -> None:
    """Has etcd say why nobody is to take the host, and when that is over; ends only by being cancelled."""
    while True:
        await agent.health_changed.wait()
        agent.health_changed.clear()
        try:
            await registration.quarantine(agent.health.unfit)
        except MembershipError:  # A controller that takes the host meanwhile hears it from the agent.
            agent.health_changed.set()
            await asyncio.sleep(_AGAIN_S)


@contextlib.contextmanager
def _signals(ended: asyncio.Event, noticed: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def notice() -> None:
        (ended if noticed.is_set() else noticed).set()

    loop.add_signal_handler(signal.SIGTERM, notice)
    loop.add_signal_handler(signal.SIGINT, ended.set)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)


@contextlib.contextmanager
def _lifeline(descriptor: int | None, ended: asyncio.Event) -> Iterator[None]:
    if descriptor is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(descriptor, 4096):
                ended.set()
                loop.remove_reader(descriptor)

    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


async def _first(*events: asyncio.Event) -> None:
    """Waits for any of the events."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
