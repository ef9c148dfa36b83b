"""Exactly once: each callback ran once, each value was read once, and no operation is lost or doubled."""

from __future__ import annotations

from collections import Counter

from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.history import History


def exactly_once(evidence: Evidence) -> Verdict:
    """Calls are compared with those of the run to which nothing happened, by their arguments: functions have other
    numbers in each run. Operations are looked at by where replays begin."""
    chaos = evidence.chaos
    problems = _lineage(chaos)  # First, since the others may follow from it.
    problems += _twice(Counter(event["number"] for event in chaos.of("read")), "value number {} was read {} times")
    calls, plain = (
        Counter(event["arguments"] for event in history.of("callback")) for history in (chaos, evidence.clean)
    )
    for arguments, count in sorted((calls - plain).items()):
        problems.append(f"the callback of {arguments} ran {count} times too often")
    if not evidence.may_end_early:
        problems += [
            f"the callback of {arguments} ran {count} times too seldom"
            for arguments, count in sorted((plain - calls).items())
        ]
    replays = len(chaos.of("replay"))
    looked_at = f"{calls.total()} callbacks, {len(chaos.of('read'))} reads, {max(replays - 1, 0)} replays"
    return verdict("exactly once", problems, looked_at)


def _twice(counts: Counter[int], words: str) -> list[str]:
    return [words.format(number, count) for number, count in sorted(counts.items()) if count > 1]


def _lineage(history: History) -> list[str]:
    """Each world goes on from the snapshot that counts: one that began sooner would do operations twice, one that
    began later would leave some out."""
    problems = []
    counts, end, restored, empty = 0, 0, {}, True
    for event in history:
        if event.kind in ("snapshot", "forgotten"):
            counts, empty = event["operation"], event.kind == "forgotten"
        elif event.kind == "went_back":
            counts = event["operation"]
        elif event.kind == "restored":
            restored[event["generation"]] = event["operation"]
        elif event.kind == "replay":
            generation, start = event["generation"], event["operation"]
            if start != counts:
                problems.append(
                    f"generation {generation} begins at operation {start}, and the snapshot that counts is of {counts}"
                )
            # A client that left took along what it had: there is nothing to restore.
            if not empty and restored.get(generation, start) != start:
                has = restored[generation]
                problems.append(f"generation {generation} has the arrays of operation {has}, and goes on at {start}")
            if event["end"] < end:
                problems.append(f"generation {generation} was told {event['end']} operations, of {end} before it")
            end = event["end"]
    return problems
