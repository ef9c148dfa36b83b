"""Regions of arrays: boxes of indices, one [start, stop) for each dimension. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

Region = tuple[tuple[int, int], ...]
Shape = tuple[int, ...]


def whole(shape: Sequence[int]) -> Region:
    return tuple((0, size) for size in shape)


def of_slices(index: Sequence[slice], shape: Sequence[int]) -> Region:
    """The region that slices without steps, as those of `jax.Array` shards, take out of a shape."""
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))


def slices(region: Region, origin: Region | None = None) -> tuple[slice, ...]:
    """For an array that holds the region `origin`; by default, for one that begins at 0."""
    starts = [start for start, _ in origin] if origin is not None else [0] * len(region)
    return tuple(slice(start - base, stop - base) for (start, stop), base in zip(region, starts, strict=True))


def shape_of(region: Region) -> Shape:
    return tuple(stop - start for start, stop in region)


def overlap(one: Region, other: Region) -> Region | None:
    """What both have; None if that is nothing."""
    found = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return found if all(start < stop for start, stop in found) else None


def grid_of(shape: Sequence[int], regions: Iterable[Region]) -> Shape:
    """The largest chunk shape of a regular grid in which each region is made of whole chunks.

    Chunks at the array's end may stick out of it. A dimension of size 0 has chunks of size 1, which there are none of.
    """
    steps = [set() if size else {1} for size in shape]
    for region in regions:
        for step, (start, stop), size in zip(steps, region, shape, strict=True):
            step |= {start, stop} if stop < size else {start}
    return tuple(math.gcd(*step) or max(size, 1) for step, size in zip(steps, shape, strict=True))


def chunks_of(region: Region, chunk: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The grid positions of all chunks that have a part of a region."""
    return itertools.product(
        *(range(start // size, -(-stop // size)) for (start, stop), size in zip(region, chunk, strict=True))
    )


def region_of(position: Sequence[int], chunk: Sequence[int], shape: Sequence[int]) -> Region:
    """What a chunk has of an array; less than a whole chunk at the array's end."""
    return tuple(
        (index * size, min((index + 1) * size, end)) for index, size, end in zip(position, chunk, shape, strict=True)
    )


def chunk_of(region: Region, chunk: Sequence[int]) -> tuple[int, ...]:
    """The grid position of the chunk in which a region begins."""
    return tuple(start // size for (start, _), size in zip(region, chunk, strict=True))
