"""HTTP/2 framing and connection state, server side, without any I/O.

`Connection.receive(data)` takes what arrived and returns what happened, as a list of plain tuples (`Event`);
`Connection.take(budget)` gives the bytes to send. It knows nothing of gRPC, sockets, loops or clocks, and it leaves out
what gRPC does not use: push, priorities (read and ignored), `content-length` checks.

It is made to be fast in Python, which explains most of its shape:

- One pass over the buffer that the transport gave us. A DATA payload is handed on as it comes, never collected here;
  only an incomplete frame header or control frame is kept, and both are small.
- Events are tuples, streams have slots, DATA frames are cut only when they are about to be sent.

Memory: what the peer can make grow is bounded by `Limits` (open streams, size of a header block, replies that it does
not read). Output of the application is kept until the peer's windows and `budget` let it go: `buffered(stream)`.
"""

from __future__ import annotations

from typing import Final, Literal

from elastic.front.errors import ErrorCode, ProtocolError
from elastic.front.frames import (
    ACK,
    DEFAULT_FRAME,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    GOAWAY_HEAD,
    MAX_WINDOW,
    PADDED,
    PREFACE,
    PRIORITY,
    S_ENABLE_PUSH,
    S_HEADER_TABLE_SIZE,
    S_INITIAL_WINDOW_SIZE,
    S_MAX_FRAME_SIZE,
    SETTING,
    T_CONTINUATION,
    T_DATA,
    T_GOAWAY,
    T_HEADERS,
    T_PING,
    T_PRIORITY,
    T_PUSH_PROMISE,
    T_RST_STREAM,
    T_SETTINGS,
    T_WINDOW_UPDATE,
    U32,
    Limits,
    frame,
)
from elastic.front.headers import HeaderDecoder, Headers, request_complaint, trailers_complaint
from elastic.front.sending import Sender, Stream

# Events: the kind, the stream (0 is the connection), then
REQUEST: Final = 0  # headers, whether the stream ends with them
DATA: Final = 1  # a piece of the payload (a memoryview if large), whether it is the last
RESET: Final = 2  # error code, why ("" if the peer did it): the stream is gone
GOAWAY: Final = 3  # error code, debug data: the peer is about to leave
FAILED: Final = 4  # the ProtocolError: the connection is over, GOAWAY is waiting in take()
Event = (
    tuple[Literal[0], int, Headers, bool]
    | tuple[Literal[1], int, bytes | memoryview, bool]
    | tuple[Literal[2], int, int, str]
    | tuple[Literal[3], int, int, bytes]
    | tuple[Literal[4], int, ProtocolError, None]
)

# Payload pieces of this size and up are handed on as views; see `_run` for the other half of the rule.
_VIEW_MIN = 16_384
# Control frames: the lengths allowed, and the error for others.
_CONTROL_SIZES: Final = {
    T_PRIORITY: (5, 5),
    T_RST_STREAM: (4, 4),
    T_SETTINGS: (0, 6 * 64),
    T_PING: (8, 8),
    T_GOAWAY: (8, 16_384),
    T_WINDOW_UPDATE: (4, 4),
}


