"""When a process of a pool that ended is started again. Pure: times are monotonic seconds that the caller gives."""

from __future__ import annotations

from dataclasses import dataclass

# A host whose agent ended is back after this time, as a machine that was started again; twice as long each time, until
# one has lived for so many times as long.
_RESTART_S = 0.5
_LONGEST_RESTART_S = 60.0
_LIVED_LONG = 10


@dataclass
class Restart:
    """When a process is started again: later each time, unless the one before lived for long. In seconds."""

    at: float | None = None
    pause: float = 0.0
    since: float = 0.0
    """When the one that lives was started."""

    def again(self, now: float) -> None:
        """It ended."""
        short = now - self.since < _LIVED_LONG * self.pause
        self.pause = min(2 * self.pause, _LONGEST_RESTART_S) if short else _RESTART_S
        self.at = now + self.pause

    def started(self, now: float) -> None:
        """There is another."""
        self.at, self.since = None, now
