"""A report of health as lines of text for people. Pure: styles are names, which a terminal may show as colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from elastic.refusals import told

Piece = tuple[str, str]
"""Text and its style: "", "good", "warn", "bad", "faint" or "strong"."""

Line = list[Piece]

_STATES = {
    "healthy": "good",
    "joining": "warn",
    "draining": "warn",
    "degraded": "warn",
    "suspect": "warn",
    "quarantined": "warn",
    "frozen": "bad",
    "unreachable": "bad",
    "dead": "bad",
    "down": "bad",
}
_SHOWN_FAILURES = 10
_SHOWN_S = 0.05
"""Seconds that an entry of the ledger must have to be shown."""
_HEADINGS = ("host", "state", "devices", "virtual devices", "heard", "restarts", "age", "run", "reason")


def lines(report: dict[str, Any]) -> list[Line]:
    """All there is to say."""
    return [
        *_head(report),
        *(_run(run) for run in report["runs"]),
        *_hosts(report["hosts"], len(report["runs"]) > 1),
        *_refused(report),
        *_memory(report),
        *_checkpoint(report),
        *_goodput(report),
        *_verification(report),
        *_failures(report["failures"]),
    ]


def plain(report: dict[str, Any]) -> str:
    """The lines without styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines(report))


def _head(report: dict[str, Any]) -> Iterator[Line]:
    pool, status = report["pool"], report["status"]
    name = f"pool {pool.get('directory') or pool['address']}" if pool else "no pool"
    yield [(name, "strong"), (": ", ""), (status, _STATES[status])]
    for reason in report["reasons"]:
        yield [("  ", ""), (reason, _STATES[status])]
    for note in report.get("notes", []):
        yield [("  ", ""), (note, "faint")]


def _run(run: dict[str, Any]) -> Line:
    if run["state"] == "unknown":
        return [(f"run {run['id']}: {run['reason']}; generation {run['generation']}", "")]
    client = "its client is connected" if run["client_connected"] else "no client is connected"
    state = "good" if run["state"] == "running" else "warn"
    because = f" ({run['reason']})" if run["reason"] else ""
    told = f"generation {run['generation']}, {run['operations']:,} operations, {client}, age {duration(run['age_s'])}"
    placement = run["placement"] or f"{run['virtual_devices']} virtual devices, not placed yet"
    if run.get("on_loss", "stack") != "stack":
        placement += f"; on a loss: {run['on_loss']}"
    return [(f"run {run['id']}: ", ""), (run["state"], state), (f"{because}; {told}; {placement}", "")]


def _hosts(hosts: Sequence[dict[str, Any]], several: bool) -> Iterator[Line]:
    if not hosts:
        return
    rows = [_HEADINGS, *(_host(host) for host in hosts)]
    # Which run has a host is worth a column only if there are several.
    shown = [index for index in range(len(_HEADINGS)) if several or _HEADINGS[index] != "run"]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_HEADINGS))]
    for row in rows:
        line: Line = [("  ", "")]
        for index in shown:
            style = "faint" if row is _HEADINGS else _STATES.get(row[index], "") if index == 1 else ""
            padded = row[index] if index == shown[-1] else row[index].ljust(widths[index] + 2)
            line.append((padded, style))
        yield line


def _host(host: dict[str, Any]) -> tuple[str, ...]:
    return (
        host["id"],
        host["state"],
        str(host["devices"]),
        ranges(host["virtual_devices"]) or "-",
        "-" if host["heartbeat_age_s"] is None else f"{host['heartbeat_age_s']:.2f} s ago",
        str(host["restarts"]),
        duration(host["age_s"]),
        host.get("run") or "-",
        host["reason"],
    )


def _refused(report: dict[str, Any]) -> Iterator[Line]:
    """Who refused connections, and why; nothing if nobody did."""
    controllers = [(f"the controller of run {run['id']}", run.get("refused")) for run in report["runs"]]
    hosts = [(host["id"], host.get("refused")) for host in report["hosts"]]
    parts = [f"{name}: {told(counts)}" for name, counts in [*hosts, *controllers] if counts]
    if parts:
        yield [(f"refused connections: {'; '.join(parts)}", "warn")]


