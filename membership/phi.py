"""The rhythm of one host's heartbeats, and how suspicious a silence is by it: the phi-accrual failure detector.

From Hayashibara, Défago, Yared and Katayama, "The phi accrual failure detector", SRDS 2004: the gaps between the last
heartbeats give a mean and a deviation, and phi(silence) = -log10 of the probability that a host with this rhythm is
silent for so long. A host is suspect from phi = `threshold` on. Three additions are common practice (Akka, Cassandra):
a pause that is always forgiven, a least deviation, and no learning from a silence that was suspected. One is ours: a
bound on the silence, so that a loaded pool notices a frozen host as surely as a quiet one.

No clock and no I/O: the caller says what time it is. What follows from a suspicion is decided in `host_state`.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

_MICRO = 1_000_000


@dataclass(frozen=True)
class Sensitivity:
    """How soon a silence is suspicious. Times in seconds.

    With the defaults a quiet host is suspect after 0.67 s, a host on a loaded machine after 0.7 s at the latest: more
    than a gap of 0.6 s, which is a heartbeat that was due and then waited 0.5 s for a busy core.

    Raises `ValueError` if the values contradict each other.
    """

    interval: float = 0.1
    """How often a host sends a heartbeat. The mean gap is never taken to be shorter."""
    pause: float = 0.35
    """Silence beyond the mean gap that is forgiven before probabilities count: a stall of the scheduler."""
    least_deviation: float = 0.04
    """A host that was regular by chance must not become suspect by the first jitter."""
    threshold: float = 8.0
    """phi from which on a host is suspect: one wrong suspicion in 10^8 gaps, if gaps were normally distributed."""
    longest: float = 0.7
    """No silence longer than this goes unsuspected, however irregular the host was before."""
    window: int = 100
    """The number of last gaps that make up the rhythm."""
    enough: int = 10
    """With fewer gaps than this nothing is known yet, and the longest silence is allowed."""

    def __post_init__(self) -> None:
        if min(self.interval, self.least_deviation, self.threshold) <= 0 or self.pause < 0:
            raise ValueError(f"interval, least_deviation and threshold must be positive, pause not negative: {self}")
        if not 1 <= self.enough <= self.window:
            raise ValueError(f"enough must lie between 1 and window, {self.window}; it is {self.enough}")
        if self.longest < self.shortest:
            raise ValueError(
                f"longest ({self.longest} s) is below the silence of a regular host ({self.shortest:.3f} s): "
                "raise longest, or lower pause or threshold"
            )

    @cached_property
    def quantile(self) -> float:
        """The threshold in standard deviations."""
        # By the lower tail: 1 - 10^-threshold would round to 1 from 16 on.
        return -NormalDist().inv_cdf(10**-self.threshold)

    @property
    def shortest(self) -> float:
        """The silence after which a perfectly regular host is suspect."""
        return self.interval + self.pause + self.quantile * self.least_deviation


class Rhythm:
    """The last gaps between the heartbeats of one host. Every call is O(1); times are monotonic seconds."""

    __slots__ = ("_count", "_gaps", "_next", "_sensitivity", "_squares", "_sum", "allowed", "heard")

    def __init__(self, sensitivity: Sensitivity, now: float) -> None:
        self._sensitivity = sensitivity
        # Sums of whole microseconds are exact, so that nothing drifts however long the host lives.
        self._gaps = array("Q", bytes(8 * sensitivity.window))
        self._count = self._next = self._sum = self._squares = 0
        self.heard = now
        """When the host was heard last."""
        self.allowed = sensitivity.longest
        """The silence, in seconds, from which on the host is suspect."""

    @property
    def deadline(self) -> float:
        """When the host becomes suspect if it is not heard before."""
        return self.heard + self.allowed

    def beat(self, now: float) -> None:
        """The host was heard."""
        silence = now - self.heard
        if silence < 0:
            return
        self.heard = now
        if silence >= self.allowed:
            return
        gap = round(silence * _MICRO)
        gaps, at = self._gaps, self._next
        old = gaps[at]
        gaps[at] = gap
        self._sum += gap - old
        self._squares += gap * gap - old * old
        self._next = at + 1 if at + 1 < len(gaps) else 0
        if self._count < len(gaps):
            self._count += 1
        sensitivity = self._sensitivity
        if self._count >= sensitivity.enough:
            mean, deviation = self.measured()
            self.allowed = min(sensitivity.longest, mean + sensitivity.pause + sensitivity.quantile * deviation)

    def measured(self) -> tuple[float, float]:
        """(mean, standard deviation) of the gaps in seconds, neither below its least value."""
        sensitivity, count = self._sensitivity, self._count
        if not count:
            return sensitivity.interval, sensitivity.least_deviation
        mean = self._sum / (count * _MICRO)
        deviation = math.sqrt(count * self._squares - self._sum**2) / (count * _MICRO)
        return max(mean, sensitivity.interval), max(deviation, sensitivity.least_deviation)

    def phi(self, now: float) -> float:
        """How suspicious the present silence is: -log10 of the probability of one as long. Finite, never negative."""
        mean, deviation = self.measured()
        return surprise((now - self.heard - self._sensitivity.pause - mean) / deviation)


def surprise(deviations: float) -> float:
    """-log10 of the probability that a normal variable exceeds its mean by so many standard deviations or more."""
    if deviations < 30:
        return max(0.0, -math.log10(math.erfc(deviations / math.sqrt(2)) / 2))
    # The tail would underflow to 0; its asymptotic series is exact to 1e-6 here (Abramowitz and Stegun 7.1.23).
    squared = deviations * deviations
    tail = (1 - 1 / squared) / (deviations * math.sqrt(2 * math.pi))
    return squared / 2 / math.log(10) - math.log10(tail)
