"""The agent's end of the executor template: asks for forks, kills and health checks, hears of standbys and exits.

If the template itself dies, its executors have died with it, and a new one is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from elastic.agent.beats import processor_ns
from elastic.executor.refusals import DESCRIPTOR

_TAIL_BYTES = 8 << 10
_TAIL_LINES = 12


@dataclass(frozen=True)
class Exit:
    """How an executor ended, in words, and whether for a reason of its own."""

    reason: str
    by_itself: bool = False


class CheckListener(Protocol):
    """Who hears of a health check of the devices."""

    def checked(self, device: int, problem: str) -> None:
        """What was found out about a device; nothing is wrong with it if there is no problem."""

    def ended(self, exit: Exit, cpu_s: float) -> None:
        """The check is over, and had used a processor for so many seconds."""


class Template:
    """A running template process and the pids forked from it."""

    def __init__(
        self,
        host: str,
        log: Path,
        environment: dict[str, str],
        *,
        on_standby: Callable[[int, str], None],
        on_exit: Callable[[int, Exit], None],
        on_refused: Callable[[int, str, int, str], None] = lambda *_: None,
    ) -> None:
        """Starts the template and asks for a first standby.

        `on_standby(pid, address)` is called for each executor that stands by, `on_exit(pid, exit)` for each that ended,
        and `on_refused(pid, reason, count, words)` when one has refused connections.
        """
        self.imported = False
        """Whether it has come so far that it can fork."""
        self._listener: CheckListener | None = None
        """To the check that goes on."""
        self._check = 0
        """The pid of its process."""
        self._host = host
        self._log = log
        self._environment = environment
        self._on_standby = on_standby
        self._on_exit = on_exit
        self._on_refused = on_refused
        self._children: set[int] = set()
        self._closing = False
        self._failures_in_a_row = 0
        self._start()

    def fork(self) -> None:
        """Asks for one more standby."""
        self._send({"fork": True})

    def kill(self, pid: int) -> None:
        """Kills an executor, if it lives; `on_exit` follows."""
        self._send({"kill": pid})

    def check(self, devices: int, listener: CheckListener) -> None:
        """Has so many devices of the host checked; one check at a time, which the listener is told of."""
        self._listener = listener
        self._send({"check": devices})

    def end_check(self) -> None:
        """Kills the check's process, if it lives; the listener will hear that."""
        if self._check:
            self.kill(self._check)

    def check_used_ns(self) -> int:
        """For how long the check that goes on has used a processor; 0 if there is none."""
        return (processor_ns(self._check) or 0) if self._check else 0

    def close(self) -> None:
        """Kills the template and, by the kernel, all its executors."""
        self._closing = True
        if self._socket.fileno() >= 0:  # Not if the template could not be started again.
            self._let_go()
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        """The last lines that executors wrote to their log, or nothing."""
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            file.seek(max(self._log_start, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
            return "\n".join(lines[-_TAIL_LINES:])
        return ""

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._refusals, executors = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with self._log.open("ab") as log, theirs, executors:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "elastic.executor.template",
                    *(str(theirs.fileno()), self._host, str(os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # Gloo's chatter; a program's own prints happen in the client.
                stderr=log,
                env={**self._environment, DESCRIPTOR: str(executors.fileno())},
                pass_fds=[theirs.fileno(), executors.fileno()],
            )
        ours.setblocking(False)
        self._refusals.setblocking(False)
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._hear)
        asyncio.get_running_loop().add_reader(self._refusals.fileno(), self._hear_refusal)
        self.fork()

    def _hear(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._died()
            return
        message: dict[str, Any] = json.loads(data)
        if "imported" in message:
            self.imported = True
        elif "checking" in message:
            self._check = message["checking"]
            if not self._check:
                self._check_ended(Exit(f"could not be started: {message['failed']}"), 0.0)
        elif "checked" in message:
            if self._listener is not None:
                self._listener.checked(message["checked"], message["problem"])
        elif "exited" in message and message["exited"] == self._check:
            self._check_ended(_exit_of(message["status"]), message["cpu_s"])
        elif "ready" in message:
            self._failures_in_a_row = 0
            self._children.add(message["ready"])
            self._on_standby(message["ready"], message["address"])
        elif "exited" in message:
            self._children.discard(message["exited"])
            self._on_exit(message["exited"], _exit_of(message["status"]))

    def _check_ended(self, exit: Exit, cpu_s: float) -> None:
        listener, self._listener, self._check = self._listener, None, 0
        if listener is not None:
            listener.ended(exit, cpu_s)

    def _hear_refusal(self) -> None:
        try:
            data = self._refusals.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_refused(*json.loads(data))
        else:  # All who could tell are gone.
            asyncio.get_running_loop().remove_reader(self._refusals.fileno())

    def _let_go(self) -> None:
        for sock in (self._socket, self._refusals):
            asyncio.get_running_loop().remove_reader(sock.fileno())
            sock.close()

    def _died(self) -> None:
        self._let_go()
        reason = describe_exit(_wait_status(self._process.wait()))
        self.imported = False
        self._check_ended(Exit(f"died with its template, which {reason}"), 0.0)
        children, self._children = self._children, set()
        for pid in children:
            self._on_exit(pid, Exit(f"it died with its template, which {reason}"))
        if self._closing:
            return
        self._failures_in_a_row += 1
        if self._failures_in_a_row > 1:
            self._on_exit(0, Exit(f"executors cannot start here: their template {reason}"))
            return
        self._start()

    def _send(self, message: dict[str, Any]) -> None:
        # A template that is gone is noticed by its socket's end, not here.
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps(message).encode())


def _exit_of(status: int) -> Exit:
    return Exit(describe_exit(status), ended_by_itself(status))


def describe_exit(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        known = number in signal.Signals._value2member_map_
        return f"was killed by {signal.Signals(number).name if known else f'signal {number}'}"
    return f"exited with status {os.WEXITSTATUS(status)}"


def ended_by_itself(status: int) -> bool:
    """Whether a process with this wait status ended for a reason of its own: an error, an abort, a bad access."""
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    return os.WEXITSTATUS(status) != 0


def _wait_status(returncode: int) -> int:
    return -returncode if returncode < 0 else returncode << 8
