"""How much of a processor an agent has used for snapshots' copies: what they cost the run that shares its machine."""

from __future__ import annotations

import threading
import time


class WorkMeter:
    """Counts the processor time of the whole process while anybody works: `with meter: ...`, in any thread.

    The whole process, since much of what a copy takes is spent by the event loop that reads it from a socket. What else
    an agent does is little.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._since = 0.0
        self._seconds = 0.0

    def __enter__(self) -> WorkMeter:
        with self._lock:
            if not self._working:
                self._since = time.process_time()
            self._working += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._working -= 1
            if not self._working:
                self._seconds += time.process_time() - self._since

    def take(self) -> float:
        """The seconds of all work that has ended since this was asked last."""
        with self._lock:
            seconds, self._seconds = self._seconds, 0.0
        return seconds
