"""Truth: what `elastic health` says of failures is what happened, and what happened had a cause."""

from __future__ import annotations

from chaos.causes import alarms_without_cause, reactions
from chaos.checkers.liveness import name_of
from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.faults import FAULTS
from chaos.history import Event


def truth(evidence: Evidence) -> Verdict:
    """The last account of health is compared with the history, change by change.

    A host that is given up though nothing was done to it is listed as a remark: on a busy machine it may be slow.
    """
    chaos = evidence.chaos
    problems = []
    account = chaos.last("health")
    told = account["failures"] if account is not None else []
    changes = chaos.of("recovered", "failed")
    for failure, change in zip(told, changes, strict=False):
        kind = change.facts.get("kind", "failed")
        if (failure["host"], failure["kind"]) != (change.host, kind):
            problems.append(f"health tells of {failure['host']} ({failure['kind']}), and it was {change.host} ({kind})")
    before = [change for change in changes if account is not None and change.at < account["asked"]]
    if len(told) < len(before):
        problems.append(f"health tells of {len(told)} changes, of {len(before)} that there were")
    if len(told) > len(changes):
        problems.append(f"health tells of {len(told)} changes, and there were {len(changes)}")
    # A run may end before somebody could ask.
    if account is None and any(chaos.ended - change.at > evidence.plan.notice_within for change in changes):
        problems.append("health gave no account")
    false = alarms_without_cause(chaos, evidence.plan.notice_within)
    remarks = [f"without a fault: {event.kind} {event.host}: {_why(event)}" for event in false]
    remarks += [
        f"not noticed: {name_of(one.fault)}: nobody came upon it"
        for one in reactions(chaos, evidence.plan.notice_within)
        if one.noticed is None and FAULTS[one.fault["fault"]].signs
    ]
    remarks += [f"not done: {event['fault']} {'+'.join(event.hosts)}: {event['why']}" for event in chaos.of("skipped")]
    return verdict("truth", problems, f"{len(told)} changes", remarks)


def _why(event: Event) -> str:
    return str(event.facts.get("reason", event.facts.get("why", "")))
