"""Numbers: every value that the script read is the one that it reads when nothing happens, to the last bit."""

from __future__ import annotations

from chaos.checkers.verdict import Evidence, Verdict, verdict
from chaos.history import Event, History


def numbers(evidence: Evidence) -> Verdict:
    """The values in the order in which they were asked for, by their digests; and how the script ended."""
    clean, chaos = _reads(evidence.clean), _reads(evidence.chaos)
    problems = [
        f"value {index} is {ours['digest']}, and {plain['digest']} when nothing happens"
        for index, (ours, plain) in enumerate(zip(chaos, clean, strict=False), 1)
        if ours["digest"] != plain["digest"]
    ]
    if not clean:
        problems.append("the script read no value, so there is nothing to compare")
    if evidence.clean.failed:
        problems.append("the script fails even when nothing happens to it")
    if not evidence.may_end_early:
        if len(chaos) != len(clean):
            problems.append(f"the script read {len(chaos)} values, and {len(clean)} when nothing happens")
        if evidence.chaos.failed and not evidence.clean.failed:
            problems.append(f"the script ended with exit code {_code(evidence.chaos)}")
    problems += [f"a replay gave another value: {event['what']}" for event in _differing(evidence.chaos)]
    return verdict("numbers", problems, f"{len(chaos)} values", _printed(evidence))


def _reads(history: History) -> list[Event]:
    return sorted(history.of("read"), key=lambda event: int(event["number"]))


def _differing(history: History) -> list[Event]:
    return [event for event in history.of("verified") if not event["equal"]]


def _code(history: History) -> int:
    return next((int(event["code"]) for event in history.of("ended")), -1)


def _printed(evidence: Evidence) -> list[str]:
    """Lines may differ that tell times; that is for the reader to judge."""
    clean, chaos = ([event["line"] for event in history.of("output")] for history in (evidence.clean, evidence.chaos))
    differ = [(ours, plain) for ours, plain in zip(chaos, clean, strict=False) if ours != plain]
    if not differ:
        return []
    return [f"{len(differ)} printed lines differ, the first: {differ[0][0]!r} instead of {differ[0][1]!r}"]
