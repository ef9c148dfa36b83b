"""How late the kernel may wake threads that sleep, so that they wake less often.

A thread's slack is 50 microseconds unless it says otherwise, and threads that it makes get its own (prctl(2),
PR_SET_TIMERSLACK). It matters for time that runs out, not for what somebody else wakes a thread for. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator

_SET, _GET = 29, 30


def slack_s() -> float:
    """The calling thread's, in seconds."""
    return float(_prctl(_GET, 0)) / 1e9


@contextlib.contextmanager
def threads_that_may_wake_late(seconds: float) -> Iterator[None]:
    """Threads that are made within have that much slack, and so have theirs. Does nothing but on Linux."""
    if not sys.platform.startswith("linux"):
        yield
        return
    before = _prctl(_GET, 0)
    _prctl(_SET, round(seconds * 1e9))
    try:
        yield
    finally:
        _prctl(_SET, before)


def _prctl(option: int, value: int) -> int:
    return int(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0))
