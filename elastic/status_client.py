"""Asks a run's controller how the run is. Blocking, and never for longer than it is told.

Not for: what the report says (`elastic.controller.status_report`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from elastic import calling, wire
from elastic.handshake import HandshakeError

TIMEOUT_S = 1.5
"""How long a controller may take to answer before it counts as one that does not."""


class NoAnswer(Exception):
    """A controller did not answer; the text says why, as far as that can be told from here.

    Attributes:
        dead: nobody listens at its address any more.
    """

    def __init__(self, reason: str, dead: bool = False) -> None:
        super().__init__(reason)
        self.dead = dead


class StatusClient:
    """A connection to one controller, for one question or many. Use it as a context manager."""

    def __init__(self, address: str, secret: bytes, timeout_s: float = TIMEOUT_S) -> None:
        """`address` is HOST:PORT or unix:PATH. Raises `NoAnswer`."""
        self._address = address
        self._timeout_s = timeout_s
        self._first: dict[str, Any] | None
        try:
            self._channel = calling.dial(address, secret, {"role": "status"}, timeout_s, to_controller=True)
        except (OSError, EOFError, HandshakeError, ValueError) as error:
            raise self._no_answer(error) from error
        try:
            self._first = self._receive()
        except NoAnswer:
            self.close()
            raise

    def report(self) -> dict[str, Any]:
        """How the run is now. Raises `NoAnswer`."""
        first, self._first = self._first, None
        if first is not None:
            return first
        try:
            self._channel.send({})
        except OSError as error:
            raise self._no_answer(error) from error
        return self._receive()

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self) -> dict[str, Any]:
        try:
            report: dict[str, Any] = self._channel.receive()[0]
        except (OSError, EOFError, wire.FrameError) as error:
            raise self._no_answer(error) from error
        return report

    def _no_answer(self, error: Exception) -> NoAnswer:
        if isinstance(error, TimeoutError):
            why = f"it took the connection, but did not answer within {self._timeout_s:g} s{self._frozen()}"
            return NoAnswer(why)
        if isinstance(error, HandshakeError):
            return NoAnswer(f"{error}; set ELASTIC_SECRET_FILE to the file with its pool's secret")
        if isinstance(error, EOFError):
            return NoAnswer("it closed the connection: it does not know this pool's secret, or is about to end")
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            return NoAnswer(f"nobody listens at {self._address}", dead=True)
        return NoAnswer(f"it cannot be reached at {self._address}: {error}")

    def _frozen(self) -> str:
        pid = listener_pid(self._address)
        state = process_state(pid) if pid is not None else None
        if state == "T":
            return f": process {pid} is stopped (`kill -CONT {pid}` lets it go on)"
        return f": process {pid} hangs" if pid is not None else ""


def listener_pid(address: str) -> int | None:
    """The pid of the process that listens on a Unix socket (SO_PEERCRED); None if there is none."""
    if not address.startswith("unix:"):
        return None
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(TIMEOUT_S)
        sock.connect(address.removeprefix("unix:"))
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid or None
    return None


def process_state(pid: int) -> str | None:
    """R, S, D, T (stopped), Z and the like, as in /proc/PID/stat (proc(5)); None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
