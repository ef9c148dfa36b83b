"""The contract of `elastic health --json`, checked field by field. Fields may be added, never be missing."""

from __future__ import annotations

import re
from typing import Any

_NUMBER = (int, float)
_TEXT = (str,)
_MAYBE = (int, float, type(None))
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

_RUN = {
    "id": _TEXT,
    "generation": (int,),
    "virtual_devices": (int,),
    "operations": (int,),
    "client_connected": (bool, type(None)),
}
_REFUSED = {"garbage", "foreign_pool", "wrong_secret", "old_generation", "tls", "silent"}
_HOST = {
    "id": _TEXT,
    "incarnation": (int,),
    "state": _TEXT,
    "reason": _TEXT,
    "agent_pid": (int,),
    "executor_pid": (int, type(None)),
    "address": _TEXT,
    "devices": (int,),
    "virtual_devices": (list,),
    "heartbeat_age_s": _MAYBE,
    "lease_ttl_s": _MAYBE,
    "refused": (dict, type(None)),
}
_SNAPSHOT = {
    "operation": (int,),
    "age_s": _MAYBE,
    "bytes": (int,),
    "copies": (int,),
    "protection": _TEXT,
    "copies_bytes": (int,),
    "parity_bytes": (int,),
    "problem": (str,),
}
_JOURNAL = {"operations": (int,), "bytes": (int,)}
_GOODPUT = {"share": _NUMBER, "seconds": (dict,)}
_ENTRIES = {
    *("idle", "fence", "world", "restore", "replay", "detecting", "moving", "replayed", "compiling"),
    *("starting", "waiting", "snapshotting", "productive"),
}
_FAILURE = {
    "time": _TEXT,
    "host": _TEXT,
    "kind": _TEXT,
    "detected_by": _TEXT,
    "reason": _TEXT,
    "plan": _TEXT,
    "phases_s": (dict,),
    "total_s": _NUMBER,
    "operations_replayed": (int,),
    "verified": (bool, type(None)),
}
_PARTS = {"run": _RUN, "snapshot": _SNAPSHOT, "journal": _JOURNAL, "goodput": _GOODPUT}
_STATES = {"joining", "healthy", "suspect", "frozen", "unreachable", "draining", "dead", "quarantined"}
_PHASES = {"detect", "fence", "world", "restore", "replay"}


def check_report(report: dict[str, Any]) -> None:
    """Fails unless a report keeps the contract; run, snapshot, journal, goodput are None where there is no run."""
    assert report["status"] in ("healthy", "degraded", "down")
    for name, fields in _PARTS.items():
        if report[name] is not None:
            _check(report[name], fields, name)
    if report["goodput"] is not None:
        assert report["goodput"]["seconds"].keys() >= _ENTRIES
        assert 0 <= report["goodput"]["share"] <= 1
    for host in report["hosts"]:
        _check(host, _HOST, f"host {host.get('id')}")
        assert host["state"] in _STATES, host
        assert (host["refused"] or {}).keys() <= _REFUSED
        assert all(type(device) is int for device in host["virtual_devices"])
    assert len(report["failures"]) <= 100
    for failure in report["failures"]:
        _check(failure, _FAILURE, "failure")
        assert _RFC_3339.fullmatch(failure["time"]), failure["time"]
        if failure["kind"] != "failed":
            assert failure["phases_s"].keys() >= _PHASES, failure


def _check(value: dict[str, Any], fields: dict[str, tuple[type, ...]], what: str) -> None:
    for name, types in fields.items():
        assert name in value, f"{what} has no {name}: {value}"
        assert type(value[name]) in types, f"{what}: {name} is {value[name]!r}"
