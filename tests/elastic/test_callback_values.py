"""Arguments and results of callbacks as bytes."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic import wire
from elastic.callback_values import pack, unpack
from elastic.dtypes import KIND_OF_NAME, numpy_dtype

HEADER_BYTES = len(wire.frame_header(None, 0)) - 1


@st.composite
def arrays(draw):
    dtype = numpy_dtype(draw(st.sampled_from(sorted(KIND_OF_NAME))))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = math.prod(shape) * dtype.itemsize
    bits = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    return (bits & 1 if dtype == np.bool_ else bits).view(dtype).reshape(shape)


def there_and_back(values):
    """What the other side gets."""
    description, data = pack(values)
    return unpack(wire.unpack(wire.frame(description)[HEADER_BYTES:]), data)


def same(got, sent):
    if sent is None:
        return got is None
    return (got.dtype, got.shape, got.tobytes()) == (sent.dtype, sent.shape, sent.tobytes())


@given(st.lists(st.none() | arrays(), max_size=5))
def test_values_of_all_types_and_shapes_arrive_bit_for_bit(values):
    got = there_and_back(values)
    assert len(got) == len(values)
    assert all(map(same, got, values))


@pytest.mark.parametrize("name", sorted(KIND_OF_NAME))
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (2, 3)], ids=str)
def test_every_type_arrives_behind_one_that_leaves_it_unaligned(name, shape):
    values = [np.bool_(True), np.ones(shape, numpy_dtype(name)), np.int8(-5)]
    assert all(map(same, there_and_back(values), map(np.asarray, values)))


@pytest.mark.parametrize(
    "values",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20)[::-2],
        np.broadcast_to(np.int16(7), (3, 3)),
        np.arange(12, dtype=ml_dtypes.bfloat16).reshape(3, 4).T,
    ],
    ids=["fortran", "reversed", "broadcast", "transposed"],
)
def test_values_of_any_layout_arrive(values):
    (got,) = there_and_back([values])
    assert got.dtype == values.dtype
    assert np.array_equal(got, values)


def test_python_numbers_arrive_as_numpy_makes_them():
    got = there_and_back([True, 1.5, [1, 2]])
    assert [array.dtype.name for array in got] == ["bool", "float64", "int64"]
    assert [array.tolist() for array in got] == [True, 1.5, [1, 2]]


def test_nothing_is_nothing():
    assert pack([]) == ([], b"")
    assert there_and_back([]) == ()
    assert pack([None, None]) == ([None, None], b"")
    assert there_and_back([None, None]) == (None, None)


def test_values_are_read_only_views_of_the_bytes():
    description, data = pack([np.arange(4, dtype=np.int32), np.ones(2)])
    for array in unpack(description, data):
        assert not array.flags.writeable
        assert np.shares_memory(array, np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("missing", [1, 16])
def test_too_few_bytes_are_an_error(missing):
    description, data = pack([np.ones(2, np.float32), np.ones(2, np.float32)])
    with pytest.raises(ValueError, match="buffer"):
        unpack(description, data[:-missing])


def test_a_type_that_no_host_knows_is_an_error():
    with pytest.raises(KeyError, match="complex7"):
        unpack([["complex7", [1]]], bytes(8))


def test_values_are_read_only_views_even_of_memory_that_may_be_written():
    description, data = pack([np.arange(4), np.ones(2), np.empty(0)])
    memory = wire.aligned_empty(len(data))
    memory[:] = data
    assert not any(array.flags.writeable for array in unpack(description, memory))
