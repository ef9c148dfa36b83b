"""The report as one page of HTML: nothing in it comes from elsewhere, and no script runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from chaos.report import pictures
from chaos.report.facts import Report

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; max-width: 1000px; margin: 2em auto;
       padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em } svg { font: 12px system-ui, sans-serif; fill: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25em .8em .25em 0;
        border-bottom: 1px solid #ddd; vertical-align: top }
.held { color: #2a7f24; font-weight: 600 } .broken { color: #c0161a; font-weight: 600 }
.legend span { margin-right: 1.2em; white-space: nowrap } .legend i { display: inline-block; width: .8em; height: .8em;
        margin-right: .4em } .note { color: #666 }
"""


def html(report: Report) -> str:
    """The page."""
    plan = report.plan
    verdict = (
        '<span class="held">every check held</span>'
        if report.held
        else ('<span class="broken">a promise was broken</span>')
    )
    about = (
        f"<code>{escape(' '.join(report.script))}</code> on {plan.hosts} hosts x {plan.devices_per_host} devices, once "
        f"without faults and once under the plan {escape(plan.name)} (seed {plan.seed}): {len(report.outages)} faults, "
        f"{report.chaos.ended - report.chaos.began:.1f} s instead of {report.clean.ended - report.clean.began:.1f} s, "
        f"goodput {report.ledger.goodput:.1%} instead of {report.clean_goodput:.1%}."
    )
    sections = [
        ("Checks", _checks(report)),
        ("Timeline", pictures.timeline(report.chaos, report.ledger)),
        ("What the script printed, by step", pictures.curves(*report.curves)),
        ("Where the time went", pictures.goodput(report.ledger)),
        ("How long a fault stopped the run", pictures.mttr(report.outages, report.mttr)),
        ("Faults", _faults(report)),
    ]
    body = "".join(f"<h2>{title}</h2>{content}" for title, content in sections)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(plan.name)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{verdict}</h1><p>{about}</p>{body}</body></html>\n"
    )


def _checks(report: Report) -> str:
    rows = []
    for verdict in report.verdicts:
        state = '<span class="held">held</span>' if verdict.held else '<span class="broken">broken</span>'
        words = [escape(verdict.looked_at), *(f'<span class="broken">{escape(one)}</span>' for one in verdict.problems)]
        words += [f'<span class="note">{escape(one)}</span>' for one in verdict.remarks]
        rows.append([escape(verdict.name), state, "<br>".join(words)])
    return _table(["promise", "", "looked at"], rows)


def _faults(report: Report) -> str:
    began = report.chaos.began
    rows = [
        [
            str(one.number),
            escape(one.fault),
            escape("+".join(one.hosts)),
            f"{one.at - began:.2f} s",
            *(_seconds(value) for value in (one.noticed, one.recovered, one.caught_up)),
            escape(", ".join(f"{phase} {seconds * 1e3:.0f} ms" for phase, seconds in one.phases.items())),
            escape(one.how),
        ]
        for one in report.outages
    ]
    heads = ["", "fault", "host", "at", "noticed", "went on", "caught up", "phases", "noticed by"]
    return _table(heads, rows)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
