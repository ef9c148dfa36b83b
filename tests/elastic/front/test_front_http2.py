"""The HTTP/2 core, frame by frame."""

from __future__ import annotations

import struct

import pytest

from elastic.front import frames as f
from elastic.front.errors import ErrorCode
from elastic.front.frames import ACK, END_HEADERS, END_STREAM, PADDED, PREFACE, PRIORITY, Limits, frame
from elastic.front.headers import HeaderDecoder, encode_headers
from elastic.front.http2 import DATA, GOAWAY, REQUEST, RESET, Connection


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def setting(name: int, value: int) -> bytes:
    return struct.pack(">HI", name, value)


def data(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return frame(f.T_DATA, flags, stream, payload)


def window(stream: int, more: int) -> bytes:
    return frame(f.T_WINDOW_UPDATE, 0, stream, u32(more))


def payload_of(sent, stream):
    return b"".join(x.payload for x in sent if x.kind == f.T_DATA and x.stream == stream)


# Handshake and settings.


def test_the_server_announces_its_limits(make_peer):
    peer = make_peer(Connection(Limits(max_concurrent_streams=7, stream_window=1 << 20, max_frame_size=1 << 15)))
    settings, update = peer.sent()
    assert (settings.kind, settings.flags, settings.stream) == (f.T_SETTINGS, 0, 0)
    assert dict(struct.iter_unpack(">HI", settings.payload)) == {
        f.S_MAX_CONCURRENT_STREAMS: 7,
        f.S_INITIAL_WINDOW_SIZE: 1 << 20,
        f.S_MAX_FRAME_SIZE: 1 << 15,
        f.S_MAX_HEADER_LIST_SIZE: 32_768,
    }
    assert (update.kind, update.stream) == (f.T_WINDOW_UPDATE, 0)
    assert struct.unpack(">I", update.payload)[0] + 65_535 == f.MAX_WINDOW


def test_settings_are_acknowledged_once(make_peer):
    peer = make_peer()
    peer.sent()
    assert peer.send(PREFACE, frame(f.T_SETTINGS, 0, 0, setting(99, 5))) == []
    (ack,) = peer.sent()
    assert (ack.kind, ack.flags, ack.payload) == (f.T_SETTINGS, ACK, b"")
    assert peer.send(frame(f.T_SETTINGS, ACK, 0)) == []
    assert peer.sent() == []


def test_limits_say_what_they_accept():
    with pytest.raises(ValueError, match=r"Limits.max_frame_size is 5; it must be from 16384 to 16777215"):
        Limits(max_frame_size=5)


# Requests.


def test_a_request_its_payload_and_its_end(peer):
    events = peer.send(peer.headers(1), data(1, b"abc"), data(1, b"de", END_STREAM))
    assert events == [
        (REQUEST, 1, list(peer.REQUEST), False),
        (DATA, 1, b"abc", False),
        (DATA, 1, b"de", True),
    ]


def test_a_request_may_end_with_its_headers(peer):
    assert peer.send(peer.headers(1, END_HEADERS | END_STREAM)) == [(REQUEST, 1, list(peer.REQUEST), True)]


def test_an_empty_last_frame_ends_the_stream(peer):
    peer.send(peer.headers(1))
    assert peer.send(data(1, b""), data(1, b"", END_STREAM)) == [(DATA, 1, b"", True)]


def test_trailers_end_the_stream(peer):
    peer.send(peer.headers(1))
    events = peer.send(peer.headers(1, END_HEADERS | END_STREAM, [(b"x-sum", b"5")]))
    assert events == [(DATA, 1, b"", True)]


def test_padding_is_dropped_and_counts_as_flow(make_peer):
    peer = make_peer(Connection(Limits(stream_window=65_535, connection_window=65_535))).hello()
    peer.send(peer.headers(1))
    assert peer.send(data(1, b"\x05hello" + bytes(5), PADDED)) == [(DATA, 1, b"hello", False)]
    assert peer.send(data(1, b"\x05" + bytes(5), PADDED)) == []
    assert peer.send(data(1, b"\x05" + bytes(5), PADDED | END_STREAM)) == [(DATA, 1, b"", True)]
    peer.send(peer.headers(3))
    for _ in range(127):
        peer.send(data(3, b"\xff" + bytes(255), PADDED))
    assert peer.sent() == []
    for _ in range(2):
        peer.send(data(3, b"\xff" + bytes(255), PADDED))
    # Refilled when less than half is left. The frames on stream 1 took 23 bytes of the connection.
    assert [(x.stream, x.payload) for x in peer.sent()] == [(0, u32(128 * 256 + 23)), (3, u32(129 * 256))]


def test_headers_with_padding_priority_and_continuation(peer):
    block = peer.encoder.encode(peer.REQUEST)
    first = b"\x03" + u32(0) + b"\x10" + block[:10] + bytes(3)
    assert peer.send(frame(f.T_HEADERS, PADDED | PRIORITY | END_STREAM, 5, first)) == []
    assert peer.send(frame(f.T_CONTINUATION, 0, 5, block[10:20])) == []
    assert peer.send(frame(f.T_CONTINUATION, END_HEADERS, 5, block[20:])) == [(REQUEST, 5, list(peer.REQUEST), True)]


def test_priority_and_unknown_frames_are_ignored(peer):
    assert peer.send(frame(f.T_PRIORITY, 0, 9, bytes(5)), frame(0x42, 0xFF, 3, b"x" * 100_000)) == []
    assert peer.send(frame(0x43, 0, 0)) == []
    assert peer.send(peer.headers(1)) != []


def test_reserved_bit_of_a_stream_number_is_ignored(peer):
    assert peer.send(peer.headers(1 | 1 << 31))[0][:2] == (REQUEST, 1)
    assert peer.send(data(1 | 1 << 31, b"x")) == [(DATA, 1, b"x", False)]


def test_large_pieces_are_views_of_the_input_small_ones_are_not(peer):
    peer.send(peer.headers(1))
    (event,) = peer.send(data(1, bytes(100_000)))
    assert type(event[2]) is memoryview
    # A small part of a large buffer must not keep all of it alive.
    events = peer.send(data(1, bytes(20_000)), data(1, bytes(100_000)))
    assert [type(event[2]) for event in events] == [bytes, memoryview]


def test_ping_is_answered(peer):
    assert peer.send(frame(f.T_PING, 0, 0, b"12345678"), frame(f.T_PING, ACK, 0, b"abcdefgh")) == []
    assert [(x.kind, x.flags, x.payload) for x in peer.sent()] == [(f.T_PING, ACK, b"12345678")]


def test_goaway_of_the_peer_is_told_and_streams_go_on(peer):
    peer.send(peer.headers(1))
    assert peer.send(frame(f.T_GOAWAY, 0, 0, u32(0) + u32(11) + b"bye")) == [(GOAWAY, 0, 11, b"bye")]
    assert peer.send(data(1, b"x")) == [(DATA, 1, b"x", False)]


def test_reset_by_the_peer(peer):
    peer.send(peer.headers(1))
    peer.connection.send_headers(1, b"")
    peer.connection.send_data(1, b"never seen")
    assert peer.send(frame(f.T_RST_STREAM, 0, 1, u32(8))) == [(RESET, 1, 8, "")]
    assert peer.sent() == []
    assert peer.connection.open_streams == 0
    # Frames that crossed on the wire.
    assert peer.send(frame(f.T_RST_STREAM, 0, 1, u32(8)), window(1, 5)) == []


# Responses.


def test_a_response(peer):
    peer.send(peer.headers(1, END_HEADERS | END_STREAM))
    peer.connection.send_headers(1, encode_headers([(b":status", b"200"), (b"x", b"y" * 200)]))
    peer.connection.send_data(1, b"ab", b"", memoryview(b"cd"))
    peer.connection.send_data(1, b"ef")
    peer.connection.send_trailers(1, encode_headers([(b"grpc-status", b"0")]))
    assert peer.connection.buffered(1) == 6
    head, body, tail = peer.sent()
    assert (head.kind, head.flags, peer.fields(head.payload)) == (
        f.T_HEADERS,
        END_HEADERS,
        [(b":status", b"200"), (b"x", b"y" * 200)],
    )
    assert (body.kind, body.flags, body.payload) == (f.T_DATA, 0, b"abcdef")
    assert (tail.kind, tail.flags) == (f.T_HEADERS, END_HEADERS | END_STREAM)
    assert peer.fields(tail.payload) == [(b"grpc-status", b"0")]
    assert peer.connection.open_streams == 0
    assert not peer.connection.has_output


def test_a_response_before_the_request_ended_resets_the_stream(peer):
    peer.send(peer.headers(1))
    peer.connection.send_trailers(1, b"\x88")
    assert [(x.kind, x.payload) for x in peer.sent()] == [(f.T_HEADERS, b"\x88"), (f.T_RST_STREAM, u32(0))]
    # What the peer still had under way is dropped, its headers are decoded nevertheless.
    assert peer.send(data(1, b"late"), window(1, 9), peer.headers(1, END_HEADERS | END_STREAM, [(b"a", b"b")])) == []
    assert peer.send(peer.headers(3, END_HEADERS | END_STREAM, [*peer.REQUEST, (b"a", b"b")]))[0][0] == REQUEST


def test_sending_on_a_stream_that_is_gone_does_nothing(peer):
    c = peer.connection
    c.send_headers(9, b"\x88")
    c.send_data(9, b"x")
    c.send_trailers(9, b"\x88")
    c.reset(9, ErrorCode.CANCEL)
    assert c.buffered(9) == 0
    assert peer.sent() == []


def test_output_is_cut_by_frame_size_and_both_windows(peer):
    peer.send(peer.headers(1), window(0, 1 << 20))
    body = bytes(range(256)) * 1000
    peer.connection.send_data(1, body[:100_000], body[100_000:])
    sent = peer.sent()
    assert [len(x.payload) for x in sent] == [16_384, 16_384, 16_384, 16_383]
    assert peer.connection.buffered(1) == len(body) - 65_535
    peer.send(window(1, 10))
    sent += peer.sent()
    assert len(sent[-1].payload) == 10
    peer.send(frame(f.T_SETTINGS, 0, 0, setting(f.S_MAX_FRAME_SIZE, 1 << 20)), window(1, 1 << 20))
    sent += peer.sent()
    assert len(sent) == 7  # with the acknowledgement
    assert payload_of(sent, 1) == body


def test_a_frame_of_ours_stays_moderate_if_the_peer_accepts_any(peer):
    peer.send(frame(f.T_SETTINGS, 0, 0, setting(f.S_MAX_FRAME_SIZE, (1 << 24) - 1)), window(0, 1 << 24))
    peer.send(peer.headers(1), window(1, 1 << 24))
    peer.sent()
    peer.connection.send_data(1, bytes(1 << 20))
    assert [len(x.payload) for x in peer.sent()] == [1 << 18] * 4


def test_the_budget_bounds_what_is_taken(peer):
    peer.send(window(0, 1 << 24), peer.headers(1), window(1, 1 << 24))
    peer.connection.send_data(1, bytes(1 << 20))
    peer.send(frame(f.T_PING, 0, 0, bytes(8)))
    first = peer.connection.take(50_000)
    assert 50_000 <= len(first) <= 50_000 + 16_384 + 100
    assert peer.connection.has_output
    assert len(peer.connection.take(0)) == 0


def test_streams_take_turns(peer):
    peer.send(window(0, 1 << 24))
    for stream in (1, 3):
        peer.send(peer.headers(stream), window(stream, 1 << 20))
    peer.connection.send_data(1, bytes(100_000))
    peer.connection.send_data(3, b"quick")
    assert [x.stream for x in peer.sent()][:3] == [1, 3, 1]


def test_the_window_of_the_connection_is_shared(peer):
    for stream in (1, 3, 5):
        peer.send(peer.headers(stream, END_HEADERS | END_STREAM), window(stream, 1 << 20))
    peer.connection.send_data(1, bytes(100_000))
    peer.connection.send_data(3, bytes(100_000))
    peer.connection.send_trailers(5, b"\x88")
    first = peer.sent()
    assert sum(len(x.payload) for x in first if x.kind == f.T_DATA) == 65_535
    # A stream without payload needs no window.
    assert [x.stream for x in first if x.kind == f.T_HEADERS] == [5]
    assert not peer.connection.has_output
    peer.send(window(0, 1 << 20))
    sent = first + peer.sent()
    assert len(payload_of(sent, 1)) == len(payload_of(sent, 3)) == 100_000


def test_a_change_of_the_initial_window_applies_to_open_streams(peer):
    peer.send(window(0, 1 << 20), peer.headers(1))
    peer.connection.send_data(1, bytes(100_000))
    assert len(payload_of(peer.sent(), 1)) == 65_535
    peer.send(frame(f.T_SETTINGS, 0, 0, setting(f.S_INITIAL_WINDOW_SIZE, 65_535 + 100)))
    assert len(payload_of(peer.sent(), 1)) == 100
    # Now it is negative, and must be made up for first.
    peer.send(frame(f.T_SETTINGS, 0, 0, setting(f.S_INITIAL_WINDOW_SIZE, 0)))
    assert payload_of(peer.sent(), 1) == b""
    peer.send(window(1, 65_535 + 100))
    assert payload_of(peer.sent(), 1) == b""
    peer.send(window(1, 7))
    assert len(payload_of(peer.sent(), 1)) == 7


def test_a_header_block_larger_than_a_frame_continues(peer):
    peer.send(peer.headers(1, END_HEADERS | END_STREAM))
    block = encode_headers([(b"x", b"y" * 40_000)])
    peer.connection.send_trailers(1, block)
    sent = peer.sent()
    assert [(x.kind, x.flags) for x in sent] == [
        (f.T_HEADERS, END_STREAM),
        (f.T_CONTINUATION, 0),
        (f.T_CONTINUATION, END_HEADERS),
    ]
    assert b"".join(x.payload for x in sent) == block


def test_a_peer_with_a_small_table_is_told_that_ours_is_empty(make_peer):
    peer = make_peer().hello(setting(f.S_HEADER_TABLE_SIZE, 100))
    peer.send(peer.headers(1, END_HEADERS | END_STREAM), peer.headers(3, END_HEADERS | END_STREAM))
    peer.connection.send_trailers(1, b"\x88")
    peer.connection.send_trailers(3, b"\x88")
    assert [x.payload for x in peer.sent()] == [b"\x20\x88", b"\x88"]


def test_windows_are_refilled_as_data_is_consumed(make_peer):
    limits = Limits(stream_window=100_000, connection_window=300_000)
    peer = make_peer(Connection(limits)).hello()
    peer.send(peer.headers(1))
    granted = {0: 300_000, 1: 100_000}
    for _ in range(200):
        size = min(16_000, granted[0], granted[1])
        assert size == 16_000
        assert peer.send(data(1, bytes(size)))[0][0] == DATA
        for stream in granted:
            granted[stream] -= size
        for update in peer.sent():
            assert update.kind == f.T_WINDOW_UPDATE
            granted[update.stream] += struct.unpack(">I", update.payload)[0]
            assert granted[update.stream] <= {0: 300_000, 1: 100_000}[update.stream]


def test_data_on_a_dropped_stream_refills_the_connection(make_peer):
    peer = make_peer(Connection(Limits(stream_window=65_535, connection_window=65_535))).hello()
    peer.send(peer.headers(1))
    peer.connection.reset(1, ErrorCode.CANCEL)
    peer.sent()
    peer.send(data(1, bytes(40_000)))
    assert [(x.stream, x.payload) for x in peer.sent()] == [(0, u32(40_000))]


def test_our_goaway_lets_open_streams_end_and_ignores_new_ones(peer):
    peer.send(peer.headers(1))
    peer.connection.goaway()
    peer.connection.goaway()
    (goaway,) = peer.sent()
    assert (goaway.kind, goaway.payload) == (f.T_GOAWAY, u32(1) + u32(0))
    assert peer.send(peer.headers(3), data(3, b"x", END_STREAM)) == []
    assert peer.send(data(1, b"x", END_STREAM)) == [(DATA, 1, b"x", True)]
    peer.connection.send_trailers(1, b"\x88")
    assert [x.stream for x in peer.sent()] == [1]
    assert peer.connection.open_streams == 0


# Errors of one stream.


def stream_error(peer, code, *frames, stream=1):
    """These frames break `stream` and nothing else."""
    events = peer.send(*frames)
    resets = [x for x in peer.sent() if x.kind == f.T_RST_STREAM]
    assert [(x.stream, x.payload) for x in resets] == [(stream, u32(code))]
    assert peer.connection.failure is None
    assert not peer.connection.buffered(stream)
    return events


@pytest.mark.parametrize(
    ("code", "text", "make"),
    [
        (
            ErrorCode.STREAM_CLOSED,
            "DATA after the end",
            lambda p: data(1, b"") + data(1, b"", END_STREAM) + data(1, b"x"),
        ),
        (
            ErrorCode.STREAM_CLOSED,
            "HEADERS after the end",
            lambda p: data(1, b"", END_STREAM) + p.headers(1, END_HEADERS | END_STREAM, [(b"a", b"b")]),
        ),
        (ErrorCode.PROTOCOL_ERROR, "does not end the stream", lambda p: p.headers(1, END_HEADERS, [(b"a", b"b")])),
        (ErrorCode.PROTOCOL_ERROR, "not allowed", lambda p: p.headers(1, END_HEADERS | END_STREAM, [(b":a", b"b")])),
        (ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0", lambda p: window(1, 0)),
        (ErrorCode.FLOW_CONTROL_ERROR, "overflows", lambda p: window(1, f.MAX_WINDOW)),
    ],
)
def test_errors_of_a_stream(peer, code, text, make):
    peer.send(peer.headers(1))
    events = stream_error(peer, code, make(peer))
    assert events[-1][:3] == (RESET, 1, code)
    assert text in events[-1][3]
    assert peer.send(peer.headers(3))[0][:2] == (REQUEST, 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h[1:],
        lambda h: [x for x in h if x[0] != b":path"],
        lambda h: [(b":path", b"") if x[0] == b":path" else x for x in h],
        lambda h: [*h, (b":authority", b"late")],
        lambda h: [h[0], *h],
        lambda h: [(b":status", b"200"), *h],
        lambda h: [*h, (b"Upper", b"x")],
        lambda h: [*h, (b"", b"x")],
        lambda h: [*h, (b"sp ace", b"x")],
        lambda h: [*h, (b"x", b"a\r\nb")],
        lambda h: [*h, (b"connection", b"close")],
        lambda h: [*h, (b"te", b"gzip")],
    ],
)
def test_malformed_requests_are_refused(peer, change):
    assert stream_error(peer, ErrorCode.PROTOCOL_ERROR, peer.headers(1, fields=change(list(peer.REQUEST)))) == []
    assert peer.send(data(1, b"under way")) == []
    assert peer.send(peer.headers(3))[0][:2] == (REQUEST, 3)


def test_streams_beyond_the_limit_are_refused(make_peer):
    peer = make_peer(Connection(Limits(max_concurrent_streams=2))).hello()
    assert len(peer.send(peer.headers(1), peer.headers(3))) == 2
    assert stream_error(peer, ErrorCode.REFUSED_STREAM, peer.headers(5), stream=5) == []
    peer.send(frame(f.T_RST_STREAM, 0, 1, u32(8)))
    assert len(peer.send(peer.headers(7))) == 1


# Header blocks.


def test_a_decoded_run_is_forgotten_when_the_table_changes(make_peer):
    decoder, peer = HeaderDecoder(32_768), make_peer()
    for k in range(300):
        # Every tenth block changes the table, so that the same bytes then mean something else.
        fields = [*peer.REQUEST, (b"x-%d" % (k // 10), b"y"), (b"x-long", b"z" * (k // 10 * 30))]
        assert decoder.decode(peer.encoder.encode(fields)) == fields


def test_a_decoded_run_is_forgotten_when_the_table_shrinks(make_peer):
    decoder, peer = HeaderDecoder(32_768), make_peer()
    fields = list(peer.REQUEST)
    for size in (4096, 200, 4096, 0, 100, 4096):
        peer.encoder.header_table_size = size
        for _ in range(3):
            assert decoder.decode(peer.encoder.encode(fields)) == fields


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 254, 255, 256, 127 + 128, 127 + 16_383, 127 + 16_384, 100_000])
def test_encoded_headers_decode_to_what_they_were(make_peer, size):
    fields = [(b"name", b"v" * size), (b"n" * (size + 1), b"value")]
    peer = make_peer()
    peer.decoder.max_header_list_size = 1 << 20
    assert peer.fields(encode_headers(fields)) == fields
