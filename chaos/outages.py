"""MTTR by fault: how long after a fault it was noticed, the run went on, and the script got something new."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.causes import reactions
from chaos.history import History


@dataclass(frozen=True)
class Outage:
    """What a fault cost; seconds since it was done, None for what did not come.

    Attributes:
        noticed: the world was given up, or the host.
        recovered: the next world was told everything.
        caught_up: it had computed again what had been computed before.
        phases: of the recovery, in seconds.
        how: what noticed it, in words.
    """

    number: int
    fault: str
    hosts: tuple[str, ...]
    at: float
    noticed: float | None
    recovered: float | None
    caught_up: float | None
    phases: Mapping[str, float] = field(default_factory=dict)
    operations_replayed: int = 0
    how: str = ""


def outages(history: History, notice_within: float) -> list[Outage]:
    """One for each fault that was done, in order."""
    found = []
    for one in reactions(history, notice_within):
        at = one.fault.at
        noticed, recovered, caught_up = (
            None if event is None else event.at - at for event in (one.noticed, one.recovered, one.caught_up)
        )
        facts = one.recovered.facts if one.recovered is not None else {}
        found.append(
            Outage(
                one.fault["number"],
                one.fault["fault"],
                one.fault.hosts,
                at,
                noticed,
                recovered,
                caught_up,
                facts.get("phases", {}),
                facts.get("operations_replayed", 0),
                str(one.noticed.facts.get("detected_by", one.noticed.kind)) if one.noticed is not None else "",
            )
        )
    return found


@dataclass(frozen=True)
class Mttr:
    """Of all faults of one kind that stopped the run; seconds from the fault until the run had caught up.

    Attributes:
        phases: what the seconds were spent on, in the mean, by entry of the ledger, in the order of time.
    """

    fault: str
    count: int
    stopped: int
    median: float | None
    worst: float | None
    phases: Mapping[str, float] = field(default_factory=dict)


def by_fault(found: Sequence[Outage]) -> list[Mttr]:
    """In the order in which the kinds of faults first came."""
    kinds = dict.fromkeys(outage.fault for outage in found)
    table = []
    for kind in kinds:
        ours = [outage for outage in found if outage.fault == kind]
        ends = [outage.caught_up or outage.recovered for outage in ours]
        seconds = [end for end in ends if end is not None]
        median = statistics.median(seconds) if seconds else None
        table.append(Mttr(kind, len(ours), len(seconds), median, max(seconds, default=None), _mean_phases(ours)))
    return table


def _mean_phases(found: Sequence[Outage]) -> dict[str, float]:
    sums: dict[str, float] = {}
    stopped = [outage for outage in found if outage.recovered is not None]
    for outage in stopped:
        replayed = (outage.caught_up or outage.recovered or 0.0) - (outage.recovered or 0.0)
        spent = {"detecting": outage.noticed or 0.0, **outage.phases, "replayed": replayed}
        for entry, seconds in spent.items():
            sums[entry] = sums.get(entry, 0.0) + seconds
    return {entry: seconds / len(stopped) for entry, seconds in sums.items()}
