"""Which checkpoints to keep. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Retention:
    """Keeps the newest `last`, and of the older ones each whose step is a multiple of `every` (None: none of them).

    Raises `ValueError` for numbers that make no sense.
    """

    last: int = 3
    every: int | None = None

    def __post_init__(self) -> None:
        if self.last < 1 or (self.every is not None and self.every < 1):
            raise ValueError(f"at least one checkpoint has to be kept, and every N-th with N from 1 on: {self}")

    def keeps(self, steps: Collection[int]) -> set[int]:
        """Those of the finished steps that stay."""
        newest = sorted(steps)[-self.last :]
        return {step for step in steps if step in newest or (self.every is not None and step % self.every == 0)}
