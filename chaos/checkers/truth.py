"""Truth: what `elastic health` says of failures is what happened, and what happened had a cause."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.causes import alarms_without_cause, reactions
from chaos.checkers.liveness import name_of
from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.faults import FAULTS
from chaos.history import Event

MOST = 100
"""Health tells of so many changes, the last ones."""


def truth(evidence: Evidence) -> Verdict:
    """Each account of health is compared with the history, change by change.

    A host that is given up though nothing was done to it is listed as a remark: on a busy machine it may be slow.
    """
    chaos = evidence.chaos
    changes, accounts = chaos.of("recovered", "failed"), chaos.of("health")
    problems = list(dict.fromkeys(problem for account in accounts for problem in _untrue(account, changes)))
    # A run may end before somebody could ask.
    if not accounts and any(chaos.ended - change.at > evidence.plan.notice_within for change in changes):
        problems.append("health gave no account")
    false = alarms_without_cause(chaos, evidence.plan.notice_within)
    remarks = [f"without a fault: {event.kind} {event.host}: {_why(event)}" for event in false]
    remarks += [
        f"not noticed: {name_of(one.fault)}: nobody came upon it"
        for one in reactions(chaos, evidence.plan.notice_within)
        if one.noticed is None and FAULTS[one.fault["fault"]].signs
    ]
    remarks += [f"not done: {event['fault']} {'+'.join(event.hosts)}: {event['why']}" for event in chaos.of("skipped")]
    return verdict("truth", problems, f"{len(accounts)} accounts of {len(changes)} changes", remarks)


def _untrue(account: Event, changes: Sequence[Event]) -> list[str]:
    """What is wrong with an account, in words. It was given at some moment between the question and the answer."""
    told = [(failure["host"], failure["kind"]) for failure in account["failures"]]
    least = sum(change.at < account["asked"] for change in changes)
    most = sum(change.at <= account.at for change in changes)
    possible = [count for count in range(least, most + 1) if min(count, MOST) == len(told)]
    if not possible:
        return [f"health tells of {len(told)} changes, of {least if len(told) < least else most} that there were"]
    found = ([(change.host, change.facts.get("kind", "failed")) for change in changes[:count]] for count in possible)
    differences = (
        [pair for pair in zip(told, were[-len(told) :], strict=False) if pair[0] != pair[1]] for were in found
    )
    return [
        f"health tells of {said[0]} ({said[1]}), and it was {was[0]} ({was[1]})"
        for said, was in min(differences, key=len)
    ]


def _why(event: Event) -> str:
    return str(event.facts.get("reason", event.facts.get("why", "")))