class Connection(Sender):
    """One connection, seen from the server. See the module for the two calls that drive it."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._decoder = HeaderDecoder(self.limits.max_header_block)
        self._preface = 0  # bytes of the preface seen
        self._settled = False  # whether the peer's first SETTINGS came
        self._tail = bytearray()  # an incomplete frame header or control frame
        self._want = 0  # how long it must be to go on
        self._left = 0  # bytes of the current payload still to come
        self._skip = 0  # bytes to drop after them: padding, frames of no interest
        self._into: Stream | None = None  # whose payload it is
        self._ends = False  # whether it is the last of the stream
        self._block = bytearray()  # header block waiting for CONTINUATION
        self._block_stream = 0
        self._block_ends = False
        self._recv_window = self.limits.connection_window

    def receive(self, data: bytes) -> list[Event]:
        """Take what arrived; return what happened. After a FAILED event, the last, everything else is ignored."""
        events: list[Event] = []
        if self.failure is not None:
            return events
        try:
            pos = 0
            if self._preface < 24:
                pos = self._read_preface(data)
            tail = self._tail
            while tail:
                # Complete it by as much as it needs and parse it alone, so that `data` is never copied for its sake.
                more = self._want - len(tail)
                tail += data[pos : pos + more]
                pos += more
                if len(tail) < self._want:
                    return events
                whole = bytes(tail)
                tail.clear()
                self._run(whole, 0, events)
            if pos < len(data):
                self._run(data, pos, events)
        except ProtocolError as error:
            self._fail(error)
            events.append((FAILED, 0, error, None))
        return events

    def _read_preface(self, data: bytes) -> int:
        part = data[: 24 - self._preface]
        if part != PREFACE[self._preface : self._preface + len(part)]:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the peer does not speak HTTP/2: no connection preface")
        self._preface += len(part)
        return len(part)

    def _run(self, data: bytes, pos: int, events: list[Event]) -> None:
        """Parse `data` from `pos` on. What is left over at its end goes to `_tail`."""
        end = len(data)
        if self._left or self._skip:
            pos = self._go_on(data, pos, events)
        unpack, streams = FRAME_HEAD.unpack_from, self._streams
        # A view keeps all of `data` alive. It is worth it only for a good part of it; otherwise many small pieces, each
        # the last user of a large buffer, would hold far more memory than the peer's messages have bytes.
        view_min = max(_VIEW_MIN, end // 4)
        want = 9
        while end - pos >= 9:
            high, low, kind, flags, sid = unpack(data, pos)
            size = high << 8 | low
            if kind == T_DATA and self._settled and not self._block_stream and size <= self.limits.max_frame_size:
                body = pos + 9
                count = size
                pad = 0
                if flags & PADDED:
                    if not size:
                        raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "padded DATA frame without its pad length")
                    if body == end:
                        want = 10
                        break
                    pad = data[body]
                    body += 1
                    count -= pad + 1
                    if count < 0:
                        raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "DATA frame with more padding than payload")
                sid &= MAX_WINDOW
                ends = flags & END_STREAM != 0
                stream = streams.get(sid)
                # Flow control counts the whole payload, with its padding, and also what is dropped.
                self._recv_window -= size
                if self._recv_window < self.limits.connection_window >> 1:
                    self._refill()
                if stream is None or stream.remote_ended:
                    self._unexpected_data(sid, stream, events)
                    stream = None
                else:
                    stream.recv_window -= size
                    if stream.recv_window < self.limits.stream_window >> 1:
                        self._refill_stream(stream, ends)
                stop = body + count
                if stop <= end:
                    if stream is not None and (count or ends):
                        piece = data[body:stop] if count < view_min else memoryview(data)[body:stop]
                        events.append((DATA, sid, piece, ends))
                        if ends:
                            stream.remote_ended = True
                    pos = stop + pad
                    if pos > end:
                        self._skip = pos - end
                        return
                else:
                    self._left, self._skip, self._into, self._ends = count, pad, stream, ends
                    self._go_on(data, body, events)
                    return
                continue
            sid &= MAX_WINDOW
            if not self._check_frame(kind, flags, sid, size):
                pos += 9 + size
                if pos > end:
                    self._skip = pos - end
                    return
                continue
            if end - pos < 9 + size:
                want = 9 + size
                break
            payload = data[pos + 9 : pos + 9 + size]
            pos += 9 + size
            self._control(kind, flags, sid, payload, events)
        if pos < end:
            self._tail += data[pos:]
            self._want = want

    def _go_on(self, data: bytes, pos: int, events: list[Event]) -> int:
        """Hand on more of a payload that comes in pieces, drop more of what is to be skipped."""
        end = len(data)
        left = self._left
        if left:
            stop = min(end, pos + left)
            self._left = left = left - (stop - pos)
            stream = self._into
            if stream is not None and not stream.closed and stop > pos:
                small = stop - pos < max(_VIEW_MIN, end // 4)
                piece = data[pos:stop] if small else memoryview(data)[pos:stop]
                ends = self._ends and not left
                events.append((DATA, stream.id, piece, ends))
                if ends:
                    stream.remote_ended = True
            pos = stop
            if left:
                return pos
            self._into = None
        count = min(self._skip, end - pos)
        self._skip -= count
        return pos + count

    def _check_frame(self, kind: int, flags: int, sid: int, size: int) -> bool:
        """Whether this frame is of interest. Raises what can be said from its header alone, before it is collected."""
        if not self._settled and (kind != T_SETTINGS or flags & ACK):
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"the first frame is of type {kind}, not SETTINGS")
        if size > self.limits.max_frame_size:
            raise ProtocolError(
                ErrorCode.FRAME_SIZE_ERROR, f"frame of {size} bytes, more than the {self.limits.max_frame_size} allowed"
            )
        if self._block_stream:
            if kind != T_CONTINUATION or sid != self._block_stream:
                raise ProtocolError(
                    ErrorCode.PROTOCOL_ERROR,
                    f"frame of type {kind} on stream {sid} within the header block of stream {self._block_stream}",
                )
        elif kind == T_CONTINUATION:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"CONTINUATION on stream {sid} without HEADERS before it")
        if kind in (T_HEADERS, T_CONTINUATION):
            # 6 bytes for priority and pad length, 255 for padding.
            if size + len(self._block) > self.limits.max_header_block + 261:
                raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, f"header block of stream {sid} is too large")
            return True
        allowed = _CONTROL_SIZES.get(kind)
        if allowed is not None:
            if size < allowed[0] or size > allowed[1]:
                # A large SETTINGS or GOAWAY breaks no rule; it is more than we are willing to collect.
                variable = size > allowed[1] > allowed[0]
                code = ErrorCode.ENHANCE_YOUR_CALM if variable else ErrorCode.FRAME_SIZE_ERROR
                raise ProtocolError(code, f"frame of type {kind} with {size} bytes")
            return True
        if kind == T_PUSH_PROMISE:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")
        return False

    def _control(self, kind: int, flags: int, sid: int, payload: bytes, events: list[Event]) -> None:
        if kind == T_WINDOW_UPDATE:
            self._update_window(sid, U32.unpack(payload)[0] & MAX_WINDOW, events)
        elif kind == T_HEADERS:
            self._headers(flags, sid, payload, events)
        elif kind == T_CONTINUATION:
            self._block += payload
            if flags & END_HEADERS:
                self._header_block(events)
        elif kind == T_RST_STREAM:
            if not sid or sid > self.last_stream or not sid & 1:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"RST_STREAM on stream {sid}, which was never opened")
            stream = self._streams.get(sid)
            if stream is not None:
                self._close(stream, by_peer=True)
                events.append((RESET, sid, U32.unpack(payload)[0], ""))
        elif kind == T_PRIORITY:
            if not sid:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        elif sid:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream {sid}, not on stream 0")
        elif kind == T_PING:
            if not flags & ACK:
                self._reply(frame(T_PING, ACK, 0, payload))
        elif kind == T_SETTINGS:
            self._settings(flags, payload)
        else:
            events.append((GOAWAY, 0, GOAWAY_HEAD.unpack_from(payload)[1], payload[8:]))

    def _headers(self, flags: int, sid: int, payload: bytes, events: list[Event]) -> None:
        if not sid & 1:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"HEADERS on stream {sid}; a client opens odd ones")
        start, stop = 0, len(payload)
        if flags & PADDED:
            if not payload:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "padded HEADERS frame without its pad length")
            stop -= payload[0]
            start = 1
        if flags & PRIORITY:
            start += 5
            if len(payload) < start:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "HEADERS frame too short for its priority")
        if stop < start:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "HEADERS frame with more padding than payload")
        self._block += payload[start:stop]
        self._block_stream = sid
        self._block_ends = flags & END_STREAM != 0
        if flags & END_HEADERS:
            self._header_block(events)

    def _header_block(self, events: list[Event]) -> None:
        """A header block is complete. It is decoded even if nobody wants it: the tables must stay in step."""
        block, sid, ends = bytes(self._block), self._block_stream, self._block_ends
        self._block.clear()
        self._block_stream = 0
        if len(block) > self.limits.max_header_block:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, f"header block of stream {sid} is too large")
        headers = self._decoder.decode(block)
        stream = self._streams.get(sid)
        if stream is not None:
            self._trailers(stream, headers, ends, events)
            return
        if sid <= self.last_stream:
            ended = self._closed.get(sid)
            if ended is None:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"stream {sid} opened after stream {self.last_stream}")
            if ended:
                raise ProtocolError(ErrorCode.STREAM_CLOSED, f"HEADERS on stream {sid}, which the peer had ended")
            return
        self.last_stream = sid
        complaint = request_complaint(headers)
        if self._leaving:
            self._remember(sid, ends)  # we said that it would not be served, so there is nobody to tell
        elif len(self._streams) >= self.limits.max_concurrent_streams:
            self._refuse(sid, ErrorCode.REFUSED_STREAM, ends)
        elif complaint:
            self._refuse(sid, ErrorCode.PROTOCOL_ERROR, ends)
        else:
            self._streams[sid] = Stream(sid, self._peer_window, self.limits.stream_window, ends)
            events.append((REQUEST, sid, headers, ends))

    def _trailers(self, stream: Stream, headers: Headers, ends: bool, events: list[Event]) -> None:
        """The contents are of no interest to gRPC, the end of the stream is."""
        if stream.remote_ended:
            self._break_stream(stream, ErrorCode.STREAM_CLOSED, "HEADERS after the end of the stream", events)
        elif not ends:
            self._break_stream(stream, ErrorCode.PROTOCOL_ERROR, "second HEADERS that does not end the stream", events)
        elif complaint := trailers_complaint(headers):
            self._break_stream(stream, ErrorCode.PROTOCOL_ERROR, complaint, events)
        else:
            stream.remote_ended = True
            events.append((DATA, stream.id, b"", True))

    def _unexpected_data(self, sid: int, stream: Stream | None, events: list[Event]) -> None:
        if stream is not None:
            self._break_stream(stream, ErrorCode.STREAM_CLOSED, "DATA after the end of the stream", events)
        elif not sid & 1 or sid > self.last_stream:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"DATA on stream {sid}, which was never opened")
        elif self._closed.get(sid):
            raise ProtocolError(ErrorCode.STREAM_CLOSED, f"DATA on stream {sid}, which the peer had ended")

    def _refill(self) -> None:
        if self._recv_window < 0:
            raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the window of the connection")
        self._reply(frame(T_WINDOW_UPDATE, 0, 0, U32.pack(self.limits.connection_window - self._recv_window)))
        self._recv_window = self.limits.connection_window

    def _refill_stream(self, stream: Stream, ends: bool) -> None:
        if stream.recv_window < 0:
            raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, f"more DATA than the window of stream {stream.id}")
        if not ends:
            more = self.limits.stream_window - stream.recv_window
            self._reply(frame(T_WINDOW_UPDATE, 0, stream.id, U32.pack(more)))
            stream.recv_window = self.limits.stream_window

    def _settings(self, flags: int, payload: bytes) -> None:
        if len(payload) % 6 or (flags & ACK and payload):
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes, flags {flags:#x}")
        if flags & ACK:
            return
        for name, value in SETTING.iter_unpack(payload):
            if name == S_INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW:
                    raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE of {value}")
                self._set_peer_window(value)
            elif name == S_MAX_FRAME_SIZE:
                if not DEFAULT_FRAME <= value < 1 << 24:
                    raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE of {value}")
                self._peer_frame = value
            elif name == S_ENABLE_PUSH:
                if value > 1:
                    raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH of {value}")
            elif name == S_HEADER_TABLE_SIZE and value < 4096:
                # We use no table, but a peer that shrinks its own must be told, once, that we keep to it.
                self._table_update = b"\x20"
        self._settled = True
        self._reply(frame(T_SETTINGS, ACK, 0))

    def _update_window(self, sid: int, more: int, events: list[Event]) -> None:
        if sid and (not sid & 1 or sid > self.last_stream):
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"WINDOW_UPDATE on stream {sid}, which was never opened")
        stream = self._streams.get(sid)
        if not more:
            if not sid:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
            if stream is not None:
                self._break_stream(stream, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0", events)
        elif not self._window_update(sid, more):
            assert stream is not None
            self._break_stream(stream, ErrorCode.FLOW_CONTROL_ERROR, "its window overflows", events)

    def _break_stream(self, stream: Stream, code: ErrorCode, why: str, events: list[Event]) -> None:
        """The peer broke a rule that concerns this stream alone: it goes, the connection stays."""
        self.reset(stream.id, code)
        events.append((RESET, stream.id, code, why))

    def _refuse(self, sid: int, code: ErrorCode, ends: bool) -> None:
        self._remember(sid, ends)
        self._reply(frame(T_RST_STREAM, 0, sid, U32.pack(code)))
