"""Every way to break HTTP/2 ends the connection with the right code and says what was wrong."""

from __future__ import annotations

import struct

import pytest

from elastic.front import frames as f
from elastic.front.errors import ErrorCode, ProtocolError
from elastic.front.frames import ACK, END_HEADERS, END_STREAM, PADDED, PREFACE, PRIORITY, Limits, frame
from elastic.front.http2 import FAILED, Connection


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def setting(name: int, value: int) -> bytes:
    return struct.pack(">HI", name, value)


def data(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return frame(f.T_DATA, flags, stream, payload)


def window(stream: int, more: int) -> bytes:
    return frame(f.T_WINDOW_UPDATE, 0, stream, u32(more))


def settings(payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return frame(f.T_SETTINGS, flags, stream, payload)


def oversized(kind: int, size: int, stream: int = 1) -> bytes:
    """Only the head of a frame: it must be refused before it has come."""
    return f.FRAME_HEAD.pack(size >> 8, size & 255, kind, 0, stream)


E_PROTOCOL, E_SIZE, E_FLOW = ErrorCode.PROTOCOL_ERROR, ErrorCode.FRAME_SIZE_ERROR, ErrorCode.FLOW_CONTROL_ERROR
E_CALM, E_CLOSED, E_HPACK = ErrorCode.ENHANCE_YOUR_CALM, ErrorCode.STREAM_CLOSED, ErrorCode.COMPRESSION_ERROR
CONT, END = f.T_CONTINUATION, END_HEADERS | END_STREAM

# What the peer says on a connection where stream 1 is open, 3 was ended by both, and what is the matter with it.
VIOLATIONS = {
    "data on stream 0": (E_PROTOCOL, "DATA on stream 0", lambda p: data(0, b"x")),
    "data on an idle stream": (E_PROTOCOL, "never opened", lambda p: data(9, b"x")),
    "data on an even stream": (E_PROTOCOL, "never opened", lambda p: data(2, b"x")),
    "data on an ended stream": (E_CLOSED, "DATA on stream 3, which the peer had ended", lambda p: data(3, b"x")),
    "data with too much padding": (E_PROTOCOL, "more padding", lambda p: data(1, b"\x05abcd", PADDED)),
    "padded data without a length": (E_SIZE, "pad length", lambda p: data(1, b"", PADDED)),
    "data beyond the frame size": (E_SIZE, "frame of 16777215 bytes", lambda p: oversized(f.T_DATA, (1 << 24) - 1)),
    "data beyond the stream window": (E_FLOW, "window of stream 1", lambda p: data(1, bytes(66_000))),
    "data beyond the connection window": (
        E_FLOW,
        "window of the connection",
        lambda p: oversized(f.T_DATA, 100_001),
    ),
    "headers on stream 0": (E_PROTOCOL, "HEADERS on stream 0", lambda p: p.headers(0)),
    "headers on an even stream": (E_PROTOCOL, "odd", lambda p: p.headers(6)),
    "headers on an ended stream": (E_CLOSED, "HEADERS on stream 3", lambda p: p.headers(3)),
    "streams out of order": (E_PROTOCOL, "stream 5 opened after stream 7", lambda p: p.headers(7) + p.headers(5)),
    "headers with too much padding": (
        E_PROTOCOL,
        "more padding",
        lambda p: frame(f.T_HEADERS, END | PADDED, 5, b"\x09" + bytes(8)),
    ),
    "padded headers without a length": (E_SIZE, "pad length", lambda p: frame(f.T_HEADERS, END | PADDED, 5)),
    "headers too short for priority": (E_SIZE, "priority", lambda p: frame(f.T_HEADERS, END | PRIORITY, 5, b"1234")),
    "header block of garbage": (E_HPACK, "bad header block", lambda p: frame(f.T_HEADERS, END, 5, b"\xff" * 40)),
    "header block with an unknown index": (E_HPACK, "index", lambda p: frame(f.T_HEADERS, END, 5, b"\x83\xfe")),
    "table update in mid-block": (E_HPACK, "table size", lambda p: frame(f.T_HEADERS, END, 5, b"\x83\x86\x20")),
    "table larger than allowed": (E_HPACK, "table size", lambda p: frame(f.T_HEADERS, END, 5, b"\x3f\xff\xff\x7f")),
    "header frame too large": (E_CALM, "too large", lambda p: oversized(f.T_HEADERS, 40_000)),
    "header block too large in all": (
        E_CALM,
        "too large",
        lambda p: frame(f.T_HEADERS, 0, 5, bytes(30_000)) + oversized(CONT, 3_100, 5),
    ),
    "header block a little too large": (E_CALM, "too large", lambda p: frame(f.T_HEADERS, END, 5, bytes(32_769))),
    "header list too large": (
        E_CALM,
        "header list too large",
        lambda p: frame(f.T_HEADERS, END, 5, p.encoder.encode([*p.REQUEST, (b"x", b"y" * 3000)]) + b"\xbe" * 20),
    ),
    "continuation without headers": (E_PROTOCOL, "without HEADERS", lambda p: frame(CONT, END_HEADERS, 5, b"")),
    "frame within a header block": (
        E_PROTOCOL,
        "within the header block of stream 5",
        lambda p: p.headers(5, 0) + frame(f.T_PING, 0, 0, bytes(8)),
    ),
    "data within a header block": (E_PROTOCOL, "within the header block", lambda p: p.headers(5, 0) + data(1, b"x")),
    "unknown frame within a header block": (E_PROTOCOL, "within", lambda p: p.headers(5, 0) + frame(0x77, 0, 5)),
    "continuation of another stream": (
        E_PROTOCOL,
        "within the header block",
        lambda p: p.headers(5, 0) + frame(CONT, END_HEADERS, 7),
    ),
    "priority on stream 0": (E_PROTOCOL, "PRIORITY on stream 0", lambda p: frame(f.T_PRIORITY, 0, 0, bytes(5))),
    "priority of a wrong size": (E_SIZE, "type 2 with 4 bytes", lambda p: frame(f.T_PRIORITY, 0, 1, bytes(4))),
    "reset on stream 0": (E_PROTOCOL, "RST_STREAM on stream 0", lambda p: frame(f.T_RST_STREAM, 0, 0, bytes(4))),
    "reset of an idle stream": (E_PROTOCOL, "never opened", lambda p: frame(f.T_RST_STREAM, 0, 9, bytes(4))),
    "reset of a wrong size": (E_SIZE, "type 3 with 5 bytes", lambda p: frame(f.T_RST_STREAM, 0, 1, bytes(5))),
    "settings on a stream": (E_PROTOCOL, "on stream 1, not on stream 0", lambda p: settings(stream=1)),
    "settings of a wrong size": (E_SIZE, "SETTINGS of 5 bytes", lambda p: settings(bytes(5))),
    "settings of great length": (E_CALM, "type 4 with 6000 bytes", lambda p: settings(bytes(6000))),
    "acknowledgement with payload": (E_SIZE, "SETTINGS of 6 bytes", lambda p: settings(bytes(6), ACK)),
    "push neither on nor off": (E_PROTOCOL, "ENABLE_PUSH of 2", lambda p: settings(setting(f.S_ENABLE_PUSH, 2))),
    "initial window too large": (
        E_FLOW,
        "of 2147483648",
        lambda p: settings(setting(f.S_INITIAL_WINDOW_SIZE, 1 << 31)),
    ),
    "initial window makes a stream overflow": (
        E_FLOW,
        "window of stream 1 overflows",
        lambda p: window(1, 10) + settings(setting(f.S_INITIAL_WINDOW_SIZE, f.MAX_WINDOW)),
    ),
    "frame size too small": (
        E_PROTOCOL,
        "MAX_FRAME_SIZE of 16383",
        lambda p: settings(setting(f.S_MAX_FRAME_SIZE, 16383)),
    ),
    "frame size too large": (E_PROTOCOL, "MAX_FRAME_SIZE", lambda p: settings(setting(f.S_MAX_FRAME_SIZE, 1 << 24))),
    "push promise": (E_PROTOCOL, "PUSH_PROMISE", lambda p: frame(f.T_PUSH_PROMISE, END_HEADERS, 1, bytes(4))),
    "ping on a stream": (E_PROTOCOL, "not on stream 0", lambda p: frame(f.T_PING, 0, 1, bytes(8))),
    "ping of a wrong size": (E_SIZE, "type 6 with 7 bytes", lambda p: frame(f.T_PING, 0, 0, bytes(7))),
    "goaway on a stream": (E_PROTOCOL, "not on stream 0", lambda p: frame(f.T_GOAWAY, 0, 1, bytes(8))),
    "goaway too short": (E_SIZE, "type 7 with 7 bytes", lambda p: frame(f.T_GOAWAY, 0, 0, bytes(7))),
    "goaway of great length": (E_CALM, "type 7 with 20000 bytes", lambda p: oversized(f.T_GOAWAY, 20_000)),
    "window of an idle stream": (E_PROTOCOL, "never opened", lambda p: window(9, 1)),
    "window of a wrong size": (E_SIZE, "type 8 with 3 bytes", lambda p: frame(f.T_WINDOW_UPDATE, 0, 1, bytes(3))),
    "connection window by 0": (E_PROTOCOL, "WINDOW_UPDATE by 0", lambda p: window(0, 0)),
    "connection window overflows": (E_FLOW, "window of the connection overflows", lambda p: window(0, f.MAX_WINDOW)),
    "replies that nobody reads": (E_CALM, "faster than it reads", lambda p: frame(f.T_PING, 0, 0, bytes(8)) * 4000),
}

STRICT = Limits(
    max_frame_size=(1 << 24) - 2, stream_window=65_535, connection_window=100_000, max_replies=4000 * 17 - 1
)


@pytest.mark.parametrize("one_byte_at_a_time", [False, True])
@pytest.mark.parametrize("violation", list(VIOLATIONS))
def test_violations_end_the_connection(make_peer, violation, one_byte_at_a_time):
    code, text, make = VIOLATIONS[violation]
    peer = make_peer(Connection(STRICT)).hello()
    peer.send(peer.headers(1), peer.headers(3, END_HEADERS | END_STREAM))
    peer.connection.send_trailers(3, b"\x88")
    peer.connection.take()
    said = make(peer)
    if one_byte_at_a_time:
        events = [event for k in range(len(said)) for event in peer.send(said[k : k + 1])]
    else:
        events = peer.send(said)
    kind, _, error, _ = events[-1]
    assert kind == FAILED
    assert isinstance(error, ProtocolError)
    assert (error.code, peer.connection.failure) == (code, error)
    assert text in error.message
    *_, goaway = peer.sent()
    assert goaway.kind == f.T_GOAWAY
    assert goaway.payload[4:8] == u32(code)
    assert text.encode() in goaway.payload
    # It is over: nothing is heard, nothing said any more.
    assert peer.send(frame(f.T_PING, 0, 0, bytes(8)), peer.headers(9)) == []
    peer.connection.send_data(1, b"x")
    assert peer.sent() == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak HTTP/2"),
        (PREFACE[:-1] + b"x", "does not speak HTTP/2"),
        (PREFACE + frame(f.T_PING, 0, 0, bytes(8)), "the first frame is of type 6, not SETTINGS"),
        (PREFACE + data(1, b"x"), "the first frame is of type 0, not SETTINGS"),
        (PREFACE + settings(flags=ACK), "not SETTINGS"),
    ],
)
def test_a_bad_start(said, text):
    for cut in range(len(said)):
        connection = Connection()
        events = connection.receive(said[:cut]) + connection.receive(said[cut:])
        assert [event[0] for event in events] == [FAILED]
        assert connection.failure is not None
        assert connection.failure.code == ErrorCode.PROTOCOL_ERROR
        assert text in connection.failure.message
