"""A real agent with a real template and real executors, to controllers that tests play."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys

import psutil

from elastic import wire
from elastic.handshake import REPLY_BYTES, Dialer
from tests.elastic.connections import PATIENCE

CORES = len(os.sched_getaffinity(0))


def command(directory):
    pool = f"etcd://unix:{directory / 'etcd.sock'}"
    return [sys.executable, "-m", "elastic.agent", "--id=h7", "--devices=2", "--pool", pool, f"--run-dir={directory}"]


class Agent:
    """`python -m elastic.agent`, and the ends of connections to it."""

    def __init__(self, directory, **environment):
        self.secret = secrets.token_bytes(32)
        (directory / "secret").write_text(self.secret.hex())
        (directory / "logs").mkdir()
        self.directory = directory
        self.membership = subprocess.Popen(
            [sys.executable, "-m", "membership.server", "--unix", directory / "etcd.sock"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert json.loads(self.membership.stdout.readline())["ready"]
        self.process = subprocess.Popen(
            command(directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Without more, no health check is among its processes when they are counted.
            env={**os.environ, "ELASTIC_CHECK_EVERY": "0", **environment},
        )
        ready = json.loads(self.process.stdout.readline())["ready"]
        assert (ready["id"], ready["pid"]) == ("h7", self.process.pid)
        self.address = ready["address"]

    def dial(self, hello, secret=None, address=None):
        """A channel whose reads fail when they wait in vain."""
        sock = socket.create_connection(wire.parse_address(address or self.address), PATIENCE)
        dialer = Dialer(self.secret if secret is None else secret)
        sock.sendall(dialer.opening())
        reply = b""
        while len(reply) < REPLY_BYTES:
            reply += sock.recv(REPLY_BYTES - len(reply))
        sock.sendall(dialer.proof(reply))
        channel = wire.Channel(sock)
        channel.send(hello)
        return channel

    @contextlib.contextmanager
    def controller(self):
        """A controller that uses this host, and (pid, address) of the standby it finds or waits for."""
        made = Controller(self.dial({"role": "controller"}))
        try:
            assert made.hear() == {"host": "h7", "devices": 2, "pid": self.process.pid, "holds": [], "cores": CORES}
            yield made, *made.standby()
        finally:
            made.channel.close()

    def descendants(self):
        return [process.pid for process in psutil.Process(self.process.pid).children(recursive=True)]

    def close(self):
        for process in (self.process, self.membership):
            with process:
                process.kill()


class Controller:
    """What a controller hears, but for heartbeats and for exits of executors that one before it used."""

    def __init__(self, channel):
        self.channel = channel
        self._known = set()

    def hear(self):
        while True:
            event = self.channel.receive()[0]
            self._known.add(event.get("standby"))
            if "beat" in event:
                continue
            if "exited" not in event or event["exited"] in self._known:
                return event

    def standby(self):
        event = self.hear()
        assert "standby" in event, event
        return event["standby"], event["address"]

    def until_gone(self):
        """What is still said before the connection ends."""
        said = []
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                said.append(self.hear())
        return said
