"""Saving the arrays of a store, and bringing them back into another, on CPU devices of this process."""

import os
import shutil
from concurrent.futures import Future

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.dispatch import runtime_tokens
from jax.experimental import io_callback

from elastic import host_memory
from elastic.dtypes import NUMPY_OF_KIND, numpy_dtype
from elastic.executor.callbacks import Callbacks
from elastic.executor.engine import Engine
from elastic.executor.peers import Mailbox
from elastic.executor.snapshots import Snapshots
from elastic.executor.store import Value
from elastic.status import Code, StatusError
from tests.elastic.connections import PATIENCE
from tests.elastic.daemon_threads import start
from tests.elastic.executor.one_process import put, values_of


@pytest.fixture
def memory(tmp_path):
    path = tmp_path / "memory"
    path.mkdir()
    return path


class Executor:
    """What an engine saves with, without the engine's thread."""

    def __init__(self, member, memory):
        self.engine = Engine(member, None, Mailbox(), None, Callbacks(), memory)
        self.store = self.engine._store
        self.snapshots: Snapshots = self.engine._snapshots

    def put(self, array, values, device=0, memory_kind=None):
        shard = self.engine.place(np.asarray(values), device, memory_kind)
        self.store.add_shards(array, [device], [shard])
        return shard

    def take(self):
        """The records of a snapshot."""
        return self.snapshots.take()()["records"]


@pytest.fixture
def executor(member, memory):
    return Executor(member, memory)


@pytest.fixture
def next_executor(member, memory):
    """Another process on the same host."""
    return Executor(member, memory)


def read(executor, array, device=0):
    return values_of(executor.store, array)[device]


def same(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@jax.jit
def for_a_while(x):
    """Takes the processor for longer than a test takes to look."""
    return jax.lax.fori_loop(0, 100, lambda _, y: jnp.tanh(y @ x), x)


DTYPES = sorted({dtype.name for dtype in NUMPY_OF_KIND.values() if dtype.kind != "S"})


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 7)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_as_they_were(executor, next_executor, dtype, shape):
    element = numpy_dtype(dtype)
    count = int(np.prod(shape))
    values = np.arange(count).reshape(shape)
    values = (values % 2).astype(element) if element.itemsize == 1 and "int" not in dtype else values.astype(element)
    with jax.enable_x64(True):  # As in executors.
        executor.put(7, values, device=2)
        records = executor.take()
        bad = next_executor.snapshots.restore(records)
    ((array, device, what, name, dimensions, *_, size, _),) = records
    assert (array, device, what, name, dimensions) == (7, 2, "bytes", dtype, list(shape))
    assert size == count * element.itemsize
    assert bad == []
    assert same(read(next_executor, 7, 2), read(executor, 7, 2))
    assert same(read(next_executor, 7, 2), values)


@pytest.mark.parametrize("values", [np.nan, -0.0, np.inf, np.float32(1e-45)], ids=str)
def test_not_a_bit_is_changed(executor, next_executor, values):
    odd = np.array([values], np.float32).view(np.uint32) | 1
    executor.put(7, odd.view(np.float32))
    next_executor.snapshots.restore(executor.take())
    assert read(next_executor, 7).view(np.uint32) == odd


def test_memory_kinds_come_back(executor, next_executor):
    executor.put(7, np.ones(3, np.float32), memory_kind="pinned_host")
    next_executor.snapshots.restore(executor.take())
    assert next_executor.store.get(7).peek(0).sharding.memory_kind == "pinned_host"


