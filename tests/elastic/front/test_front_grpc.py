"""gRPC over the core: messages, statuses, and how a call ends for its handler."""

from __future__ import annotations

import base64
import struct
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.front import CallFinishedError, GrpcError, Limits, Status
from elastic.front import frames as f
from elastic.front.frames import END_HEADERS, END_STREAM, frame
from elastic.front.grpc import GrpcConnection


def message(data: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(data)) + data


def data(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return frame(f.T_DATA, flags, stream, payload)


class Recorder:
    """A service and the handler of its calls: writes down what it is told, does what `on` says."""

    def __init__(self, **on) -> None:
        self.on = on
        self.calls = []
        self.heard = []

    def __call__(self, call):
        self.calls.append(call)
        self._do("service", call)
        return self

    def _do(self, what, *args) -> None:
        if what in self.on:
            self.on[what](self.calls[-1], *args)

    def message(self, data) -> None:
        assert type(data) is bytes
        self.heard.append(data)
        self._do("message", data)

    def half_closed(self) -> None:
        self.heard.append("half closed")
        self._do("half_closed")

    def cancelled(self) -> None:
        self.heard.append("cancelled")
        self._do("cancelled")


def client_of(make_peer, front):
    peer = make_peer(front)
    peer.send(f.PREFACE, frame(f.T_SETTINGS, 0, 0))
    front.take(1 << 20)
    return peer


def status(peer):
    """Messages and the end of the (only) response that waits: [messages], {trailer: value}."""
    payload, fields = b"", []
    for sent in peer.sent():
        if sent.kind == f.T_DATA:
            payload += sent.payload
        elif sent.kind == f.T_HEADERS:
            fields += peer.fields(sent.payload)
    messages = []
    while payload:
        size = struct.unpack_from(">I", payload, 1)[0]
        messages.append(payload[5 : 5 + size])
        payload = payload[5 + size :]
    return messages, dict(fields)


@pytest.fixture
def start(make_peer):
    def start(limits=None, **on):
        service = Recorder(**on)
        front = GrpcConnection(service, limits)
        return service, front, client_of(make_peer, front)

    return start


def test_a_call_from_beginning_to_end(start):
    service, front, peer = start()
    peer.send(peer.headers(1), data(1, message(b"one") + message(b"")), data(1, message(b"two"), END_STREAM))
    (call,) = service.calls
    assert (call.path, call.method, call.metadata, call.closed) == ("/test.Service/Method", "Method", {}, False)
    assert service.heard == [b"one", b"", b"two", "half closed"]
    call.write(b"1")
    call.write(b"2", b"", memoryview(b"34"))
    call.write(b"")
    call.finish()
    assert call.closed
    assert status(peer) == (
        [b"1", b"234", b""],
        {
            b":status": b"200",
            b"content-type": b"application/grpc",
            b"grpc-accept-encoding": b"identity",
            b"grpc-status": b"0",
        },
    )
    assert service.heard[-1] == "half closed"
    assert front.idle
    assert not front.has_output


def test_parts_of_other_types_are_sent_as_bytes(start):
    service, _, peer = start()
    peer.send(peer.headers(1))
    service.calls[0].write(memoryview(struct.pack("<3i", 1, 2, 3)).cast("i"), b"x")
    service.calls[0].finish()
    assert status(peer)[0] == [struct.pack("<3i", 1, 2, 3) + b"x"]


def test_a_call_may_end_with_a_status_alone(start):
    service, _, peer = start()
    peer.send(peer.headers(1, END_HEADERS | END_STREAM))
    service.calls[0].finish(Status.NOT_FOUND, "no handle 7")
    (sent,) = peer.sent()
    assert sent.flags == END_HEADERS | END_STREAM
    fields = dict(peer.fields(sent.payload))
    assert (fields[b":status"], fields[b"grpc-status"], fields[b"grpc-message"]) == (b"200", b"5", b"no handle 7")


def test_no_more_messages_after_finish(start):
    service, front, peer = start(message=lambda call, data: call.finish())
    peer.send(peer.headers(1), data(1, message(b"a") + message(b"b")), data(1, message(b"c"), END_STREAM))
    assert service.heard == [b"a"]
    front.lost()
    assert service.heard == [b"a"]


def test_writing_after_the_own_finish_is_a_bug_and_says_so(start):
    service, _, peer = start()
    peer.send(peer.headers(1))
    service.calls[0].finish()
    with pytest.raises(CallFinishedError, match="call of /test"):
        service.calls[0].write(b"x")
    with pytest.raises(CallFinishedError):
        service.calls[0].finish()


@pytest.mark.parametrize("how", ["reset", "lost", "violation"])
def test_a_cancelled_call_is_told_once_and_takes_no_more(start, how):
    service, front, peer = start()
    peer.send(peer.headers(1), data(1, message(b"a")))
    service.calls[0].write(b"never seen")
    if how == "reset":
        peer.send(frame(f.T_RST_STREAM, 0, 1, bytes(4)))
    elif how == "lost":
        front.lost()
    else:
        peer.send(frame(f.T_PING, 0, 5, bytes(8)))
    front.lost()
    assert service.heard == [b"a", "cancelled"]
    call = service.calls[0]
    assert call.closed
    assert not call.finished
    assert call.buffered == 0
    call.write(b"x")
    call.finish()
    assert service.heard == [b"a", "cancelled"]


def test_a_grpc_error_of_a_handler_is_its_finish(start):
    def refuse(call, data):
        raise GrpcError(Status.OUT_OF_RANGE, "too much")

    service, _, peer = start(message=refuse)
    peer.send(peer.headers(1), data(1, message(b"a") + message(b"b"), END_STREAM))
    fields = status(peer)[1]
    assert (fields[b"grpc-status"], fields[b"grpc-message"]) == (b"11", b"too much")
    assert service.heard == [b"a"]
    with pytest.raises(CallFinishedError):
        service.calls[0].write(b"x")


@pytest.mark.parametrize("where", ["service", "message", "half_closed"])
def test_an_exception_ends_its_call_alone(start, caplog, where):
    def fail(call, *args):
        if call.path.endswith("bad"):
            raise KeyError("lost it")

    service, front, peer = start(**{where: fail})
    path = [(k, b"/x/bad" if k == b":path" else v) for k, v in peer.REQUEST]
    peer.send(peer.headers(1, fields=path), data(1, message(b"a"), END_STREAM))
    fields = status(peer)[1]
    assert (fields[b"grpc-status"], fields[b"grpc-message"]) == (b"13", b"KeyError in the server")
    assert service.heard[-1:] == ([] if where == "service" else ["cancelled"])
    assert "KeyError: 'lost it'" in caplog.text
    assert "/x/bad" in caplog.text
    peer.send(peer.headers(3), data(3, message(b"b"), END_STREAM))
    service.calls[-1].finish()
    assert status(peer)[1][b"grpc-status"] == b"0"
    assert front.failure is None


def test_an_exception_of_cancelled_is_only_logged(start, caplog):
    def fail(call):
        raise RuntimeError("in cancelled")

    service, front, peer = start(cancelled=fail)
    peer.send(peer.headers(1), peer.headers(3))
    front.lost()
    assert service.heard == ["cancelled", "cancelled"]
    assert caplog.text.count("RuntimeError: in cancelled") == 2


def test_a_service_refuses(start):
    def refuse(call, same):
        raise GrpcError(Status.UNIMPLEMENTED, f"no method {call.method}")

    service, front, peer = start(service=refuse)
    peer.send(peer.headers(1), data(1, message(b"a"), END_STREAM))
    fields = status(peer)[1]
    assert (fields[b"grpc-status"], fields[b"grpc-message"]) == (b"12", b"no method Method")
    assert service.heard == []
    assert front.idle


def test_a_service_may_answer_by_itself(start):
    service, _, peer = start(service=lambda call, same: call.finish(Status.OK))
    peer.send(peer.headers(1), data(1, message(b"a"), END_STREAM))
    assert status(peer)[1][b"grpc-status"] == b"0"
    assert service.heard == []


@pytest.mark.parametrize(
    ("payload", "code", "text"),
    [
        (message(b"zip", 1), Status.UNIMPLEMENTED, b"compressed"),
        (message(b"zip", 7), Status.INTERNAL, b"begins with 7"),
        (message(b"x" * 101), Status.RESOURCE_EXHAUSTED, b"message of 101 bytes, limit 100"),
        (message(b"abc")[:-1], Status.INTERNAL, b"within a message"),
        (b"\0\0\0", Status.INTERNAL, b"within a message"),
    ],
)
def test_messages_that_are_refused(start, payload, code, text):
    for cut in range(len(payload)):
        service, front, peer = start(Limits(max_message=100))
        peer.send(peer.headers(1), data(1, message(b"fine") + payload[:cut]), data(1, payload[cut:], END_STREAM))
        fields = status(peer)[1]
        assert fields[b"grpc-status"] == b"%d" % code
        assert text in fields[b"grpc-message"]
        assert service.heard == [b"fine", "cancelled"]
        assert front.failure is None


def test_a_large_announcement_alone_takes_no_memory(start):
    service, front, peer = start()
    peer.send(peer.headers(1), data(1, struct.pack(">BI", 0, (1 << 31) - 1)))
    assert front._calls[1]._parts == []
    peer.send(data(1, b"x"))
    assert front._calls[1]._parts == [b"x"]
    assert service.heard == []


def test_metadata(start):
    service, _, peer = start()
    binary = bytes(range(256))
    fields = [
        *peer.REQUEST,
        (b"user-agent", b"test"),
        (b"grpc-timeout", b"1S"),
        (b"x", b"1"),
        (b"x", b"2"),
        (b"padded-bin", base64.b64encode(binary)),
        (b"bare-bin", base64.b64encode(binary).rstrip(b"=")),
        (b"empty-bin", b""),
        (b"two-bin", b"QQ==,Qg"),
    ]
    peer.send(peer.headers(1, fields=fields))
    assert service.calls[0].metadata == {
        "user-agent": b"test",
        "x": b"1,2",
        "padded-bin": binary,
        "bare-bin": binary,
        "empty-bin": b"",
        "two-bin": b"B",
    }


def test_metadata_that_is_not_base64_is_refused(start):
    service, _, peer = start()
    peer.send(peer.headers(1, fields=[*peer.REQUEST, (b"x-bin", b"Q=Q!")]))
    fields = status(peer)[1]
    assert (fields[b"grpc-status"], fields[b"grpc-message"]) == (b"3", b"metadata x-bin is not base64")
    assert service.calls == []


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [(b":method", b"GET", b"405"), (b"content-type", b"text/html", b"415"), (b"content-type", None, b"415")],
)
def test_requests_that_are_not_grpc(start, name, value, code):
    service, front, peer = start()
    fields = [(k, value if k == name else v) for k, v in peer.REQUEST if k != name or value is not None]
    peer.send(peer.headers(1, END_HEADERS | END_STREAM, fields))
    assert status(peer)[1] == {b":status": code}
    assert service.calls == []
    assert front.idle


