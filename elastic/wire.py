"""Frames between controller, agents and executors: a msgpack message and, behind it, raw bytes.

    frame = message length (u32) | payload length (u64) | message (msgpack) | payload

The payload stands apart from the message so that an array's bytes are neither packed nor copied to be sent, and are
received straight into memory that a device can adopt. Little-endian. What a message means is `commands.py`'s matter,
and who may connect is `door.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from elastic.tls import TlsSocket

_HEADER = struct.Struct("<IQ")
_MAX_MESSAGE = 1 << 30
_RECEIVE = 1 << 12

_ALIGNMENT = 64
"""Bytes; a CPU device adopts host memory aligned so without a copy."""

Bytes = bytes | bytearray | memoryview


class FrameError(Exception):
    """The bytes on a connection are not frames."""


def frame(message: Any, payload: Bytes = b"") -> bytes:
    """One frame as bytes; for small payloads, which are copied."""
    body: bytes = msgpack.packb(message)
    return b"".join((_HEADER.pack(len(body), len(payload)), body, payload))


def frame_header(message: Any, payload_bytes: int) -> bytes:
    """A frame without its payload, which the caller sends behind it."""
    body: bytes = msgpack.packb(message)
    return _HEADER.pack(len(body), payload_bytes) + body


def unpack_header(header: Bytes) -> Any:
    """The message of a frame's header, as `frame_header` made it."""
    return unpack(memoryview(header)[_HEADER.size :])


def unframe(data: Bytes) -> tuple[Any, memoryview]:
    """The message and payload of the one frame that these bytes are. Raises `FrameError`."""
    if len(data) < _HEADER.size:
        raise FrameError(f"{len(data)} bytes are no frame")
    message_bytes, payload_bytes = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    if len(body) != message_bytes + payload_bytes:
        raise FrameError(f"a frame of {message_bytes} + {payload_bytes} bytes does not fit into {len(body)}")
    return unpack(body[:message_bytes]), body[message_bytes:]


def small_frame_size(data: Bytes, most: int) -> int | None:
    """The size of the frame without payload that these bytes begin with, or None if it is not there in full yet.

    Raises `FrameError` if its message is larger than `most` bytes, or it has a payload.
    """
    if len(data) < _HEADER.size:
        return None
    message_bytes, payload_bytes = _HEADER.unpack_from(data)
    if message_bytes > most or payload_bytes:
        raise FrameError(f"a frame of {message_bytes} + {payload_bytes} bytes, where at most {most} + 0 may come")
    size: int = _HEADER.size + message_bytes
    return size if len(data) >= size else None


def unpack(body: Bytes) -> Any:
    """A message from its bytes. Raises `FrameError` if they are not one."""
    try:
        return msgpack.unpackb(body, strict_map_key=False)
    except Exception as error:
        raise FrameError(f"a message that cannot be read: {error}") from error


def aligned_empty(nbytes: int) -> memoryview:
    """Writable memory of `nbytes` that begins at a multiple of 64 bytes."""
    memory = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + nbytes].data


def _payload_memory(nbytes: int) -> memoryview:
    try:
        return aligned_empty(nbytes)
    except (MemoryError, ValueError) as error:
        raise FrameError(f"a payload of {nbytes} bytes: {error}") from error


