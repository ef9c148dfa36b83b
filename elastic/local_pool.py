"""A private pool of hosts on this machine: membership server, agents and controller, started, watched, torn down.

The process that makes a `LocalPool` is its launcher. Nothing of a pool outlives its launcher, however that ends: the
children leave when their lifeline breaks, and whatever lies in the run directory goes with them. Not for: the user's
script (`elastic.runner`), or pools of real machines. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from checkpoint import BUDGET, STORE_EVERY_S, Protection
from elastic import pool_size, run_directory, run_settings
from elastic.child_process import ChildProcess, Lifeline
from elastic.client_environment import client_variables, pool_variables
from elastic.controller.placement import Policy
from elastic.errors import HostLostError, PoolError, UsageError
from elastic.pool_events import ControllerDied, HostLost, HostRecovered, PoolEvent, RunWaits
from elastic.pool_watcher import PoolWatcher
from elastic.restart import Restart
from elastic.run_directory import Kind, RunDirectory

# How long children may take to leave by themselves before they are killed. Together with the kill well under the
# 2 seconds after which nothing of a run may be left.
_LEAVE_S = 0.45
# Two see a host die: the controller, which says what becomes of the run, and the launcher, which knows how an agent
# ended. The controller's word waits this long for the other, so that one line says it all.
_AGENT_ENDS_S = 0.1


class StartInterrupted(Exception):
    """`LocalPool.start` was told to give up; everything it had started is gone."""


@dataclass(frozen=True)
class _Told:
    """What the controller told of a lost host, and when to wait no longer for how its agent ended.

    `kind` is "recovered", "waits" or "lost".
    """

    kind: str
    host: str
    what: dict[str, Any]
    report_at: float


class LocalPool:
    """A pool on this machine, usable as a context manager.

    Between `start` and `stop`, whoever owns an event loop waits for `fileno` to be readable or for `deadline` to pass
    and then calls `poll`; or calls `watch` once, which does that in a thread.

    Args:
        hosts: how many hosts to start.
        devices_per_host: devices of each; their product is the number of virtual devices.
        listen: ``HOST:PORT`` where the controller also takes clients over TCP, besides its Unix socket.
        log_dir: a directory that keeps the logs of all processes after the run.
        spares: how many hosts to start besides, which take over when others are lost.
        snapshot_budget: the share of the time that saving snapshots may take; with 0 one is only taken when the journal
            is full or hosts come and go.
        protect: how snapshots survive the loss of hosts: "copies=2", a second copy of each shard, or "parity=k+m",
            parity that k hosts share, for any m losses at once.
        on_loss: what to do when a host is lost and there is no free device for its virtual devices: "stack" them on the
            others, end the run with an error ("spare"), "wait" for a host, or "surface" the loss to the script.
        checkpoint: a directory in which snapshots are stored; None if they are not.
        checkpoint_every: how often that is done, in seconds.
        metrics: ``HOST:PORT`` where the controller serves Prometheus' metrics; port 0 is any (see `metrics_url`).
        trace: a file for a Chrome trace of the run; it is replaced.
        verify_every: one in so many intervals between snapshots is executed again on other hosts and compared; 0 for
            none.
        base_dir: where the run directory is made; /dev/shm by default.
    """

    def __init__(
        self,
        hosts: int = 4,
        devices_per_host: int = 2,
        listen: str | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        *,
        spares: int = 0,
        snapshot_budget: float = BUDGET,
        protect: str = str(Protection()),
        on_loss: str = Policy.STACK,
        checkpoint: Path | None = None,
        checkpoint_every: float = STORE_EVERY_S,
        metrics: str | None = None,
        trace: Path | None = None,
        verify_every: int = 0,
        base_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.hosts = hosts
        self.devices_per_host = devices_per_host
        self.listen = listen
        self.spares = spares
        self.snapshot_budget = snapshot_budget
        self.protect = protect
        self.on_loss = on_loss
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.metrics = metrics
        self.trace = trace
        self.metrics_url = ""
        """Where the metrics are, once the pool runs."""
        self.verify_every = verify_every
        self.log_dir = None if log_dir is None else Path(log_dir)
        self._base = None if base_dir is None else Path(base_dir)
        self._directory: RunDirectory | None = None
        self._address = ""
        self._launcher_pid = 0
        self._selector = selectors.EpollSelector()
        # Two lifelines: after a host was lost the other agents leave, while the controller stays to tell the client.
        self._agents_lifeline: Lifeline | None = None
        self._controller_lifeline: Lifeline | None = None
        self._agents: dict[str, ChildProcess] = {}
        self._controller: ChildProcess | None = None
        self._membership: ChildProcess | None = None
        self._ended: dict[ChildProcess, str] = {}
        self._told: deque[_Told] = deque()
        self._restarts: dict[str, Restart] = {}
        self._membership_restart = Restart()
        self._endings: dict[str, str] = {}
        """How the last agent of a host ended, until that is told."""
        self._kill_at: float | None = None
        self._over = False
        self._watcher: PoolWatcher | None = None
        self.on_waiting: Callable[[str], None] = lambda _: None
        """Called while `start` waits for hosts, with what is missing in words."""

    # The command lines, for tests that put small programs in place of agents and controller.

    def membership_command(self, directory: RunDirectory) -> Sequence[str]:
        return (sys.executable, "-m", "membership.server", "--unix", str(directory.membership_socket))

    def agent_command(self, host: str, directory: RunDirectory) -> Sequence[str]:
        return (
            *(sys.executable, "-m", "elastic.agent", "--id", host, "--devices", str(self.devices_per_host)),
            *("--pool", self.pool_address(directory), "--run-dir", str(directory.path)),
        )

    def controller_command(self, directory: RunDirectory) -> Sequence[str]:
        command = [sys.executable, "-m", "elastic.controller", "--run-dir", str(directory.path)]
        command += ["--pool", self.pool_address(directory), "--run-id", directory.path.name]
        command += ["--hosts", str(self.hosts), "--spares", str(self.spares)]
        command += ["--virtual-devices", str(self.hosts * self.devices_per_host)]
        return [*command, *run_settings.arguments(self)]

    # What pools of other kinds do in another way

    def pool_address(self, directory: RunDirectory) -> str:
        """Where the pool's etcd is."""
        return directory.membership_address

    def make_directory(self) -> RunDirectory:
        """A new run directory."""
        return run_directory.create(self._base, self.log_dir, kind=Kind.PRIVATE)

    def check_settings(self) -> None:
        """Raises `UsageError` if a setting cannot work."""
        if self.spares < 0:
            raise UsageError(f"{self.spares} spare hosts cannot be started; ask for at least 0")
        pool_size.check_size(self.hosts, self.devices_per_host, pool_size.machine_memory())
        if self.spares:
            pool_size.check_size(self.hosts + self.spares, self.devices_per_host, pool_size.machine_memory())
        run_settings.check(self)

    def child_variables(self) -> dict[str, str]:
        """The environment of the pool's processes."""
        return pool_variables(os.environ)

    def start_processes(self) -> None:
        """Starts everything, and waits until it is ready."""
        self.start_membership()
        self.start_agents()
        self.start_controller()

    # Life

    @property
    def address(self) -> str:
        """Where a client of this machine connects, such as ``grpc://unix:/dev/shm/elastic-0a1b2c3d/client.sock``."""
        if not self._address:
            raise PoolError("the pool is not running; call start() first")
        return self._address

    @property
    def directory(self) -> RunDirectory:
        if self._directory is None:
            raise PoolError("the pool is not running; call start() first")
        return self._directory

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a client process needs, given this process's own."""
        return client_variables(self.address, self.directory, os.environ)

    def start(self, interrupt_fd: int | None = None) -> Self:
        """Starts everything and returns once the world is formed.

        Args:
            interrupt_fd: when it becomes readable, the start is given up.

        Raises:
            UsageError: a setting cannot work; nothing was started.
            PoolError: a process could not start; its words and the end of its log are in the text.
            StartInterrupted: ``interrupt_fd`` became readable.
        """
        if self._launcher_pid:
            raise UsageError("this pool was started already; make a new LocalPool")
        self.check_settings()
        pool_size.check_python()
        pool_size.check_certificates()
        run_directory.sweep(self._base)
        self._directory = self.make_directory()
        self._launcher_pid = os.getpid()
        try:
            if interrupt_fd is not None:
                self._selector.register(interrupt_fd, selectors.EVENT_READ, None)
            try:
                self._agents_lifeline, self._controller_lifeline = Lifeline(), Lifeline()
                self.start_processes()
            finally:
                if interrupt_fd is not None:
                    self._selector.unregister(interrupt_fd)
        except OSError as error:
            self.stop()
            raise PoolError(f"cannot start the pool: {error}; check this user's limits (`ulimit -a`)") from error
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends everything and removes the run directory, in about half a second at most. May be called again."""
        if self._launcher_pid != os.getpid():
            return  # Never started, stopped already, or a forked child of the launcher, to whom nothing belongs.
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None
        self._cut_lifelines()
        give_up = time.monotonic() + _LEAVE_S
        while any(child not in self._ended for child in self._children()):
            wait = give_up - time.monotonic()
            if wait <= 0:
                break
            self._collect(wait)
        for child in self._children():
            child.kill_session()
        for child in self._children():
            child.close()
        self._selector.close()
        self.directory.remove()
        self._launcher_pid = -1
        self._address = ""

    def disown(self) -> None:
        """To be called in a forked child of the launcher: it must not hold the lifelines when the launcher dies."""
        if self._launcher_pid != os.getpid():
            self._cut_lifelines()

    def __enter__(self) -> Self:
        return self if self._launcher_pid else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # Watching

    def fileno(self) -> int:
        """Readable when `poll` has something to do."""
        return self._selector.fileno()

    def deadline(self) -> float | None:
        """When to call `poll` even if nothing is readable, on time.monotonic()'s clock; None for never."""
        times = [told.report_at for told in self._told]
        restarts = (*self._restarts.values(), self._membership_restart)
        times += [restart.at for restart in restarts if restart.at is not None]
        if self._kill_at is not None:
            times.append(self._kill_at)
        return min(times, default=None)

    def poll(self, *, closing: bool = False) -> PoolEvent | None:
        """What happened to the pool, or None; does not wait. After an event that ends the run there are no more.

        Args:
            closing: this is the last call, so a loss that might still be explained better is told now.
        """
        messages = self._collect(0)
        now = time.monotonic()
        if not self._over:
            for child, message in messages:
                for kind in ("recovered", "waits", "lost"):
                    what = message.get(kind)
                    if child is self._controller and isinstance(what, dict):
                        self._told.append(_Told(kind, str(what.get("host", "?")), what, now + _AGENT_ENDS_S))
            self._replace_agents(now)
            self._replace_membership(now)
        event = self._next_event(now, closing)
        if isinstance(event, (HostLost, ControllerDied)):
            self._end_run()
        if self._kill_at is not None and self._kill_at <= now:
            self._kill_at = None
            for agent in self._agents.values():
                agent.kill_session()
        return event

    def watch(self, report: Callable[[PoolEvent], None]) -> None:
        """Polls in a thread of its own from now on and passes every event to ``report``."""
        self._watcher = PoolWatcher(self, report)
        self._watcher.start()

    # Inside

    def _children(self) -> list[ChildProcess]:
        others = [self._controller, self._membership]
        return [*self._agents.values(), *(child for child in others if child is not None)]

    def start_membership(self) -> dict[str, Any]:
        """Starts the pool's own etcd; what it says when it is ready."""
        server = self.spawn_membership()
        return self._wait_ready({server})[server]

    def spawn_membership(self) -> ChildProcess:
        """Starts the pool's own etcd."""
        assert self._controller_lifeline is not None
        command = self.membership_command(self.directory)
        self._membership = self._spawn("the membership server", "membership", command, self._controller_lifeline)
        return self._membership

    def start_agents(self, *, wait: bool = False) -> None:
        """Starts the hosts' agents; with `wait`, returns when all have registered."""
        for host in (f"h{index}" for index in range(self.hosts + self.spares)):
            self._agents[host] = self._spawn_agent(host)
        if wait:
            self._wait_ready(set(self._agents.values()))

    def start_controller(self) -> None:
        """Starts the controller, and waits until its world is formed."""
        assert self._controller_lifeline is not None
        command = self.controller_command(self.directory)
        self._controller = self._spawn("the controller", "controller", command, self._controller_lifeline)
        ready = self._wait_ready({self._controller})[self._controller]
        self._address, self.metrics_url = str(ready["address"]), str(ready.get("metrics", ""))

    def _spawn_agent(self, host: str) -> ChildProcess:
        assert self._agents_lifeline is not None
        command = self.agent_command(host, self.directory)
        return self._spawn(f"the agent of host {host}", host, command, self._agents_lifeline)

    def _spawn(self, name: str, log: str, command: Sequence[str], lifeline: Lifeline) -> ChildProcess:
        log_path = self.directory.logs / f"{log}.log"
        environment = self.child_variables()
        child = ChildProcess(name, command, lifeline=lifeline, log=log_path, environment=environment)
        self._selector.register(child.exit_fd, selectors.EVENT_READ, child)
        self._selector.register(child.output_fd, selectors.EVENT_READ, child)
        return child

    def _wait_ready(self, waiting: set[ChildProcess]) -> dict[ChildProcess, dict[str, Any]]:
        """Waits until every child of ``waiting`` said that it is ready; notices any child's failure meanwhile.

        There is no time limit: a child that makes no progress is its own to notice, and Ctrl-C works.
        """
        ready: dict[ChildProcess, dict[str, Any]] = {}
        while len(ready) < len(waiting):
            for child, message in self._collect(None):
                if message.get("ready") is False:
                    raise PoolError(f"{child.name} could not start: {message.get('reason')}{child.log_tail()}")
                if message.get("ready") is True and child in waiting:
                    ready[child] = message
                if "waiting" in message:
                    self.on_waiting(str(message["waiting"]))
                if "failed" in message:
                    raise PoolError(f"{child.name} could not start: {message['failed']}{child.log_tail()}")
                lost = message.get("lost")
                if isinstance(lost, dict):
                    reason, why_not = lost.get("reason", "no reason was given"), lost.get("why_not", "")
                    raise HostLostError(str(lost.get("host", "?")), str(reason), why_not=str(why_not))
                if isinstance(message.get("ready"), dict) and child in waiting:
                    ready[child] = message["ready"]
            for child, ending in self._ended.items():
                raise PoolError(f"{child.name} {ending} while the pool started.{child.log_tail()}")
        return ready

    def _collect(self, timeout: float | None) -> list[tuple[ChildProcess, dict[str, Any]]]:
        """Takes in what the children said and which of them ended."""
        touched: dict[ChildProcess, bool] = {}
        for key, _ in self._selector.select(timeout):
            child: ChildProcess | None = key.data
            if child is None:
                raise StartInterrupted
            touched[child] = touched.get(child, False) or key.fd == child.exit_fd
        messages = []
        for child, ended in touched.items():
            had_ended = child.output_ended
            messages += [(child, message) for message in child.messages()]
            if child.output_ended and not had_ended:
                self._selector.unregister(child.output_fd)
                child.close_output()
            if ended:
                self._selector.unregister(child.exit_fd)
                self._ended[child] = child.exit_words()
        return messages

    def _replace_agents(self, now: float) -> None:
        """Starts agents of hosts whose agent ended, when it is time."""
        for host, agent in self._agents.items():
            if agent not in self._ended:
                continue
            restart = self._restarts.setdefault(host, Restart())
            if restart.at is None:
                self._endings[host] = f"its agent (pid {agent.pid}) {self._ended[agent]}{agent.last_words()}"
                restart.again(now)
            elif restart.at <= now:
                restart.started(now)
                agent.kill_session()
                agent.close()
                self._agents[host] = self._spawn_agent(host)

    def _replace_membership(self, now: float) -> None:
        """Starts the membership server again; hosts and runs tell it what they are and have as soon as it is there."""
        ended, restart = self._membership, self._membership_restart
        if ended is None or ended not in self._ended:
            return
        if restart.at is None:
            restart.again(now)
        elif restart.at <= now:
            restart.started(now)
            ended.kill_session()
            ended.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.directory.membership_socket)
            self.spawn_membership()

    def _next_event(self, now: float, closing: bool) -> PoolEvent | None:
        if self._over or self._controller is None:
            return None
        if self._told:
            told = self._told[0]
            what = told.what
            moved = what.get("kind") == "moved"
            if not (moved or told.host in self._endings or told.report_at <= now or closing):
                return None
            self._told.popleft()
            reason = str(what.get("reason", "no reason was given"))
            if not moved:
                reason = self._endings.pop(told.host, reason)
            if told.kind == "waits":
                return RunWaits(told.host, reason, str(what.get("what")))
            if told.kind == "recovered":
                return HostRecovered(
                    told.host,
                    reason,
                    not moved,
                    str(what.get("plan")),
                    float(what.get("total", 0)),
                    what.get("phases", {}),
                    what.get("operations_replayed", 0),
                )
            return HostLost(told.host, reason, str(what.get("why_not", "")))
        if self._controller in self._ended:
            words = self._ended[self._controller] + self._controller.last_words()
            return ControllerDied(f"(pid {self._controller.pid}) {words}")
        return None

    def _end_run(self) -> None:
        """Sends the agents home; the controller stays until `stop`, so that the client can read what happened."""
        self._over = True
        self._told.clear()
        if self._agents_lifeline is not None:
            self._agents_lifeline.cut()
        self._kill_at = time.monotonic() + _LEAVE_S

    def _cut_lifelines(self) -> None:
        for lifeline in (self._controller_lifeline, self._agents_lifeline):
            if lifeline is not None:
                lifeline.cut()
