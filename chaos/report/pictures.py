"""The pictures of a report: a timeline, two curves, where time went, how long each fault stopped the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from chaos.entries import ENTRIES, STOPS
from chaos.history import History
from chaos.ledger import Ledger, Span
from chaos.outages import Mttr, Outage
from chaos.report.facts import Curve
from chaos.report.svg import WIDTH, Axis, Canvas, legend

COLOURS = {
    "idle": "#999999",
    "fence": "#6a3d9a",
    "world": "#8c6bb1",
    "restore": "#b39ddb",
    "replay": "#d1c4e9",
    "detecting": "#e31a1c",
    "moving": "#fdbf6f",
    "replayed": "#ff7f00",
    "compiling": "#ffe98a",
    "starting": "#cccccc",
    "waiting": "#a6cee3",
    "snapshotting": "#b15928",
    "productive": "#33a02c",
}
_FAULT, _HOST, _GRID, _PLAIN, _CHAOS = "#111111", "#9ecae1", "#dddddd", "#1f78b4", "#ff7f00"
_LEFT, _ROW = 90, 26
_NARROW = 0.5
"""Pixels; what is more narrow is drawn together with its neighbours, or a long run has a page of many megabytes."""
_LETTER = 8.5
"""Pixels that a letter of a label needs, about, in whichever font the reader has."""


def timeline(history: History, spent: Ledger) -> str:
    """Hosts while they take part, faults upon them, and what the run did, over time."""
    hosts = sorted({event.host for event in history.of("joined")}, key=lambda host: (len(host), host))
    x = Axis(0.0, history.ended - history.began, _LEFT, WIDTH - 10)
    began = history.began
    height = (len(hosts) + 3) * _ROW
    canvas = Canvas(height + 20)
    for tick in x.ticks():
        canvas.line(x(tick), 0, x(tick), height, _GRID)
        canvas.text(x(tick), height + 14, f"{tick:g} s", "middle")
    rows = {host: index * _ROW + 4 for index, host in enumerate(hosts)}
    for host, y in rows.items():
        canvas.text(_LEFT - 8, y + 14, host, "end")
        for begin, end in history.presence(host):
            canvas.rect(x(begin - began), y, x(end - began) - x(begin - began), 18, _HOST, f"{host} takes part")
    canvas.text(_LEFT - 8, len(hosts) * _ROW + 18, "run", "end")
    for group in in_groups(spent.spans, _NARROW * x.value_of_a_pixel):
        left, right = x(group[0].begin - began), x(group[-1].end - began)
        entry, hint = _what_for(group)
        canvas.rect(left, len(hosts) * _ROW + 4, right - left, 18, COLOURS[entry], hint)
    steps = (event for event in history.of("output") if event["step"] is not None)
    marks = (("snapshots", history.of("snapshot"), "#555"), ("steps", steps, COLOURS["productive"]))
    for row, (name, events, colour) in enumerate(marks, len(hosts) + 1):
        canvas.text(_LEFT - 8, row * _ROW + 18, name, "end")
        for at in dict.fromkeys(round(x(event.at - began) / _NARROW) * _NARROW for event in events):
            canvas.line(at, row * _ROW + 6, at, (row + 1) * _ROW, colour)
    _faults(canvas, history, x, rows)
    shown = [entry for entry in ENTRIES if spent.seconds[entry] > 0]
    return legend([("fault", _FAULT), ("host takes part", _HOST), *((e, COLOURS[e]) for e in shown)]) + str(canvas)


def in_groups(spans: Sequence[Span], narrow: float) -> list[list[Span]]:
    """Spans that follow each other, each by itself, but those together that are more narrow, until they are not."""
    groups: list[list[Span]] = []
    for span in spans:
        last = groups[-1] if groups else []
        if last and max(last[-1].end - last[0].begin, span.end - span.begin) < narrow:
            last.append(span)
        else:
            groups.append([span])
    return groups


def _what_for(group: Sequence[Span]) -> tuple[str, str]:
    """The entry for which a group of spans is shown, what stopped the run before all else; and all that is in it."""
    seconds: dict[str, float] = {}
    for span in group:
        seconds[span.entry] = seconds.get(span.entry, 0.0) + span.end - span.begin
    shown = max(seconds, key=lambda entry: (entry in STOPS, seconds[entry]))
    return shown, ", ".join(f"{entry}: {spent:.3f} s" for entry, spent in seconds.items())


def _faults(canvas: Canvas, history: History, x: Axis, rows: Mapping[str, float]) -> None:
    back = {event["number"]: event.at for event in history.of("reverted")}
    for event in history.of("injected"):
        left = x(event.at - history.began)
        hint = f"{event['number']}: {event['fault']} {'+'.join(event.hosts)} at {event.at - history.began:.2f} s"
        for host in event.hosts or ("",):  # One that is addressed to no host is shown beside what the run does.
            y = rows.get(host, len(rows) * _ROW + 4.0)
            if event["number"] in back:
                canvas.rect(left, y + 7, x(back[event["number"]] - history.began) - left, 4, _FAULT, hint)
            canvas.dot(left, y + 9, _FAULT, hint)


def curves(plain: Curve, chaos: Curve) -> str:
    """What the script printed of each step, with faults drawn over without: if they are equal, one is hidden."""
    values = [value for _, value in (*plain, *chaos) if math.isfinite(value)]
    if not values:
        return "<p>The script printed no number with its steps.</p>"
    height = 260
    steps = [step for step, _ in (*plain, *chaos)]
    x, y = Axis(min(steps), max(steps), _LEFT, WIDTH - 10), Axis(min(values), max(values), height - 24, 8)
    canvas = Canvas(height)
    for tick in x.ticks():
        canvas.line(x(tick), 8, x(tick), height - 24, _GRID)
        canvas.text(x(tick), height - 8, f"{tick:g}", "middle")
    for tick in y.ticks(5):
        canvas.line(_LEFT, y(tick), WIDTH - 10, y(tick), _GRID)
        canvas.text(_LEFT - 8, y(tick) + 4, f"{tick:.4g}", "end")
    for points, colour, width, dashes in ((plain, _PLAIN, 5.0, ""), (chaos, _CHAOS, 1.8, "")):
        canvas.path([(x(step), y(value)) for step, value in points if math.isfinite(value)], colour, width, dashes)
    return legend([("without faults", _PLAIN), ("under the plan", _CHAOS)]) + str(canvas)


def goodput(spent: Ledger) -> str:
    """Where the seconds of the run went."""
    entries = [(entry, spent.seconds[entry]) for entry in reversed(ENTRIES) if spent.seconds[entry] > 0]
    x = Axis(0.0, max((seconds for _, seconds in entries), default=1.0), 150, WIDTH - 150)
    canvas = Canvas(len(entries) * _ROW + 4)
    for index, (entry, seconds) in enumerate(entries):
        y = index * _ROW + 4
        canvas.text(142, y + 14, entry, "end")
        canvas.rect(x(0), y, x(seconds) - x(0), 18, COLOURS[entry])
        share = seconds / spent.total if spent.total else 0.0
        canvas.text(x(seconds) + 8, y + 14, f"{seconds:.2f} s, {share:.1%}")
    return str(canvas)


def mttr(outages: Sequence[Outage], table: Sequence[Mttr]) -> str:
    """Each outage as a dot, from its fault until the run had caught up, over the phases in the mean; the median as a
    line."""
    ends = [outage.caught_up or outage.recovered or 0.0 for outage in outages]
    if not any(ends):
        return "<p>No fault stopped the run.</p>"
    labels = [f"{row.fault} ({row.stopped}/{row.count})" for row in table]
    left = 16 + max(map(len, labels)) * _LETTER
    x = Axis(0.0, max(ends) * 1.05, left, WIDTH - 10)
    canvas = Canvas(len(table) * _ROW + 24)
    for tick in x.ticks():
        canvas.line(x(tick), 0, x(tick), len(table) * _ROW, _GRID)
        canvas.text(x(tick), len(table) * _ROW + 16, f"{tick:g} s", "middle")
    for index, (row, label) in enumerate(zip(table, labels, strict=True)):
        y, at = index * _ROW + 13, 0.0
        canvas.text(left - 8, y + 4, label, "end")
        for entry, seconds in row.phases.items():
            canvas.rect(x(at), y - 6, x(at + seconds) - x(at), 12, COLOURS[entry], f"{entry}: {seconds:.3f} s")
            at += seconds
        if row.median is not None:
            canvas.rect(x(row.median) - 1, y - 9, 2, 18, "#333", f"median {row.median:.2f} s")
        for outage, end in zip(outages, ends, strict=True):
            if outage.fault == row.fault and end:
                noticed = (
                    f"noticed after {outage.noticed:.2f} s by {outage.how}, " if outage.noticed is not None else ""
                )
                hint = f"{outage.number}: {'+'.join(outage.hosts)}, {noticed}caught up after {end:.2f} s"
                canvas.dot(x(end), y, _FAULT, hint)
    phases = dict.fromkeys(entry for row in table for entry in row.phases)
    return legend([("an outage", _FAULT), *((entry, COLOURS[entry]) for entry in phases)]) + str(canvas)
