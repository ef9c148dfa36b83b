"""One process of a pool as its launcher sees it: started, listened to, waited for, ended.

A child tells what it has to say as JSON lines on its stdout and writes everything else to its log. Its stdin is its
lifeline: a pipe whose write end only the launcher holds, so that a launcher that dies in any way takes its children
along. Everything here is ready-made for an event loop and never blocks. Not for: what the messages mean. Linux only
(pidfd).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_TAIL_BYTES = 16 << 10


class Lifeline:
    """A pipe that carries nothing: children hold the read end as stdin and leave at its end of file."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()

    def cut(self) -> None:
        """Tells every child on this lifeline to leave. May be called again."""
        for descriptor in (self._write_fd, self.read_fd):
            if descriptor >= 0:
                os.close(descriptor)
        self.read_fd = self._write_fd = -1


class ChildProcess:
    """A started child.

    Attributes:
        name: what users call it, such as ``host agent h2``.
        exit_fd: readable once the process ended (a pidfd).
        output_fd: readable when the child said something.
        output_ended: it will say nothing more; close ``output_fd`` with `close_output`.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, lifeline: Lifeline, log: Path, environment: Mapping[str, str]
    ) -> None:
        """Starts ``command`` in a session of its own, so that a terminal's Ctrl-C does not reach it."""
        self.name = name
        self.log = log
        self._buffer = b""
        self.output_ended = False
        with log.open("ab") as stderr:
            self._log_start = stderr.tell()  # An older run's lines in a kept log directory are not this child's.
            self._process = subprocess.Popen(
                command,
                stdin=lifeline.read_fd,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,
                preexec_fn=signal_mask_reset(),
            )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.output_fd = self._process.stdout.fileno()
        os.set_blocking(self.output_fd, False)
        self.exit_fd = os.pidfd_open(self.pid)

    def messages(self) -> list[dict[str, Any]]:
        """What the child said since the last call; does not wait. Lines that are no JSON object are skipped."""
        while not self.output_ended:
            try:
                data = os.read(self.output_fd, 1 << 16)
            except BlockingIOError:
                break
            self._buffer += data
            self.output_ended = not data
        *lines, self._buffer = self._buffer.split(b"\n")
        found = []
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                found.append(message)
        return found

    def exit_words(self) -> str:
        """How the process ended, in words. Call once ``exit_fd`` is readable; leaves it to be reaped by `close`."""
        try:
            result = os.waitid(os.P_PIDFD, self.exit_fd, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # Someone else in this process reaps all children.
            result = None
        if result is None:
            return "ended"
        if result.si_code == os.CLD_EXITED:
            return f"ended with exit code {result.si_status}"
        return f"was killed by {signal_name(result.si_status)}"

    def last_words(self) -> str:
        """The last line of its log in parentheses, to follow `exit_words`; empty if there is none."""
        return "".join(f" ({line.strip()})" for line in self._last_lines(1))

    def log_tail(self) -> str:
        """The last lines it wrote to its log, indented for an error message; empty if there are none."""
        last = self._last_lines(15)
        return "".join(["\nThe last lines of its log:", *(f"\n  {line}" for line in last)]) if last else ""

    def _last_lines(self, count: int) -> list[str]:
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._log_start, size - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return []
        return [line for line in text.splitlines() if line.strip()][-count:]

    def kill_session(self) -> None:
        """Kills the process and everything it started that stayed in its session, ended or not."""
        if self._process.returncode is None:  # Until it is reaped, the group's id cannot be anyone else's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Reaps the process and closes what it holds here. Call once ``exit_fd`` is readable or it was killed."""
        self._process.wait()
        self.close_output()
        if self.exit_fd >= 0:
            os.close(self.exit_fd)
            self.exit_fd = -1

    def close_output(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_mask_reset() -> Callable[[], None] | None:
    """A ``preexec_fn`` that gives the child an empty signal mask, or None if nothing is blocked here anyway.

    A mask outlives exec, and a child that inherits the launcher's could never be interrupted. The launcher that blocks
    signals has one thread, so running Python between fork and exec is safe there.
    """
    if not signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        return None

    def reset() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return reset
