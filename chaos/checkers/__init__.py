"""Checkers: pure functions that look at histories and say whether a promise was kept. One file each."""

from __future__ import annotations

from collections.abc import Callable

from chaos.checkers.clean import clean
from chaos.checkers.durability import durability
from chaos.checkers.exactly_once import exactly_once
from chaos.checkers.liveness import liveness
from chaos.checkers.numbers import numbers
from chaos.checkers.one_owner import one_owner
from chaos.checkers.truth import truth
from chaos.checkers.verdict import Evidence, Verdict

CHECKERS: tuple[Callable[[Evidence], Verdict], ...] = (
    numbers,
    exactly_once,
    one_owner,
    liveness,
    durability,
    truth,
    clean,
)
"""All of them, in the order in which they are shown."""

__all__ = [
    "CHECKERS",
    "Evidence",
    "Verdict",
    "clean",
    "durability",
    "exactly_once",
    "liveness",
    "numbers",
    "one_owner",
    "truth",
]
