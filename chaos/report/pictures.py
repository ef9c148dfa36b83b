"""The pictures of a report: a timeline, two curves, where time went, how long each fault stopped the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from chaos.entries import ENTRIES
from chaos.history import History
from chaos.ledger import Ledger
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
_LETTER = 7.5
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
        for begin, end in _membership(history, host):
            canvas.rect(x(begin - began), y, x(end - began) - x(begin - began), 18, _HOST, f"{host} takes part")
    canvas.text(_LEFT - 8, len(hosts) * _ROW + 18, "run", "end")
    for span in spent.spans:
        left, seconds = x(span.begin - began), span.end - span.begin
        hint = f"{span.entry}: {seconds:.3f} s"
        canvas.rect(left, len(hosts) * _ROW + 4, x(span.end - began) - left, 18, COLOURS[span.entry], hint)
    canvas.text(_LEFT - 8, (len(hosts) + 1) * _ROW + 18, "snapshots", "end")
    for event in history.of("snapshot"):
        canvas.line(
            x(event.at - began), (len(hosts) + 1) * _ROW + 6, x(event.at - began), (len(hosts) + 2) * _ROW, "#555"
        )
    canvas.text(_LEFT - 8, (len(hosts) + 2) * _ROW + 18, "steps", "end")
    for event in history.of("output"):
        if event["step"] is not None:
            at = x(event.at - began)
            canvas.line(at, (len(hosts) + 2) * _ROW + 6, at, (len(hosts) + 3) * _ROW, COLOURS["productive"])
    _faults(canvas, history, x, rows)
    shown = [entry for entry in ENTRIES if spent.seconds[entry] > 0]
    return legend([("fault", _FAULT), ("host takes part", _HOST), *((e, COLOURS[e]) for e in shown)]) + str(canvas)


def _membership(history: History, host: str) -> list[tuple[float, float]]:
    """From when to when a host took part."""
    spans, begin = [], None
    for event in history.of("joined", "gone", "left"):
        if event.host == host and event.kind == "joined":
            begin = event.at if begin is None else begin
        elif event.host == host and begin is not None:
            spans.append((begin, event.at))
            begin = None
    return spans if begin is None else [*spans, (begin, history.ended)]


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
