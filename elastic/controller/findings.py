"""What comparing executions has brought to light, in words and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from elastic.controller.majority import Execution, Shard, Verdict
from elastic.controller.replay import Verification
from elastic.instants import now_text

_SHOWN = 3
"""Shards that are named; the others are counted."""


@dataclass
class Finding:
    """A difference between executions.

    Attributes:
        what: in words.
        host: who was wrong; empty if that cannot be told.
        shards: of the run that were wrong, or of another execution if the run was right.
        reads: those that the client had read already.
        goes_back: whether the run's own arrays were wrong.
        executions: how many were compared.
        reason: why the host is quarantined.
        replay: the comparison of later reads with what the run gives after it went back.
        time: when it was found, RFC 3339.
    """

    what: str
    host: str
    shards: Sequence[Shard]
    reads: Sequence[Shard]
    goes_back: bool
    executions: int
    reason: str = ""
    replay: Verification | None = None
    time: str = field(default_factory=now_text)

    @classmethod
    def of(
        cls,
        executions: Sequence[Execution],
        found: Verdict,
        start: int,
        end: int,
        reads: Sequence[Shard],
        goes_back: bool,
    ) -> Finding:
        """`start` and `end` are the operations between which it happened."""
        own = executions[0]
        where = f"between operations {start} and {end}"
        if found.right is None:
            shards = own.differing(executions[1])
            return cls(
                f"{_unsettled(executions)} {where}: {words(own, shards)}", "", shards, (), False, len(executions)
            )
        wrong = own if own.digests != found.right.digests else _first_wrong(executions, found.right)
        shards = wrong.differing(found.right)
        whose = "" if wrong is own else " when it was executed again, while the run was right"
        how = f"computed wrongly {where}{whose}: {words(wrong, shards)}"
        if reads:
            how += f"; the client had read {_count(len(reads), 'wrong value')} already"
        what = f"host {found.culprit} {how}" if found.culprit else f"nobody can say which host {how}"
        return cls(what, found.culprit, shards, reads, goes_back, len(executions), f"it {how}")

    @property
    def wrong_reads(self) -> int:
        """How many wrong values the client has read, as far as is known."""
        return len(self.reads) + (len(self.replay.different) if self.replay is not None else 0)

    def told(self) -> dict[str, Any]:
        """For the history."""
        return {
            "host": self.host,
            "what": self.what,
            "shards": len(self.shards),
            "reads": [read.read for read in self.reads],
            "executions": self.executions,
            "goes_back": self.goes_back,
        }


@dataclass(frozen=True)
class VerifiedFacts:
    """How verifying stands.

    Attributes:
        every: one in so many intervals between snapshots is executed again.
        operation: of the last verified one.
        age: since it was verified, in seconds; None while there is none.
        verified: how many were.
        executions: how often something was executed again for that.
        verifying: whether one is being verified.
        problem: why the last could not be, or why none will be; empty if all is well.
    """

    every: int
    operation: int
    age: float | None
    verified: int
    executions: int
    verifying: bool
    problem: str
    findings: Sequence[Finding]


def words(execution: Execution, shards: Sequence[Shard]) -> str:
    """Shards, and the hosts that had them in an execution."""
    named = [f"{shard} of host {execution.hosts[shard.device]}" for shard in shards[:_SHOWN]]
    return ", ".join(named) + (f" and {len(shards) - _SHOWN} more" if len(shards) > _SHOWN else "")


def _first_wrong(executions: Sequence[Execution], right: Execution) -> Execution:
    return next(one for one in executions if one.digests != right.digests)


def _unsettled(executions: Sequence[Execution]) -> str:
    hosts = {one.alone for one in executions} - {""}
    many = f"{len(executions)} executions gave no two results that agree"
    if len(hosts) < 3:
        return f"{many}, and with two hosts nobody can say whether the program or one of them is to blame,"
    return f"{many}, so that it is the program which does not give the same each time,"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
