"""The ledger of a run while it goes on: what each second since its start was spent on (see `chaos.ENTRIES`).

Pure: events of the history in, with their times; no clock. `chaos.ledger` makes the same account of a whole history.

Some events speak of time that has passed already: a loss, of the silence before it; a recovery, of its phases. So what
was spent lately may still be booked anew, which is why seconds of an entry can become fewer. What lies further back is
settled.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from chaos import ENTRIES, Event, Span

KINDS = (
    *("read", "callback", "lost", "moving", "generation", "restored", "recovered", "caught_up", "failed", "waits"),
    *("forgotten", "client", "compiling", "compiled", "saved", "waited"),
)
"""The events that the ledger is kept by."""

_LOOKS_BACK_S = 10.0
"""Seconds before an event of which it may still speak, unless it is known that something is under way since then."""

_RANK = {entry: rank for rank, entry in enumerate(ENTRIES)}
_START, _RECOVERY, _REPLAYED, _CLIENT, _HOSTS, _FAILED = "start", "recovery", "replayed", "client", "hosts", "failed"
"""What may be under way; compilations besides, by the number of the program."""


class Ledger:
    """The account of one run."""

    def __init__(self, begin: float) -> None:
        """`begin` is when the run began; all times are seconds on one clock."""
        self._settled = dict.fromkeys(ENTRIES, 0.0)
        self._recent: list[Span] = []
        """What is not settled, without gaps."""
        self._at = begin
        """The end of that."""
        self._open: dict[Hashable, list[tuple[str, float]]] = {_START: [("starting", begin)]}
        """What is under way: entries that follow one another, each with its begin."""

    def feed(self, event: Event, waiting_since: float | None = None) -> list[Span]:
        """Books an event; the spans that are settled now, in order.

        `waiting_since` is since when the client has asked for nothing, if that is so.
        """
        self._go_on(event.at)
        self._book(event)
        since = [stages[0][1] for stages in self._open.values()]
        since += [waiting_since] if waiting_since is not None else []
        return self._settle(min([event.at - _LOOKS_BACK_S, *since]))

    def close(self, now: float, waiting_since: float | None = None) -> list[Span]:
        """Ends the account; the spans that were not settled yet."""
        self._recent = self._until(now, waiting_since)
        self._at = now
        self._open.clear()
        return self._settle(now)

    def seconds(self, now: float, waiting_since: float | None = None) -> dict[str, float]:
        """Seconds by entry until now; their sum is the time since the begin. What is under way is not divided as finely
        as when it will be over."""
        found = dict(self._settled)
        for span in self._until(now, waiting_since):
            found[span.entry] += span.end - span.begin
        return found

    def _until(self, now: float, waiting_since: float | None) -> list[Span]:
        """What is not settled, with what is under way."""
        spans = list(self._recent)
        _append(spans, Span("productive", self._at, now))
        for stages in self._open.values():
            _paint_stages(spans, stages, now)
        if waiting_since is not None:
            _paint(spans, Span("waiting", waiting_since, now))
        return spans

    def _go_on(self, at: float) -> None:
        _append(self._recent, Span("productive", self._at, at))
        self._at = max(self._at, at)

    def _book(self, event: Event) -> None:
        at = event.at
        match event.kind:
            case "read" | "callback":
                self._end(_START, at)
            case "lost":
                self._end(_REPLAYED, at)
                self._spent("detecting", event["silence"])
                self._open[_RECOVERY] = [("fence", at)]
            case "moving":
                self._end(_REPLAYED, at)
                self._open[_RECOVERY] = [("moving", at)]
            case "generation":
                self._end(_HOSTS, at)
                self._reach("world", at)
            case "restored":
                self._reach("replay", at)
            case "recovered":
                self._end(_REPLAYED, at)
                self._open.pop(_RECOVERY, None)
                self._recovered(event)
                if event["operations_replayed"]:
                    self._open[_REPLAYED] = [("replayed", at)]
            case "caught_up":
                self._end(_REPLAYED, at)
            case "failed":
                self._end(_RECOVERY, at)
                self._open[_FAILED] = [("idle", at)]
            case "waits":
                self._open.setdefault(_HOSTS, [("idle", at)])
            case "forgotten":
                self._open.setdefault(_CLIENT, [("idle", at)])
            case "client":
                self._end(_CLIENT, at)
            case "compiling":
                self._open.setdefault(event["program"], [("compiling", at)])
            case "compiled":
                self._open.pop(event["program"], None)
                self._spent("compiling", event["seconds"])
            case "saved":
                self._spent("snapshotting", event["seconds"])
            case "waited":
                self._spent("waiting", event["seconds"])

    def _spent(self, entry: str, seconds: float) -> None:
        _paint(self._recent, Span(entry, self._at - seconds, self._at))

    def _recovered(self, event: Event) -> None:
        phases: dict[str, float] = event["phases"]
        at = event.at - sum(phases.values())
        for phase, seconds in phases.items():
            _paint(self._recent, Span("moving" if event["kind"] == "moved" else phase, at, at + seconds))
            at += seconds

    def _reach(self, stage: str, at: float) -> None:
        """A recovery from a loss has come so far."""
        stages = self._open.get(_RECOVERY)
        if stages and stages[0][0] != "moving":
            stages.append((stage, at))

    def _end(self, what: Hashable, at: float) -> None:
        if stages := self._open.pop(what, None):
            _paint_stages(self._recent, stages, at)

    def _settle(self, before: float) -> list[Span]:
        """Takes out the spans that ended before."""
        count = 0
        while count < len(self._recent) and self._recent[count].end <= before:
            count += 1
        settled = self._recent[:count]
        del self._recent[:count]
        for span in settled:
            self._settled[span.entry] += span.end - span.begin
        return settled


def _paint_stages(spans: list[Span], stages: Sequence[tuple[str, float]], end: float) -> None:
    for (entry, begin), (_, until) in itertools.pairwise([*stages, ("", end)]):
        _paint(spans, Span(entry, begin, until))


def _paint(spans: list[Span], new: Span) -> None:
    """Books a stretch of time anew, except where it is booked as something that goes first."""
    first = len(spans)
    while first and spans[first - 1].end > new.begin:
        first -= 1
    tail = spans[first:]
    del spans[first:]
    for span in tail:
        if span.begin >= new.end or _RANK[span.entry] <= _RANK[new.entry]:
            _append(spans, span)
            continue
        left, right = max(span.begin, new.begin), min(span.end, new.end)
        _append(spans, Span(span.entry, span.begin, left))
        _append(spans, Span(new.entry, left, right))
        _append(spans, Span(span.entry, right, span.end))


def _append(spans: list[Span], span: Span) -> None:
    if span.end <= span.begin:
        return
    if spans and spans[-1].entry == span.entry:
        spans[-1] = Span(span.entry, spans[-1].begin, span.end)
    else:
        spans.append(span)
