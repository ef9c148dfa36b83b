"""What the function of a buffer callback is given."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.errors import JaxRuntimeError
from jaxlib._jax import ffi

from elastic.ffi_buffers import Buffer, ExecutionContext, call


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_public_names_are_those_of_jaxlib():
    assert public(Buffer) == public(ffi.Buffer)
    context = ExecutionContext(ffi.ExecutionStage.EXECUTE)
    assert public(context) == public(ffi.ExecutionContext)
    for protocol in ("__array__", "__dlpack__", "__dlpack_device__"):
        assert hasattr(Buffer, protocol)


def test_a_call_happens_when_the_program_runs_and_has_no_stream():
    contexts = []
    call(contexts.append, [], [])
    assert contexts[0].stage == ffi.ExecutionStage.EXECUTE
    with pytest.raises(JaxRuntimeError, match="UNIMPLEMENTED"):
        _ = contexts[0].stream


@pytest.mark.parametrize("writeable", [False, True])
def test_a_buffer_tells_what_it_is(writeable):
    buffer = Buffer(np.ones((2, 3), np.float32), writeable)
    assert (buffer.shape, buffer.dtype, buffer.ndim, buffer.writeable) == ((2, 3), np.float32, 2, writeable)
    assert buffer.__dlpack_device__()[0] == 1
    assert np.asarray(buffer).flags.writeable == writeable


def test_an_argument_cannot_be_written():
    buffer = Buffer(np.arange(3), writeable=False)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(buffer)[0] = 7


def test_an_argument_is_not_copied():
    values = np.arange(3)
    assert np.shares_memory(np.asarray(Buffer(values, writeable=False)), values)


def test_a_result_is_memory_of_its_own_and_holds_what_was_there():
    values = np.arange(3)
    values.flags.writeable = False
    buffer = Buffer(values, writeable=True)
    assert np.asarray(buffer).tolist() == [0, 1, 2]
    np.asarray(buffer)[...] = 7
    assert np.asarray(buffer).tolist() == [7, 7, 7]
    assert values.tolist() == [0, 1, 2]


def test_a_copy_or_another_type_is_apart_from_the_buffer():
    buffer = Buffer(np.arange(3, dtype=np.int32), writeable=True)
    np.array(buffer, copy=True)[...] = 7
    converted = np.asarray(buffer, np.float32)
    converted[...] = 7
    assert converted.dtype == np.float32
    assert np.asarray(buffer).tolist() == [0, 1, 2]
    assert np.shares_memory(np.asarray(buffer, np.int32), np.asarray(buffer))


def test_what_is_written_through_dlpack_is_in_the_buffer():
    buffer = Buffer(np.zeros(3, np.float32), writeable=True)
    np.from_dlpack(buffer)[1] = 7
    assert np.asarray(buffer).tolist() == [0, 7, 0]


def test_the_results_of_a_call_are_its_writeable_buffers_in_their_order():
    def function(context, first, x, second, y):
        np.asarray(second)[...] = np.asarray(x) * 10
        np.asarray(first)[...] = np.asarray(y) * 100

    values = [np.zeros(2), np.arange(2.0), np.zeros(2), np.ones(2)]
    results = call(function, values, [True, False, True, False])
    assert [result.tolist() for result in results] == [[100, 100], [0, 10]]


def test_a_result_that_is_not_written_keeps_its_bytes():
    (result,) = call(lambda context, out: None, [np.arange(3)], [True])
    assert result.tolist() == [0, 1, 2]


def test_what_a_function_returns_does_not_matter():
    assert call(lambda context, x: "nothing", [np.arange(3)], [False]) == []


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)], ids=str)
def test_scalars_and_empty_buffers_are_buffers_too(shape):
    def function(context, x, out):
        np.asarray(out)[...] = np.asarray(x)

    (result,) = call(function, [np.ones(shape), np.zeros(shape)], [False, True])
    assert result.shape == shape
    assert np.all(result == 1)


def test_values_without_a_word_on_whether_they_may_be_written_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        call(print, [np.ones(1), np.ones(1)], [True])


def test_jax_can_read_an_argument_through_dlpack():
    assert jnp.from_dlpack(Buffer(np.ones(2, np.float32), writeable=False)).tolist() == [1, 1]


def test_a_result_that_was_made_read_only_after_it_was_written_is_still_a_result():
    def function(context, out):
        values = np.asarray(out)
        values[...] = 7
        values.flags.writeable = False

    (result,) = call(function, [np.zeros(2)], [True])
    assert result.tolist() == [7, 7]


def test_an_argument_leaves_its_array_as_it_was():
    values = np.arange(3)
    Buffer(values, writeable=False)
    assert values.flags.writeable
