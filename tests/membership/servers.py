"""The servers that the client is tested against: real etcd of one and of three nodes, and the embedded server.

Each is started on free ports with a directory of its own, and ends with the test run however that ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from membership import PoolAddress
from membership.address import PASSWORD

ROOT = Path(__file__).resolve().parents[2]
FAST_ELECTION_MS, STEADY_ELECTION_MS = 100, 500
"""For tests that kill leaders, and for those that would rather have none changed because the machine is busy."""

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PORTS = range(20_000 + 3_000 * (_WORKER % 4), 23_000 + 3_000 * (_WORKER % 4))
_PR_SET_PDEATHSIG = 1
_STARTS, _START_SECONDS = 5, 30
_libc = ctypes.CDLL(None)


class NotInstalled(Exception):
    """There is no etcd on this machine."""


def etcd_program() -> str:
    program = shutil.which("etcd")
    if program is None:
        raise NotInstalled("these tests need etcd 3.4 or newer: apt-get install etcd-server")
    return program


def start(command: Sequence[str], **options: object) -> subprocess.Popen[str]:
    """A process that is killed when the thread that started it ends, at the latest."""
    return subprocess.Popen(
        command,
        text=True,
        preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        **options,  # type: ignore[call-overload]
    )


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now.

    They lie below those that the kernel gives to outgoing connections: while a node is down, one of those could take
    its port, or even reach itself. Test processes that run beside each other keep to ports of their own, for the same
    reason.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


class Server:
    """What all servers have; ``endpoints`` is where it listens, as host:port."""

    endpoints: list[str]
    user: str | None = None
    password = ""

    def address(self, endpoints: Sequence[str] | None = None) -> PoolAddress:
        """Its address, or that of others that lead to it."""
        user = f"{self.user}@" if self.user else ""
        environment = {PASSWORD: self.password} if self.user else {}
        return PoolAddress.parse(f"etcd://{user}{','.join(endpoints or self.endpoints)}", environment)

    def start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        """Kills all of it, as a power failure would."""
        raise NotImplementedError


class Node:
    """One etcd process, whose data stay when it is killed."""

    def __init__(self, name: str, directory: Path, ports: tuple[int, int], options: Sequence[str] = ()) -> None:
        self.client_port, self.peer_port = ports
        self.name, self._directory, self._options = name, directory, options
        self.endpoint = f"127.0.0.1:{self.client_port}"
        self.process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []

    def launch(self, cluster: Sequence[Node], scheme: str = "http") -> None:
        client, peer = f"{scheme}://127.0.0.1:{self.client_port}", f"http://127.0.0.1:{self.peer_port}"
        members = ",".join(f"{node.name}=http://127.0.0.1:{node.peer_port}" for node in cluster)
        self.process = start(
            [
                *(etcd_program(), "--name", self.name, "--data-dir", str(self._directory / self.name)),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", members, "--initial-cluster-token", str(self._directory)),
                *("--logger", "zap", "--log-level", "info", *self._options),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def wait_until_ready(self) -> bool:
        """Whether it serves; False if it ended instead."""
        assert self.process is not None
        assert self.process.stderr is not None
        self._lines = []
        give_up = threading.Timer(_START_SECONDS, self.process.kill)
        give_up.start()
        try:
            for line in self.process.stderr:
                self._lines.append(line)
                if "serving client traffic" in line:
                    # Somebody has to read on, or the process stops when the pipe is full.
                    threading.Thread(target=self._drain, args=(self.process,), daemon=True).start()
                    return True
            return False
        finally:
            give_up.cancel()

    @property
    def last_lines(self) -> str:
        return "".join(self._lines[-20:])

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def freeze(self) -> None:
        """Stops the process; its sockets stay open, and swallow what is sent."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    @staticmethod
    def _drain(process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for _ in process.stderr:
            pass


class RealEtcd(Server):
    """A cluster of real etcd nodes."""

    def __init__(
        self,
        directory: Path,
        nodes: int,
        options: Sequence[str] = (),
        *,
        scheme: str = "http",
        election_ms: int = FAST_ELECTION_MS,
    ) -> None:
        self._directory, self._count, self._scheme = directory, nodes, scheme
        timing = ("--heartbeat-interval", str(election_ms // 10), "--election-timeout", str(election_ms))
        self._options = (*timing, *options)
        self.nodes: list[Node] = []

    def start(self) -> None:
        if self.nodes:
            self._launch()
            return
        for attempt in range(_STARTS):
            ports = free_ports(2 * self._count)
            directory = self._directory / str(attempt)
            self.nodes = [
                Node(f"n{index}", directory, (ports[2 * index], ports[2 * index + 1]), self._options)
                for index in range(self._count)
            ]
            try:
                self._launch()
            except RuntimeError:
                # A port was taken by somebody else since we looked.
                self.kill()
                if attempt == _STARTS - 1:
                    raise
            else:
                self.endpoints = [node.endpoint for node in self.nodes]
                return

    def _launch(self) -> None:
        for node in self.nodes:
            node.launch(self.nodes, self._scheme)
        for node in self.nodes:
            if not node.wait_until_ready():
                raise RuntimeError(f"etcd node {node.name} did not start:\n{node.last_lines}")

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def restart(self, node: Node) -> None:
        node.launch(self.nodes, self._scheme)
        assert node.wait_until_ready(), node.last_lines

    def node(self, endpoint: str) -> Node:
        return next(node for node in self.nodes if node.endpoint == endpoint)


class Embedded(Server):
    """The embedded server as a process, with a secret. After `kill` and `start` it is another one at the same port."""

    user = "elastic"

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        self.password = secrets.token_hex(8)
        self._secret_file = directory / "secret"
        self._secret_file.write_text(self.password + "\n")
        self._listen, self._options = f"127.0.0.1:{free_ports(1)[0]}", options
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        options = ("--listen", self._listen, "--secret-file", str(self._secret_file), *self._options)
        self.process = launch_embedded(options)
        ready = ready_line(self.process)
        assert ready["ready"], ready
        self._listen = str(ready["address"]).rpartition("@")[2]
        self.endpoints = [self._listen]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def launch_embedded(options: Sequence[str]) -> subprocess.Popen[str]:
    return start(
        [sys.executable, "-m", "membership.server", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def ready_line(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    message: dict[str, object] = json.loads(process.stdout.readline() or "{}")
    return message
