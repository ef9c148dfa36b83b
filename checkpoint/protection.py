"""How the shards of a snapshot are protected against the loss of hosts: the policy, as users write it."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass

from checkpoint.errors import CheckpointError

_MOST_BLOCKS = 256
"""Blocks of a stripe that Reed-Solomon over bytes can tell apart."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Any `m` hosts may be lost at once. Raises `ValueError` for numbers that make no sense.

    Attributes:
        k: how many shards, on as many hosts, share their parity blocks; with 1 there are full copies instead.
        m: how many parity blocks they have, or copies besides the first.
    """

    k: int = 1
    m: int = 1

    def __post_init__(self) -> None:
        if self.k < 1 or self.m < 1 or self.k + self.m > _MOST_BLOCKS:
            words = f"k is {self.k} and m is {self.m}, or copies are {self.m + 1}"
            raise ValueError(f"{words}: k and m are at least 1, and at most {_MOST_BLOCKS} together")

    @classmethod
    def parse(cls, text: str) -> Protection:
        """Of "copies=2" or "parity=3+1". Raises `ValueError`, which says what may be written."""
        match re.fullmatch(r"copies=(\d+)|parity=(\d+)\+(\d+)", text):
            case None:
                raise ValueError(f"shards are protected by copies=N or parity=K+M, such as parity=3+1; not by {text!r}")
            case found if found[1]:
                return cls(1, int(found[1]) - 1)
            case found:
                return cls(int(found[2]), int(found[3]))

    def __str__(self) -> str:
        return f"copies={self.m + 1}" if self.k == 1 else f"parity={self.k}+{self.m}"

    def check_codec(self) -> None:
        """Raises `CheckpointError` if a library is missing that its parity needs."""
        if self.k > 1 and self.m > 1 and importlib.util.find_spec("zfec") is None:
            raise CheckpointError(
                f"{self} needs the package zfec: pip install 'elastic-jax[parity]', on every host; one parity block "
                f"(parity={self.k}+1) and copies need nothing"
            )