@pytest.mark.parametrize("ready", [True, False], ids=["computed", "being-computed"])
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)], ids=str)
def test_layouts_come_back(executor, next_executor, member, order, ready):
    """Programs are compiled for them, and XLA does not look."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    laid_out = executor.engine.place(x, 1, None, list(order))
    if not ready:
        busy = for_a_while(put(member, np.ones((512, 512)), 1))
        laid_out = jax.jit(lambda x, y: x + 0 * y[0, 0], out_shardings=laid_out.format)(laid_out, busy)
    executor.store.add_shards(7, [1], [laid_out])
    finish = executor.snapshots.take()
    assert ready or not laid_out.is_ready()
    records = finish()["records"]
    next_executor.snapshots.restore(records)
    back = next_executor.store.get(7).peek(1)
    assert back.format.layout.major_to_minor == order
    assert np.asarray(back).strides == np.asarray(laid_out).strides != x.strides
    assert np.array_equal(np.asarray(back), x)
    assert next_executor.take() == records


def test_an_array_on_several_devices_is_saved_shard_by_shard(executor, next_executor):
    for device in (0, 1, 3):
        executor.put(7, np.full(2, device, np.int32), device)
    records = executor.take()
    assert [record[:2] for record in records] == [[7, 0], [7, 1], [7, 3]]
    next_executor.snapshots.restore(records[1:])
    assert values_of(next_executor.store, 7).keys() == {1, 3}
    assert read(next_executor, 7, 3).tolist() == [3, 3]


def test_an_array_as_a_program_left_it_is_saved(executor, next_executor, member):
    binding = executor.engine._programs.binding((0, 1))
    for device in (0, 1):
        executor.put(7, np.full(2, device, np.float32), device)
    executor.store.get(7).bind(binding)
    executor.store.set(8, Value(bound=executor.store.get(7).bound, binding=binding, local=binding.local))
    next_executor.snapshots.restore(executor.take())
    assert [read(next_executor, 8, device).tolist() for device in (0, 1)] == [[0, 0], [1, 1]]


# What is not saved


def test_donated_and_deleted_arrays_are_left_out(executor):
    executor.put(7, np.ones(3, np.float32))
    gone = executor.put(8, np.ones(3, np.float32))
    binding = executor.engine._programs.binding((0,))
    bound = executor.store.get(8).bind(binding)
    executor.store.set(9, Value(bound=bound, binding=binding, local=(0,)))
    gone.delete()
    bound.delete()
    assert [record[0] for record in executor.take()] == [7]


def test_freed_arrays_are_left_out(executor):
    executor.put(7, np.ones(3, np.float32))
    executor.put(8, np.ones(3, np.float32))
    executor.take()
    executor.store.free([7])
    assert [record[0] for record in executor.take()] == [8]


def test_errors_come_back_as_errors(executor, next_executor):
    executor.store.fail(7, StatusError(Code.DATA_LOSS, "the cause"))
    records = executor.take()
    assert records == [[7, -1, "error", int(Code.DATA_LOSS), "the cause"]]
    assert next_executor.snapshots.restore(records) == []
    error = next_executor.store.get(7).error
    assert (error.code, error.message) == (Code.DATA_LOSS, "the cause")


class Token:
    """Of an execution; fails if it is given an error."""

    def __init__(self, error=None):
        self._error = error

    def block_until_ready(self):
        if self._error is not None:
            raise self._error


def test_the_end_of_an_execution_comes_back_as_an_end(executor, next_executor, member):
    executor.store.set(7, Value(shards={0: Token()}))
    records = executor.take()
    assert records == [[7, -1, "token"]]
    next_executor.snapshots.restore(records)
    for shard in next_executor.store.get(7).shards().values():
        shard.block_until_ready()
    assert next_executor.take() == records


def test_an_execution_that_ended_with_an_error_is_that_error(executor):
    executor.store.set(7, Value(shards={0: Token(StatusError(Code.INTERNAL, "the callback failed"))}))
    assert executor.take() == [[7, -1, "error", int(Code.INTERNAL), "the callback failed"]]


def test_a_token_that_a_program_left_for_the_next_comes_back_as_something_that_one_takes(executor, next_executor):
    """jax keeps the token of ordered callbacks as an array, which numpy cannot look at."""
    noted = []
    note = jax.jit(lambda x: io_callback(noted.append, None, x, ordered=True))
    note(1.0)
    jax.effects_barrier()
    note(2.0)
    [token] = runtime_tokens.current_tokens.values()
    executor.store.add_shards(7, [0], [token._buf])
    [record] = executor.take()
    assert record[:5] == [7, 0, "bytes", "bool", [0]]
    next_executor.snapshots.restore([record])
    assert read(next_executor, 7).shape == (0,)
    jax.effects_barrier()
    assert len(noted) == 2


# What happens while it is saved


@pytest.mark.parametrize("how", ["donated", "deleted"])
def test_what_is_taken_right_after_is_saved_as_it_was(executor, next_executor, member, how):
    shard = executor.put(7, np.arange(1 << 16, dtype=np.float32))
    finish = executor.snapshots.take()
    if how == "donated":
        doubled = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)(shard)
        doubled.block_until_ready()
    shard.delete()
    executor.put(8, np.zeros(1 << 16, np.float32))
    next_executor.snapshots.restore(finish()["records"])
    assert np.array_equal(read(next_executor, 7), np.arange(1 << 16))


@pytest.mark.parametrize("how", ["donated", "deleted", "freed"])
def test_what_is_still_being_computed_and_taken_right_after_is_saved(executor, next_executor, member, how):
    x = put(member, np.random.default_rng(1).normal(size=(512, 512)), 0)
    expected = np.asarray(for_a_while(x))
    shard = for_a_while(x)
    executor.store.add_shards(7, [0], [shard])
    finish = executor.snapshots.take()
    assert not shard.is_ready()
    if how == "donated":
        zeros = jax.jit(lambda x: x * 0, donate_argnums=0)(shard)
        assert float(zeros.sum()) == 0
    elif how == "deleted":
        shard.delete()
    else:
        executor.store.free([7])
    del shard
    next_executor.snapshots.restore(finish()["records"])
    assert np.array_equal(read(next_executor, 7), expected)


def test_what_a_peer_is_sending_is_saved_when_it_has_come(executor, next_executor):
    coming = Future()
    executor.store.add_shards(7, [0], [coming])
    finish = executor.snapshots.take()
    coming.set_result(executor.engine.place(np.float32([1, 2, 3]), 0, "pinned_host"))
    next_executor.snapshots.restore(finish()["records"])
    assert read(next_executor, 7).tolist() == [1, 2, 3]
    assert next_executor.store.get(7).peek(0).sharding.memory_kind == "pinned_host"


def test_what_a_peer_sent_and_a_program_took_at_once_is_saved_as_it_came(executor, next_executor):
    coming = Future()
    executor.store.add_shards(7, [0], [coming])
    executor.store.add_shards(8, [0], [executor.store.get(7).peek(0)])  # An alias.
    finish = executor.snapshots.take()
    taking = start(lambda: executor.store.get(8).shard(0).delete())  # As the next command in the stream may do.
    coming.set_result(executor.engine.place(np.float32([1, 2, 3]), 0, None))
    taking.result(PATIENCE)
    next_executor.snapshots.restore(finish()["records"])
    assert read(next_executor, 7).tolist() == read(next_executor, 8).tolist() == [1, 2, 3]


def test_what_a_peer_could_not_send_is_its_error(executor):
    coming = Future()
    executor.store.add_shards(7, [0], [coming])
    finish = executor.snapshots.take()
    coming.set_exception(StatusError(Code.DATA_LOSS, "the cause"))
    assert finish()["records"] == [[7, -1, "error", int(Code.DATA_LOSS), "the cause"]]


# Host memory


def test_equal_contents_are_saved_once(executor, memory):
    for device in (0, 1):
        executor.put(7, np.ones(3, np.float32), device)
    executor.put(8, np.ones((3, 1), np.float32))
    records = executor.take()
    assert len(records) == 3
    assert len({record[-1] for record in records}) == 1
    assert len(list(memory.iterdir())) == 1


def test_what_a_snapshot_before_saved_is_neither_read_nor_saved_again(executor, memory, monkeypatch):
    executor.put(7, np.ones(3, np.float32))
    first = executor.take()
    new = executor.put(8, np.zeros(3, np.float32))
    hold = executor.snapshots._hold
    monkeypatch.setattr(executor.snapshots, "_hold", lambda shard, _: hold(shard, 0) if shard is new else 1 / 0)
    second = executor.take()
    assert second[0] == first[0]
    assert len(list(memory.iterdir())) == 2


def test_what_was_brought_back_is_not_saved_again(executor, next_executor, memory, monkeypatch):
    executor.put(7, np.ones(3, np.float32))
    records = executor.take()
    next_executor.snapshots.restore(records)
    monkeypatch.setattr(next_executor.snapshots, "_hold", None)
    assert next_executor.take() == records


def test_what_is_not_in_memory_any_more_is_saved_again(executor, memory):
    """Its agent was told to keep what another snapshot needs."""
    executor.put(7, np.ones(3, np.float32))
    (record,) = executor.take()
    host_memory.keep_only(memory, set())
    assert executor.take() == [record]
    assert host_memory.has(memory, record[-1])


def test_a_full_memory_is_an_error_and_leaves_nothing_half(executor, memory, monkeypatch):
    executor.put(7, np.ones(3, np.float32))
    executor.take()
    executor.put(8, np.zeros(1 << 12, np.float32))
    write = os.write

    def write_until_full(descriptor, data):
        if len(data) > 100:
            return write(descriptor, data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write_until_full)
    with pytest.raises(OSError, match="No space left"):
        executor.take()
    assert len(list(memory.iterdir())) == 1
    monkeypatch.undo()
    assert len(executor.take()) == 2


@pytest.mark.parametrize("what", ["missing", "changed", "shorter", "empty"])
def test_a_bad_copy_is_named_and_the_others_come_back(executor, next_executor, memory, what):
    executor.put(7, np.ones(3, np.float32))
    executor.put(8, np.zeros(3, np.float32))
    bad, good = executor.take()
    path = memory / bad[-1].hex()
    contents = path.read_bytes()
    path.unlink()
    if what != "missing":
        path.write_bytes({"changed": b"\\1" + contents[1:], "shorter": contents[:-1], "empty": b""}[what])
    assert next_executor.snapshots.restore([bad, good]) == [bad[-1]]
    assert read(next_executor, 8).tolist() == [0, 0, 0]
    assert next_executor.store.get(7).error.code is Code.NOT_FOUND
    path.write_bytes(contents)
    assert next_executor.snapshots.restore([bad]) == []
    assert read(next_executor, 7).tolist() == [1, 1, 1]


def test_arrays_outlive_the_memory_they_were_brought_back_from(executor, next_executor, memory):
    executor.put(7, np.arange(1 << 16, dtype=np.float32))
    next_executor.snapshots.restore(executor.take())
    shutil.rmtree(memory)
    assert np.array_equal(read(next_executor, 7), np.arange(1 << 16))


def test_saving_says_how_long_it_took(executor):
    executor.put(7, np.ones(3, np.float32))
    assert 0 < executor.snapshots.take()()["seconds"] < 10
