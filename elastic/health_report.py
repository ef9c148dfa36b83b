"""The health of a pool, put together from what its etcd and its runs' controllers said. Pure: data in, a report out.

The report keeps the contract of a run's (see `elastic.controller.status_report`), with the hosts of all runs and those
that no run has, and with "pool" and "runs" besides. Without a run, "run", "snapshot", "journal" and "goodput" are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elastic.pool_view import PoolView
from membership import HostRecord

EXIT_CODES = {"healthy": 0, "degraded": 1, "down": 2}
_MOST_FAILURES = 100

Report = dict[str, Any]


def nothing(reason: str, pool: Report | None = None) -> Report:
    """The report on a pool that is not there."""
    return {
        "status": "down",
        "reasons": [reason],
        "pool": pool,
        "run": None,
        "runs": [],
        "hosts": [],
        "snapshot": None,
        "checkpoint": None,
        "verification": None,
        "journal": None,
        "goodput": None,
        "failures": [],
    }


def of_run(report: Report, pool: Report) -> Report:
    """The report on a pool that has one run and nothing else."""
    absent = dict.fromkeys(("checkpoint", "goodput", "verification"))
    return {**absent, **report, "pool": pool, "runs": [report["run"]]}


def of_pool(view: PoolView, answers: Mapping[str, Report | str], pool: Report, wanted: int = 0) -> Report:
    """The report on a pool of any number of runs.

    Args:
        answers: run -> its report, or why it has none.
        wanted: how many hosts the pool should have at least; 0 if nobody says.
    """
    reports = {run: answer for run, answer in answers.items() if isinstance(answer, dict)}
    hosts = _hosts(view, reports)
    reasons = [f"run {run}: {reason}" for run, report in sorted(reports.items()) for reason in report["reasons"]]
    silent = {run: answer for run, answer in answers.items() if isinstance(answer, str)}
    reasons += [f"run {run}: its controller does not answer: {why}" for run, why in sorted(silent.items())]
    unfit = [
        f"host {id} is quarantined: {record.quarantined}" for id, record in view.hosts.items() if record.quarantined
    ]
    reasons += [words for words in unfit if not any(words in reason for reason in reasons)]
    registered = len(view.hosts)
    if registered < wanted:
        reasons.append(f"{registered} of {wanted} hosts are registered in the pool")
    status = "degraded" if reasons else "healthy"
    if not registered:
        status = "down"
        reasons.insert(0, "no host is registered in the pool; start one with `elastic host --pool URL`")
    runs = [reports[run]["run"] if run in reports else _unknown_run(view, run) for run in sorted(view.runs)]
    first = next((reports[run] for run in sorted(reports)), None)
    failures = sorted((one for report in reports.values() for one in report["failures"]), key=lambda one: one["time"])
    return {
        "status": status,
        "reasons": reasons,
        "pool": pool,
        "run": first["run"] if first else (runs[0] if runs else None),
        "runs": runs,
        "hosts": hosts,
        "snapshot": first["snapshot"] if first else None,
        "checkpoint": first.get("checkpoint") if first else None,
        "verification": first.get("verification") if first else None,
        "journal": first["journal"] if first else None,
        "goodput": first.get("goodput") if first else None,
        "failures": failures[-_MOST_FAILURES:],
    }


def _hosts(view: PoolView, reports: Mapping[str, Report]) -> list[Report]:
    """Each host once: as the run that has it sees it, else as etcd knows it."""
    found: dict[str, Report] = {}
    for run, report in sorted(reports.items()):
        for host in report["hosts"]:
            if host["id"] not in found or host["incarnation"] > found[host["id"]]["incarnation"]:
                found[host["id"]] = {**host, "run": run if view.claims.get(host["id"]) == run else None}
    for id, record in view.hosts.items():
        seen = found.get(id)
        claimed = view.claims.get(id)
        if seen is None or seen["incarnation"] < record.incarnation or (claimed or "") != (seen["run"] or ""):
            found[id] = _registered(record, claimed)
    return [found[id] for id in sorted(found, key=_natural)]


def _registered(record: HostRecord, run: str | None) -> Report:
    use = f"run {run} has it" if run else "no run has it"
    return {
        "id": record.id,
        "incarnation": record.incarnation,
        "state": "draining" if record.draining else "quarantined" if record.quarantined else "healthy",
        "reason": record.draining or record.quarantined or f"it is registered; {use}",
        "agent_pid": record.pid,
        "executor_pid": None,
        "address": record.address,
        "devices": record.devices,
        "virtual_devices": [],
        "heartbeat_age_s": None,
        "lease_ttl_s": record.ttl,
        "checked_age_s": None,
        "restarts": 0,
        "age_s": None,
        "refused": None,
        "run": run,
    }


def _unknown_run(view: PoolView, run: str) -> Report:
    record = view.runs[run]
    return {
        "id": run,
        "generation": view.generations.get(run, 0),
        "virtual_devices": record.virtual_devices,
        "operations": 0,
        "client_connected": None,
        "state": "unknown",
        "reason": "its controller was not asked or did not answer",
        "placement": "",
        "hosts_wanted": 0,
        "controller_pid": record.pid,
        "age_s": None,
        "refused": None,
    }


def _natural(name: str) -> tuple[str, int, str]:
    """h2 before h10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name
