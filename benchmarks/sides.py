"""The sides of a comparison as processes that live at the same time and work one at a time.

Each side runs the same script in one or more processes. They connect to a Unix socket of ours and answer requests, a
line of JSON each. A side that dies or falls silent is an error with the end of its output; nothing outlives `stop`.
"""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from elastic.executor.world import pool_threads

HERE = Path(__file__).parent
START_TIMEOUT_S = 90.0
CALL_TIMEOUT_S = 120.0


class SideFailed(Exception):
    """A side did not start, raised, ended, or no longer answers."""


def command_of(side: str, hosts: int, devices_per_host: int) -> list[str]:
    """The command that a script and its arguments are appended to."""
    elastic = [str(Path(sys.executable).with_name("elastic")), "run"]
    size = ["--hosts", str(hosts), "--devices-per-host", str(devices_per_host)]
    return {
        "one-process": [sys.executable],
        "multi-process": [sys.executable, str(HERE / "peers" / "multiprocess_jax.py"), *size],
        "elastic": [*elastic, *size],
        "without snapshots": [*elastic, *size, "--snapshot-budget", "0"],
    }[side]


def environment_of(side: str, hosts: int, devices_per_host: int) -> dict[str, str]:
    """Our environment without what would change JAX behind a side's back, and with what plain JAX needs."""
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS" and not name.startswith("JAX_")}
    env["TF_CPP_MIN_LOG_LEVEL"] = "2"
    if side in ("elastic", "without snapshots"):
        return env
    devices = devices_per_host if side == "multi-process" else hosts * devices_per_host
    env["JAX_PLATFORMS"] = "cpu"
    env["JAX_NUM_CPU_DEVICES"] = str(devices)
    # The size of XLA's thread pools. With fewer than two threads for each device of a process, jaxlib 0.10 hangs for
    # ever in collectives that follow larger matrix products, and the size decides how some sums are cut up. So it is
    # the same on all sides: what a run needs of which one host may come to have all devices.
    env["NPROC"] = str(pool_threads(hosts * devices_per_host))
    return env


@dataclasses.dataclass
class Side:
    """One side: started by `start`, asked by `call`, ended by `stop`."""

    name: str
    hosts: int
    devices_per_host: int
    script: Path
    directory: Path

    process: subprocess.Popen[bytes] | None = None
    links: list[socket.socket] = dataclasses.field(default_factory=list)
    streams: list[TextIO] = dataclasses.field(default_factory=list)
    start_s: float = 0.0

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    def start(self) -> None:
        """Starts the processes and waits until each has connected and sees all devices."""
        began = time.perf_counter()
        address = self.directory / f"{self.name}.sock"
        command = [*command_of(self.name, self.hosts, self.devices_per_host), str(self.script), str(address)]
        expected = self.hosts if self.name == "multi-process" else 1
        with socket.socket(socket.AF_UNIX) as listener, self.log.open("wb") as log:
            listener.bind(str(address))
            listener.listen(expected)
            listener.settimeout(0.2)
            try:
                self.process = subprocess.Popen(
                    command,
                    env=environment_of(self.name, self.hosts, self.devices_per_host),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is ours to handle, and the group ours to end
                )
            except OSError as error:
                raise SideFailed(f"{self.name} cannot be started: {error}") from error
            while len(self.links) < expected:
                try:
                    link, _ = listener.accept()
                except TimeoutError:
                    if self.process.poll() is not None:
                        raise self._failed(f"ended with code {self.process.returncode} before it connected") from None
                    if time.perf_counter() - began > START_TIMEOUT_S:
                        raise self._failed(f"did not connect within {START_TIMEOUT_S:.0f} s") from None
                    continue
                link.settimeout(CALL_TIMEOUT_S)
                self.links.append(link)
        hellos = []
        for link in self.links:
            stream = link.makefile("rw", encoding="utf-8")
            hellos.append((self._receive(stream), stream))
        hellos.sort(key=lambda hello: hello[0]["process"])
        self.streams = [stream for _, stream in hellos]
        for hello, _ in hellos:
            if hello["devices"] != self.hosts * self.devices_per_host:
                raise self._failed(f"sees {hello['devices']} devices, not {self.hosts * self.devices_per_host}")
        self.start_s = time.perf_counter() - began

    def call(self, request: str, /, **args: Any) -> dict[str, Any]:
        """Asks every process for the same; the answer of process 0."""
        for stream in self.streams:
            try:
                stream.write(json.dumps({"call": request, "args": args}) + "\n")
                stream.flush()
            except OSError as error:
                raise self._failed(f"no longer takes requests ({error})") from error
        answers = [self._receive(stream) for stream in self.streams]
        for answer in answers:
            if "error" in answer:
                raise self._failed(f"raised in {request}({args}):\n{answer['error']}")
        return dict(answers[0]["result"])

    def hang_up(self) -> None:
        """The script of a side ends by itself when its driver hangs up."""
        for link in self.links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def stop(self, patience_s: float) -> None:
        """Waits for the side to end by itself, then asks it to, then kills what is left of its process group."""
        if self.process is None:
            return
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for link in self.links:
            link.close()

    def _receive(self, stream: TextIO) -> dict[str, Any]:
        try:
            line = stream.readline()
        except TimeoutError:
            raise self._failed(f"did not answer within {CALL_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise self._failed(f"broke its connection ({error})") from error
        if not line:
            raise self._failed("ended in the middle of the benchmark")
        return dict(json.loads(line))

    def _failed(self, what: str) -> SideFailed:
        tail = self.log.read_text(errors="replace").splitlines()[-15:]
        output = "\n".join(f"  | {line}" for line in tail) or "  (it printed nothing)"
        return SideFailed(f"{self.name} {what}\n{output}")
