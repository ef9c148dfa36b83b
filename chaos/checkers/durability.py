"""Durability: at every instant somebody who lives holds each content of the snapshot that counts."""

from __future__ import annotations

from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.copies import Copies


def durability(evidence: Evidence) -> Verdict:
    """By the hosts that hold what, as the controller knows it, and by which of them are gone."""
    copies, problems, whole = Copies(), [], True
    for event in evidence.chaos:
        copies.tell(event)
        if whole and not copies.whole:
            problems.append(
                f"when {event.host or 'the controller'} told {event.kind!r}, no host held all of the arrays"
            )
        whole = copies.whole
    count = len(evidence.chaos.of("snapshot"))
    if evidence.plan.allow_data_loss:
        return verdict("durability", [], f"{count} snapshots", problems)
    return verdict("durability", problems, f"{count} snapshots")