def _memory(report: dict[str, Any]) -> Iterator[Line]:
    snapshot, journal = report["snapshot"], report["journal"]
    if snapshot is None or journal is None:
        return
    if snapshot["age_s"] is None:
        text = "no snapshot yet"
    else:
        copies = f"{snapshot['copies']} {'copy' if snapshot['copies'] == 1 else 'copies'}"
        text = f"snapshot at operation {snapshot['operation']:,}, {duration(snapshot['age_s'])} old, "
        text += f"{size(snapshot['bytes'])} in {copies}"
        if snapshot.get("parity_bytes"):
            extra = f"parity takes {size(snapshot['parity_bytes'])}, copies {size(snapshot['copies_bytes'])} more"
            text += f", protected by {snapshot['protection']} ({extra})"
    yield [(f"{text}; journal of {journal['operations']:,} operations, {size(journal['bytes'])}", "")]


def _checkpoint(report: dict[str, Any]) -> Iterator[Line]:
    stored = report.get("checkpoint")
    if stored is None:
        return
    if not stored["path"]:
        text = f"nothing stored in {stored['directory']} yet"
    else:
        text = f"stored at operation {stored['operation']:,}, {duration(stored['age_s'])} ago, in {stored['path']}: "
        text += f"{size(stored['bytes'])} in {duration(stored['took_s'])}"
    yield [(text + ("; the next is being written" if stored["storing"] else ""), "")]


def _goodput(report: dict[str, Any]) -> Iterator[Line]:
    """What share of the time was productive, and what most of the rest was spent on."""
    found = report.get("goodput")
    if found is None:
        return
    spent = sorted(found["seconds"].items(), key=lambda item: -item[1])
    rest = [f"{entry} {duration(seconds)}" for entry, seconds in spent if entry != "productive" and seconds >= _SHOWN_S]
    text = f"goodput {found['share']:.1%}: productive {duration(found['seconds']['productive'])}"
    yield [(", ".join([text, *rest]), "")]


def _verification(report: dict[str, Any]) -> Iterator[Line]:
    found = report.get("verification")
    if found is None:
        return
    every = found["every"]
    share = "all intervals between snapshots are" if every == 1 else f"1 in {every} intervals between snapshots is"
    text = f"{share} executed again: {found['verified']:,} were right"
    if found["age_s"] is not None:
        text += f", the last at operation {found['operation']:,}, {duration(found['age_s'])} ago"
    yield [(text + ("; one is being verified" if found["verifying"] else ""), "")]
    for finding in found["findings"][-_SHOWN_FAILURES:]:
        back = "; the run went back" if finding["went_back"] else ""
        read = f"; wrong values that the script has read: {finding['wrong_reads']}" if finding["wrong_reads"] else ""
        yield [(f"  {finding['time']} ", "faint"), (f"{finding['what']}{back}{read}", "bad")]


def _failures(failures: Sequence[dict[str, Any]]) -> Iterator[Line]:
    if not failures:
        return
    more = f", {len(failures) - _SHOWN_FAILURES} earlier ones not shown" if len(failures) > _SHOWN_FAILURES else ""
    yield [(f"changes ({len(failures)}{more}):", "strong")]
    for failure in failures[-_SHOWN_FAILURES:]:
        style = {"moved": "", "failed": "bad"}.get(failure["kind"], "warn")
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in failure["phases_s"].items())
        verified = {True: ", verified", False: ", NOT THE SAME AS BEFORE", None: ""}[failure["verified"]]
        yield [
            (f"  {failure['time']} ", "faint"),
            (f"{failure['host'] or 'the run'} {failure['kind']}", style),
            (f": {_first_line(failure['reason'])}; noticed by {failure['detected_by'] or 'the controller'}; ", ""),
            (f"{failure['plan']}; {failure['total_s']:.2f} s ({phases}), ", ""),
            (f"{failure['operations_replayed']:,} operations replayed{verified}", ""),
        ]


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def ranges(numbers: Sequence[int]) -> str:
    """0-3,6 of [0, 1, 2, 3, 6]."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def duration(seconds: float | None) -> str:
    """A time that a person can read."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"


def size(count: int) -> str:
    """A number of bytes that a person can read."""
    value = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
