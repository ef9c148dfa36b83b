"""The core against input that is cut anywhere, against a slow twin, and against garbage."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.front import frames as f
from elastic.front.errors import ProtocolError
from elastic.front.frames import ACK, END_HEADERS, END_STREAM, MAX_WINDOW, PREFACE, Limits, frame
from elastic.front.grpc import GrpcConnection
from elastic.front.http2 import FAILED, Connection
from elastic.front.sending import Stream

KINDS = st.sampled_from([*range(10), 0, 0, 0, 1, 1, 8, 0x42])
STREAMS = st.sampled_from([0, 1, 1, 1, 3, 3, 5, 7, 2, 1 << 31 | 1])


@st.composite
def plausible_frames(draw) -> bytes:
    """Frames that may be right or wrong, on few streams, so that they have to do with each other."""
    kind, stream = draw(KINDS), draw(STREAMS)
    flags = draw(st.sampled_from([0, 0, 1, 4, 5, 8, 9, 0x0C, 0x2C, 0xFF]))
    size = {2: 5, 3: 4, 4: 6, 6: 8, 7: 8, 8: 4}.get(kind)
    if size is not None:
        payload = draw(st.binary(min_size=size, max_size=size))
        if kind == f.T_WINDOW_UPDATE:
            payload = b"\0\0" + payload[2:]
        if kind == f.T_SETTINGS and draw(st.booleans()):
            payload = b"\0\4\0\0" + payload[4:]
    elif kind in (f.T_HEADERS, f.T_CONTINUATION) and draw(st.integers(0, 9)):
        # Request headers from the static table, with a literal path: :method POST, :scheme http, :path.
        block = b"\x83\x86\x04\x02/" + draw(st.sampled_from([b"a", b"b"]))
        cut = draw(st.sampled_from([0, 0, 2, 5]))
        payload = block[cut:] if kind == f.T_CONTINUATION else block[: len(block) - cut]
        flags &= 0x05
    else:
        payload = draw(st.binary(max_size=40) | st.sampled_from([bytes(70_000), b"\0" * 20_000]))
    return frame(kind, flags, stream, payload)


@st.composite
def sessions(draw) -> bytes:
    said = PREFACE + frame(f.T_SETTINGS, 0, 0)
    if draw(st.booleans()):
        said += frame(f.T_HEADERS, END_HEADERS, 1, b"\x83\x86\x04\x02/a")
    return said + b"".join(draw(st.lists(plausible_frames(), max_size=12)))


def run(said: bytes, cuts: list[int], limits: Limits) -> tuple[list, bytes]:
    connection = Connection(limits)
    events = []
    for start, stop in zip([0, *cuts], [*cuts, len(said)], strict=True):
        events += connection.receive(said[start:stop])
    return events, connection.take()


LIMITS = Limits(max_concurrent_streams=3, stream_window=65_535, connection_window=100_000, max_header_block=1024)


@settings(max_examples=300, deadline=None)
@given(said=sessions(), data=st.data())
def test_cutting_the_input_makes_no_difference(merge, said, data):
    whole, replies = run(said, [], LIMITS)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=20)))
    pieces, replies_to_pieces = run(said, cuts, LIMITS)
    assert merge(pieces) == merge(whole)
    assert replies_to_pieces == replies


@settings(max_examples=60, deadline=None)
@given(said=sessions())
def test_one_byte_at_a_time_makes_no_difference(merge, said):
    said = said[:5000]
    whole, replies = run(said, [], LIMITS)
    pieces, replies_to_pieces = run(said, list(range(1, len(said))), LIMITS)
    assert merge(pieces) == merge(whole)
    assert replies_to_pieces == replies


# The twin: the same output rules, one byte at a time and without any bookkeeping to be clever about.


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_output_obeys_the_windows_and_loses_nothing(make_peer, data):
    """Whatever the peer grants and when: each byte arrives once, in order, never more than granted, never later."""
    peer = make_peer().hello()
    granted = {0: 65_535}
    initial = 65_535
    expected: dict[int, bytes] = {}
    received: dict[int, bytes] = {}
    for stream in (1, 3, 5):
        peer.send(peer.headers(stream))
        granted[stream] = initial
        expected[stream] = received[stream] = b""

    def collect(budget: int) -> None:
        for sent in peer.sent(budget):
            if sent.kind == f.T_DATA:
                granted[0] -= len(sent.payload)
                granted[sent.stream] -= len(sent.payload)
                assert granted[0] >= 0
                assert granted[sent.stream] >= 0
                received[sent.stream] += sent.payload
        for stream in expected:
            assert peer.connection.buffered(stream) == len(expected[stream]) - len(received[stream])
            if min(granted[0], granted[stream]) > 0:
                assert received[stream] == expected[stream], "held back without a reason"

    for _ in range(data.draw(st.integers(1, 25))):
        stream = data.draw(st.sampled_from([1, 3, 5]))
        what = data.draw(st.integers(0, 3))
        if what == 0:
            message = bytes([data.draw(st.integers(0, 255))]) * data.draw(st.sampled_from([0, 1, 9, 20_000, 70_000]))
            expected[stream] += message
            cut = data.draw(st.integers(0, len(message)))
            peer.connection.send_data(stream, message[:cut], memoryview(message)[cut:])
        elif what == 1:
            more = data.draw(st.sampled_from([1, 100, 50_000, 100_000]))
            where = data.draw(st.sampled_from([0, stream]))
            granted[where] += more
            peer.send(frame(f.T_WINDOW_UPDATE, 0, where, more.to_bytes(4, "big")))
        elif what == 2:
            size = data.draw(st.sampled_from([0, 1, 1000, 65_535, 200_000]))
            for open_stream in expected:
                granted[open_stream] += size - initial
            initial = size
            peer.send(frame(f.T_SETTINGS, 0, 0, b"\0\4" + size.to_bytes(4, "big")))
        else:
            collect(data.draw(st.sampled_from([1, 10_000, 1 << 30])))
    for stream in (1, 3, 5):
        granted[stream] += 1 << 24
        peer.send(frame(f.T_WINDOW_UPDATE, 0, stream, (1 << 24).to_bytes(4, "big")))
    granted[0] += 1 << 24
    peer.send(frame(f.T_WINDOW_UPDATE, 0, 0, (1 << 24).to_bytes(4, "big")))
    collect(1 << 30)
    assert received == expected


# Garbage.


def footprint(thing: object, seen: set[int] | None = None) -> int:
    """Bytes that a connection holds, by following everything that it owns."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, type) or callable(thing):
        return 0
    seen.add(id(thing))
    size = sys.getsizeof(thing)
    if isinstance(thing, memoryview):
        return size + footprint(thing.obj, seen)
    if isinstance(thing, dict):
        return size + sum(footprint(k, seen) + footprint(v, seen) for k, v in thing.items())
    if isinstance(thing, (bytes, bytearray, str, int, float)):
        return size
    if hasattr(thing, "__iter__"):
        return size + sum(footprint(part, seen) for part in thing)
    if hasattr(thing, "__dict__"):
        size += footprint(vars(thing), seen)
    for name in getattr(type(thing), "__slots__", ()):
        size += footprint(getattr(thing, name, None), seen)
    return size


