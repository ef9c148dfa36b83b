"""The small programs that stand in for agents and controller in tests of the launcher; see `fake_pool`.

They keep the children's side of the contract: JSON lines on stdout, and to leave when stdin ends. What is to go wrong
is a JSON object in the variable FAKE_POOL, from a process's name (h0, controller) to one of:

    fail       says {"failed": ...} and exits
    die        writes to its log and exits with code 3
    silent     never gets ready
    stubborn   does not leave when its lifeline breaks
    orphan     starts a process that does not leave, then leaves as it should
    mute       a controller that says nothing about lost hosts
    accuse     a controller that says h0 is lost when it gets SIGUSR1
    doom       a controller that says h1 was lost and got over and then that h0 is lost, when it gets SIGUSR1
    hasty      a controller that says so instead of getting ready
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


def _say(message: object) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")  # Also from a signal handler.


def _begin(name: str) -> str:
    """Notes what it was started with, for tests to look at, and misbehaves if told to."""
    note = {"pid": os.getpid(), "argv": sys.argv, "env": dict(os.environ), "sid": os.getsid(0)}
    directory = Path(_option("--run-dir"))
    (directory / f"{name}.new").write_text(json.dumps(note))
    (directory / f"{name}.new").rename(directory / f"{name}.json")
    fault = json.loads(os.environ.get("FAKE_POOL", "{}")).get(name, "")
    print("a line of noise", flush=True)
    if fault == "fail":
        print("what the log says", file=sys.stderr, flush=True)
        _say({"failed": "the dog ate it; feed the dog"})
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


def _agent() -> None:
    host = _option("--id")
    fault = _begin(host)
    with socket.create_server(("127.0.0.1", 0)) as server:
        _say({"ready": {"id": host, "address": f"127.0.0.1:{server.getsockname()[1]}", "pid": os.getpid()}})
        _leave_on_eof(fault)


def _controller() -> None:
    fault = _begin("controller")
    directory = Path(_option("--run-dir"))
    connections = {}
    for index, argument in enumerate(sys.argv):
        if argument == "--host":
            host, _, address = sys.argv[index + 1].partition("=")
            connections[host] = socket.create_connection(address.split(":"))
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        for host, connection in connections.items():
            selector.register(connection, selectors.EVENT_READ, host)
        lost = {"lost": {"host": "h0", "reason": "its executor was killed by SIGSEGV"}}
        if fault in ("accuse", "doom"):
            news = [_recovered("h1", "its executor was killed by SIGKILL"), lost] if fault == "doom" else [lost]
            signal.signal(signal.SIGUSR1, lambda *_: (*map(_say, news), (directory / "said").touch()))
        elif fault == "hasty":
            _say(lost)
        _say({"ready": {"address": f"grpc://unix:{directory}/client.sock"}})
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    shutil.rmtree(directory, ignore_errors=True)
                    _leave_on_eof(fault)
                    return
                selector.unregister(key.fileobj)
                del connections[key.data]
                if fault == "mute":
                    continue
                reason = "its connection closed"
                _say(_recovered(key.data, reason) if connections else {"lost": {"host": key.data, "reason": reason}})


def _recovered(host: str, reason: str) -> dict[str, object]:
    return {"recovered": {"host": host, "reason": reason, "plan": "the others take over", "total": 0.25}}


def _leave_on_eof(fault: str) -> None:
    os.read(0, 1)
    while fault == "stubborn":
        signal.pause()


if __name__ == "__main__":
    {"agent": _agent, "controller": _controller}[sys.argv[1]]()
