"""What is to happen when: a plan and a seed in, injections out as steps, events and time pass. No clock.

The same plan and seed give the same injections at the same moments, whatever happens in between.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Iterator

from chaos.faults import FAULTS, Target
from chaos.plan import AtEvent, AtStep, AtTime, Every, Injection, Moment, Plan, PlannedFault, Poisson


class Agenda:
    """The injections of one run. Each is given out once, when it is due."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan = plan
        self._numbers = itertools.count(1)
        self._steps: list[tuple[int, int, PlannedFault, random.Random]] = []
        self._events: list[tuple[AtEvent, PlannedFault, random.Random]] = []
        self._timed: list[tuple[float, int, PlannedFault, random.Random, Iterator[float]]] = []
        self._seen: Counter[str] = Counter()
        for index, planned in enumerate(plan.faults):
            lot = random.Random(f"{seed}:{index}")  # Its own, so that what one fault draws does not depend on others.
            if isinstance(planned.when, AtStep):
                heapq.heappush(self._steps, (planned.when.step, index, planned, lot))
            elif isinstance(planned.when, AtEvent):
                self._events.append((planned.when, planned, lot))
            else:
                self._await(index, planned, lot, self._times(planned, lot))

    def step(self, number: int) -> list[Injection]:
        """The script has finished a step; what is due."""
        due = []
        while self._steps and self._steps[0][0] <= number:
            step, _, planned, lot = heapq.heappop(self._steps)
            due.append(self._injection(planned, AtStep(step), lot))
        return due

    def event(self, kind: str) -> list[Injection]:
        """The history has told an event; what is due."""
        self._seen[kind] += 1
        moment = AtEvent(kind, self._seen[kind])
        due = [one for one in self._events if one[0] == moment]
        self._events = [one for one in self._events if one[0] != moment]
        return [self._injection(planned, moment, lot) for _, planned, lot in due]

    def time(self, seconds: float) -> list[Injection]:
        """So many seconds have passed since the script read its first value; what is due."""
        due = []
        while self._timed and self._timed[0][0] <= seconds:
            at, index, planned, lot, rest = heapq.heappop(self._timed)
            due.append(self._injection(planned, AtTime(at), lot))
            self._await(index, planned, lot, rest)
        return due

    @property
    def next_time(self) -> float | None:
        """When `time` has something to give; None for never."""
        return self._timed[0][0] if self._timed else None

    @property
    def not_reached(self) -> list[str]:
        """What the run never came to, in words: steps and events."""
        steps = [f"{planned.fault}: the script told no step {step}" for step, _, planned, _ in self._steps]
        events = [
            f"{planned.fault}: {moment.event} came {self._seen[moment.event]} times, not {moment.count}"
            for moment, planned, _ in self._events
        ]
        return steps + events

    def _await(self, index: int, planned: PlannedFault, lot: random.Random, times: Iterator[float]) -> None:
        at = next(times, None)
        if at is not None and (self._plan.until is None or at <= self._plan.until):
            heapq.heappush(self._timed, (at, index, planned, lot, times))

    @staticmethod
    def _times(planned: PlannedFault, lot: random.Random) -> Iterator[float]:
        when = planned.when
        if isinstance(when, AtTime):
            yield when.seconds
        elif isinstance(when, Every):
            numbers = range(1, when.times + 1) if when.times else itertools.count(1)
            yield from (when.seconds * number for number in numbers)
        elif isinstance(when, Poisson):
            at = 0.0
            for _ in range(when.times) if when.times else itertools.repeat(None):
                at += lot.expovariate(1 / when.mtbf)
                yield at

    def _injection(self, planned: PlannedFault, moment: Moment, lot: random.Random) -> Injection:
        hosts = planned.hosts
        if FAULTS[planned.fault].target is Target.HOST and not hosts:
            hosts = tuple(sorted(lot.sample(self._plan.host_names, planned.count)))
        number = next(self._numbers)
        return Injection(
            number,
            planned.fault,
            moment,
            hosts,
            lasts=planned.lasts,
            point=planned.point,
            share=planned.share,
            by=planned.by,
            device=planned.device,
        )
