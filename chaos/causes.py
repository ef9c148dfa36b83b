"""Which reaction of a run belongs to which fault: the one question behind liveness, truth and MTTR."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.faults import FAULTS, Target
from chaos.history import Event, History


@dataclass(frozen=True)
class Reaction:
    """A fault, and what the run made of it.

    Attributes:
        fault: the event `injected`.
        until: when it was taken back; of one that is not, when it was done.
        noticed: how it was noticed; None if it was not.
        recovered: when the run went on after that; None if it did not, or need not have stopped.
        caught_up: when what had to be computed again was.
    """

    fault: Event
    until: float
    noticed: Event | None = None
    recovered: Event | None = None
    caught_up: Event | None = None


def reactions(history: History, notice_within: float) -> list[Reaction]:
    """What became of each fault, in order."""
    reverted = {event["number"]: event.at for event in history.of("reverted")}
    faults = history.of("injected")
    found = []
    for index, fault in enumerate(faults):
        # Who dies at a point, nobody knows.
        hit_again = (
            later.at
            for later in faults[index + 1 :]
            if FAULTS[later["fault"]].target is Target.POINT or not set(fault.hosts).isdisjoint(later.hosts)
        )
        until = reverted.get(fault["number"], fault.at)
        found.append(_reaction(history, fault, until, until + notice_within, next(hit_again, math.inf)))
    return found


def alarms_without_cause(history: History, notice_within: float) -> list[Event]:
    """What was given up, or not stored, although no fault that could be the cause was there, or was just before."""
    found = (one for one in reactions(history, notice_within) if not FAULTS[one.fault["fault"]].spares_hosts)
    faults = [(one.fault.at, one.until + notice_within) for one in found]
    alarms = history.of("lost", "gone", "not_stored")
    return [alarm for alarm in alarms if not any(begin <= alarm.at <= end for begin, end in faults)]


def _reaction(history: History, fault: Event, until: float, at_last: float, hit_again: float) -> Reaction:
    kind = FAULTS[fault["fault"]]
    if kind.silent:
        at_last = math.inf  # Whoever computes again and compares comes upon it, some time.
    elif not fault["must_be_noticed"] and not kind.signs:
        at_last = min(at_last, hit_again)  # Whatever another fault does to the same host shows nothing of this one.
    noticed = _noticed(history, fault, at_last)
    if noticed is None or (kind.signs and not kind.silent):
        return Reaction(fault, until, noticed)
    recovered = _first(event for event in history.of("recovered") if event.at >= noticed.at)
    caught_up = None
    if recovered is not None:
        caught_up = _first(event for event in history.of("caught_up") if event.at >= recovered.at)
    return Reaction(fault, until, noticed, recovered, caught_up)


def _noticed(history: History, fault: Event, at_last: float) -> Event | None:
    """A host that was hit is given up or left, or the world that it was in; or a new world is formed without it.

    Of a fault that need not be noticed only the first counts.
    """
    after = history.between(fault.at, at_last)
    if told_by := FAULTS[fault["fault"]].signs:
        return _first(event for event in after if event.kind in told_by and event.host in (*fault.hosts, ""))
    signs = ("lost", "gone", "moving")
    of_hosts = (event for event in after if event.kind in signs and event.host in fault.hosts)
    if not fault["must_be_noticed"]:
        return _first(of_hosts)
    # Of a world that is still being formed nobody is told that it is lost: the next one is formed.
    sign = "lost" if _world_in_use(history, fault.at) else "generation"
    return _first(of_hosts) or _first(event for event in after if event.kind == sign)


def _world_in_use(history: History, at: float) -> bool:
    before = [event for event in history.of("replay", "lost", "moving") if event.at <= at]
    return bool(before) and before[-1].kind == "replay"


def _first(events: Iterable[Event]) -> Event | None:
    return next(iter(events), None)