class Eater:
    """A handler that never answers, the worst for memory."""

    def message(self, data: bytes) -> None:
        pass

    def half_closed(self) -> None:
        pass

    def cancelled(self) -> None:
        pass


def garbage(rng: random.Random) -> Iterator[bytes]:
    """One connection's worth of nonsense, from noise to nearly right."""
    style = rng.randrange(4)
    if style == 0:
        yield rng.randbytes(rng.randrange(1, 300))
        return
    yield PREFACE + frame(f.T_SETTINGS, 0, 0) + frame(f.T_SETTINGS, ACK, 0)
    if style == 1:
        yield rng.randbytes(rng.randrange(1, 300))
        return
    good = [
        frame(f.T_HEADERS, END_HEADERS, 1, b"\x83\x86\x04\x02/a\x0f\x10\x10application/grpc"),
        frame(f.T_DATA, 0, 1, b"\0\0\0\0\3abc\0\0\0\1"),
        frame(f.T_DATA, 0, 1, b"\2abc"),
        frame(f.T_WINDOW_UPDATE, 0, 1, b"\0\0\1\0"),
        frame(f.T_PING, 0, 0, b"12345678"),
        frame(f.T_HEADERS, END_HEADERS | END_STREAM, 3, b"\x83\x86\x04\x02/b"),
        frame(f.T_DATA, END_STREAM, 1, b""),
    ]
    if style == 2:
        said = bytearray(b"".join(good))
        for _ in range(rng.randrange(1, 6)):
            said[rng.randrange(len(said))] = rng.randrange(256)
        yield bytes(said)
        return
    for _ in range(rng.randrange(1, 12)):
        stream = rng.choice([0, 1, 1, 3, 5, rng.randrange(1 << 32)])
        yield (
            rng.choice(good)
            if rng.random() < 0.5
            else frame(rng.randrange(11), rng.randrange(256), stream, rng.randbytes(rng.choice([0, 1, 4, 5, 6, 8, 30])))
        )


