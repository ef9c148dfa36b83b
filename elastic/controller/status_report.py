"""What a controller tells of its run: facts in, the report that `elastic health --json` prints out. No clock, no I/O.

The report's fields are a contract; fields may be added. Times are seconds, sizes bytes, instants RFC 3339.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elastic.controller.changes import Recovered
from elastic.controller.findings import VerifiedFacts

HEALTHY, DEGRADED, DOWN = "healthy", "degraded", "down"

UNREACHABLE = "unreachable"
"""The state of a host that is heard, and that other hosts do not reach."""

_LIVES = ("joining", "healthy", "draining")
"""States of a host that does what it should."""


@dataclass(frozen=True)
class HostFacts:
    """One host, present or gone.

    Attributes:
        id: its name in the pool.
        incarnation: etcd's revision of its registration.
        state: a value of `membership.host_state.State`, or `UNREACHABLE`.
        reason: why it is in that state.
        address: of its agent.
        agent_pid: on its own machine, as is `executor_pid`, which is None while it is in no world.
        devices: how many it has.
        virtual_devices: those that are placed on it.
        heartbeat_age: since it was last heard; None if it was not.
        lease_ttl: how long etcd remembers it without hearing of it.
        checked_age: since its devices last passed a health check; None if that is not known.
        restarts: how often it came back under its name.
        age: since this incarnation joined the run.
        member: it is connected to the run, so it can take part in the next world.
        refused: connections that its agent and executors refused, by reason (`elastic.refusals`).
    """

    id: str
    incarnation: int
    state: str
    reason: str
    address: str
    agent_pid: int
    executor_pid: int | None
    devices: int
    virtual_devices: Sequence[int]
    heartbeat_age: float | None
    lease_ttl: float
    checked_age: float | None
    restarts: int
    age: float
    member: bool
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """What the controller's process knows of a run, and the run itself does not.

    Attributes:
        wanted: how many hosts it was asked to have, spares among them.
        started: when, on the monotonic clock.
        waits_for: what the run waits for while it does not run, in words.
        goodput: what its time was spent on: the productive "share", and "seconds" by entry of the ledger; empty if
            nobody keeps an account.
    """

    id: str
    pid: int
    wanted: int
    started: float
    client_connected: bool = False
    waits_for: str = ""
    goodput: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFacts:
    """A run as a whole.

    Attributes:
        operations: that its client has sent so far.
        wanted: how many hosts it was asked to have, spares among them.
        state: "starting", "running", "moving" to other hosts, "recovering", "waiting" for hosts, or "failed".
        reason: what it waits for, or why it failed.
        placement: the reason of the placement, in words.
        age: since its controller started.
        policy: what is done when a host is lost, a value of `placement.Policy`.
        lost: virtual devices that have no physical device.
    """

    id: str
    pid: int
    generation: int
    virtual_devices: int
    operations: int
    client_connected: bool
    wanted: int
    state: str
    reason: str
    placement: str
    age: float
    policy: str = "stack"
    lost: Sequence[int] = ()


@dataclass(frozen=True)
class SnapshotFacts:
    """The snapshot that counts.

    Attributes:
        operation: its position in the stream.
        nbytes: of one copy.
        copies: in how many hosts' memory its least kept shard is.
        protection: how its shards are protected against the loss of hosts, as `--protect` says it.
        copies_bytes: that shards take in memory besides one copy of each.
        parity_bytes: that parity takes.
        problem: why there is no newer one, as it should be; empty if nothing went wrong.
    """

    operation: int
    age: float | None
    nbytes: int
    copies: int
    protection: str = "copies=2"
    copies_bytes: int = 0
    parity_bytes: int = 0
    problem: str = ""


@dataclass(frozen=True)
class JournalFacts:
    """What would have to be told again."""

    operations: int
    nbytes: int


@dataclass(frozen=True)
class StoredFacts:
    """The durable tier.

    Attributes:
        directory: where checkpoints are.
        path: of the newest, at this operation; empty while there is none.
        seconds: how long storing it took.
        problem: why the last could not be stored; empty if it could.
        slow: hosts that take far longer than others to write what they were told to, and for how many seconds already.
        slow_readers: hosts for which others read what is stored, at this moment.
    """

    directory: str
    path: str = ""
    operation: int = 0
    age: float | None = None
    nbytes: int = 0
    seconds: float = 0.0
    storing: bool = False
    problem: str = ""
    slow: Mapping[str, float] = field(default_factory=dict)
    slow_readers: Sequence[str] = ()


def report(
    run: RunFacts,
    hosts: Sequence[HostFacts],
    snapshot: SnapshotFacts,
    journal: JournalFacts,
    changes: Sequence[Recovered],
    stored: StoredFacts | None = None,
    verified: VerifiedFacts | None = None,
    goodput: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report, with the reasons for its status under "reasons"; `goodput` is that of `About`."""
    status, reasons = assess(run, hosts, stored, verified, snapshot.problem)
    return {
        "status": status,
        "reasons": reasons,
        "run": {
            "id": run.id,
            "generation": run.generation,
            "virtual_devices": run.virtual_devices,
            "operations": run.operations,
            "client_connected": run.client_connected,
            "state": run.state,
            "reason": run.reason,
            "placement": run.placement,
            "on_loss": run.policy,
            "lost_devices": list(run.lost),
            "hosts_wanted": run.wanted,
            "controller_pid": run.pid,
            "age_s": _seconds(run.age),
        },
        "hosts": [_host(host) for host in hosts],
        "snapshot": {
            "operation": snapshot.operation,
            "age_s": _seconds(snapshot.age),
            "bytes": snapshot.nbytes,
            "copies": snapshot.copies,
            "protection": snapshot.protection,
            "copies_bytes": snapshot.copies_bytes,
            "parity_bytes": snapshot.parity_bytes,
            "problem": snapshot.problem,
        },
        "journal": {"operations": journal.operations, "bytes": journal.nbytes},
        **({"checkpoint": _stored(stored)} if stored is not None else {}),
        "goodput": dict(goodput) if goodput else None,
        **({"verification": _verified(verified)} if verified is not None else {}),
        "failures": [_failure(change) for change in changes],
    }


