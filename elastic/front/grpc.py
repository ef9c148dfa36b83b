"""gRPC over one HTTP/2 connection, server side, without any I/O: calls, messages, statuses.

`GrpcConnection.receive(data)` parses what arrived and calls the handlers; what they write waits in `take()`. Messages
are bytes here, to be parsed by the application. Not supported: compressed messages (UNIMPLEMENTED), deadlines
(`grpc-timeout` is ignored; the client cancels by itself), initial or trailing metadata from the application.
"""

from __future__ import annotations

import binascii
import logging
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from elastic.front.errors import CallFinishedError, GrpcError, ProtocolError
from elastic.front.frames import Limits
from elastic.front.headers import Headers, encode_headers
from elastic.front.http2 import DATA, FAILED, REQUEST, RESET, Connection
from elastic.status import Code as Status

logger = logging.getLogger(__name__)

_prefix = Struct(">BI")  # compressed or not, length

_STATUS_200: Final = [
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity"),
]
_RESPONSE: Final = encode_headers(_STATUS_200)
_OK: Final = encode_headers([(b"grpc-status", b"0")])
_NOT_POST: Final = encode_headers([(b":status", b"405")])
_NOT_GRPC: Final = encode_headers([(b":status", b"415")])
# Clients refuse trailers beyond 8 KiB or so, and then report that instead of our message.
_MAX_STATUS_MESSAGE: Final = 4096
# Pieces of a message below this are collected in a bytearray, so that many tiny ones cost no object each.
_SMALL_PIECE: Final = 4096


class CallHandler(Protocol):
    """The application's end of one call. Its methods are called one at a time, in order, and must not block.

    A call ends in one of two ways: the application ends it, by `Call.finish()` or by raising GrpcError, or else
    `cancelled()` is called. An exception other than GrpcError ends it with INTERNAL, is logged with its traceback, and
    is followed by `cancelled()`.
    """

    def message(self, data: bytes) -> None:
        """The client sent this message. It is `bytes`, the handler's to keep."""

    def half_closed(self) -> None:
        """The client sent its last message. The call goes on until it is finished."""

    def cancelled(self) -> None:
        """The call ended otherwise: reset by the client, connection lost. Writes have no effect from now on."""


Service = Callable[["Call"], CallHandler]
"""Makes the handler of a new call, or refuses it by raising GrpcError."""


