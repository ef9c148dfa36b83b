"""What a checker looks at, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.history import History
from chaos.plan import Plan

_MOST = 20
"""Problems that are told of one checker."""


@dataclass(frozen=True)
class Evidence:
    """A plan, and what happened without and with it.

    Attributes:
        clean: the history of the script when nothing happened to it.
        chaos: that of the script under the plan.
    """

    plan: Plan
    clean: History
    chaos: History

    @property
    def may_end_early(self) -> bool:
        """The run failed, as the plan says that it may: what it did not come to do is no fault."""
        return self.plan.allow_data_loss and self.chaos.failed


@dataclass(frozen=True)
class Verdict:
    """What a checker found.

    Attributes:
        problems: what breaks the promise; the promise held if there are none.
        looked_at: what was checked, in words, such as "120 values".
        remarks: what does not break it, and should be known.
    """

    name: str
    problems: Sequence[str]
    looked_at: str
    remarks: Sequence[str] = field(default=())

    @property
    def held(self) -> bool:
        return not self.problems


def verdict(name: str, problems: Sequence[str], looked_at: str, remarks: Sequence[str] = ()) -> Verdict:
    """A verdict that tells the first of many problems, and how many more there are."""
    more = [f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else []
    return Verdict(name, [*problems[:_MOST], *more], looked_at, list(remarks))
