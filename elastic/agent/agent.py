"""One host's agent: keeps a standby executor warm and serves the controller that uses this host.

The connection to a controller carries events to it - {"standby": pid, "address"}, {"exited": pid, "reason", "log"},
{"done": order, "problem"}, {"beat": executors that moved} - and orders from it - {"use": pid}, {"kill": pid}, and on
the host's memory {"send": digests, "to": address, "order"}, {"keep": digests, "order"}. When it ends, the executors it
used are killed: nobody is left who could tell them anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastic import host_memory, wire
from elastic.agent.beats import BEAT_S, Beats
from elastic.agent.copies import ROLE, Receiver, send
from elastic.agent.template import Template

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


class Agent:
    """Serves one host until it is closed."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._host, self._port = wire.parse_address(settings.listen)
        self._standbys: dict[int, str] = {}
        self._used: set[int] = set()
        self._controller: wire.Link | None = None
        self._broken: str | None = None
        self._beats = Beats()
        self._workers = ThreadPoolExecutor(_SENDERS, thread_name_prefix="memory")

    async def start(self) -> str:
        """Listens and starts the first standby; returns the address. Raises `OSError` if it cannot listen."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: wire.Greeting(self._settings.secret, self._serve), self._host, self._port, reuse_port=False
        )
        self._port = self._server.sockets[0].getsockname()[1]
        memory = self._settings.memory
        shutil.rmtree(memory, ignore_errors=True)
        memory.mkdir(mode=0o700, parents=True)
        self._receiver = Receiver(memory)
        environment = executor_environment(dict(os.environ))
        environment[host_memory.DIRECTORY] = str(memory)
        self._template = Template(
            self._host,
            self._settings.log,
            environment,
            on_standby=self._stands_by,
            on_exit=self._exited,
            on_beat=self._beats.update,
        )
        self._heart = asyncio.get_running_loop().create_task(self._beat())
        return f"{self._host}:{self._port}"

    def close(self) -> None:
        """Ends everything on this host."""
        self._heart.cancel()
        self._server.close()
        self._template.close()
        self._receiver.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self._settings.memory, ignore_errors=True)

    def _serve(self, hello: dict[str, Any], link: wire.Link) -> None:
        if hello.get("role") == ROLE:
            self._receiver.serve(link)
        elif hello.get("role") != "controller":
            link.close()
        elif self._controller is not None:
            link.send(wire.frame({"refused": f"host {self._settings.id} is in use by another controller"}))
        else:
            self._controller = link
            self._tell({"host": self._settings.id, "devices": self._settings.devices, "pid": os.getpid()})
            for pid, address in self._standbys.items():
                self._tell({"standby": pid, "address": address})
            if self._broken:
                self._tell({"exited": 0, "reason": self._broken, "log": self._template.log_tail()})
            link.redirect(self._ordered, lambda _: self._controller_left())

    def _ordered(self, order: dict[str, Any], _: wire.Bytes) -> None:
        if "use" in order:
            if self._standbys.pop(order["use"], None) is not None:
                self._used.add(order["use"])
                self._template.fork()
        elif "kill" in order:
            self._template.kill(order["kill"])
        elif "send" in order:
            memory, secret = self._settings.memory, self._settings.secret
            self._work(order, lambda: send(memory, order["send"], order["to"], secret))
        elif "keep" in order:
            self._work(order, lambda: host_memory.keep_only(self._settings.memory, set(order["keep"])))

    def _work(self, order: dict[str, Any], work: Callable[[], str | None]) -> None:
        """Carries out an order in a thread and tells the controller how it went."""
        loop = asyncio.get_running_loop()

        def done(outcome: Future[str | None]) -> None:
            error = outcome.exception() if not outcome.cancelled() else None
            problem = str(error) if error else outcome.result()
            loop.call_soon_threadsafe(self._tell, {"done": order["order"], "problem": problem})

        self._workers.submit(work).add_done_callback(done)

    def _controller_left(self) -> None:
        self._controller = None
        for pid in self._used:
            self._template.kill(pid)

    def _stands_by(self, pid: int, address: str) -> None:
        self._standbys[pid] = address
        self._tell({"standby": pid, "address": address})

    def _exited(self, pid: int, reason: str) -> None:
        if pid == 0:
            self._broken = reason
        elif self._standbys.pop(pid, None) is not None:
            self._template.fork()
        self._used.discard(pid)
        # Who is killed from outside has no last words; what stands in the log is another's.
        words = "" if "SIGKILL" in reason else self._template.log_tail()
        self._tell({"exited": pid, "reason": reason, "log": words})

    async def _beat(self) -> None:
        """Tells the controller ten times a second that this host moves, and which of its executors do."""
        while True:
            await asyncio.sleep(BEAT_S)
            self._tell({"beat": self._beats.moved(self._used)})

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


async def serve(settings: HostSettings, lifeline: int, ready: Callable[[str], None]) -> None:
    """Runs an agent until the lifeline, a pipe's read end, comes to its end."""
    agent = Agent(settings)
    ready(await agent.start())
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read_lifeline() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(lifeline, 4096):
                ended.set()
                loop.remove_reader(lifeline)

    os.set_blocking(lifeline, False)
    loop.add_reader(lifeline, read_lifeline)
    try:
        await ended.wait()
    finally:
        agent.close()
