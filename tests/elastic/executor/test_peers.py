"""Shards that go from executor to executor."""

import contextlib
import socket
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic import wire
from elastic.door import accept
from elastic.dtypes import KIND_OF_NAME, numpy_dtype
from elastic.executor.peers import Mailbox, Outbox, host_array, receive
from elastic.status import Code, StatusError
from tests.elastic.connections import PATIENCE, SECRET, tcp_pair

ERROR = StatusError(Code.DATA_LOSS, "the cause")


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.mark.parametrize("first", ["receiver", "shard"])
def test_receiver_and_shard_may_come_in_either_order(mailbox, first):
    if first == "shard":
        mailbox.deliver((7, 0), "shard")
        future = mailbox.expect((7, 0))
    else:
        future = mailbox.expect((7, 0))
        assert not future.done()
        mailbox.deliver((7, 0), "shard")
    assert future.result(0) == "shard"


@pytest.mark.parametrize("first", ["receiver", "shard"])
def test_an_error_is_delivered_as_one(mailbox, first):
    if first == "shard":
        mailbox.deliver((7, 0), ERROR)
    future = mailbox.expect((7, 0))
    if first == "receiver":
        mailbox.deliver((7, 0), ERROR)
    assert future.exception(0) is ERROR


@settings(deadline=None)
@given(st.data())
def test_each_receiver_gets_its_own_shard_in_any_order(data):
    names = data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), unique=True, max_size=10))
    events = data.draw(st.permutations([("expect", name) for name in names] + [("deliver", name) for name in names]))
    mailbox, futures = Mailbox(), {}
    for what, name in events:
        if what == "expect":
            futures[name] = mailbox.expect(name)
        else:
            mailbox.deliver(name, f"shard {name}")
    assert {name: future.result(0) for name, future in futures.items()} == {name: f"shard {name}" for name in names}


def test_a_name_may_be_used_again_when_its_shard_was_taken(mailbox):
    for turn in range(2):
        mailbox.deliver((7, 0), turn)
        assert mailbox.expect((7, 0)).result(0) == turn


class Peer:
    """An executor's receiving end: a listener, and what came in."""

    def __init__(self, place=lambda values, device, memory_kind: values):
        self.mailbox = Mailbox()
        self.hellos = []
        self._place = place
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self):
        sock, _ = self._listener.accept()
        hello, channel = accept(sock, SECRET)
        self.hellos.append(hello)
        receive(channel, self.mailbox, self._place)

    def result(self, name):
        return self.mailbox.expect(name).result(PATIENCE)

    def close(self):
        self._listener.close()


@pytest.fixture
def peer():
    made = Peer()
    yield made
    made.close()


@pytest.fixture
def outbox():
    return Outbox(SECRET, generation=3)


def test_shards_arrive_under_their_names_over_one_connection(peer, outbox):
    sent = {(array, device): np.arange(array * 10 + device, dtype=np.int32) for array in range(3) for device in (0, 5)}
    for name, values in sent.items():
        outbox.send(peer.address, name, lambda values=values: values, None)
    for name, values in sent.items():
        received = peer.result(name)
        assert received.dtype == values.dtype
        assert np.array_equal(received, values)
    assert peer.hellos == [{"role": "peer", "generation": 3}]


@pytest.mark.parametrize("name", sorted(KIND_OF_NAME))
def test_shards_of_every_type_arrive_bit_for_bit(peer, outbox, name):
    values = np.arange(24).reshape(2, 3, 4).astype(numpy_dtype(name))
    outbox.send(peer.address, (1, 0), lambda: values, None)
    received = peer.result((1, 0))
    assert (received.dtype, received.shape) == (values.dtype, values.shape)
    assert received.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "values",
    [
        np.float32(3.5).reshape(()),
        np.empty((0, 4), np.float32),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20)[::-2],
        np.broadcast_to(np.int16(7), (3, 3)),
        np.random.default_rng(0).random((512, 1024)),
    ],
    ids=["scalar", "empty", "fortran", "strided", "broadcast", "4-mib"],
)
def test_shards_of_any_shape_and_layout_arrive(peer, outbox, values):
    outbox.send(peer.address, (1, 0), lambda: values, None)
    received = peer.result((1, 0))
    assert received.shape == values.shape
    assert np.array_equal(received, values)