def with_refused(found: dict[str, Any], refused: Mapping[str, int]) -> dict[str, Any]:
    """The report with the connections that the controller itself refused, by reason, under "run"."""
    return {**found, "run": {**found["run"], "refused": dict(refused)}}


def with_etcd(found: dict[str, Any], unheard_s: float | None) -> dict[str, Any]:
    """The report of a run that etcd has not answered for so many seconds; None if it has."""
    if unheard_s is None:
        return found
    reason = (
        f"etcd has not answered for {unheard_s:.1f} s or more: until it does, the run cannot do without a lost host"
    )
    status = DEGRADED if found["status"] == HEALTHY else found["status"]
    return {**found, "status": status, "reasons": [*found["reasons"], reason]}


def assess(
    run: RunFacts,
    hosts: Sequence[HostFacts],
    stored: StoredFacts | None = None,
    verified: VerifiedFacts | None = None,
    not_saved: str = "",
) -> tuple[str, list[str]]:
    """Whether the run has what it was asked to have, and why not; `not_saved` says why there is no newer snapshot."""
    if run.state == "failed":
        return DOWN, [f"the run failed: {run.reason}"]
    reasons = []
    if run.state not in ("running", "moving"):
        reasons.append(f"the run is {run.state}: {run.reason}")
    members = [host for host in hosts if host.member]
    reasons += [f"host {host.id} is {host.state}: {host.reason}" for host in members if host.state not in _LIVES]
    if len(members) < run.wanted:
        gone = [f"host {host.id} is {host.state}: {host.reason}" for host in hosts if not host.member]
        reasons.append("; ".join([f"{len(members)} of {run.wanted} hosts are there", *gone]))
    if run.lost:
        reasons.append(
            f"virtual devices {', '.join(map(str, run.lost))} have no physical device, as the script is told"
        )
    reasons += [not_saved] if not_saved else []
    if stored is not None:
        reasons += [stored.problem] if stored.problem else []
        reasons += [f"host {host} is slow to write checkpoints" for host in stored.slow]
        reasons += [f"host {host} is slow to read what is stored; others read for it" for host in stored.slow_readers]
    if verified is not None and verified.problem:
        reasons.append(verified.problem)
    stacked = [host for host in members if len(host.virtual_devices) > host.devices]
    if stacked:
        names = ", ".join(host.id for host in stacked)
        reasons.append(f"virtual devices share devices on {names}")
    return (DEGRADED if reasons else HEALTHY), reasons


def _host(host: HostFacts) -> dict[str, Any]:
    return {
        "id": host.id,
        "incarnation": host.incarnation,
        "state": host.state,
        "reason": host.reason,
        "agent_pid": host.agent_pid,
        "executor_pid": host.executor_pid,
        "address": host.address,
        "devices": host.devices,
        "virtual_devices": list(host.virtual_devices),
        "heartbeat_age_s": _seconds(host.heartbeat_age),
        "lease_ttl_s": host.lease_ttl,
        "checked_age_s": _seconds(host.checked_age),
        "restarts": host.restarts,
        "age_s": _seconds(host.age),
        "refused": dict(host.refused),
    }


def _stored(stored: StoredFacts) -> dict[str, Any]:
    return {
        "directory": stored.directory,
        "path": stored.path,
        "operation": stored.operation,
        "age_s": _seconds(stored.age),
        "bytes": stored.nbytes,
        "took_s": _seconds(stored.seconds),
        "storing": stored.storing,
        "problem": stored.problem,
        "slow_readers": list(stored.slow_readers),
        "slow_hosts": {host: _seconds(seconds) for host, seconds in stored.slow.items()},
    }


def _verified(verified: VerifiedFacts) -> dict[str, Any]:
    return {
        "every": verified.every,
        "operation": verified.operation,
        "age_s": _seconds(verified.age),
        "verified": verified.verified,
        "executions": verified.executions,
        "verifying": verified.verifying,
        "problem": verified.problem,
        "findings": [
            {
                "time": finding.time,
                "host": finding.host,
                "what": finding.what,
                "went_back": finding.goes_back,
                "executions": finding.executions,
                "wrong_reads": finding.wrong_reads,
            }
            for finding in verified.findings
        ],
    }


def _failure(change: Recovered) -> dict[str, Any]:
    return {
        "time": change.time,
        "host": change.host,
        "kind": change.kind,
        "detected_by": change.detected_by,
        "reason": change.reason,
        "plan": change.plan,
        "phases_s": {"detect": _seconds(change.detect), **{k: _seconds(v) for k, v in change.phases.items()}},
        "total_s": _seconds(change.detect + change.total),
        "operations_replayed": change.operations_replayed,
        "verified": change.verified,
    }


def _seconds(value: float | None) -> float | None:
    """To the tenth of a millisecond: what is below says nothing."""
    return None if value is None else round(value, 4)
