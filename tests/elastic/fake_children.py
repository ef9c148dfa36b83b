"""Small programs in place of membership server, agents and controller, for tests of the launcher; see `fake_pool`.

They keep the children's side of the contract: JSON lines on stdout, and to leave when stdin ends. The controller learns
from the membership server where agents are. What is to go wrong is a JSON object in the variable FAKE_POOL, from a
process's name (h0, controller, membership) to one of:

    fail       says {"failed": ...} and exits
    die        writes to its log and exits with code 3
    silent     never gets ready
    stubborn   does not leave when its lifeline breaks
    orphan     starts a process that does not leave, then leaves as it should
    mute       a controller that says nothing about lost hosts
    accuse     a controller that says h0 is lost when it gets SIGUSR1
    doom       a controller that says h1 was lost and got over and then that h0 is lost, when it gets SIGUSR1
    patient    a controller that says that it waits, and then that nobody came, when a host is lost
    hasty      a controller that says so instead of getting ready
    welcome    a controller that says so when a host is back
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path


def _option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def _directory() -> Path:
    return Path(_option("--run-dir")) if "--run-dir" in sys.argv else Path(_option("--unix")).parent


def _say(message: object) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")  # Also from a signal handler.


def _begin(name: str) -> str:
    """Notes what it was started with, for tests to look at, and misbehaves if told to."""
    note = {"pid": os.getpid(), "argv": sys.argv, "env": dict(os.environ), "sid": os.getsid(0)}
    directory = _directory()
    (directory / f"{name}.new").write_text(json.dumps(note))
    (directory / f"{name}.new").rename(directory / f"{name}.json")
    fault = json.loads(os.environ.get("FAKE_POOL", "{}")).get(name, "")
    print("a line of noise", flush=True)
    if fault == "fail":
        print("what the log says", file=sys.stderr, flush=True)
        reason = "the dog ate it; feed the dog"
        _say({"ready": False, "reason": reason} if name == "membership" else {"failed": reason})
        sys.exit(1)
    if fault == "die":
        print("Traceback: something broke", file=sys.stderr, flush=True)
        sys.exit(3)
    if fault == "silent":
        sys.stdin.read()
        sys.exit(0)
    if fault == "orphan":
        orphan = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
        (directory / "orphan").write_text(str(orphan.pid))
    return fault


def _membership() -> None:
    """Passes on who says hello to whoever watches."""
    fault = _begin("membership")
    hosts: list[bytes] = []
    watching: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as selector:
        server.bind(_option("--unix"))
        server.listen()
        selector.register(0, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        _say({"ready": True, "address": f"etcd://unix:{_option('--unix')}"})
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    _leave_on_eof(fault)
                    return
                client, _ = server.accept()
                hello = client.makefile("rb").readline()
                if hello == b"watch\n":
                    watching.append(client)
                    client.sendall(b"".join(hosts))
                else:
                    hosts.append(hello)
                    for watcher in watching:
                        watcher.sendall(hello)


def _join_pool(hello: str) -> socket.socket:
    pool = socket.socket(socket.AF_UNIX)
    pool.connect(_option("--pool").removeprefix("etcd://unix:"))
    pool.sendall(hello.encode())
    return pool


def _agent() -> None:
    host = _option("--id")
    fault = _begin(host)
    with socket.create_server(("127.0.0.1", 0)) as server:
        _join_pool(f"{host} 127.0.0.1:{server.getsockname()[1]}\n")
        _leave_on_eof(fault)


def _controller() -> None:
    fault = _begin("controller")
    directory = _directory()
    lost = {"lost": {"host": "h0", "reason": "its executor was killed by SIGSEGV"}}
    if fault in ("accuse", "doom"):
        news = [_recovered("h1", "its executor was killed by SIGKILL"), lost] if fault == "doom" else [lost]
        signal.signal(signal.SIGUSR1, lambda *_: (*map(_say, news), (directory / "said").touch()))
    elif fault == "hasty":
        _say(lost)
    pool = _join_pool("watch\n")
    lines = pool.makefile("rb", buffering=0)
    connections: dict[str, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)

        def join() -> str:
            """The host that has said hello, or nothing if the membership server is gone."""
            line = lines.readline()
            if not line:
                return ""
            host, address = line.decode().split()
            connections[host] = socket.create_connection(address.split(":"))
            selector.register(connections[host], selectors.EVENT_READ, host)
            return host

        while len(connections) < int(_option("--hosts")) + int(_option("--spares")):
            join()
        selector.register(pool, selectors.EVENT_READ)
        _say({"ready": {"address": f"grpc://unix:{directory}/client.sock"}})
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    shutil.rmtree(directory, ignore_errors=True)
                    _leave_on_eof(fault)
                    return
                if key.fileobj is pool:
                    host = join()
                    if not host:
                        selector.unregister(pool)
                    elif fault == "welcome":
                        _say(_recovered(host, "it joined", kind="moved"))
                    continue
                selector.unregister(key.fileobj)
                del connections[key.data]
                if fault == "mute":
                    continue
                reason = "its connection closed"
                if fault == "patient":
                    _say(
                        {"waits": {"host": key.data, "reason": reason, "what": "2 of 4 virtual devices have no place"}}
                    )
                    _say({"lost": {"host": key.data, "reason": reason, "why_not": "nobody came"}})
                    continue
                _say(_recovered(key.data, reason) if connections else {"lost": {"host": key.data, "reason": reason}})


def _recovered(host: str, reason: str, kind: str = "lost") -> dict[str, object]:
    what = {"kind": kind, "host": host, "reason": reason, "plan": "the others take over"}
    times = {"total": 0.25, "phases": {"fence": 0.05, "world": 0.2}, "operations_replayed": 3}
    return {"recovered": {**what, **times}}


def _leave_on_eof(fault: str) -> None:
    os.read(0, 1)
    while fault == "stubborn":
        signal.pause()


if __name__ == "__main__":
    {"membership.server": _membership, "agent": _agent, "controller": _controller}[sys.argv[1]]()
