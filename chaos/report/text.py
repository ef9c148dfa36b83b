"""The report for a terminal: the verdict, and what it cost."""

from __future__ import annotations

from chaos.report.facts import Report


def text(report: Report) -> str:
    """A few lines without colour."""
    lines = []
    for verdict in report.verdicts:
        lines.append(f"{'held  ' if verdict.held else 'BROKEN'}  {verdict.name:13} {verdict.looked_at}")
        lines += [f"          {problem}" for problem in verdict.problems]
        lines += [f"          note: {remark}" for remark in verdict.remarks]
    lines.append("")
    for row in report.mttr:
        stopped = f"{row.stopped} of {row.count} stopped the run"
        times = f", median {row.median:.2f} s, worst {row.worst:.2f} s" if row.median and row.worst else ""
        lines.append(f"{row.fault:16} {stopped}{times}")
    lost = {entry: seconds for entry, seconds in report.ledger.seconds.items() if seconds >= 0.005}
    lost.pop("productive", None)
    spent = ", ".join(f"{entry} {seconds:.2f} s" for entry, seconds in lost.items())
    lines.append(f"goodput {report.ledger.goodput:.1%}, without faults {report.clean_goodput:.1%}; the rest is {spent}")
    lines.append(f"it took {report.slowdown:.2f} times as long as without faults")
    lines.append("every check held" if report.held else "A PROMISE WAS BROKEN")
    return "\n".join(lines)
