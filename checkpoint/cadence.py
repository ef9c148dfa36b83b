"""How often to take a snapshot: so often that little has to be replayed, so seldom that it costs little.

While nothing fails, snapshots are taken as often as their share of the run's time allows, which makes recoveries as
short as they can be for that price. Where hosts fail so often that this loses more than it saves, the interval is that
of J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974, in the higher order
of J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006. What
they call lost work is replayed from a journal here. Pure: the caller measures, and takes the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

BUDGET = 0.03
"""The part of the run's time that snapshots may take, unless something else is said."""

STORE_EVERY_S = 60.0
"""Seconds between two snapshots that are stored on disk, unless something else is said."""

PRIOR_S = 600.0
"""The time between failures that is assumed before any was seen."""


@dataclass(frozen=True)
class Work:
    """Seconds of a processor that a snapshot took of a host, and the machine whose cores it shares."""

    machine: str
    cores: int
    seconds: float


def cost(works: Iterable[Work]) -> float:
    """How long a snapshot holds a run up, in seconds: on the machine where it takes longest.

    There the work of all hosts is spread over the cores, of which a run in full swing leaves none idle; but that of one
    host does not get shorter by having several.
    """
    machines: dict[str, list[Work]] = {}
    for work in works:
        machines.setdefault(work.machine, []).append(work)
    return max(
        (
            max(max(work.seconds for work in shared), sum(work.seconds for work in shared) / shared[0].cores)
            for shared in machines.values()
        ),
        default=0.0,
    )


def interval(cost: float, budget: float, observed: float, failures: int) -> float:
    """Seconds from one snapshot to the next.

    For what one costs in seconds, the part of the time that they may take while nothing fails, and how many failures
    there were in how many seconds. More is spent where that is what loses least.
    """
    return min(cost / budget, optimum(cost, between_failures(observed, failures)))


def between_failures(observed: float, failures: int) -> float:
    """Mean time between failures in seconds: of those that were seen, and one more after `PRIOR_S`.

    This is the inverse of the mean rate under a Gamma(1, prior) belief about the rate of a Poisson process.
    """
    return (PRIOR_S + observed) / (1 + failures)


def optimum(cost: float, between: float) -> float:
    """Daly's interval in seconds (equation 37), for a snapshot's cost and the mean time between failures.

    For a cost far below the time between failures it is Young's sqrt(2 * cost * between).
    """
    if cost >= 2 * between:
        return between
    part = cost / (2 * between)
    return math.sqrt(2 * cost * between) * (1 + math.sqrt(part) / 3 + part / 9) - cost
