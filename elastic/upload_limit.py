"""Holds back a program that uploads faster than the hosts take it.

jaxlib's proxy client accepts every upload at once and writes it into shared memory, without end. So every 64 MiB a
marker, one number, is uploaded behind them to the same devices: when it has arrived, so has everything before it, since
each host takes what it is sent in order. Beyond a limit the uploading thread waits for the oldest marker.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_STRIDE = 64 << 20
"""Bytes between two markers."""

_MOST = 512 << 20
"""Bytes that may be under way at most."""


class UploadLimit:
    """Counts the bytes of one client's uploads; waits where there are too many under way."""

    def __init__(self, limit: int = _MOST, stride: int = _STRIDE) -> None:
        """`limit`: how many bytes may be under way; `stride`: how many there are between two markers."""
        self._limit = limit
        self._stride = min(stride, max(limit // 4, 1))
        self._unmarked = 0
        self._marked: deque[tuple[Any, int]] = deque()
        self._under_way = 0
        self._lock = threading.Lock()

    def uploaded(self, nbytes: int, mark: Callable[[], Any]) -> None:
        """To be called behind each upload. `mark()` uploads a marker, which has a `block_until_ready`."""
        if not nbytes:
            return
        with self._lock:
            self._unmarked += nbytes
            if self._unmarked < self._stride:
                return
            size, self._unmarked = self._unmarked, 0
        marker = mark()
        with self._lock:
            self._marked.append((marker, size))
            self._under_way += size
            waits = []
            while self._under_way > self._limit and self._marked:
                oldest, size = self._marked.popleft()
                self._under_way -= size
                waits.append(oldest)
        for oldest in waits:
            oldest.block_until_ready()


def limit_of(directory: str | None) -> int:
    """A quarter of the shared memory that is free where uploads go, but no more than half a GiB. Bytes."""
    if not directory or not os.path.isdir(directory):
        return _MOST
    space = os.statvfs(directory)
    return min(_MOST, space.f_bavail * space.f_frsize // 4)
