"""A thread that watches a pool, for launchers without an event loop of their own."""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from elastic.pool_events import PoolEvent

if TYPE_CHECKING:
    from elastic.local_pool import LocalPool


class PoolWatcher(threading.Thread):
    """Polls a pool whenever it has something to say, and passes every event to `report`, until it is stopped."""

    def __init__(self, pool: LocalPool, report: Callable[[PoolEvent], None]) -> None:
        super().__init__(name="elastic-pool-watch", daemon=True)
        self._pool = pool
        self._report = report
        self._wake_read, self._wake_write = os.pipe()

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pool, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while True:
                deadline = self._pool.deadline()
                timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
                if any(key.fd == self._wake_read for key, _ in selector.select(timeout)):
                    return
                event = self._pool.poll()
                if event is not None:
                    self._report(event)

    def stop(self) -> None:
        os.write(self._wake_write, b"x")
        self.join()
        os.close(self._wake_read)
        os.close(self._wake_write)
