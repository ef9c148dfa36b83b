"""What can be wrong with what a user gave.

ChaosError
    PlanError       a plan says something that cannot be; the text says where, and what could be instead
    HistoryError    a file is no history
"""

from __future__ import annotations


class ChaosError(Exception):
    """Any of these."""


class PlanError(ChaosError):
    """A plan cannot be carried out as it stands."""


class HistoryError(ChaosError):
    """A file holds something else than a history."""
