"""Which executors of this host move: those that say so, and those that use a processor.

A thread of each executor says so ten times a second. It cannot while other code holds Python's lock, as XLA does at
times for longer than that, but then the process uses a processor, and the kernel counts that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

BEAT_S = 0.1
"""Seconds between two heartbeats."""


class Beats:
    """What was heard of executors since the last look."""

    def __init__(self) -> None:
        self._heard: set[int] = set()
        self._ticks: dict[int, int | None] = {}

    def update(self, pid: int) -> None:
        """An executor said that it moves."""
        self._heard.add(pid)

    def moved(self, pids: Iterable[int]) -> list[int]:
        """Those of the executors that moved since the last look."""
        ticks = {pid: processor_ticks(pid) for pid in pids}
        busy = {pid for pid, count in ticks.items() if count is not None and count != self._ticks.get(pid, count)}
        moved = [pid for pid in ticks if pid in self._heard or pid in busy]
        self._heard.clear()
        self._ticks = ticks
        return moved


def processor_ticks(pid: int) -> int | None:
    """How long a process has used processors, in clock ticks; None if it is gone.

    These are fields 14 and 15 of /proc/PID/stat (proc(5)).
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return None
