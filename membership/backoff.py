"""How long a host that failed is left alone before it is used again.

Each failure doubles the time, up to a cap; each half-life of good conduct takes one doubling's worth off again by
halving what the host has on its account. So a machine that was rebooted once is back in seconds, and one that fails
every minute does not drag the run through a recovery every minute. A pure value: the caller says what time it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class BackOff:
    """The rule. Times in seconds. Raises `ValueError` for values that make no sense."""

    first: float = 2.0
    """The wait after a first failure; the second costs twice as much, and so on."""
    cap: float = 300.0
    half_life: float = 120.0
    """Healthy time that halves the account."""
    memory: float = 600.0
    """The span over which the words count failures."""

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.cap or self.half_life <= 0 or self.memory <= 0:
            raise ValueError(f"a back-off needs 0 < first <= cap, and half_life and memory above 0: {self}")


@dataclass(frozen=True, slots=True)
class Conduct:
    """One host's conduct, over all its incarnations."""

    account: float = 0.0
    """Failures, weighted and partly forgotten, at the last failure."""
    healthy: float = 0.0
    """Healthy seconds since then, up to `healthy_since`."""
    healthy_since: float | None = None
    """Set while the host is healthy."""
    until: float = -math.inf
    """Not to be used before."""
    failures: tuple[float, ...] = ()
    """When the last ones were, oldest first; at most 32."""

    def well(self, now: float) -> Conduct:
        """The host is healthy from now on."""
        return self if self.healthy_since is not None else replace(self, healthy_since=now)

    def unwell(self, now: float) -> Conduct:
        """The host is not healthy any more, which need not be its fault."""
        return replace(self, healthy=self._healthy_time(now), healthy_since=None)

    def failed(self, rule: BackOff, now: float, weight: float = 1.0) -> Conduct:
        """The host failed; a weight above 1 says that the failure is worth so many."""
        account = self.owed(rule, now) + weight
        # Compared as exponents, since 2^account overflows for a host that fails for ever.
        wait = rule.first * math.exp2(min(account - 1, math.log2(rule.cap / rule.first)))
        return Conduct(account, until=now + wait, failures=(*self.failures[-31:], now))

    def owed(self, rule: BackOff, now: float) -> float:
        """The account after the good conduct up to now."""
        return self.account * math.exp2(-self._healthy_time(now) / rule.half_life)

    def words(self, rule: BackOff, now: float) -> str:
        """Such as "failed 3 times in 10 min, next use in 8 s"."""
        recent = sum(now - at <= rule.memory for at in self.failures)
        times = "once" if recent == 1 else f"{recent} times"
        wait = max(0.0, self.until - now)
        use = f"next use in {wait:.0f} s" if wait else "may be used"
        return f"failed {times} in {rule.memory / 60:.0f} min, {use}"

    def _healthy_time(self, now: float) -> float:
        return self.healthy + (max(0.0, now - self.healthy_since) if self.healthy_since is not None else 0.0)
