"""Durability: at every instant everything could be restored, from hosts or from disk; and what is foreign stays."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.checkers.liveness import name_of
from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.copies import Copies
from chaos.faults import FAULTS
from chaos.history import History

_SETTLES_S = 0.5
"""What began so soon after a disk was hit may have come before."""


def durability(evidence: Evidence) -> Verdict:
    """By who holds what, as the controller knows it and as others found it to be."""
    chaos, stores = evidence.chaos, evidence.plan.checkpoint_every > 0
    lost = list(_lost(chaos, stores))
    untrue = [*_untrue_copies(chaos), *_untrue_returns(chaos, stores), *_untrue_checkpoints(chaos)]
    left = [*_left("without faults", evidence.clean), *_left("under the plan", chaos)]
    looked_at = f"{len(chaos.of('snapshot'))} snapshots, {len(chaos.of('stored'))} stored"
    if evidence.plan.allow_data_loss:
        return verdict("durability", [*untrue, *left], looked_at, lost)
    return verdict("durability", [*lost, *untrue, *left], looked_at)


def _lost(history: History, stores: bool) -> Iterator[str]:
    """The moments from which on something could not be restored."""
    copies, whole = Copies(stores=stores), True
    for event in history:
        copies.tell(event)
        if whole and not copies.whole:
            yield f"when {event.host or 'the controller'} told {event.kind!r}, no host held all of the arrays"
        whole = copies.whole


def _untrue_copies(history: History) -> Iterator[str]:
    """Copies and files that were bad, though nothing was done to them."""
    rotten: set[str] = set()
    for event in history:
        if event.kind == "injected" and FAULTS[event["fault"]].rots:
            rotten.update(event.hosts or ("",))  # What is on disk is of no host.
        elif event.kind == "bad_copy" and event.host not in rotten:
            yield f"the copy {event['digest']} on {event.host} was bad, and nothing had been done to it"
        elif event.kind == "bad_file" and "" not in rotten:
            yield f"a stored file was bad, and nothing had been done to it: {event['why']}"


def _untrue_returns(history: History, stores: bool) -> Iterator[str]:
    """What was read from disk, though hosts were said to hold it."""
    copies = Copies()
    for event in history if stores else ():
        if event.kind == "injected" and FAULTS[event["fault"]].rots:
            return  # What hosts hold may be worth nothing, whatever the controller knows.
        if event.kind == "went_back" and event["to"] == "stored" and copies.whole:
            yield f"the run went back to operation {event['operation']}, though hosts were said to hold everything"
        copies.tell(event)


def _untrue_checkpoints(history: History) -> Iterator[str]:
    """What is said to have been stored while the disk took nothing."""
    ends = {event["number"]: event.at for event in history.of("reverted")}
    for fault in history.of("injected"):
        if FAULTS[fault["fault"]].changes_disk:
            begin, end = fault.at + _SETTLES_S, ends.get(fault["number"], history.ended)
            for event in history.of("stored"):
                if begin < event.at - event["seconds"] and event.at < end:
                    yield f"operation {event['operation']} was told as stored during {name_of(fault)}"


def _left(name: str, history: History) -> Iterator[str]:
    """What was found on disk when a run had ended."""
    rotten = any(FAULTS[event["fault"]].rots and not event.hosts for event in history.of("injected"))
    for event in history.of("checkpoints"):
        if not rotten:
            yield from (f"a checkpoint of the run {name} is not whole: {problem}" for problem in event["bad"])
        yield from (
            f"the run {name} has removed or changed {path}, which is not its own" for path in event["foreign_gone"]
        )