@pytest.mark.parametrize("seed", range(10))
def test_garbage_raises_nothing_and_does_not_grow(seed):
    """1,000 connections a seed. To repeat one: random.Random(seed), as here."""
    rng = random.Random(seed)
    failed = 0
    for _ in range(1000):
        front = GrpcConnection(lambda call: Eater())
        for said in garbage(rng):
            cut = rng.randrange(len(said) + 1)
            front.receive(said[:cut])
            front.receive(said[cut:])
        if front.failure is not None:
            failed += 1
            assert type(front.failure) is ProtocolError
            assert not front._calls
        front.take(1 << 20)
        assert footprint(vars(front.http2)) < 40_000
    assert 300 < failed < 1000


def test_endless_nonsense_within_the_rules_does_not_grow():
    """What is legal at every step, and repeated without end."""
    front = GrpcConnection(lambda call: Eater(), Limits(max_concurrent_streams=10))
    front.receive(PREFACE + frame(f.T_SETTINGS, 0, 0))
    request = b"\x83\x86\x04\x02/a\x0f\x10\x10application/grpc"
    sizes = []
    stream = 1
    for round_ in range(2000):
        front.receive(
            frame(f.T_HEADERS, END_HEADERS, stream, request)
            + frame(f.T_HEADERS, END_HEADERS, stream + 2, request)
            + frame(f.T_DATA, 0, stream, b"\0\x10")
            + frame(f.T_RST_STREAM, 0, stream, bytes(4))
            # A literal with incremental indexing: the table turns over.
            + frame(f.T_HEADERS, END_HEADERS, stream + 4, request + b"\x40\x04x%03d\x01a" % (round_ % 1000))
            + frame(f.T_PRIORITY, 0, stream + 1000, bytes(5))
            + frame(f.T_PING, 0, 0, bytes(8))
            + frame(0x99, 0, 7, bytes(1000))
            + frame(f.T_SETTINGS, 0, 0, b"\0\4" + (round_ % 7).to_bytes(4, "big"))
        )
        stream += 6
        front.take(1 << 20)
        sizes.append(footprint(vars(front.http2)))
    assert front.failure is None
    assert max(sizes) < 150_000
    assert max(sizes[1000:]) <= max(sizes[500:1000]) + 1000


def test_a_client_that_never_reads_does_not_make_us_grow():
    """Nothing is taken, as when the link is full: the connection ends before its replies pile up."""
    front = GrpcConnection(lambda call: Eater(), Limits(max_replies=10_000))
    front.receive(PREFACE + frame(f.T_SETTINGS, 0, 0))
    for stream in range(1, 100_000, 2):
        front.receive(frame(f.T_HEADERS, END_HEADERS, stream, b"\x83\x86\x04\x02/a\x0f\x10\x10application/grpc"))
        for call in list(front._calls.values()):
            call.write(b"x" * 1000)
        front.receive(frame(f.T_RST_STREAM, 0, stream, bytes(4)))
    assert front.failure is None, "a client may cancel all its calls"
    # What it cancelled was dropped with its stream.
    assert footprint(vars(front.http2)) < 200_000
    while front.failure is None:
        front.receive(frame(f.T_PING, 0, 0, bytes(8)))
    assert footprint(vars(front.http2)) < 200_000


def test_tiny_pieces_of_a_large_message_cost_about_their_size():
    front = GrpcConnection(lambda call: Eater())
    front.receive(PREFACE + frame(f.T_SETTINGS, 0, 0))
    front.receive(frame(f.T_HEADERS, END_HEADERS, 1, b"\x83\x86\x04\x02/a\x0f\x10\x10application/grpc"))
    front.receive(frame(f.T_DATA, 0, 1, b"\0" + (1 << 30).to_bytes(4, "big")))
    for _ in range(500):
        front.receive(frame(f.T_DATA, 0, 1, b"x") * 200)
    (call,) = front._calls.values()
    assert footprint(call._parts) < 200_000


def test_the_footprint_sees_what_a_connection_holds():
    connection = Connection()
    before = footprint(vars(connection))
    stream = connection._streams[1] = Stream(1, MAX_WINDOW, MAX_WINDOW, False)
    connection.send_data(1, memoryview(bytes(100_000)))
    assert footprint(vars(connection)) > before + 100_000
    stream.queue.clear()
    assert connection.receive(b"nonsense")[0][0] == FAILED
