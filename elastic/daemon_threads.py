"""A pool of threads that works until the process is gone. Not for: results; the work itself tells who waits for it.

`concurrent.futures.ThreadPoolExecutor` takes no more work once the main thread has ended. JAX waits for callbacks after
that, in functions that `atexit` calls, so a script may end while its programs still have callbacks to make.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class DaemonThreads:
    """Up to ``limit`` threads, started when work comes and none is idle; they keep no process from ending."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = SimpleQueue()

    def submit(self, work: Callable[..., object], *arguments: Any) -> None:
        """Calls ``work(*arguments)`` in one of the threads; it must not raise. Only one thread may submit."""
        self._work.put((work, arguments))
        if not self._idle.acquire(blocking=False) and self._started < self._limit:
            threading.Thread(target=self._serve, name=f"{self._name}-{self._started}", daemon=True).start()
            self._started += 1

    def _serve(self) -> None:
        while True:
            work, arguments = self._work.get()
            work(*arguments)
            del work, arguments  # Else the arguments of the last call would live until the next.
            self._idle.release()