def test_the_receiver_is_told_device_and_memory(outbox):
    peer = Peer(lambda values, device, memory_kind: (values.tolist(), device, memory_kind))
    outbox.send(peer.address, (1, 5), lambda: np.ones(2), "pinned_host")
    assert peer.result((1, 5)) == ([1.0, 1.0], 5, "pinned_host")
    peer.close()


def test_received_memory_is_aligned_so_that_a_device_can_adopt_it(peer, outbox):
    outbox.send(peer.address, (1, 0), lambda: np.arange(1000, dtype=np.float32), None)
    assert peer.result((1, 0)).ctypes.data % 64 == 0


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ERROR, Code.DATA_LOSS, "the cause"),
        (RuntimeError("INTERNAL: Gloo failed: reset"), Code.INTERNAL, "Gloo failed: reset"),
        (KeyError(9), Code.INTERNAL, "KeyError: 9"),
    ],
)
def test_an_error_travels_to_the_receiver_and_others_follow(peer, outbox, error, code, text):
    def fail():
        raise error

    outbox.send(peer.address, (1, 0), fail, None)
    outbox.send(peer.address, (2, 0), lambda: np.ones(3), None)
    failure = peer.mailbox.expect((1, 0)).exception(PATIENCE)
    assert (type(failure), failure.code, failure.message) == (StatusError, code, text)
    assert np.array_equal(peer.result((2, 0)), np.ones(3))


def test_a_shard_that_cannot_be_placed_is_an_error_to_its_receiver_and_others_follow(outbox):
    def place(values, device, memory_kind):
        if device == 1:
            raise MemoryError("the device is full")
        return values

    peer = Peer(place)
    outbox.send(peer.address, (1, 1), lambda: np.ones(3), None)
    outbox.send(peer.address, (2, 0), lambda: np.ones(3), None)
    failure = peer.mailbox.expect((1, 1)).exception(PATIENCE)
    assert (failure.code, failure.message) == (Code.RESOURCE_EXHAUSTED, "the device is full")
    assert np.array_equal(peer.result((2, 0)), np.ones(3))
    peer.close()


def test_a_peer_that_is_gone_does_not_hold_up_the_others(peer, outbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = f"127.0.0.1:{server.getsockname()[1]}"
    outbox.send(gone, (1, 0), lambda: np.ones(3), None)
    outbox.send(peer.address, (2, 0), lambda: np.ones(3), None)
    assert np.array_equal(peer.result((2, 0)), np.ones(3))


def test_receiving_ends_with_the_connection_or_with_garbage(mailbox):
    shard = wire.frame([1, 0, 0, "float32", [2], None], bytes(8))
    garbage = (b"\xff" * 100, *map(wire.frame, ("no shard", [1, 2], [[1], 0, 0, "", [], None], [1, 0, "x", "", 1])))
    for last_words in (b"", shard[:-1], *garbage):
        refused = pytest.raises(wire.FrameError) if last_words in garbage else contextlib.nullcontext()
        with tcp_pair() as (ours, theirs), refused:
            ours.sendall(wire.frame([5, 0, 0, "float32", [1], None], b"1234") + last_words)
            ours.shutdown(socket.SHUT_WR)
            receive(wire.Channel(theirs), mailbox, lambda values, device, memory_kind: values.tobytes())
        assert mailbox.expect((5, 0)).result(0) == b"1234"


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [("float32", [2], bytes(7)), ("float32", [3], bytes(8)), ("nonsense", [1], bytes(8))],
    ids=["odd-size", "too-few", "unknown-type"],
)
def test_a_shard_that_does_not_fit_its_description_is_an_error_to_its_receiver(mailbox, dtype, shape, data):
    with tcp_pair() as (ours, theirs):
        ours.sendall(wire.frame([5, 0, 0, dtype, shape, None], data) + wire.frame([6, 0, 0, "int8", [1], None], b"x"))
        ours.shutdown(socket.SHUT_WR)
        receive(wire.Channel(theirs), mailbox, lambda values, device, memory_kind: values.tobytes())
    assert isinstance(mailbox.expect((5, 0)).exception(0), StatusError)
    assert mailbox.expect((6, 0)).result(0) == b"x"


def test_received_bytes_become_an_array_without_a_copy():
    memory = wire.aligned_empty(24)
    values = host_array(memory, "int32", [2, 3])
    memory[:] = bytes(24)
    memory[4] = 5
    assert values.shape == (2, 3)
    assert values[0, 1] == 5
