"""The codec of stripes: any one block from k others.

A stripe has k data blocks, numbers 0 to k - 1, and m parity blocks behind them. With one parity block it is the xor of
the data; with more they are Reed-Solomon's, by the library zfec. Both work byte by byte, so blocks may be given in
pieces. Blocks that are shorter than others count as if zeros followed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from checkpoint.errors import CheckpointError
from checkpoint.protection import Protection

Bytes = bytes | bytearray | memoryview


class Codec:
    """Makes blocks of stripes with k data and m parity blocks."""

    def __init__(self, k: int, m: int) -> None:
        """Raises `CheckpointError` if zfec is needed and not installed."""
        self.k = k
        self._coder = _reed_solomon(k, m) if k > 1 and m > 1 else None

    def make(self, want: int, blocks: Mapping[int, Bytes], size: int) -> memoryview:
        """Block number `want`, or the same piece of it, `size` bytes long.

        `blocks` are at least k others by their numbers; more than k are of no use. None is longer than `size`.
        Raises `CheckpointError` if they are too few.
        """
        if len(blocks) < self.k:
            raise CheckpointError(f"a block needs {self.k} others of its stripe, and there are {len(blocks)}")
        chosen = dict(sorted(blocks.items())[: self.k])
        if self._coder is None:
            return _xor(chosen.values(), size)
        encoder, decoder = self._coder
        padded = {number: _padded(data, size) for number, data in chosen.items()}
        if any(number >= self.k for number in padded):
            data = tuple(decoder.decode(tuple(padded.values()), tuple(padded)))
        else:
            data = tuple(padded.values())
        return memoryview(data[want] if want < self.k else encoder.encode(data, (want,))[0])


@functools.lru_cache
def _reed_solomon(k: int, m: int) -> tuple[Any, Any]:
    """(encoder, decoder); to make their matrices takes longer than to code a small block."""
    Protection(k, m).check_codec()
    import zfec

    return zfec.Encoder(k, k + m), zfec.Decoder(k, k + m)


def _xor(blocks: Any, size: int) -> memoryview:
    import numpy as np  # Not sooner: launchers, which import this package too, can do without.

    made = np.zeros(size, np.uint8)
    for block in blocks:
        part = made[: len(block)]
        np.bitwise_xor(part, np.frombuffer(block, np.uint8), out=part)
    return made.data


def _padded(data: Bytes, size: int) -> Bytes:
    return data if len(data) == size else bytes(data).ljust(size, b"\0")
