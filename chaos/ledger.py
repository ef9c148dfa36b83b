"""The ledger of a whole history: each second of a run belongs to one entry.

The controller of a run keeps the same account while the run goes on (`elastic.controller.ledger`); this one sees all
events at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.entries import ENTRIES, goodput
from chaos.history import Event, History


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
        return goodput(self.seconds)


def ledger(history: History) -> Ledger:
    """The ledger of a run, from the start of the script to its end."""
    begin, end = history.began, history.ended
    seconds = dict.fromkeys(ENTRIES, 0.0)
    spans = list(_spans(history))
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


def _spans(history: History) -> Iterator[Span]:
    """What the events say was not productive; may overlap, and reach beyond the run."""
    yield Span("starting", history.began, _next(history, history.began, "read", "callback"))
    for event in history:
        at = event.at
        match event.kind:
            case "lost":
                yield Span("detecting", at - event["silence"], at)
            case "compiling" if not _is_compiled(history, event):
                yield Span("compiling", at, history.ended)
            case "compiled":
                yield Span("compiling", at - event["seconds"], at)
            case "saved":
                yield Span("snapshotting", at - event["seconds"], at)
            case "waited":
                yield Span("waiting", at - event["seconds"], at)
            case "recovered":
                yield from _phases(event)
                if event["operations_replayed"]:
                    yield Span("replayed", at, _next(history, at, "caught_up", "lost", "moving", "recovered"))
            case "forgotten":
                yield Span("idle", at, _next(history, at, "client"))
            case "waits":
                yield Span("idle", at, _next(history, at, "generation"))
            case "failed":
                yield Span("idle", at, history.ended)
    yield from _unfinished(history)


def _next(history: History, after: float, *kinds: str) -> float:
    """When something of these kinds happens next; the end of the history if it does not."""
    return next((event.at for event in history.of(*kinds) if event.at > after), history.ended)


def _is_compiled(history: History, begun: Event) -> bool:
    return any(event["program"] == begun["program"] and event.at > begun.at for event in history.of("compiled"))


def _phases(recovered: Event) -> Iterator[Span]:
    at = recovered.at - sum(recovered["phases"].values())
    for phase, seconds in recovered["phases"].items():
        yield Span("moving" if recovered["kind"] == "moved" else phase, at, at + seconds)
        at += seconds


def _unfinished(history: History) -> Iterator[Span]:
    """A recovery that came to no end, as far as it is known."""
    last = history.last("lost", "moving", "recovered")
    if last is None or last.kind == "recovered":
        return
    end = _next(history, last.at, "failed")
    stages = [("moving" if last.kind == "moving" else "fence", last.at)]
    if last.kind == "lost":
        reached = {"generation": "world", "restored": "replay"}
        stages += [(reached[event.kind], event.at) for event in history.of(*reached) if last.at < event.at < end]
    for (entry, begin), (_, until) in itertools.pairwise([*stages, ("", end)]):
        yield Span(entry, begin, until)