@pytest.mark.parametrize("text", ["plain", "100%", "zwölf\nπ 🙂", "\ud800 lone", "x" * 10_000, "🙂" * 10_000])
def test_status_messages_are_percent_encoded_and_bounded(start, text):
    service, _, peer = start()
    peer.send(peer.headers(1))
    service.calls[0].finish(Status.UNKNOWN, text)
    raw = status(peer)[1][b"grpc-message"]
    assert len(raw) <= 4096
    assert all(0x20 <= byte <= 0x7E for byte in raw)
    decoded = unquote_to_bytes(raw).decode()
    expected = text.encode("utf-8", "replace").decode()
    assert expected.startswith(decoded)
    assert decoded == expected or len(raw) > 4096 - 12


def test_buffered_is_what_the_client_did_not_let_through(start):
    service, _, peer = start()
    peer.send(peer.headers(1))
    call = service.calls[0]
    call.write(bytes(100_000))
    assert call.buffered == 100_005
    peer.sent()
    assert call.buffered == 100_005 - 65_535
    peer.send(frame(f.T_RST_STREAM, 0, 1, bytes(4)))
    assert call.buffered == 0


def test_calls_pause_reading_until_all_of_them_resume_or_end(make_peer):
    service, heard = Recorder(), []
    front = GrpcConnection(service, on_pause=heard.append)
    peer = client_of(make_peer, front)
    peer.send(peer.headers(1), peer.headers(3), peer.headers(5))
    one, three, five = service.calls
    one.pause_reading()
    one.pause_reading()
    three.pause_reading()
    five.pause_reading()
    assert heard == [True]
    one.resume_reading()
    one.resume_reading()
    three.finish()
    assert heard == [True]
    peer.send(frame(f.T_RST_STREAM, 0, 5, bytes(4)))
    assert heard == [True, False]
    five.pause_reading()
    assert heard == [True, False]


