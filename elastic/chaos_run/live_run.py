"""A script under `elastic run`, as it runs: what it prints, what its history tells, and how it ends.

Nothing here has a thread, but for the question to `elastic health`: whoever uses a `LiveRun` calls `look`, or waits for
something, and meanwhile timers are served.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Self

from chaos import ETCD, Copies, Event, History, Network, Plan, parse_line
from elastic import fault_points, health
from elastic.chaos_run.belongings import Belongings
from elastic.chaos_run.guard import Guard
from elastic.chaos_run.machine_pool import MachinePool
from elastic.chaos_run.stored_checkpoints import StoredCheckpoints
from elastic.chaos_run.tail import Tail
from elastic.chaos_run.who import Who
from elastic.errors import PoolError
from elastic.instants import now_text

_LOOK_S = 0.02
"""How often somebody looks whether there is something new."""

_LEAVE_S = 2.0
"""Seconds after which nothing of a run may be left."""


class LiveRun:
    """A run of a script on a pool of its own; use it as a context manager, which leaves nothing behind.

    Args:
        plan: whose pool it has. What the plan does to it is somebody else's matter.
        script: SCRIPT ARGS..., or -m MODULE ARGS...
        directory: keeps `NAME.out` and `NAME.err`, what was printed, and the logs of the pool in `NAME-logs`, or in
            `NAME-pool.log` what its etcd and hosts had to say.
        networks: each host, and etcd, stands in a network of its own, and can be cut off.
        machines: hosts and etcd are started one by one, so that etcd can fail, too; with networks they always are.
        disk: what it stores is on a disk of its own, which can be full.

    Attributes:
        stored: what the run has on disk; None if it stores nothing.

    Raises `UsageError` if networks, or a disk, cannot be made here, or there is no such etcd.
    """

    def __init__(
        self,
        plan: Plan,
        script: Sequence[str],
        directory: Path,
        name: str,
        *,
        networks: bool = False,
        machines: bool = False,
        disk: bool = False,
    ) -> None:
        self.host_names = plan.host_names
        self.events: list[Event] = []
        """All that is known to have happened."""
        self.copies = Copies(stores=plan.checkpoint_every > 0)
        self.on_event: Callable[[Event], None] = lambda _: None
        """Called with each event when it is known."""
        self._step = re.compile(plan.step, re.IGNORECASE)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._asked: tuple[float, Future[Any]] | None = None
        self._health = ThreadPoolExecutor(1, "health")
        self._belongings = Belongings(Path(tempfile.mkdtemp(prefix="chaos-", dir="/dev/shm")))
        self._pool: MachinePool | None = None
        networked = (*plan.host_names, ETCD) if networks else ()
        self._guard = Guard(self._belongings.directory, networked, disk=disk)
        self.stored = StoredCheckpoints(self._belongings.disk, self._guard.disk) if plan.checkpoint_every else None
        try:
            self._belongings.make()
            if self.stored is not None:
                self.stored.put_foreign()
            directory.mkdir(parents=True, exist_ok=True)
            output, self._errors = directory / f"{name}.out", directory / f"{name}.err"
            logs = f"--log-dir={directory / f'{name}-logs'}"
            with output.open("wb") as out, self._errors.open("wb") as errors:
                if networks or machines:
                    log = directory / f"{name}-pool.log"
                    self._pool = MachinePool(plan, self.network, self._belongings.directory, log, self._marks)
                self._launcher = self._launch(plan, [logs, *script], out, errors)
        except BaseException:
            self._guard.close()
            raise
        self._output, self._history = Tail(output), Tail(self._belongings.history)
        self.who = Who(self._belongings, self.events, self._launcher.pid)
        self.tell("started")

    def _launch(self, plan: Plan, script: Sequence[str], out: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        options = _options(plan)
        if plan.checkpoint_every:
            options += [f"--checkpoint={self._belongings.disk}", f"--checkpoint-every={plan.checkpoint_every}"]
        variables = {**os.environ, **self._marks, "PYTHONUNBUFFERED": "1"}
        if self._pool is not None:
            options += ["--pool", self._pool.etcd.url]
            variables |= self._pool.variables
        return subprocess.Popen(
            [sys.executable, "-m", "elastic.cli", "run", "-v", *options, *script],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env=variables,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, if it has not ended, and removes what it left."""
        self._health.shutdown(wait=False, cancel_futures=True)
        if self.network is not None:
            self.network.hasten_all()
        self._guard.close()
        self._launcher.wait()
        if self._pool is not None:
            self._pool.end()
        self._output.close()
        self._history.close()

    # What happens

    @property
    def now(self) -> float:
        """The time of the history's clock."""
        return time.monotonic()

    def tell(self, kind: str, at: float | None = None, **facts: Any) -> Event:
        """Adds an event to the history, of now if no time is given."""
        event = Event(kind, at or self.now, facts, now_text())
        self.events.append(event)
        self.copies.tell(event)
        self.on_event(event)
        return event

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Has something done later, while somebody looks."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), work))

    def look(self) -> list[Event]:
        """Waits for a moment, does what is due, and returns what is new: events, and lines that the script printed."""
        until_timer = self._timers[0][0] - time.monotonic() if self._timers else _LOOK_S
        time.sleep(max(0.0, min(_LOOK_S, until_timer)))
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        if self._pool is not None:
            self._pool.keep()
        return self._read()

    def _read(self) -> list[Event]:
        new = [parse_line(line) for line in self._history.lines()]
        self.events += new
        for event in new:
            self.copies.tell(event)
            self.on_event(event)
            if event.kind == "stored" and self.stored is not None:
                with contextlib.suppress(OSError):  # A disk that is full now has space when the next one is stored.
                    self.stored.put_foreign(Path(event["path"]).parent)
        for line in self._output.lines():
            found = self._step.search(line)
            new.append(self.tell("output", line=line, step=int(found[1]) if found else None))
        self._ask_health(any(event.kind == "recovered" for event in new))
        return new

    def _ask_health(self, changed: bool) -> None:
        """Asks how the run is after each change of its world; one question at a time."""
        if self._asked is not None and self._asked[1].done():
            asked, answer = self._asked
            self._asked = None
            report = answer.result()
            if report.get("run"):  # Else the run has ended meanwhile.
                self.tell("health", asked=asked, failures=report["failures"])
        if changed and self._asked is None and self.alive:
            self._asked = time.monotonic(), self._health.submit(health.look, None, self._belongings.pools)

    def kill(self) -> None:
        """Ends it at once; all that belongs to it."""
        self._belongings.kill()

    @property
    def alive(self) -> bool:
        return self._launcher.poll() is None

    @property
    def history(self) -> History:
        return History(self.events)

    @property
    def errors(self) -> str:
        """What the script and the launcher wrote to stderr."""
        return self._errors.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
        """Returns when something is so. Raises `PoolError` if the run ends before, or after that time."""
        give_up = time.monotonic() + patience_s
        while True:
            ended = not self.alive
            self.look()
            if condition():
                return
            if ended or time.monotonic() > give_up:
                why = "the run ended before it" if ended else f"it did not come within {patience_s:g} s"
                raise PoolError(f"waited for {what}: {why}\n{self.errors[-2000:]}")

    def finish(self) -> int:
        """Waits for the script's end and looks what is left; the exit code."""
        while self.alive:
            self.look()
        self.tell("ended", code=self._launcher.returncode)
        timers, self._timers = sorted(self._timers), []
        for _, _, work in timers:  # What was to be taken back later is taken back now.
            work()
        self._timers.clear()
        if self._pool is not None:
            self._pool.end()
            self._pool = None
        processes, files = self._belongings.left(_LEAVE_S)
        self._read()
        self.tell("leftovers", processes=processes, files=files)
        if self.stored is not None:
            self.tell("checkpoints", bad=self.stored.bad(), foreign_gone=self.stored.foreign_gone())
        return self._launcher.returncode

    @property
    def network(self) -> Network | None:
        """That of the hosts, if each stands in one of its own."""
        return self._guard.network

    @property
    def pool(self) -> MachinePool | None:
        """Its pool, if hosts and etcd were started one by one, and the run has not ended."""
        return self._pool

    @property
    def _marks(self) -> dict[str, str]:
        return {**self._belongings.variables, fault_points.DIRECTORY: str(self.points)}

    @property
    def points(self) -> Path:
        """Where deaths at points are armed."""
        return self._belongings.points

    def memory(self, host: str) -> Path | None:
        """Where a host keeps copies of arrays; None if it is not there."""
        return next(self._belongings.pools.glob(f"*/memory/{host}"), None)


def _options(plan: Plan) -> list[str]:
    return [
        *(f"--hosts={plan.hosts}", f"--devices-per-host={plan.devices_per_host}", f"--spares={plan.spares}"),
        *(f"--on-loss={plan.on_loss}", f"--snapshot-budget={plan.snapshot_budget}"),
        *(f"--verify-every={plan.verify_every}", f"--protect={plan.protect}"),
    ]
