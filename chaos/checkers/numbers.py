"""Numbers: every value that the script read is the one that it reads when nothing happens, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.history import Event, History


def numbers(evidence: Evidence) -> Verdict:
    """The values in the order in which they were asked for, by their digests; and how the script ended."""
    clean, chaos, told = _reads(evidence.clean), _reads(evidence.chaos), _told_as_wrong(evidence.chaos)
    wrong = [
        (index, ours, plain)
        for index, (ours, plain) in enumerate(zip(chaos, clean, strict=False), 1)
        if ours["digest"] != plain["digest"]
    ]
    problems = [
        f"value {index} is {ours['digest']}, and {plain['digest']} when nothing happens"
        for index, ours, plain in wrong
        if ours["number"] not in told
    ]
    remarks = _as_the_run_said([index for index, ours, _ in wrong if ours["number"] in told])
    if not clean:
        problems.append("the script read no value, so there is nothing to compare")
    if evidence.clean.failed:
        problems.append("the script fails even when nothing happens to it")
    if not evidence.may_end_early:
        if len(chaos) != len(clean):
            problems.append(f"the script read {len(chaos)} values, and {len(clean)} when nothing happens")
        if evidence.chaos.failed and not evidence.clean.failed:
            problems.append(f"the script ended with exit code {_code(evidence.chaos)}")
    problems += [
        f"a replay gave another value: {event['what']}"
        for event in _differing(evidence.chaos)
        if event.facts.get("number") not in told
    ]
    return verdict("numbers", problems, f"{len(chaos)} values", remarks + _printed(evidence))


def _reads(history: History) -> list[Event]:
    return sorted(history.of("read"), key=lambda event: int(event["number"]))


def _differing(history: History) -> list[Event]:
    return [event for event in history.of("verified") if not event["equal"]]


def _told_as_wrong(history: History) -> set[int]:
    """The values, by number, of which the run has said that they were wrong: it had found corruption."""
    found = history.of("corruption")
    reads = {number for event in found for number in event["reads"]}
    return reads | {event["number"] for event in _differing(history) if found and "number" in event.facts}


def _as_the_run_said(wrong: Sequence[int]) -> list[str]:
    """A flipped bit may make hundreds of values wrong."""
    if not wrong:
        return []
    if len(wrong) == 1:
        return [f"value {wrong[0]} was wrong, as the run said"]
    return [f"{len(wrong)} of the values {wrong[0]} to {wrong[-1]} were wrong, as the run said"]


def _code(history: History) -> int:
    return next((int(event["code"]) for event in history.of("ended")), -1)


def _printed(evidence: Evidence) -> list[str]:
    """Lines may differ that tell times; that is for the reader to judge."""
    clean, chaos = ([event["line"] for event in history.of("output")] for history in (evidence.clean, evidence.chaos))
    differ = [(ours, plain) for ours, plain in zip(chaos, clean, strict=False) if ours != plain]
    if not differ:
        return []
    return [f"{len(differ)} printed lines differ, the first: {differ[0][0]!r} instead of {differ[0][1]!r}"]
