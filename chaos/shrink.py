"""Shrinking: of many faults under which a run fails, few under which it still does (delta debugging).

A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002: `ddmin`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(faults: Sequence[T], fails: Callable[[Sequence[T]], bool], most: int) -> list[T]:
    """A part of `faults`, in their order, with which `fails` is true; none of it can be left out.

    `fails` runs an experiment, and is known to be true of all of them. It is asked at most `most` times: with too few,
    or if it does not answer the same each time, the result may be larger than it need be.
    """
    left, parts, asked = list(faults), 2, 0
    while len(left) >= 2 and asked < most:
        size = -(-len(left) // parts)
        chunks = [left[start : start + size] for start in range(0, len(left), size)]
        rests = [[one for other in chunks if other is not chunk for one in other] for chunk in chunks]
        for smaller in [*chunks, *(rests if len(chunks) > 2 else [])]:
            if asked == most:
                return left
            asked += 1
            if fails(smaller):
                parts = 2 if len(smaller) <= size else max(parts - 1, 2)
                left = smaller
                break
        else:
            if parts >= len(left):
                return left
            parts = min(2 * parts, len(left))
    return left
