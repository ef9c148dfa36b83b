"""The life of one executor: stand by, join a world, work, die with it.

It listens on a port of its host. The first to prove the pool's secret in the role "controller" gets the command stream;
others in the role "peer" send shards. A stream that ends, or a parent that dies, ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.executor.callbacks import Callbacks
from elastic.executor.peers import Mailbox, Outbox, Place, receive
from elastic.handshake import HandshakeError


class Executor:
    """A standby that becomes a member of the world it is told to join."""

    def __init__(self, host: str, secret: bytes, memory: Path) -> None:
        """`memory` is the host's memory for snapshots."""
        self._host = host
        self._memory = memory
        self._secret = secret
        self._listener = socket.create_server((host, 0), backlog=64)
        self._controller: wire.Channel | None = None
        self._controller_came = threading.Event()
        self._mailbox = Mailbox()
        self._callbacks = Callbacks()
        self._generation = 0
        self._joined = threading.Event()
        self._place: Place

    @property
    def address(self) -> str:
        """HOST:PORT for the controller and for peers."""
        return f"{self._host}:{self._listener.getsockname()[1]}"

    def run(self) -> None:
        """Serves one world; returns when the controller's stream ends."""
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        self._controller_came.wait()
        assert self._controller is not None
        with contextlib.suppress(EOFError, OSError):
            self._serve(self._controller)

    def _serve(self, channel: wire.Channel) -> None:
        # Imported by the template before the fork; here it costs nothing, and a standby needs none of it to be told.
        from elastic.executor import world
        from elastic.executor.engine import Engine

        while True:
            (command, request, argument), _ = channel.receive()
            if command == Command.COORDINATE:
                channel.send([request, 0, world.coordinate(self._host, argument)])
                continue
            spec = world.WorldSpec(**argument)
            self._generation = spec.generation
            member = world.join(spec, self._host)
            outbox = Outbox(self._secret, spec.generation)
            engine = Engine(member, channel, self._mailbox, outbox, self._callbacks, self._memory)
            self._place = engine.place
            self._joined.set()
            channel.send([request, 0, describe(member)])
            engine.run()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            threading.Thread(target=self._greet, args=(sock,), name="connection", daemon=True).start()

    def _greet(self, sock: socket.socket) -> None:
        try:
            hello, channel = wire.accept(sock, self._secret)
        except (OSError, EOFError, HandshakeError, wire.FrameError):
            sock.close()
            return
        if hello.get("role") == "controller" and self._controller is None:
            self._controller = channel
            self._controller_came.set()
        elif hello.get("role") == "callbacks":
            self._callbacks.serve(channel)
        elif hello.get("role") == "probe":
            with contextlib.suppress(OSError):
                channel.send(
                    {"pid": os.getpid(), "about": f"generation {self._generation}" if self._generation else ""}
                )
            channel.close()
        elif hello.get("role") == "peer":
            # A peer of the same world may be ready before this member is.
            self._joined.wait()
            if hello.get("generation") == self._generation:
                receive(channel, self._mailbox, self._place)
            else:
                channel.close()
        else:
            channel.close()


def describe(member: Any) -> list[dict[str, Any]]:
    """What the client shows of this host's devices, by virtual device."""
    return [
        {
            "device": v,
            "platform": device.platform,
            "kind": device.device_kind,
            "platform_version": device.client.platform_version,
            "memories": [memory.kind for memory in device.addressable_memories()],
            "default_memory": device.default_memory().kind,
            "pid": os.getpid(),
        }
        for v, device in enumerate(member.devices)
        if v in member.local
    ]
