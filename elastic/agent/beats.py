"""Which executors of this host move: those that use a processor, if only for the blink of an eye.

A thread of each executor wakes often enough (`executor.template`) for a process that is not stopped to use some between
two looks. The kernel counts that in nanoseconds, so nobody has to send anything.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

BEAT_S = 0.1
"""Seconds between two heartbeats."""


class Beats:
    """What executors had used at the last look."""

    def __init__(self) -> None:
        self._used: dict[int, int | None] = {}

    def moved(self, pids: Iterable[int]) -> list[int]:
        """Those of the executors that moved since the last look, if they were looked at then."""
        used = {pid: processor_ns(pid) for pid in pids}
        moved = [pid for pid, now in used.items() if now is not None and now != self._used.get(pid, now)]
        self._used = used
        return moved


def processor_ns(pid: int) -> int | None:
    """For how long a process has used processors; None if it is gone.

    The number of a process's clock is made as clock_getcpuclockid(3) makes it on Linux.
    """
    with contextlib.suppress(OSError):
        return time.clock_gettime_ns(~pid << 3 | 2)
    return None
