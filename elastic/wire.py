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
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from elastic.handshake import REPLY_BYTES, Dialer, HandshakeError
from elastic.refusals import Reason
from elastic.tls import ALL_OR_NONE, CA, CERT, Tls, TlsSocket, TlsTransport, Tunnel, ours

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


class _Call:
    """What a dialer sends and hears until the listener has proven itself: `begin`, and `receive` until `done`."""

    def __init__(self, secret: bytes, hello: Any, tls: Tls | None) -> None:
        self._secret = secret
        self._hello = hello
        self.tunnel = None if tls is None else Tunnel(tls, listens=False)
        self._dialer: Dialer | None = None
        self._data = b""
        self.done = False

    @property
    def rest(self) -> bytes:
        """What came behind the listener's reply."""
        return self._data

    def begin(self) -> bytes:
        """What to send first."""
        return self._open() if self.tunnel is None else self.tunnel.begin()

    def receive(self, data: bytes) -> bytes:
        """Takes what came; the result is what to send. Raises `HandshakeError`."""
        if self.tunnel is None:
            return self._converse(data)
        try:
            plain = self.tunnel.receive(data)
        except ssl.SSLError as error:
            raise _tls_error(error, self.tunnel.output()) from error
        said = self.tunnel.output()
        if self._dialer is None and self.tunnel.ready:
            said += self.tunnel.seal(self._open(self.tunnel.binding))
        answer = self._converse(plain)
        return said + (self.tunnel.seal(answer) if answer else b"")

    def lost(self, error: Exception | None = None) -> Exception:
        """What to make of the end of the connection now."""
        if self.tunnel is None or not isinstance(error, ConnectionError | None):
            return error or EOFError("the other side closed the connection in the handshake")
        words = f"it closed the connection, as it does with certificates that it does not accept: {_SIGNED}"
        return HandshakeError(f"there is no TLS with it: {words}", Reason.TLS)

    def _open(self, binding: bytes = b"") -> bytes:
        self._dialer = Dialer(self._secret, binding)
        return self._dialer.opening()

    def _converse(self, data: bytes) -> bytes:
        self._data += data
        if self.done or len(self._data) < REPLY_BYTES:
            return b""
        assert self._dialer is not None
        reply, self._data = self._data[:REPLY_BYTES], self._data[REPLY_BYTES:]
        proof = self._dialer.proof(reply)
        self.done = True
        return proof + frame(self._hello)


_SIGNED = f"{CERT} must be signed by an authority in its {CA}"


def _tls_error(error: ssl.SSLError, answer: bytes) -> HandshakeError:
    if error.reason == "WRONG_VERSION_NUMBER":
        words = f"what answered does not speak TLS, and this process has a certificate: {ALL_OR_NONE}"
    elif isinstance(error, ssl.SSLCertVerificationError):
        words = f"its certificate is not accepted: {error.verify_message}; {CA} must hold the authority that signed it"
    else:
        words = f"there is no TLS with it: {error.reason or error}; {_SIGNED}"
    return HandshakeError(words, Reason.TLS, answer)


def dial(
    address: str,
    secret: bytes,
    hello: Any,
    timeout_s: float | None = None,
    *,
    alive_s: int | None = None,
    to_controller: bool = False,
) -> Channel:
    """A blocking channel to a listener of the pool, proven both ways; `hello` is the first message.

    `address` is HOST:PORT or unix:PATH. Nothing on the channel, the connecting included, waits for longer than the
    timeout, if there is one; with `alive_s` only a machine of which nothing is heard for so many seconds is given up,
    a process that takes its time is not. With certificates (`elastic.tls`) it is encrypted, but not on one machine's
    Unix sockets, nor `to_controller`: what serves JAX clients cannot. Raises `OSError` (`TimeoutError` is one),
    `EOFError`, `HandshakeError`, or `UsageError` for certificates that cannot be used.
    """
    local = address.startswith("unix:")
    call = _Call(secret, hello, None if local or to_controller else ours())
    if local:
        sock = socket.socket(socket.AF_UNIX)
    else:
        sock = socket.create_connection(parse_address(address), alive_s if timeout_s is None else timeout_s)
    try:
        sock.settimeout(timeout_s)
        if local:
            sock.connect(address.removeprefix("unix:"))
        elif alive_s is not None:
            _watch(sock, alive_s)
        sock.sendall(call.begin())
        while not call.done:
            data = sock.recv(_RECEIVE)
            if not data:
                raise call.lost()
            answer = call.receive(data)
            if answer:
                sock.sendall(answer)
        return Channel(TlsSocket(sock, call.tunnel) if call.tunnel else sock, call.rest)
    except ConnectionError as error:
        sock.close()
        raise call.lost(error) from None
    except BaseException:
        sock.close()
        raise


def _watch(sock: socket.socket, seconds: int) -> None:
    """Has the kernel end the connection when the other kernel has confirmed nothing for so many seconds."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * seconds)


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


class _Calling(asyncio.Protocol):
    """A connection that was dialed until the listener has proven itself; then it is a link's."""

    def __init__(self, call: _Call, link: Link) -> None:
        self._call = call
        self.link = link
        self.proven: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._call.begin())

    def data_received(self, data: bytes) -> None:
        try:
            answer = self._call.receive(data)
        except HandshakeError as error:
            self._transport.write(error.answer)
            self._transport.close()
            self._fail(error)
            return
        if answer:
            self._transport.write(answer)
        if self._call.done and not self.proven.done():
            self._hand_over()

    def _hand_over(self) -> None:
        transport, tunnel = self._transport, self._call.tunnel
        if tunnel is None:
            transport.set_protocol(self.link)
        else:
            transport = TlsTransport(transport, tunnel, self.link)
        self.link.connection_made(transport)
        self.proven.set_result(None)
        if self._call.rest:
            self.link.data_received(self._call.rest)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(self._call.lost(error))

    def _fail(self, error: Exception) -> None:
        if not self.proven.done():
            self.proven.set_exception(error)


async def connect(address: str) -> socket.socket:
    """A TCP connection to HOST:PORT, on which nothing was said yet. Raises `OSError` or `ValueError`."""
    loop = asyncio.get_running_loop()
    host, port = parse_address(address)
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, proto, _, target = infos[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, target)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


async def open_link(
    address: str, secret: bytes, hello: Any, received: Callable[[Any, Bytes], None], closed: Callable[[str], None]
) -> Link:
    """A link to a listener of the pool, proven both ways. Raises as `dial` does."""
    return await link_over(await connect(address), secret, hello, received, closed)


async def link_over(
    sock: socket.socket,
    secret: bytes,
    hello: Any,
    received: Callable[[Any, Bytes], None],
    closed: Callable[[str], None],
) -> Link:
    """As `open_link`, over a connection that `connect` has made, and which it owns from now on."""
    call = _Call(secret, hello, ours())
    loop = asyncio.get_running_loop()
    try:
        transport, calling = await loop.create_connection(lambda: _Calling(call, Link(received, closed)), sock=sock)
    except BaseException:
        sock.close()
        raise
    try:
        await calling.proven
    except BaseException:
        transport.abort()
        raise
    return calling.link
