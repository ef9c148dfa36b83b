"""Who is who among the processes of a run, by what its history has told. Signals go to nobody else."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos import Event
from elastic.chaos_run.belongings import Belongings
from elastic.client_environment import SCRIPT_OF


class Who:
    """The processes of a run by what they are.

    `events` grows while the run goes on; `launcher` is the pid of its `elastic run`.
    """

    def __init__(self, belongings: Belongings, events: Sequence[Event], launcher: int) -> None:
        self._belongings = belongings
        self._events = events
        self._launcher = launcher

    def agent(self, host: str) -> int | None:
        """The pid of a host's agent, if the host takes part."""
        last = self._last(lambda event: event.kind in ("joined", "gone", "left") and event.host == host)
        return self._mine(last["pid"]) if last is not None and last.kind == "joined" else None

    def executor(self, host: str) -> int | None:
        """The pid of a host's executor, if the host is in the world."""
        world = self._last(lambda event: event.kind == "generation")
        return self._mine(world["executors"].get(host)) if world is not None else None

    def controller(self) -> int | None:
        told = self._last(lambda event: event.kind == "controller")
        return self._mine(told["pid"]) if told is not None else None

    def client(self) -> int | None:
        """The pid of the script."""
        mark = f"{SCRIPT_OF}={self._launcher}".encode()
        for pid in self._belongings.processes():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes() and _parent(pid) == self._launcher:
                    return pid
        return None

    def signal(self, pids: Sequence[int | None], number: signal.Signals) -> None:
        """Sends a signal to those of the processes that are there."""
        for pid in pids:
            if pid is not None and self._belongings.owns(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _last(self, wanted: Callable[[Event], bool]) -> Event | None:
        return next((event for event in reversed(self._events) if wanted(event)), None)

    def _mine(self, pid: int | None) -> int | None:
        return pid if pid is not None and self._belongings.owns(pid) else None


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
