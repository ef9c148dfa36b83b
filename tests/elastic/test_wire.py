"""Frames, and blocking channels of them."""

import contextlib
import socket
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic import wire
from tests.elastic.connections import all_frames, beside, tcp_pair

MIB = 1 << 20
scalars = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False)
keys = st.text(max_size=5) | st.integers(0, 1 << 40)
messages = st.recursive(
    scalars | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=10,
)
frames = st.lists(st.tuples(messages, st.binary(max_size=200)), min_size=1, max_size=8)


class CutSocket:
    """A socket that hands out given bytes in pieces of given sizes, and then is closed by the other side."""

    family = socket.AF_INET

    def __init__(self, data, sizes):
        self._data = memoryview(data)
        self._sizes = sizes

    def setsockopt(self, *_):
        pass

    def recv_into(self, buffer):
        count = min(self._sizes.pop(0) if self._sizes else len(self._data), len(buffer), len(self._data))
        buffer[:count] = self._data[:count]
        self._data = self._data[count:]
        return count


@settings(deadline=None)
@given(messages, st.binary())
def test_a_frame_is_its_header_and_its_payload(message, payload):
    assert wire.frame(message, payload) == wire.frame_header(message, len(payload)) + payload


@settings(deadline=None)
@given(messages)
def test_a_message_is_read_as_it_was_written(message):
    head, size = wire.frame(message), struct.calcsize("<IQ")
    assert struct.unpack("<IQ", head[:size]) == (len(head) - size, 0)
    assert wire.unpack(head[size:]) == message


@settings(deadline=None)
@given(st.binary(max_size=50))
def test_bytes_are_a_message_or_a_frame_error(garbage):
    with contextlib.suppress(wire.FrameError):
        wire.frame(wire.unpack(garbage))


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_aligned_memory_begins_at_a_multiple_of_64_bytes(nbytes):
    memory = wire.aligned_empty(nbytes)
    assert len(memory) == nbytes
    assert not memory.readonly
    assert np.frombuffer(memory, np.uint8).ctypes.data % 64 == 0 or not nbytes


@pytest.mark.parametrize(
    ("address", "parsed"),
    [
        ("127.0.0.1:4000", ("127.0.0.1", 4000)),
        ("h0.pool:0", ("h0.pool", 0)),
        ("[::1]:65535", ("::1", 65535)),
        (":80", ("", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port(address, parsed):
    assert wire.parse_address(address) == parsed


@pytest.mark.parametrize("address", ["", "127.0.0.1", "127.0.0.1:", "h:x", "h:-1", "h:65536", "h:1:", "4000"])
def test_anything_else_is_no_address(address):
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        wire.parse_address(address)


@settings(deadline=None)
@given(frames, st.lists(st.integers(1, 40)))
def test_a_channel_receives_the_same_frames_however_the_bytes_are_cut(sent, cuts):
    data = b"".join(wire.frame(*one) for one in sent)
    assert all_frames(wire.Channel(CutSocket(data, cuts))) == sent


def test_a_channel_receives_frames_byte_by_byte():
    sent = [([1, "two"], b"payload" * 30), ({"three": None}, b""), ([], bytes(1000))]
    data = b"".join(wire.frame(*one) for one in sent)
    assert all_frames(wire.Channel(CutSocket(data, [1] * len(data)))) == sent


@pytest.mark.parametrize("size", [60_000, 70_000, 300_000, 5 * MIB])
def test_a_message_may_be_larger_than_the_receive_buffer(size):
    sent = [(["a", b"x" * 50_000], b"p"), (["b", b"y" * size], b"q" * size), (["c"], b"")]
    data = b"".join(wire.frame(*one) for one in sent)
    assert all_frames(wire.Channel(CutSocket(data, [65_000, 10, 70_000, 3]))) == sent


@contextlib.contextmanager
def unix_pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("pair", [tcp_pair, unix_pair])
def test_frames_cross_a_socket_both_ways(pair):
    with pair() as ends:
        ours, theirs = map(wire.Channel, ends)
        ours.send(["hello", 1], b"payload")
        assert theirs.receive() == (["hello", 1], b"payload")
        theirs.send({"and": "back"})
        assert ours.receive() == ({"and": "back"}, b"")


@pytest.mark.parametrize("size", [1, (1 << 14) - 1, 1 << 14, 20 * MIB + 1])
def test_a_payload_arrives_in_aligned_memory_of_its_own(size):
    payload = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    with tcp_pair() as ends:
        ours, theirs = map(wire.Channel, ends)
        with beside(lambda: (ours.send(["first"], memoryview(payload)), ours.send(["second"], b"x"))):
            _, received = theirs.receive()
            values = np.frombuffer(received, np.uint8)
            assert theirs.receive() == (["second"], b"x")
    assert np.array_equal(values, payload)
    assert values.ctypes.data % 64 == 0
    assert not received.readonly


def test_frames_of_several_threads_do_not_mix():
    with tcp_pair() as ends:
        ours, theirs = map(wire.Channel, ends)

        def send(name):
            for turn in range(30):
                ours.send([name, turn], bytes([name]) * 20_000)

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        turns = {name: [] for name in range(4)}
        for _ in range(120):
            (name, turn), payload = theirs.receive()
            assert payload == bytes([name]) * 20_000
            turns[name].append(turn)
        for thread in threads:
            thread.join()
    assert all(turns[name] == list(range(30)) for name in range(4))


@pytest.mark.parametrize("missing", [0, 1, 5, 12, 16])
def test_the_end_of_a_connection_is_the_end_of_the_file(missing):
    data = wire.frame(["message"], b"12345")
    channel = wire.Channel(CutSocket(wire.frame(0) + data[: len(data) - missing], []))
    assert channel.receive() == (0, b"")
    if not missing:
        channel.receive()
    with pytest.raises(EOFError):
        channel.receive()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 100,
        struct.pack("<IQ", 0, 0),
        struct.pack("<IQ", 3, 0) + b"\xc1\xc1\xc1",
        struct.pack("<IQ", 2, 0) + b"\x01\x01",
        struct.pack("<IQ", 1, 1 << 63) + b"\x01",
    ],
    ids=["ones", "nothing", "no-msgpack", "two-messages", "endless-payload"],
)
def test_what_is_not_a_frame_is_said_to_be_none(garbage):
    with pytest.raises(wire.FrameError):
        wire.Channel(CutSocket(garbage, [])).receive()


def test_closing_a_channel_ends_a_receive_that_waits():
    with tcp_pair() as ends:
        ours, _ = map(wire.Channel, ends)

        def receive():
            with pytest.raises((EOFError, OSError)):
                ours.receive()

        with beside(receive):
            ours.close()
        ours.close()


def test_sending_to_one_who_is_gone_is_an_os_error():
    with tcp_pair() as (ours, theirs):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # Close with a reset.
        theirs.close()
        with pytest.raises(OSError, match=r"reset|pipe"):
            wire.Channel(ours).send(["anyone?"], bytes(64 * MIB))


def test_a_frame_is_taken_apart_again():
    message, payload = wire.unframe(wire.frame(["a", 1], b"bytes"))
    assert (message, bytes(payload)) == (["a", 1], b"bytes")
    for broken in (b"", wire.frame(["a"])[:-1], wire.frame(["a"]) + b"more"):
        with pytest.raises(wire.FrameError):
            wire.unframe(broken)
