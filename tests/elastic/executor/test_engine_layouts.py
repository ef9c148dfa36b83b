"""Bytes with strides, as numpy lays them out, to dense arrays and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.array_utils import byte_bounds

from elastic.dtypes import numpy_dtype
from elastic.executor.engine import as_bytes, strided

DTYPES = ["bool", "int8", "uint16", "float32", "bfloat16", "complex64", "float8_e4m3fn"]


@st.composite
def views(draw, steps=(1, -1), min_size=1):
    """A numpy array whose axes are permuted, reversed and, with other steps, have gaps between their elements."""
    dtype = numpy_dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.lists(st.integers(min_size, 4), max_size=4))
    taken = [draw(st.sampled_from(steps)) for _ in shape]
    memory = [size * abs(step) for size, step in zip(shape, taken, strict=True)]
    base = np.arange(int(np.prod(memory))).reshape(memory).astype(dtype)
    view = base[tuple(slice(None, None, step) for step in taken)]
    return view.transpose(draw(st.permutations(range(len(shape)))))


def region(view):
    """The memory from the first byte of an array to its last."""
    low, high = byte_bounds(view)
    base = view
    while base.base is not None:
        base = base.base
    start = low - base.__array_interface__["data"][0]
    return memoryview(base.reshape(-1).view(np.uint8))[start : start + high - low]


def dense(view):
    return np.array(view, order="C")


def equal(received, view):
    return received.shape == view.shape and received.dtype == view.dtype and received.tobytes() == view.tobytes()


@settings(deadline=None)
@given(views(steps=(1, -1, 2, -3)))
def test_bytes_with_strides_are_the_array_that_numpy_sees_in_them(view):
    values = strided(region(view), view.dtype.name, view.shape, view.strides)
    assert values.flags.c_contiguous
    assert equal(values, view)


@settings(deadline=None)
@given(views(min_size=0))
def test_an_array_laid_out_with_strides_is_read_back_as_it_was(view):
    laid_out = as_bytes(dense(view), view.strides)
    assert laid_out.nbytes == view.nbytes
    assert equal(strided(laid_out, view.dtype.name, view.shape, view.strides), view)


@settings(deadline=None)
@given(views())
def test_the_layout_is_that_of_numpys_memory(view):
    laid_out = as_bytes(dense(view), view.strides)
    assert bytes(laid_out) == bytes(region(view))


@settings(deadline=None)
@given(views(steps=(1, -1, 2)))
def test_without_strides_the_bytes_are_dense(view):
    for strides in (None, []):
        assert bytes(as_bytes(view, strides)) == view.tobytes()


@settings(deadline=None)
@given(views(), st.data())
def test_the_layout_asked_for_does_not_depend_on_the_one_there_is(view, data):
    """A device may hold an array in any order of its dimensions."""
    order = data.draw(st.permutations(range(view.ndim)))
    there = dense(view.transpose(order)).transpose(np.argsort(order))
    assert equal(strided(as_bytes(there, view.strides), view.dtype.name, view.shape, view.strides), view)


@settings(deadline=None)
@given(views(steps=(2, -3)))
def test_a_layout_with_gaps_is_right_or_refused(view):
    try:
        laid_out = as_bytes(dense(view), view.strides)
        back = strided(laid_out, view.dtype.name, view.shape, view.strides)
    except (ValueError, TypeError):
        return
    assert equal(back, view)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3)])
@pytest.mark.parametrize("stride", [4, -4, 0, 100])
def test_an_array_without_elements_has_no_bytes_whatever_its_strides(shape, stride):
    strides = [stride] * len(shape)
    assert strided(memoryview(b""), "float32", shape, strides).shape == shape
    assert as_bytes(np.empty(shape, np.float32), strides).nbytes == 0


def test_a_scalar_has_no_strides():
    assert strided(memoryview(b"\7\0"), "int16", [], []) == 7
    assert bytes(as_bytes(np.array(7, np.int16), [])) == b"\7\0"


def test_a_stride_of_zero_repeats_an_element():
    values = strided(memoryview(b"\1\0\2\0"), "int16", [2, 3], [2, 0])
    assert values.tolist() == [[1, 1, 1], [2, 2, 2]]


def test_dimensions_of_one_element_may_have_any_stride():
    values = strided(memoryview(b"\1\0\2\0"), "int16", [1, 2], [-999, 2])
    assert values.tolist() == [[1, 2]]
    assert bytes(as_bytes(values, [12345, 2])) == b"\1\0\2\0"
    assert bytes(as_bytes(np.array([[7]], np.int16), [-999, 5])) == b"\7\0"


@pytest.mark.parametrize(("shape", "strides"), [([3], [2]), ([2], [4]), ([2], [-4]), ([2, 2], [2, 2])])
def test_strides_that_leave_the_memory_are_refused(shape, strides):
    with pytest.raises((ValueError, TypeError)):
        strided(memoryview(bytes(4)), "int16", shape, strides)


@pytest.mark.parametrize("strides", [[2], [2, 2, 2]])
def test_another_number_of_strides_than_dimensions_is_refused(strides):
    with pytest.raises((ValueError, TypeError)):
        strided(memoryview(bytes(8)), "int16", [2, 2], strides)
    with pytest.raises((ValueError, TypeError)):
        as_bytes(np.zeros((2, 2), np.int16), strides)
