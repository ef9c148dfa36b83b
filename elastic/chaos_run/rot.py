"""Bits that change where nobody looks: in files that hold copies of arrays, their parity, or checkpoints."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path


def rot(files: Iterable[Path], seed: int) -> int:
    """Changes one bit of each file that is there and has any; how many were changed.

    The bits are drawn from the seed and the files' names. Each file is replaced by a changed copy: devices may compute
    with the very pages of the old one, and what is to be changed is the copy, not the array.
    """
    return sum(_rot(file, random.Random(f"{seed}:{file.name}")) for file in files)


def _rot(file: Path, lot: random.Random) -> bool:
    try:
        data = bytearray(file.read_bytes())
        if not data:
            return False
        bit = lot.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        changed = file.with_name(f".rot.{file.name}")
        changed.write_bytes(data)
        os.replace(changed, file)
        return True
    except OSError:  # It is gone; or its disk takes nothing, for the sake of another fault.
        return False
