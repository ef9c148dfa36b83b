"""`elastic run` as a user starts it, for tests: real processes, found by descent from the launcher, never by name
alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.elastic.processes import wait_gone

ROLES = {
    "membership.server": "membership",
    "elastic.controller": "controller",
    "elastic.agent": "agent",
    "elastic.executor.template": "template",
}


class Run:
    """A running `elastic run`. Use it as a context manager: it leaves no process behind."""

    def __init__(
        self,
        script: Path | str,
        *arguments: str,
        hosts: int = 2,
        devices: int = 2,
        options: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "elastic.cli", "run", f"--hosts={hosts}", f"--devices-per-host={devices}"]
        self.process = subprocess.Popen(
            [*command, *options, str(script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.output: list[str] = []
        self.errors: list[str] = []
        self._heard = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in ((self.process.stdout, self.output), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()
        self.pool: list[psutil.Process] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.snapshot()
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(10)
        for process in self.pool:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def wait_for(self, text: str, timeout_s: float = 60) -> None:
        """Returns when the script has printed, or the launcher has said, a line that contains `text`."""
        self.wait_until(lambda: any(text in line for line in (*self.output, *self.errors)), timeout_s, text)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 60, what: str = "the event") -> None:
        """Returns when something is so about what was printed and said."""
        with self._heard:
            found = self._heard.wait_for(condition, timeout_s)
        assert found, f"{what!r} did not come; got {self.output} and {self.errors}"

    def snapshot(self) -> list[psutil.Process]:
        """All processes of the run but the launcher; remembered for `left`."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.pool = psutil.Process(self.process.pid).children(recursive=True)
        return self.pool

    def role(self, wanted: str) -> list[psutil.Process]:
        """The run's processes of one kind: membership, controller, agent, template, executor, standby or script."""
        return [process for process in self.snapshot() if role_of(process) == wanted]

    def finish(self, timeout_s: float = 60) -> int:
        """Waits for the launcher's end; its exit code."""
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(10)
        return code

    def wait_until_gone(self, timeout_s: float) -> None:
        """Fails unless all processes of the last snapshot end in time."""
        wait_gone((process.pid for process in self.pool), timeout_s)

    @property
    def text(self) -> str:
        return "\n".join([*self.output, *self.errors])

    def _read(self, stream: object, lines: list[str]) -> None:
        for line in stream:  # type: ignore[attr-defined]
            with self._heard:
                lines.append(line.rstrip("\n"))
                self._heard.notify_all()


def role_of(process: psutil.Process) -> str:
    """One of those that `Run.role` knows, or "gone"."""
    try:
        command = process.cmdline()
        for module, role in ROLES.items():
            if module in command:
                if role == "template" and _has_same_command(process.parent(), command):
                    return "executor" if _connected_to_controller(process) else "standby"
                return role
    except psutil.NoSuchProcess:
        return "gone"
    return "script"


def _has_same_command(parent: psutil.Process | None, command: list[str]) -> bool:
    return parent is not None and parent.cmdline() == command


def _connected_to_controller(process: psutil.Process) -> bool:
    return any(connection.status == psutil.CONN_ESTABLISHED for connection in process.net_connections("tcp"))


def run_to_end(script: Path | str, *arguments: str, timeout_s: float = 120, **settings: object) -> Run:
    """A run that has ended."""
    with Run(script, *arguments, **settings) as run:  # type: ignore[arg-type]
        run.finish(timeout_s)
    return run


def run_plainly(
    script: Path | str, *arguments: str, devices: int = 8, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """The script on plain JAX with as many CPU devices, in one process."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, str(script), *arguments], env=environment, capture_output=True, text=True, timeout=timeout_s
    )
