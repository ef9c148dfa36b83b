"""The output half of a connection: what waits to be sent, and what the peer's flow control lets go.

Not for parsing: `http2.Connection` adds the input half to this class.

A stream's output is a header block, any number of pieces of payload and a block of trailers. All of it waits in the
stream until `take` comes for it, so a stream that is reset takes what it had with it, and many small messages leave in
one frame. Streams take turns of one frame each.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from elastic.front.errors import ErrorCode, ProtocolError
from elastic.front.frames import (
    DEFAULT_FRAME,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    GOAWAY_HEAD,
    MAX_WINDOW,
    S_INITIAL_WINDOW_SIZE,
    S_MAX_CONCURRENT_STREAMS,
    S_MAX_FRAME_SIZE,
    S_MAX_HEADER_LIST_SIZE,
    SETTING,
    T_CONTINUATION,
    T_DATA,
    T_GOAWAY,
    T_HEADERS,
    T_RST_STREAM,
    T_SETTINGS,
    T_WINDOW_UPDATE,
    U32,
    Limits,
    frame,
)

# A DATA frame of ours holds at most this, so that streams take turns even if the peer accepts huge frames.
_MAX_SLICE: Final = 1 << 18
# Streams that are closed are remembered, this many, to tell an error of the peer from frames that crossed on the wire.
_CLOSED_KEPT: Final = 1024


class Stream:
    """One open stream: both windows, and the output that waits."""

    __slots__ = (
        "closed",
        "headers",
        "id",
        "listed",
        "queue",
        "queued",
        "recv_window",
        "remote_ended",
        "send_window",
        "trailers",
    )

    def __init__(self, stream_id: int, send_window: int, recv_window: int, remote_ended: bool) -> None:
        self.id = stream_id
        self.send_window = send_window  # may be negative, after the peer reduced its initial window
        self.recv_window = recv_window
        self.remote_ended = remote_ended
        self.closed = False
        self.headers: bytes | None = None
        self.queue: deque[bytes | memoryview] = deque()
        self.queued = 0  # bytes in `queue`
        self.trailers: bytes | None = None
        self.listed = False  # in Sender._ready or Sender._waiting


class Sender:
    """Streams of a connection and their output, in the order and amount that the peer allows."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits = limits or Limits()
        self.failure: ProtocolError | None = None
        self.last_stream = 0  # highest stream that the peer opened
        self._streams: dict[int, Stream] = {}
        self._closed: dict[int, bool] = {}  # recently closed: whether the peer had ended it
        self._send_window = DEFAULT_WINDOW
        self._peer_window = DEFAULT_WINDOW
        self._peer_frame = DEFAULT_FRAME
        self._table_update = b""  # what the next header block must begin with
        self._ready: deque[Stream] = deque()  # may have something to send
        self._waiting: list[Stream] = []  # wait for the window of the connection
        self._replies = 0  # bytes in `_out` that the peer made us write
        self._leaving = False  # we sent GOAWAY: streams that the peer opens from now on are ignored
        self._out: list[bytes | memoryview] = [
            frame(
                T_SETTINGS,
                0,
                0,
                SETTING.pack(S_MAX_CONCURRENT_STREAMS, limits.max_concurrent_streams)
                + SETTING.pack(S_INITIAL_WINDOW_SIZE, limits.stream_window)
                + SETTING.pack(S_MAX_FRAME_SIZE, limits.max_frame_size)
                + SETTING.pack(S_MAX_HEADER_LIST_SIZE, limits.max_header_block),
            )
        ]
        if limits.connection_window > DEFAULT_WINDOW:
            self._out.append(frame(T_WINDOW_UPDATE, 0, 0, U32.pack(limits.connection_window - DEFAULT_WINDOW)))

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    @property
    def has_output(self) -> bool:
        """Whether `take` may have something to give."""
        return bool(self._out or self._ready)

    def buffered(self, sid: int) -> int:
        """Bytes of payload that wait in stream `sid`."""
        stream = self._streams.get(sid)
        return stream.queued if stream is not None else 0

    def send_headers(self, sid: int, block: bytes) -> None:
        """Begin the response on `sid`. Like all `send_...`, does nothing if the stream is gone."""
        stream = self._streams.get(sid)
        if stream is not None:
            stream.headers = block
            self._wake(stream)

    def send_data(self, sid: int, *parts: bytes | memoryview) -> None:
        """Add to the payload of `sid`. The parts are kept, not copied. A memoryview must be one of bytes."""
        stream = self._streams.get(sid)
        if stream is not None:
            for part in parts:
                size = len(part)
                if size:
                    stream.queue.append(part)
                    stream.queued += size
            if not stream.listed:
                stream.listed = True
                self._ready.append(stream)

    def send_trailers(self, sid: int, block: bytes) -> None:
        """End the stream, after its payload. If nothing was sent on it before, `block` is the whole response."""
        stream = self._streams.get(sid)
        if stream is not None:
            stream.trailers = block
            self._wake(stream)

    def reset(self, sid: int, code: ErrorCode) -> None:
        """Give up stream `sid` at once; output that waits is dropped."""
        stream = self._streams.get(sid)
        if stream is not None:
            self._close(stream, stream.remote_ended)
            self._reply(frame(T_RST_STREAM, 0, sid, U32.pack(code)))

    def drop_streams(self) -> None:
        """The connection is gone, or about to go: forget all streams and their output."""
        for stream in self._streams.values():
            stream.closed = True
        self._streams.clear()
        self._ready.clear()
        self._waiting.clear()

    def goaway(self) -> None:
        """Tell the peer to open no more streams; those that it opened so far go on."""
        if not self._leaving and self.failure is None:
            self._leaving = True
            self._out.append(frame(T_GOAWAY, 0, 0, GOAWAY_HEAD.pack(self.last_stream, ErrorCode.NO_ERROR)))

    def take(self, budget: int = 1 << 18) -> bytes:
        """What to send now: all control frames that wait, and payload up to about `budget` bytes."""
        if self._ready:
            self._pump(budget)
        out = self._out
        if not out:
            return b""
        data = b"".join(out)
        out.clear()
        self._replies = 0
        return data

    def _pump(self, budget: int) -> None:
        ready, out, pack = self._ready, self._out, FRAME_HEAD.pack
        most = min(self._peer_frame, _MAX_SLICE)
        while ready and budget > 0:
            stream = ready.popleft()
            stream.listed = False
            if stream.headers is not None:
                self._send_block(stream.id, stream.headers, 0)
                stream.headers = None
            if stream.queued:
                size = min(stream.queued, stream.send_window, self._send_window, most)
                if size <= 0:
                    # If it is its own window that is closed, the update of that window brings it back.
                    if stream.send_window > 0:
                        stream.listed = True
                        self._waiting.append(stream)
                    continue
                stream.send_window -= size
                self._send_window -= size
                stream.queued -= size
                budget -= size
                out.append(pack(size >> 8, size & 0xFF, T_DATA, 0, stream.id))
                queue = stream.queue
                while size:
                    part = queue.popleft()
                    count = len(part)
                    if count > size:
                        view = memoryview(part)
                        out.append(view[:size])
                        queue.appendleft(view[size:])
                        break
                    out.append(part)
                    size -= count
                if stream.queued:
                    stream.listed = True
                    ready.append(stream)
                    continue
            if stream.trailers is not None:
                self._send_block(stream.id, stream.trailers, END_STREAM)
                if not stream.remote_ended:
                    # The response is complete; whatever the peer still wanted to send is not needed.
                    out.append(frame(T_RST_STREAM, 0, stream.id, U32.pack(ErrorCode.NO_ERROR)))
                self._close(stream, stream.remote_ended)

    def _send_block(self, sid: int, block: bytes, flags: int) -> None:
        if self._table_update:
            block = self._table_update + block
            self._table_update = b""
        kind, most = T_HEADERS, self._peer_frame
        while len(block) > most:
            self._out.append(frame(kind, flags, sid, block[:most]))
            block = block[most:]
            kind, flags = T_CONTINUATION, 0
        self._out.append(frame(kind, flags | END_HEADERS, sid, block))

    def _reply(self, data: bytes) -> None:
        """Answer the peer. If it makes us answer and does not read the answers, it is not worth keeping."""
        self._out.append(data)
        self._replies += len(data)
        if self._replies > self.limits.max_replies:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "the peer causes replies faster than it reads them")

    def _wake(self, stream: Stream) -> None:
        if not stream.listed:
            stream.listed = True
            self._ready.append(stream)

    def _window_update(self, sid: int, more: int) -> bool:
        """Enlarge a window. False if that of the stream overflows, an error that concerns it alone."""
        if sid:
            stream = self._streams.get(sid)
            if stream is None:
                return True
            stream.send_window += more
            if stream.send_window > MAX_WINDOW:
                return False
            if stream.queued and not stream.listed:
                stream.listed = True
                self._ready.append(stream)
            return True
        self._send_window += more
        if self._send_window > MAX_WINDOW:
            raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "window of the connection overflows")
        if self._waiting:
            self._ready += self._waiting
            self._waiting.clear()
        return True

    def _set_peer_window(self, size: int) -> None:
        """The peer's INITIAL_WINDOW_SIZE changed, which applies to open streams as well."""
        more = size - self._peer_window
        self._peer_window = size
        for stream in self._streams.values():
            stream.send_window += more
            if stream.send_window > MAX_WINDOW:
                raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, f"window of stream {stream.id} overflows")
            self._wake(stream)

    def _close(self, stream: Stream, by_peer: bool) -> None:
        stream.closed = True
        stream.queue.clear()
        stream.queued = 0
        if stream.listed:
            # At most as many as there are open streams. Left there, the dead would gather while nobody takes output.
            where = self._ready if stream in self._ready else self._waiting
            where.remove(stream)
        self._streams.pop(stream.id, None)
        self._remember(stream.id, by_peer)

    def _remember(self, sid: int, by_peer: bool) -> None:
        closed = self._closed
        closed[sid] = by_peer
        if len(closed) > _CLOSED_KEPT:
            del closed[next(iter(closed))]

    def _fail(self, error: ProtocolError) -> None:
        """The connection is over: whatever waits is dropped, the last that the peer hears is GOAWAY."""
        self.failure = error
        self.drop_streams()
        debug = error.message.encode("utf-8", "replace")[:256]
        self._out.append(frame(T_GOAWAY, 0, 0, GOAWAY_HEAD.pack(self.last_stream, error.code) + debug))