def test_stop_ends_all_calls(start):
    service, front, peer = start()
    peer.send(peer.headers(1), peer.headers(3))
    front.stop()
    assert service.heard == ["cancelled", "cancelled"]
    assert status(peer)[1][b"grpc-status"] == b"14"
    assert front.idle


@settings(max_examples=200, deadline=None)
@given(
    messages=st.lists(st.binary(max_size=30) | st.sampled_from([bytes(5000), bytes(70_000)]), max_size=8),
    cuts=st.lists(st.integers(0, 200_000), max_size=12),
    chunks=st.lists(st.integers(0, 300_000), max_size=12),
)
def test_messages_survive_any_framing_and_any_chunking(make_peer, messages, cuts, chunks):
    """Cut the payload into frames at `cuts`, the bytes on the wire into reads at `chunks`: the same messages arrive."""
    service = Recorder()
    peer = client_of(make_peer, GrpcConnection(service))
    payload = b"".join(message(data) for data in messages)
    places = sorted({cut for cut in cuts if cut < len(payload)})
    said = peer.headers(1)
    for start, stop in zip([0, *places], [*places, len(payload)], strict=True):
        said += data(1, payload[start:stop])
    said += data(1, b"", END_STREAM)
    places = sorted({chunk for chunk in chunks if chunk < len(said)})
    for start, stop in zip([0, *places], [*places, len(said)], strict=True):
        peer.send(said[start:stop])
    assert service.heard == [*messages, "half closed"]
