"""Liveness: every fault is noticed in time, every recovery ends in time, and at the end the run stands on its feet."""

from __future__ import annotations

from chaos.causes import Reaction, reactions
from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.faults import FAULTS
from chaos.history import Event, History


def liveness(evidence: Evidence) -> Verdict:
    """The bounds are those of the plan."""
    plan, chaos = evidence.plan, evidence.chaos
    found = reactions(chaos, plan.notice_within)
    problems = []
    for reaction in found:
        fault = reaction.fault
        # The script may end before it matters.
        in_time = chaos.ended - fault.at > plan.notice_within
        must = fault["must_be_noticed"] and not _came_to_nothing(reaction, evidence)
        if reaction.noticed is None and must and in_time:
            problems.append(f"{name_of(fault)} was not noticed within {plan.notice_within:g} s")
    ends = chaos.of("recovered", "failed", "ended")
    losses = chaos.of("lost")
    for loss in losses:
        end = next((event for event in ends if event.at >= loss.at), None)
        if end is None or end.at - loss.at > plan.recover_within:
            problems.append(f"the loss of {loss.host} was not followed by a recovery within {plan.recover_within:g} s")
    if plan.faults and not found:
        problems.append("none of the faults of the plan was done, so nothing is shown")
    problems += [f"nothing happened for {event['seconds']:g} s, and the run was ended" for event in chaos.of("hung")]
    if not chaos.of("ended"):
        problems.append("the script did not end")
    if chaos.of("failed") and not evidence.may_end_early:
        problems.append(f"the run could not go on: {chaos.of('failed')[-1].facts.get('reason', '')}")
    for fault in chaos.of("injected"):
        if fault["lasts"] is not None and not any(event["number"] == fault["number"] for event in chaos.of("reverted")):
            problems.append(f"{name_of(fault)} was not taken back")
    return verdict("liveness", problems, f"{len(found)} faults, {len(losses)} losses")


def _came_to_nothing(reaction: Reaction, evidence: Evidence) -> bool:
    """Whether a disk may have had a fault, and none any more, before its host was to store or to read anything."""
    if not FAULTS[reaction.fault["fault"]].stored:
        return False
    plan, chaos = evidence.plan, evidence.chaos
    due = reaction.fault.at + plan.checkpoint_every
    # Nothing else is stored; where snapshots are dear, as on a busy machine, they are rare.
    worth_it = chaos.of("verified_snapshot" if plan.verify_every else "snapshot")
    if not any(due <= event.at <= reaction.until - plan.notice_within for event in worth_it):
        return True
    return any(_longest(chaos, host, due, reaction.until) < plan.notice_within for host in reaction.fault.hosts)


def _longest(history: History, host: str, begin: float, end: float) -> float:
    """Seconds for which a host took part without a break, of a time."""
    return max((min(left, end) - max(joined, begin) for joined, left in history.presence(host)), default=0.0)


def name_of(fault: Event) -> str:
    """A fault in words."""
    hosts = "+".join(fault.hosts)
    return f"fault {fault['number']} ({fault['fault']}{' ' + hosts if hosts else ''})"
