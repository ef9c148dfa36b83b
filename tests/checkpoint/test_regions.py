"""Regions against a twin that looks at every element."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.regions import chunks_of, grid_of, of_slices, overlap, region_of, shape_of, slices, whole

shapes = st.lists(st.integers(0, 6), max_size=2).map(tuple)


@st.composite
def regions(draw, shape):
    """A region with something in it, where the shape allows that."""
    starts = [draw(st.integers(0, max(size - 1, 0))) for size in shape]
    return tuple(
        (start, draw(st.integers(min(start + 1, size), size))) for start, size in zip(starts, shape, strict=True)
    )


@st.composite
def shapes_and_regions(draw, count):
    shape = draw(shapes)
    return shape, [draw(regions(shape)) for _ in range(count)]


def elements(region):
    return set(itertools.product(*(range(start, stop) for start, stop in region)))


def is_made_of_chunks(chunk, shape, region):
    """Whether no chunk has elements both in the region and, within the array, outside of it."""
    inside = elements(region)
    return all(
        (index in inside) == (other in inside)
        for index in elements(whole(shape))
        for other in elements(whole(shape))
        if all(a // size == b // size for a, b, size in zip(index, other, chunk, strict=True))
    )


@given(shapes_and_regions(2))
def test_an_overlap_is_what_both_have(drawn):
    _, (one, other) = drawn
    both = overlap(one, other)
    assert (set() if both is None else elements(both)) == elements(one) & elements(other)


@given(shapes_and_regions(1), st.data())
def test_the_chunks_of_a_region_are_those_that_have_an_element_of_it(drawn, data):
    shape, (region,) = drawn
    chunk = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    positions = [tuple(i // size for i, size in zip(index, chunk, strict=True)) for index in elements(region)]
    found = list(chunks_of(region, chunk))
    assert sorted(found) == sorted(set(positions))


@given(shapes, st.data())
def test_the_chunks_of_an_array_have_each_element_once(shape, data):
    chunk = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    parts = [elements(region_of(position, chunk, shape)) for position in chunks_of(whole(shape), chunk)]
    assert sum(map(len, parts)) == math.prod(shape)
    assert set().union(*parts) == elements(whole(shape))


@given(st.integers(1, 3).flatmap(shapes_and_regions))
def test_each_region_is_made_of_whole_chunks_of_its_grid_and_no_larger_ones_would_do(drawn):
    shape, given = drawn
    chunk = grid_of(shape, given)
    if not math.prod(shape):
        assert all(size >= 1 for size in chunk)
        return
    assert all(is_made_of_chunks(chunk, shape, region) for region in given)
    for axis, size in enumerate(shape):
        for larger in range(chunk[axis] + 1, size + 1):
            other = (*chunk[:axis], larger, *chunk[axis + 1 :])
            assert not all(is_made_of_chunks(other, shape, region) for region in given)


@pytest.mark.parametrize(
    ("shape", "given", "chunk"),
    [
        ((8, 6), [((0, 2), (0, 3)), ((2, 4), (3, 6)), ((6, 8), (0, 6))], (2, 3)),
        ((10,), [((0, 7),), ((7, 10),)], (7,)),
        ((10,), [((0, 4),), ((4, 10),)], (4,)),
        ((), [()], ()),
        ((0, 3), [((0, 0), (0, 3))], (1, 3)),
    ],
)
def test_grids(shape, given, chunk):
    assert grid_of(shape, given) == chunk


@given(shapes_and_regions(2))
def test_slices_take_a_region_out_of_what_holds_another(drawn):
    shape, (outer, inner) = drawn
    array = np.arange(math.prod(shape)).reshape(shape)
    both = overlap(outer, inner)
    if both is not None:
        assert np.array_equal(array[slices(outer)][slices(both, outer)], array[slices(both)])
        assert array[slices(both)].shape == shape_of(both)


def test_the_slices_of_shards_may_leave_out_their_ends():
    assert of_slices((slice(None), slice(2, None), slice(1, 3)), (4, 5, 6)) == ((0, 4), (2, 5), (1, 3))