def parse_address(address: str) -> tuple[str, int]:
    """("127.0.0.1", 4000) of "127.0.0.1:4000". Raises `ValueError`."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) < 65536:
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


class Channel:
    """A blocking connection of frames: one thread receives, any thread sends."""

    def __init__(self, sock: socket.socket | TlsSocket, begun: bytes = b"") -> None:
        """`begun` is what was received already, at most 64 KiB."""
        self._socket = sock
        self._lock = threading.Lock()
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)
        self._view[: len(begun)] = begun
        self._start, self._end = 0, len(begun)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Any, payload: Bytes = b"") -> None:
        """Sends one frame. Raises `OSError` if the other side is gone."""
        head = frame_header(message, len(payload))
        with self._lock:
            if len(payload) < 1 << 14:
                self._socket.sendall(head + bytes(payload) if payload else head)
            else:
                self._socket.sendall(head)
                self._socket.sendall(payload)

    def receive(self) -> tuple[Any, memoryview]:
        """The next frame; blocks. The payload is aligned memory of its own.

        Raises:
            EOFError: the other side closed the connection.
            FrameError: what came is not a frame.
        """
        self._need(_HEADER.size)
        size, payload_bytes = _HEADER.unpack_from(self._buffer, self._start)
        if size > _MAX_MESSAGE:
            raise FrameError(f"a message of {size} bytes")
        self._start += _HEADER.size
        self._need(size)
        message = unpack(self._view[self._start : self._start + size])
        self._start += size
        if not payload_bytes:
            return message, memoryview(b"")
        payload = _payload_memory(payload_bytes)
        there = min(payload_bytes, self._end - self._start)
        payload[:there] = self._view[self._start : self._start + there]
        self._start += there
        while there < payload_bytes:
            got = self._socket.recv_into(payload[there:])
            if not got:
                raise EOFError
            there += got
        return message, payload

    def close(self) -> None:
        """Closes the connection; a blocked `receive` ends with `EOFError` or `OSError`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _need(self, size: int) -> None:
        """Receives until `size` bytes stand in one piece at `_start`."""
        if self._end - self._start >= size:
            return
        if self._start + size > len(self._buffer):
            left = bytes(self._view[self._start : self._end])
            if size > len(self._buffer):
                self._buffer = bytearray(2 * size)
                self._view = memoryview(self._buffer)
            self._view[: len(left)] = left
            self._start, self._end = 0, len(left)
        elif self._start == self._end:
            self._start = self._end = 0
        while self._end - self._start < size:
            got = self._socket.recv_into(self._view[self._end :])
            if not got:
                raise EOFError
            self._end += got


class Link(asyncio.Protocol):
    """A connection of frames on the event loop.

    Frames sent within one turn of the loop leave in one write. `received(message, payload)` is called for each frame
    and `closed(reason)` once, whoever closed. `received` may raise `FrameError` over a message that means nothing.
    """

    def __init__(self, received: Callable[[Any, Bytes], None], closed: Callable[[str], None]) -> None:
        self._received = received
        self._closed = closed
        self._out: list[Bytes] = []
        self._buffer = bytearray()
        self._message: Any = None
        self._payload: bytearray | None = None
        self._filled = 0
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.on_broken: Callable[[str], None] = lambda _: None
        """Called before the end with what is wrong, if the other side sent something else than frames."""
        self.congested = False
        """True while the other side takes bytes more slowly than they are sent."""
        self.on_congestion: Callable[[], None] = lambda: None

    def redirect(self, received: Callable[[Any, Bytes], None], closed: Callable[[str], None]) -> None:
        """Gives all further frames, and the end, to others."""
        self._received = received
        self._closed = closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=64 << 20)

    def send(self, data: Bytes) -> None:
        """Queues an encoded frame, or a payload behind its header. Does nothing once the connection is closed."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def close(self) -> None:
        """Closes the connection at once; what was queued may be lost."""
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(out) if len(out) > 1 else self._transport.write(out[0])

    def pause_writing(self) -> None:
        self.congested = True
        self.on_congestion()

    def resume_writing(self) -> None:
        self.congested = False
        self.on_congestion()

    def data_received(self, data: bytes) -> None:
        try:
            self._parse(data)
        except FrameError as error:
            self.on_broken(str(error))
            self._fail(f"it sent something else than frames ({error})")

    def _parse(self, data: bytes) -> None:
        if self._payload is not None:
            there = min(len(data), len(self._payload) - self._filled)
            self._payload[self._filled : self._filled + there] = data[:there]
            self._filled += there
            if self._filled < len(self._payload):
                return
            message, payload = self._message, self._payload
            self._message = self._payload = None
            self._received(message, payload)
            data = data[there:]
        buffer: Bytes = data
        if self._buffer:
            self._buffer += data
            buffer = self._buffer
        start, end = 0, len(buffer)
        while end - start >= _HEADER.size:
            size, payload_bytes = _HEADER.unpack_from(buffer, start)
            if size > _MAX_MESSAGE:
                raise FrameError(f"a message of {size} bytes")
            body = start + _HEADER.size
            if end - body < size:
                break
            message = unpack(buffer[body : body + size])
            start = body + size
            if end - start < payload_bytes:
                try:
                    self._message, self._payload = message, bytearray(payload_bytes)
                except (MemoryError, OverflowError) as error:
                    raise FrameError(f"a payload of {payload_bytes} bytes: {error}") from error
                self._filled = end - start
                self._payload[: self._filled] = buffer[start:]
                start = end
                break
            self._received(message, buffer[start : start + payload_bytes])
            start += payload_bytes
        self._buffer = bytearray(buffer[start:])

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"its connection broke ({error})" if error else "its connection closed")

    def _fail(self, reason: str) -> None:
        closed, self._closed = self._closed, lambda _: None
        self.close()
        self._transport = None
        closed(reason)
