"""Connections to listeners of a pool, for those who call: proven both ways, encrypted where there are certificates.

Who listens is `door.py`'s matter, and what is said then `wire.py`'s.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from elastic.handshake import REPLY_BYTES, Dialer, HandshakeError
from elastic.refusals import Reason
from elastic.tls import ALL_OR_NONE, CA, CERT, Tls, TlsSocket, TlsTransport, Tunnel, ours
from elastic.wire import Bytes, Channel, Link, frame, parse_address

_RECEIVE = 1 << 12


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
