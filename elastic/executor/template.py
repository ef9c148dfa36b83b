"""The template of a host's executors: a process with JAX imported and one thread, from which executors are forked.

A fork costs milliseconds where a fresh Python with JAX costs a second or more, and it shares the memory of all that was
imported. Forking is safe because the template never starts a thread or a device client: OpenBLAS is kept to one thread,
and jaxlib starts its own only with a client.

Run by the agent as `python -m elastic.executor.template FD HOST PID`, where FD is its end of a SOCK_SEQPACKET pair and
PID the agent's. Messages are JSON: from the agent {"fork": true} and {"kill": PID}, to it {"imported": true}, {"ready":
PID, "address": ...} and {"exited": PID, "status": wait status, "cpu_s": what it used}. For a health check of the host's
devices (`device_check`), from the agent {"check": their number}, to it {"checking": PID, "failed": ""} - or 0 and why
there can be none - then {"checked": device, "problem": words} for each, and the exit. When the agent dies, the kernel
kills the template, and with it its executors.
"""

from __future__ import annotations

import faulthandler
import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from elastic import host_memory, stacks
from elastic.signals import die_with_parent

_WAKE_S = 0.06
"""More often than the agent looks, which is every 0.1 s (`agent.beats`)."""


def main() -> None:
    die_with_parent(signal.SIGKILL, int(sys.argv[3]))
    stacks.offer()
    faulthandler.enable()  # An executor that XLA takes down leaves its stack as its last words.
    control = socket.socket(fileno=int(sys.argv[1]))
    host = sys.argv[2]
    secret = _read_secret()

    import elastic.executor.device_check
    import elastic.executor.engine
    import elastic.executor.process
    import elastic.executor.world

    elastic.executor.world.prepare()
    _send(control, {"imported": True})
    wake_reader, wake_writer = socket.socketpair()
    wake_writer.setblocking(False)
    signal.set_wakeup_fd(wake_writer.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Preemption notices and Ctrl-C are the agent's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    selector.register(wake_reader, selectors.EVENT_READ)
    children: dict[int, float] = {}
    cache = os.memfd_create("device-check")
    while True:
        for key, _ in selector.select():
            if key.fileobj is wake_reader:
                wake_reader.recv(4096)
                _reap(control, children)
                continue
            data = control.recv(1 << 16)
            if not data:
                return
            message = json.loads(data)
            if "fork" in message:
                pid = _fork(children, [wake_reader, wake_writer])
                if pid == 0:
                    _become_executor(control, host, secret)
            elif "check" in message:
                try:
                    pid = _fork(children, [wake_reader, wake_writer])
                except OSError as error:  # Which says nothing about the devices.
                    _send(control, {"checking": 0, "failed": str(error)})
                    continue
                if pid == 0:
                    _check_devices(control, message["check"], cache)
                _send(control, {"checking": pid, "failed": ""})
            elif message["kill"] in children:
                # A child that has not been reaped: its pid cannot belong to anyone else.
                os.kill(message["kill"], signal.SIGKILL)


def _fork(children: dict[int, float], unused: list[socket.socket]) -> int:
    """As `os.fork`; keeps what each child has cost this process, in seconds of a processor."""
    template, before = os.getpid(), time.process_time()
    pid = os.fork()
    if pid:
        children[pid] = time.process_time() - before
        return pid
    die_with_parent(signal.SIGKILL, template)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for sock in unused:
        sock.close()
    return 0


def _become_executor(control: socket.socket, host: str, secret: bytes) -> None:
    try:
        from elastic.executor.process import Executor

        executor = Executor(host, secret, Path(os.environ[host_memory.DIRECTORY]))
        _send(control, {"ready": os.getpid(), "address": executor.address})
        threading.Thread(target=_wake, name="wake", daemon=True).start()
        executor.run()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    # Not sys.exit: XLA's threads and clients are not worth an orderly end.
    os._exit(0)


def _check_devices(control: socket.socket, devices: int, cache: int) -> None:
    try:
        from elastic.executor import device_check

        device_check.run(devices, cache, lambda message: _send(control, message))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _wake() -> None:
    """Uses a processor for a moment again and again, by which the agent knows that this process moves."""
    while True:
        time.sleep(_WAKE_S)


def _reap(control: socket.socket, children: dict[int, float]) -> None:
    for pid in list(children):
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            cpu_s = children.pop(pid) + used.ru_utime + used.ru_stime
            _send(control, {"exited": pid, "status": status, "cpu_s": cpu_s})


def _read_secret() -> bytes:
    with open(os.environ["ELASTIC_SECRET_FILE"], encoding="ascii") as file:
        return bytes.fromhex(file.read().strip())


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    control.send(json.dumps(message).encode())


if __name__ == "__main__":
    main()
