"""Waiting for processes in tests: for events, never for time."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable
from pathlib import Path


def wait_gone(pids: Iterable[int], timeout_s: float = 20.0) -> None:
    """Returns once none of the processes runs any more, zombies included."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], timeout_s)[0], f"process {pid} is still there: {command(pid)}"
        finally:
            os.close(descriptor)


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Returns once something is so that nobody tells of, such as a file that is there."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.02)


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