class Call:
    """One call of a client, as the application sees it. Made by the front; has one handler, made by the service."""

    __slots__ = (
        "_connection",
        "_handler",
        "_head",
        "_missing",
        "_parts",
        "_paused",
        "_started",
        "_stream",
        "closed",
        "finished",
        "metadata",
        "path",
    )

    def __init__(self, connection: GrpcConnection, stream: int, path: str, metadata: dict[str, bytes]) -> None:
        self.path = path
        self.metadata = metadata
        self.closed = False  # finished, cancelled or lost: nothing more can be written
        self.finished = False  # by the application
        self._connection = connection
        self._stream = stream
        self._handler: CallHandler | None = None
        self._started = False  # response headers sent
        self._paused = False
        self._head = bytearray()  # incomplete message prefix
        self._missing = 0  # bytes of the current message still to come
        self._parts: list[bytes | bytearray | memoryview] = []  # those that came

    @property
    def method(self) -> str:
        """The last component of `path`, such as "IfrtSession"."""
        return self.path.rpartition("/")[2]

    @property
    def buffered(self) -> int:
        """Bytes written but not yet handed to the transport, because the client does not read or the link is full."""
        return self._connection.http2.buffered(self._stream)

    def write(self, *parts: bytes | memoryview) -> None:
        """Send one message: the parts, one after the other. They are kept as they are, not copied, until sent.

        There is no limit: what the client's windows do not let through stays in memory. No effect on a call that was
        cancelled; on one that the application finished, CallFinishedError.
        """
        if self.closed:
            self._check_finished()
            return
        size = 0
        for part in parts:
            if type(part) is memoryview and (part.itemsize != 1 or part.ndim != 1):
                self.write(*(memoryview(part).cast("B") for part in parts))
                return
            size += len(part)
        connection = self._connection
        if not self._started:
            self._started = True
            connection.http2.send_headers(self._stream, _RESPONSE)
        connection.http2.send_data(self._stream, _prefix.pack(0, size), *parts)
        connection.on_output()

    def finish(self, code: int = Status.OK, message: str = "") -> None:
        """End the call, after what was written. The handler hears nothing more of it."""
        if self.closed:
            self._check_finished()
            return
        self.finished = True
        self._handler = None
        self._end(code, message)

    def pause_reading(self) -> None:
        """Stop reading from this client until `resume_reading()` or the end of the call.

        This holds back the whole connection: all its calls, the updates of their windows, and the news that the client
        is gone. What was received before is still delivered.
        """
        if not self.closed and not self._paused:
            self._paused = True
            self._connection.pause(1)

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._connection.pause(-1)

    # For the front.

    def _check_finished(self) -> None:
        if self.finished:
            raise CallFinishedError(f"call of {self.path} was finished before")

    def _end(self, code: int, message: str) -> None:
        trailers = _status_block(code, message)
        if not self._started:
            trailers = _RESPONSE + trailers
        self._drop()
        self._connection.http2.send_trailers(self._stream, trailers)
        self._connection.on_output()

    def _drop(self) -> None:
        """Nothing is delivered or written from now on."""
        self.closed = True
        self.resume_reading()
        self._parts = []
        self._connection.forget(self._stream)

    def _fail(self, code: int, message: str) -> None:
        """The front ends the call; the handler must know."""
        if not self.closed:
            self._end(code, message)
            self._cancel()

    def _cancel(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            try:
                handler.cancelled()
            except Exception:
                logger.exception("cancelled() of a call of %s failed", self.path)

    def _lost(self) -> None:
        self._drop()
        self._cancel()

    def _broken(self, error: Exception) -> None:
        """The handler raised this."""
        if isinstance(error, GrpcError):
            if not self.closed:
                self.finish(error.code, error.message)
            return
        logger.error("handler of a call of %s failed", self.path, exc_info=error)
        self._fail(Status.INTERNAL, f"{type(error).__name__} in the server")

    def _receive(self, piece: bytes | memoryview, ends: bool) -> None:
        """A piece of the payload, which is cut into frames without regard to messages."""
        pos, end = 0, len(piece)
        head = self._head
        while pos < end and not self.closed:
            if self._missing:
                count = min(self._missing, end - pos)
                self._collect(piece[pos : pos + count])
                pos += count
                continue
            if head or end - pos < 5:
                count = 5 - len(head)
                head += piece[pos : pos + count]
                pos += count
                if len(head) < 5:
                    break
                flag, size = _prefix.unpack(head)
                head.clear()
            else:
                flag, size = _prefix.unpack_from(piece, pos)
                pos += 5
            if flag or size > self._connection.max_message:
                self._reject(flag, size)
            elif size <= end - pos:
                message = piece[pos : pos + size]
                pos += size
                self._deliver(message if type(message) is bytes else bytes(message))
            else:
                self._missing = size
        if ends and not self.closed:
            if self._missing or head:
                self._fail(Status.INTERNAL, "the client ended the stream within a message")
                return
            assert self._handler is not None
            try:
                self._handler.half_closed()
            except Exception as error:
                self._broken(error)

    def _collect(self, piece: bytes | memoryview) -> None:
        """More of a message that comes in pieces. They are joined once, when it is complete."""
        self._missing -= len(piece)
        parts = self._parts
        if not self._missing:
            parts.append(piece)
            self._parts = []
            self._deliver(b"".join(parts))
        elif len(piece) >= _SMALL_PIECE:
            parts.append(piece)
        elif parts and isinstance(parts[-1], bytearray):
            parts[-1] += piece
        else:
            parts.append(bytearray(piece))

    def _reject(self, flag: int, size: int) -> None:
        if flag == 1:
            self._fail(Status.UNIMPLEMENTED, "compressed messages are not supported")
        elif flag:
            self._fail(Status.INTERNAL, f"message prefix begins with {flag}")
        else:
            self._fail(Status.RESOURCE_EXHAUSTED, f"message of {size} bytes, limit {self._connection.max_message}")

    def _deliver(self, message: bytes) -> None:
        assert self._handler is not None
        try:
            self._handler.message(message)
        except Exception as error:
            self._broken(error)


class GrpcConnection:
    """The calls of one connection. `on_output` is called when there may be something to take, `on_pause` with whether
    the calls want reading to stop."""

    def __init__(
        self,
        service: Service,
        limits: Limits | None = None,
        on_output: Callable[[], None] = lambda: None,
        on_pause: Callable[[bool], None] = lambda paused: None,
    ) -> None:
        self.http2 = Connection(limits)
        self.max_message = self.http2.limits.max_message
        self.on_output = on_output
        self._on_pause = on_pause
        self._service = service
        self._calls: dict[int, Call] = {}
        self._pauses = 0

    @property
    def failure(self) -> ProtocolError | None:
        """Why the connection must end, once it must."""
        return self.http2.failure

    @property
    def has_output(self) -> bool:
        return self.http2.has_output

    @property
    def idle(self) -> bool:
        """Whether no call is open and no response waits."""
        return not self.http2.open_streams

    def take(self, budget: int) -> bytes:
        return self.http2.take(budget)

    def receive(self, data: bytes) -> None:
        """Take what arrived, and call the handlers."""
        calls = self._calls
        for event in self.http2.receive(data):
            if event[0] == DATA:
                call = calls.get(event[1])
                if call is not None:
                    call._receive(event[2], event[3])
            elif event[0] == REQUEST:
                self._request(event[1], event[2])
                if event[3] and (call := calls.get(event[1])) is not None:
                    call._receive(b"", True)
            elif event[0] == RESET:
                call = calls.get(event[1])
                if call is not None:
                    if event[3]:
                        logger.warning("call of %s reset: %s", call.path, event[3])
                    call._lost()
            elif event[0] == FAILED:
                logger.warning("connection ended: %s", event[2])
                self.lost()
            else:
                logger.debug("client is leaving: code %d, %r", event[2], event[3])

    def lost(self) -> None:
        """The connection is gone, and all calls with it."""
        self.http2.drop_streams()
        for call in list(self._calls.values()):
            call._lost()

    def leave(self) -> None:
        """Ask the client to open no more calls. Those that are open go on."""
        self.http2.goaway()
        self.on_output()

    def stop(self) -> None:
        """End all calls as UNAVAILABLE, for a server that is about to close."""
        for call in list(self._calls.values()):
            call._fail(Status.UNAVAILABLE, "the server is shutting down")

    def forget(self, sid: int) -> None:
        self._calls.pop(sid, None)

    def pause(self, change: int) -> None:
        before, self._pauses = self._pauses, self._pauses + change
        if (before > 0) != (self._pauses > 0):
            self._on_pause(self._pauses > 0)

    def _request(self, sid: int, headers: Headers) -> None:
        method = path = content_type = b""
        metadata: dict[str, bytes] = {}
        bad = ""
        for name, value in headers:
            if name == b":path":
                path = value
            elif name == b":method":
                method = value
            elif name == b"content-type":
                content_type = value
            elif name[:1] != b":" and name[:5] != b"grpc-" and name != b"te":
                key = name.decode("ascii")
                if key[-4:] == "-bin":
                    try:
                        metadata[key] = _decode_base64(value)
                    except binascii.Error:
                        bad = key
                elif key in metadata:
                    metadata[key] += b"," + value
                else:
                    metadata[key] = value
        call = Call(self, sid, path.decode("latin-1"), metadata)
        if method != b"POST" or content_type[:16] != b"application/grpc":
            call.closed = True
            self.http2.send_trailers(sid, _NOT_POST if method != b"POST" else _NOT_GRPC)
            return
        self._calls[sid] = call
        if bad:
            call._end(Status.INVALID_ARGUMENT, f"metadata {bad} is not base64")
            return
        try:
            handler = self._service(call)
        except GrpcError as error:
            if not call.closed:
                call.finish(error.code, error.message)
        except Exception as error:
            logger.exception("service failed to take a call of %s", call.path)
            if not call.closed:
                call._end(Status.INTERNAL, f"{type(error).__name__} in the server")
        else:
            if not call.closed:
                call._handler = handler


def _decode_base64(value: bytes) -> bytes:
    """The value of a `-bin` header, padded or not. Of several, joined by commas, the last."""
    value = value.rpartition(b",")[2].rstrip(b"=")
    return binascii.a2b_base64(value + b"=" * (-len(value) % 4), strict_mode=True) if value else b""


def _status_block(code: int, message: str) -> bytes:
    if code == 0 and not message:
        return _OK
    text = bytearray()
    for char in message:
        piece = char.encode("utf-8", "replace")
        if not b" " <= piece <= b"~" or piece == b"%":
            piece = b"".join(b"%%%02X" % byte for byte in piece)
        if len(text) + len(piece) > _MAX_STATUS_MESSAGE:
            break
        text += piece
    return encode_headers([(b"grpc-status", b"%d" % code), (b"grpc-message", bytes(text))])
