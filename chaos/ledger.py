"""Goodput: a ledger in which every second of a run belongs to one entry."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.history import History

ENTRIES = (
    "fence",
    "world",
    "restore",
    "replay",
    "detecting",
    "moving",
    "computing again",
    "compiling",
    "starting",
    "productive",
)
"""What a second may be spent on; where several apply, the first.

`fence`, `world`, `restore` and `replay` are the phases of recoveries. Productive is what nothing else is: the steps,
and what the script does by itself.
"""


@dataclass(frozen=True)
class Span:
    """A stretch of time, on the clock of the history, and what it was spent on."""

    entry: str
    begin: float
    end: float


@dataclass(frozen=True)
class Ledger:
    """Seconds by entry; their sum is the length of the run."""

    seconds: dict[str, float]
    spans: Sequence[Span]

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    @property
    def goodput(self) -> float:
        """The productive share of the time since the script's first value; 1 of a run that had none."""
        after_start = self.total - self.seconds["starting"]
        return self.seconds["productive"] / after_start if after_start > 0 else 1.0


def ledger(history: History) -> Ledger:
    """The ledger of a run, from the start of the script to its end."""
    begin, end = history.began, history.ended
    seconds = dict.fromkeys(ENTRIES, 0.0)
    spans = _spans(history)
    edges = sorted({begin, end, *(edge for span in spans for edge in (span.begin, span.end) if begin < edge < end)})
    spans.sort(key=lambda span: span.begin)
    active: list[Span] = []
    painted: list[Span] = []
    waiting = iter([*spans, Span("productive", float("inf"), float("inf"))])
    coming = next(waiting)
    for left, right in itertools.pairwise(edges):
        while coming.begin <= left:
            active.append(coming)
            coming = next(waiting)
        active = [span for span in active if span.end > left]
        entry = min((span.entry for span in active), key=ENTRIES.index, default="productive")
        seconds[entry] += right - left
        if painted and painted[-1].entry == entry:
            painted[-1] = Span(entry, painted[-1].begin, right)
        else:
            painted.append(Span(entry, left, right))
    return Ledger(seconds, painted)


def _spans(history: History) -> list[Span]:
    """What the events say was not productive; may overlap, and reach beyond the run."""
    first = next((event.at for event in history.of("read", "callback")), history.ended)
    spans = [Span("starting", history.began, first)]
    recovered_at = None
    for event in history:
        if event.kind == "lost":
            spans.append(Span("detecting", event.at - event["silence"], event.at))
        elif event.kind == "compiled":
            spans.append(Span("compiling", event.at - event["seconds"], event.at))
        elif event.kind == "recovered":
            recovered_at = event.at
            phases = event["phases"]
            at = event.at - sum(phases.values())
            for phase, seconds in phases.items():
                spans.append(Span("moving" if event["kind"] == "moved" else phase, at, at + seconds))
                at += seconds
        elif event.kind == "caught_up" and recovered_at is not None:
            spans.append(Span("computing again", recovered_at, event.at))
            recovered_at = None
    return spans
