"""When to take a snapshot: often enough that little has to be replayed, seldom enough that it costs little.

The interval between snapshots follows J. W. Young, "A first order approximation to the optimum checkpoint interval",
CACM 17(9), 1974, in the higher order of J. T. Daly, "A higher order estimate of the optimum checkpoint interval for
restart dumps", FGCS 22(3), 2006. What they call lost work is replayed from a journal here, which may be faster or
slower than the first time; that changes what an interval is worth, not the argument. Pure: the caller measures, and
takes the snapshot at the next good boundary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Cadence:
    """The rule. Times in seconds. Raises `ValueError` for values that make no sense."""

    budget: float = 0.02
    """The part of the run's time that snapshots may take."""
    longest_replay: float = 10.0
    """A recovery is to replay no more than this, if the budget allows it."""
    journal_operations: int = 200_000
    """At this many operations in the journal a snapshot is due, whatever it costs."""
    journal_bytes: int = 256 << 20
    """The same for its size in memory."""
    prior: float = 600.0
    """The time between failures that is assumed before any was seen. Too short costs no more than the budget, too long
    costs replay; so it is short."""

    def __post_init__(self) -> None:
        if not 0 < self.budget < 1:
            raise ValueError(f"budget is a part of the time, between 0 and 1; it is {self.budget}")
        if min(self.longest_replay, self.journal_operations, self.journal_bytes, self.prior) <= 0:
            raise ValueError(f"the limits of a cadence must be positive: {self}")


@dataclass(frozen=True)
class Measured:
    """What is known of the run so far. Times in seconds."""

    cost: float | None
    """How long a snapshot holds the run up; None before the first one."""
    replay: float
    """Seconds that it takes to replay one second of the run."""
    observed: float
    """How long the pool was watched for failures, and how many of them made the run recover."""
    failures: int
    since: float
    """Time since the last snapshot, and the journal since then."""
    operations: int
    bytes: int


@dataclass(frozen=True)
class Decision:
    """Whether a snapshot is due, and the interval in seconds at which it would be."""

    due: bool
    interval: float
    reason: str


def decide(measured: Measured, rule: Cadence | None = None) -> Decision:
    """Whether a snapshot is due. First come the journal's limits, then budget, replay and optimum."""
    rule = rule or Cadence()
    interval, why = _interval(measured, rule)
    if measured.operations >= rule.journal_operations:
        return Decision(True, interval, f"due: the journal holds {measured.operations} operations, its limit")
    if measured.bytes >= rule.journal_bytes:
        return Decision(True, interval, f"due: the journal holds {measured.bytes / 2**20:.0f} MiB, its limit")
    if measured.operations == 0:
        return Decision(False, interval, "not due: nothing has happened since the last snapshot")
    if measured.since >= interval:
        return Decision(True, interval, f"due: {_span(measured.since)} since the last, {why}")
    return Decision(False, interval, f"due in {_span(interval - measured.since)}: {why}")


def between_failures(measured: Measured, rule: Cadence) -> float:
    """Mean time between failures in seconds: of those that were seen, and one more after `prior`.

    This is the inverse of the mean rate under a Gamma(1, prior) belief about the rate of a Poisson process.
    """
    return (rule.prior + measured.observed) / (1 + measured.failures)


def optimum(cost: float, between: float) -> float:
    """Daly's interval in seconds (equation 37), for a snapshot's cost and the mean time between failures.

    For a cost far below the time between failures it is Young's sqrt(2 * cost * between).
    """
    if cost >= 2 * between:
        return between
    part = cost / (2 * between)
    return math.sqrt(2 * cost * between) * (1 + math.sqrt(part) / 3 + part / 9) - cost


def _interval(measured: Measured, rule: Cadence) -> tuple[float, str]:
    """(the interval, why it is that)"""
    if measured.cost is None:
        return 0.0, "what a snapshot costs is not known yet"
    between = between_failures(measured, rule)
    # To lose a second costs `replay` seconds: as if failures came so much more often.
    interval = optimum(measured.cost, between / measured.replay)
    why = (
        f"best every {_span(interval)} (a snapshot costs {_span(measured.cost)}, a failure comes every "
        f"{_span(between)}, a second replays in {_span(measured.replay)})"
    )
    if interval * measured.replay > rule.longest_replay:
        interval = rule.longest_replay / measured.replay
        why = f"every {_span(interval)}, so that replay takes at most {_span(rule.longest_replay)}"
    affordable = measured.cost * (1 / rule.budget - 1)
    if interval < affordable:
        interval = affordable
        why = f"every {_span(interval)}, so that snapshots of {_span(measured.cost)} take {rule.budget:.1%} of the time"
    return interval, why


def _span(seconds: float) -> str:
    """A time in words, with two digits that count."""
    if seconds < 1:
        return f"{seconds * 1000:.2g} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
