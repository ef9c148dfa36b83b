"""Runs the user's script with a pool under it, and behaves towards shell and terminal as the script itself would.

Exit code: the script's; 128 + n if signal n ended it. Which signal goes where:

- Ctrl-C and Ctrl-\\ reach the script by themselves: it is in the launcher's process group, as with plain
  `python SCRIPT`, and the pool is not. The launcher only waits for what the script makes of it; a second Ctrl-C kills
  the script.
- A signal that another process sends to the launcher is passed on to the script, and so is the hang-up of a terminal,
  which the kernel may tell the launcher alone. Who signals the whole group reaches the script twice; there is no
  telling.
- The launcher dies in a way it cannot handle (kill -9): the script gets SIGTERM from the kernel, since a script whose
  pool is gone can compute nothing, and one that wants to save something can handle it. The pool leaves by itself.

When the pool is lost, one line says so and the script is left alone: its next JAX operation raises, and it may want to
handle that. Not for: starting or watching the pool's processes (`elastic.local_pool`). Linux only.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Protocol

from elastic.client_environment import LAUNCHER, SCRIPT_OF
from elastic.local_pool import LocalPool, StartInterrupted
from elastic.pool_events import HostRecovered, PoolEvent, RunWaits
from elastic.signals import SignalReader, die_with_parent

_TERMINAL_SENDS_TO_GROUP = (signal.SIGINT, signal.SIGQUIT)
_HINT_AFTER_S = 1.0
_HEEDED = (*_TERMINAL_SENDS_TO_GROUP, signal.SIGTERM, signal.SIGHUP)


class Reporter(Protocol):
    """Where the runner says what happens; never stdout, which is the script's."""

    def starting(self, pool: LocalPool) -> None: ...

    def started(self, pool: LocalPool, seconds: float) -> None: ...

    def still_running(self) -> None:
        """A second after Ctrl-C the script has not ended: it saves something, or waits for a long operation."""

    def recovered(self, event: HostRecovered) -> None: ...

    def waits(self, event: RunWaits) -> None: ...

    def lost(self, text: str) -> None: ...


def run(pool: LocalPool, arguments: Sequence[str], reporter: Reporter) -> int:
    """Starts ``pool``, runs ``python ARGUMENTS`` under it, tears everything down.

    Must be called in the main thread of a process without others.

    Returns:
        The exit code for the shell.

    Raises:
        UsageError, PoolError: the pool could not start; nothing is left of it.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Ignored, as some supervisors leave it, children have no exit code.
    with SignalReader(_HEEDED) as signals:
        began = time.monotonic()
        reporter.starting(pool)
        try:
            pool.start(signals.fileno())
        except StartInterrupted:
            return 128 + signals.read()[0].number
        try:
            reporter.started(pool, time.monotonic() - began)
            script = _start_script(pool, arguments, signals)
            return _wait(script, pool, signals, reporter)
        finally:
            pool.stop()


def _start_script(pool: LocalPool, arguments: Sequence[str], signals: SignalReader) -> subprocess.Popen[bytes]:
    launcher = os.getpid()

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals.previous_mask)
        die_with_parent(signal.SIGTERM, launcher)

    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **pool.environment, LAUNCHER: str(launcher), SCRIPT_OF: str(launcher)},
        close_fds=False,  # What the user's shell opened for the script is the script's; ours close on exec.
        preexec_fn=prepare,
    )


def _wait(script: subprocess.Popen[bytes], pool: LocalPool, signals: SignalReader, reporter: Reporter) -> int:
    """Serves signals and the pool until the script ends; returns its exit code."""
    exit_fd = os.pidfd_open(script.pid)
    interrupts = 0
    hint_at: float | None = None
    with selectors.DefaultSelector() as selector:
        for source in (exit_fd, signals, pool):
            selector.register(source, selectors.EVENT_READ, source)
        while True:
            deadlines = [deadline for deadline in (pool.deadline(), hint_at) if deadline is not None]
            timeout = min(deadlines) - time.monotonic() if deadlines else None
            ready = [key.data for key, _ in selector.select(timeout)]
            if exit_fd in ready:
                break
            for received in signals.read():
                if not received.from_terminal or received.number not in _TERMINAL_SENDS_TO_GROUP:
                    script.send_signal(received.number)
                elif received.number == signal.SIGINT:
                    interrupts += 1
                    hint_at = time.monotonic() + _HINT_AFTER_S if interrupts == 1 else None
                    if interrupts == 2:
                        script.kill()
            if hint_at is not None and hint_at <= time.monotonic():
                hint_at = None
                reporter.still_running()
            _report(pool.poll(), reporter)
    os.close(exit_fd)
    # A host that dies may take the script along within milliseconds, and the exit code alone would not tell why.
    while (event := pool.poll(closing=True)) is not None:
        _report(event, reporter)
    code = script.wait()
    return code if code >= 0 else 128 - code


def _report(event: PoolEvent | None, reporter: Reporter) -> None:
    if isinstance(event, HostRecovered):
        reporter.recovered(event)
    elif isinstance(event, RunWaits):
        reporter.waits(event)
    elif event is not None:
        reporter.lost(f"{event}; the run cannot go on, and the script's next JAX operation fails")
