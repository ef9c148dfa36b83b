"""Clean: when a run has ended, no process and no shared memory of it is left, and so no port either."""

from __future__ import annotations

from chaos.checkers.verdict import Evidence, Verdict, verdict


def clean(evidence: Evidence) -> Verdict:
    """Of both runs, as they were found after their end."""
    problems = []
    for name, history in (("without faults", evidence.clean), ("under the plan", evidence.chaos)):
        found = history.last("leftovers")
        if found is None:
            problems.append(f"nobody looked what the run {name} had left")
            continue
        problems += [f"the run {name} has left the process {words}" for words in found["processes"]]
        problems += [f"the run {name} has left {path}" for path in found["files"]]
    return verdict("clean", problems, "processes and shared memory of both runs")
