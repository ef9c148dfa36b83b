"""The life of one executor: stand by, join a world, work, die with it.

It listens on a port of its host. The first to prove the pool's secret in the role "controller" gets the command
stream, and its generation is this executor's: who comes in the role "peer", to send shards, or "callbacks" must be of
the same. A stream that ends, or a parent that dies, ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

from elastic import tls, wire
from elastic.commands import Command
from elastic.door import ThreadedDoor
from elastic.executor.callbacks import Callbacks
from elastic.executor.peers import Mailbox, Outbox, Place, receive
from elastic.executor.refusals import Teller
from elastic.refusals import Reason


class Executor:
    """A standby that becomes a member of the world it is told to join."""

    def __init__(self, host: str, secret: bytes, memory: Path) -> None:
        """`memory` is the host's memory for snapshots."""
        self._host = host
        self._memory = memory
        self._secret = secret
        self._listener = socket.create_server((host, 0), backlog=64)
        self._refused = Teller.of_environment()
        self._door = ThreadedDoor(self._listener, secret, self._greeted, self._refused, tls.ours())
        self._lock = threading.Lock()
        self._controller: wire.Channel | None = None
        self._called_back = False
        """Whether the controller's connection for callbacks has come."""
        self._controller_came = threading.Event()
        self._mailbox = Mailbox()
        self._callbacks = Callbacks()
        self._generation: Any = 0
        """The controller's; 0 while there is none."""
        self._joined = threading.Event()
        self._place: Place

    @property
    def address(self) -> str:
        """HOST:PORT for the controller and for peers."""
        return f"{self._host}:{self._listener.getsockname()[1]}"

    def run(self) -> None:
        """Serves one world; returns when the controller's stream ends."""
        threading.Thread(target=self._door.run, name="accept", daemon=True).start()
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
            member = world.join(spec, self._host)
            outbox = Outbox(self._secret, spec.generation)
            engine = Engine(member, channel, self._mailbox, outbox, self._callbacks, self._memory)
            self._place = engine.place
            self._joined.set()
            channel.send([request, 0, describe(member)])
            engine.run()

    def _greeted(self, hello: dict[str, Any], channel: wire.Channel, who: str) -> None:
        role, generation = hello.get("role"), hello.get("generation")
        if role == "probe":
            about = f"generation {self._generation}" if self._generation else ""
            channel.send({"pid": os.getpid(), "about": about})
            channel.close()
        elif role == "controller":
            if not self._take_controller(channel, generation):
                self._turn_away(channel, who, role, generation)
        elif role in ("callbacks", "peer"):
            # One that is of the same world may come before the controller itself, or before this member has joined.
            self._controller_came.wait()
            if generation != self._generation or (role == "callbacks" and not self._take_callbacks()):
                self._turn_away(channel, who, role, generation)
            elif role == "callbacks":
                self._callbacks.serve(channel)
            else:
                self._joined.wait()
                receive(channel, self._mailbox, self._place)
        else:
            raise wire.FrameError("its hello names no role that there is")

    def _take_controller(self, channel: wire.Channel, generation: Any) -> bool:
        with self._lock:
            if self._controller is not None:
                return False
            self._controller, self._generation = channel, generation
        self._controller_came.set()
        return True

    def _take_callbacks(self) -> bool:
        with self._lock:
            first, self._called_back = not self._called_back, True
        return first

    def _turn_away(self, channel: wire.Channel, who: str, role: str, generation: Any) -> None:
        channel.close()
        words = f"{who} came as {role} of generation {generation}, where generation {self._generation} is served"
        self._refused(Reason.OLD_GENERATION, words)


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
