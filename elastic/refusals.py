"""Connections that were refused: counted by reason, and logged now and then. No socket, no clock.

Counts grow for as long as the process lives. Nothing here holds a secret or what a stranger sent.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Mapping

QUIET_S = 10.0
"""After a line on refusals of one reason, so many seconds pass until the next one: a flood must not fill a disk."""


class Reason(enum.StrEnum):
    """Why a connection was refused."""

    GARBAGE = "garbage"
    """It is not our protocol, or was not any more once the other side had proven itself."""
    FOREIGN_POOL = "foreign_pool"
    """It is of another pool: it says so itself, or has another secret."""
    WRONG_SECRET = "wrong_secret"
    """It says that it is of this pool, and did not prove it."""
    OLD_GENERATION = "old_generation"
    """It has the secret, and is of a world that is gone, or of one that comes when another one is there."""
    TLS = "tls"
    """It speaks TLS where there is none, or the other way round, or its certificate is not good here."""
    SILENT = "silent"
    """It had not proven anything when its time was up, or others needed its place, or when it left."""


class Refusals:
    """The account of one process. Any thread may add to it."""

    def __init__(self, log: Callable[[str], None], clock: Callable[[], float]) -> None:
        """`log(line)` gets what people should read, `clock()` gives seconds that only grow."""
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._unsaid: dict[str, int] = {}
        self._quiet_until: dict[str, float] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Reason -> how many; only what has happened."""
        with self._lock:
            return dict(self._counts)

    def add(self, reason: str, words: str, count: int = 1) -> None:
        """Counts `count` connections, and logs the words unless something like it was logged a moment ago."""
        now = self._clock()
        with self._lock:
            self._counts[reason] = self._counts.get(reason, 0) + count
            unsaid = self._unsaid.get(reason, 0) + count
            quiet = now < self._quiet_until.get(reason, now)
            self._unsaid[reason] = unsaid if quiet else 0
            if not quiet:
                self._quiet_until[reason] = now + QUIET_S
        if not quiet:
            others = f" ({unsaid - 1} more of this kind since the last line)" if unsaid > 1 else ""
            self._log(f"refused a connection ({reason}): {words}{others}")


def told(counts: Mapping[str, int]) -> str:
    """Counts in words: "12 garbage, 3 wrong secret"; the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in ordered if count)
