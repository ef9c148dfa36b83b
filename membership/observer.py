"""The observer's own attention: time in which it did not run proves nothing about anybody else.

Whoever waits for heartbeats may itself be stopped, swapped out or busy. When it runs again the heartbeats that came
meanwhile lie unread, and every host looks silent. So silences are measured in observed time, which moves at most by
`allowance` from one look to the next. An observer that is slow all the time still notices a death, only later.
"""

from __future__ import annotations


class ObservedTime:
    """Monotonic time less the time in which the observer did not look. Seconds."""

    def __init__(self, allowance: float) -> None:
        self._allowance = allowance
        self._looked: float | None = None
        self.missed = 0.0
        """How much of the real time was not observed, all in all."""

    def look(self, now: float) -> float:
        """The observer runs at `now`; returns the observed time. To be called whenever it does anything."""
        looked = self._looked
        if looked is not None:
            gap = now - looked
            if gap < 0:
                # Times are taken before the work they stand for, so a slightly older one is no error.
                return looked - self.missed
            if gap > self._allowance:
                self.missed += gap - self._allowance
        self._looked = now
        return now - self.missed

    def real(self, observed: float) -> float:
        """When an observed time will have come, if the observer misses nothing more."""
        return observed + self.missed
