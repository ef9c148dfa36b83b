"""Trainings (training.py) as runs that can be hit: with the platform, and with checkpoints on plain JAX.

Each tells its steps as they finish and names the processes that a failure may take. Processes are found by descent from
ours, and nothing of a training is left after `stop`.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from sides import environment_of

from elastic.local_pool import LocalPool
from elastic.pool_events import HostRecovered, PoolEvent, RunWaits

HERE = Path(__file__).parent
PATIENCE_S = 300.0
"""Plain JAX in several processes takes minutes to start on a machine that is busy with other things."""
_STEP = re.compile(r"step (\d+) (\S+) ([\d.]+)\n")


class TrainingFailed(Exception):
    """A training ended, fell silent, or lost what it must not lose."""


@dataclass(frozen=True)
class Step:
    """A step that finished: its loss to the last bit, and when, on the monotonic clock in seconds."""

    number: int
    loss: str
    finished: float


class Training:
    """A process that runs training.py; `steps` grows as it goes."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], directory: Path) -> None:
        self.name = name
        self.steps: list[Step] = []
        self.command = command
        self.environment = environment
        self._log = directory / f"{name}.log"
        self._news = threading.Condition()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        """Returns once it is true; it is looked at after each step and event. Raises `TrainingFailed`."""
        with self._news:
            if not self._news.wait_for(lambda: condition() or not self._reader.is_alive(), patience_s):
                raise self.failed(f"waited {patience_s:.0f} s for {what}")
        if not condition():
            raise self.failed(f"ended while it should still come to {what}")

    def wait_for_steps(self, count: int) -> None:
        """Waits until so many more have finished."""
        wanted = len(self.steps) + count
        self.wait_for(lambda: len(self.steps) >= wanted, f"{count} more steps")

    def after(self, moment: float) -> list[Step]:
        """The steps that finished after a moment."""
        return [step for step in self.steps[-10_000:] if step.finished > moment]

    def stop(self) -> None:
        if hasattr(self, "process"):
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self._reader.join(10)

    def failed(self, what: str) -> TrainingFailed:
        return TrainingFailed("\n".join([f"{self.name} {what}", *(f"  | {line}" for line in self.last_words())]))

    def last_words(self) -> list[str]:
        return tail(self._log)

    def tell(self) -> None:
        """Has `wait_for` look again."""
        with self._news:
            self._news.notify_all()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := _STEP.fullmatch(line):
                with self._news:
                    self.steps.append(Step(int(found[1]), found[2], float(found[3])))
                    self._news.notify_all()
        # Whoever waits must see that nothing comes any more.
        threading.Timer(0.1, self.tell).start()


class ElasticTraining(Training):
    """With the platform: a pool like that of `elastic run`, and the script on it."""

    def __init__(
        self, hosts: int, devices_per_host: int, script_arguments: list[str], directory: Path, **settings: Any
    ) -> None:
        """`settings` are those of `LocalPool`."""
        self._logs = Path(tempfile.mkdtemp(prefix="pool-", dir=directory))
        self._new_pool = partial(LocalPool, hosts, devices_per_host, log_dir=self._logs, **settings)
        self.pool = self._new_pool()
        self.recoveries: list[HostRecovered] = []
        self._gone: str | None = None
        super().__init__("elastic", [sys.executable, str(HERE / "training.py"), *script_arguments], {}, directory)

    def start(self) -> None:
        """Also waits for the first steps."""
        self.pool.start()
        self.environment = environment_of("elastic", 0, 0) | self.pool.environment
        self.start_script()
        self.pool.watch(self._heard)
        self.wait_for_steps(20)

    def start_again(self) -> None:
        """Starts everything anew, after a stop."""
        self.pool, self._gone = self._new_pool(), None
        self.start()

    def start_script(self) -> None:
        """Starts the script on the pool, again if it has ended."""
        super().start()

    def stop(self) -> None:
        super().stop()
        self.pool.stop()

    def hosts(self) -> dict[int, tuple[list[int], list[int]]]:
        """The pid of each agent that lives, with the executors of its host, and those that stand by."""
        found: dict[int, tuple[list[int], list[int]]] = {}
        for agent in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if "elastic.agent" not in agent.cmdline():
                    continue
                executors: list[int] = []
                standbys: list[int] = []
                for template in agent.children():
                    for child in template.children():
                        joined = any(link.status == psutil.CONN_ESTABLISHED for link in child.net_connections("tcp"))
                        (executors if joined else standbys).append(child.pid)
                found[agent.pid] = executors, standbys
        return found

    def wait_until_whole(self, patience_s: float) -> dict[int, tuple[list[int], list[int]]]:
        """Waits until every host that should be there has one executor and one that stands by.

        When it has waited long enough, two such hosts will do. Raises `TrainingFailed` if there are not even two.
        """
        began = time.monotonic()
        while True:
            if self._gone is not None or self.process.poll() is not None:
                raise self.failed(f"ended: {self._gone}")
            hosts = self.hosts()
            ready = sum(len(executors) == len(standbys) == 1 for executors, standbys in hosts.values())
            waited = time.monotonic() - began
            if ready == self.pool.hosts or (ready >= 2 and ready == len(hosts) and waited > patience_s):
                return hosts
            if waited > PATIENCE_S:
                raise self.failed(f"is not whole after {waited:.0f} s: {hosts}")
            time.sleep(0.25)

    def last_words(self) -> list[str]:
        controller = tail(self._logs / "controller.log")
        return [*super().last_words(), *controller, *map(str, self.recoveries[-5:])]

    def _heard(self, event: PoolEvent) -> None:
        if isinstance(event, HostRecovered):
            self.recoveries.append(event)
        elif not isinstance(event, RunWaits):
            self._gone = str(event)
            self.process.terminate()
        self.tell()


class CheckpointTraining(Training):
    """Without it: plain JAX in one process a host, all started again from the last checkpoint when one dies."""

    def __init__(
        self, hosts: int, devices_per_host: int, script_arguments: list[str], save_every: int, directory: Path
    ) -> None:
        self._checkpoints = tempfile.TemporaryDirectory(prefix="checkpoints-", dir="/dev/shm")
        environment = environment_of("multi-process", hosts, devices_per_host)
        command = [sys.executable, str(HERE / "peers" / "multiprocess_jax.py"), "--restart"]
        command += ["--hosts", str(hosts), "--devices-per-host", str(devices_per_host)]
        command += [str(HERE / "training.py"), *script_arguments]
        command += ["--checkpoints", self._checkpoints.name, "--save-every", str(save_every)]
        super().__init__("checkpoints", command, environment, directory)

    def start(self) -> None:
        super().start()
        self.wait_for_steps(20)

    def stop(self) -> None:
        super().stop()
        self._checkpoints.cleanup()

    def processes(self) -> list[int]:
        """The pids of the world's processes."""
        return [child.pid for child in psutil.Process(self.process.pid).children()]


def differences(steps: list[Step], reference: dict[int, str]) -> list[int]:
    """The numbers of the steps whose loss is another than in the reference, or that it lacks."""
    return [step.number for step in steps if reference.get(step.number) != step.loss]


def tail(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []


def load() -> float:
    """How many processes wanted a core in the last minute."""
    return round(os.getloadavg()[0], 1)
