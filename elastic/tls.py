"""TLS between controllers, agents and executors: what it needs, and what stands between frames and sockets then.

    ELASTIC_TLS_CERT   PEM file with the certificate that this process shows, and what leads from it to the authority
    ELASTIC_TLS_KEY    PEM file with its key, without a password
    ELASTIC_TLS_CA     PEM file with the authorities whose certificates this process accepts

All three or none. Both sides show certificates, which one authority must have signed; names in them do not matter,
since the proof of the pool's secret (`elastic.handshake`) is bound to the listener's certificate: who stands in between
has another one. `Tunnel` is TLS in memory, `TlsSocket` and `TlsTransport` are what they are named after around one. Not
for: etcd (`membership.address`), and what jaxlib sends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import os
import socket
import ssl
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastic.errors import UsageError

CERT = "ELASTIC_TLS_CERT"
KEY = "ELASTIC_TLS_KEY"
CA = "ELASTIC_TLS_CA"

ALL_OR_NONE = f"set {CERT}, {KEY} and {CA} on both sides, or on neither"

FIRST_BYTES = b"\x16\x03"
"""What a TLS connection begins with (RFC 8446, 5.1)."""

_CHUNK = 1 << 18
"""Bytes that are encrypted at once."""

_RECEIVE = 1 << 18

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Tls:
    """What this process shows and accepts.

    Attributes:
        digest: SHA-256 of the certificate.
    """

    listening: ssl.SSLContext = field(repr=False)
    dialing: ssl.SSLContext = field(repr=False)
    digest: bytes


def ours(environment: Mapping[str, str] = os.environ) -> Tls | None:
    """What the environment says; None without certificates. Files are read once.

    Raises `UsageError` if something is missing or cannot be used.
    """
    given = [name for name in (CERT, KEY, CA) if environment.get(name)]
    if not given:
        return None
    if len(given) < 3:
        missing = next(name for name in (CERT, KEY, CA) if name not in given)
        raise UsageError(f"{' and '.join(given)} is set, but not {missing}: for TLS set all three, or unset all")
    return _load(*(environment[name] for name in (CERT, KEY, CA)))


@functools.lru_cache(maxsize=4)
def _load(cert: str, key: str, ca: str) -> Tls:
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    listening, dialing = contexts
    dialing.check_hostname = False
    listening.num_tickets = 0  # Nobody comes back to go on where it stopped.
    for context in contexts:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(cert, key, password="")  # Else OpenSSL asks for one on the terminal.
        except OSError as error:
            raise UsageError(f"{CERT}={cert} and {KEY}={key} are no certificate and its key: {error}") from None
        try:
            context.load_verify_locations(ca)
        except OSError as error:
            raise UsageError(f"{CA}={ca} holds no authority: {error}") from None
    pem = Path(cert).read_text(encoding="ascii", errors="replace")
    first = pem[pem.index(ssl.PEM_HEADER) :].partition(ssl.PEM_FOOTER)[0]
    return Tls(listening, dialing, _digest(ssl.PEM_cert_to_DER_cert(first + ssl.PEM_FOOTER)))


def _digest(certificate: bytes) -> bytes:
    return hashlib.sha256(certificate).digest()


class Tunnel:
    """One end of a TLS connection, in memory. Not for several threads at once."""

    def __init__(self, tls: Tls, *, listens: bool) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = tls.listening if listens else tls.dialing
        self._ssl = context.wrap_bio(self._in, self._out, server_side=listens)
        self._own = tls.digest if listens else None
        self.ready = False
        """Whether this side believes the other one."""

    @property
    def binding(self) -> bytes:
        """What both sides know of this connection and nobody can have in another: the listener's certificate."""
        return self._own or _digest(self._ssl.getpeercert(binary_form=True) or b"")

    def begin(self) -> bytes:
        """What the dialer sends first."""
        self._shake_hands()
        return self.output()

    def receive(self, data: bytes) -> bytes:
        """Takes what came; the result is what it says. Raises `ssl.SSLError`; `output` is to be sent in any case."""
        self._in.write(data)
        if not self.ready:
            self._shake_hands()
        plain = bytearray()
        if self.ready:
            piece = bytearray(min(_RECEIVE, max(len(data), 1)))
            while count := self.read_into(memoryview(piece)):
                plain += memoryview(piece)[:count]
        return bytes(plain)

    def read_into(self, memory: memoryview) -> int:
        """Puts what was received into memory; 0 if there is nothing. Raises `ssl.SSLError`."""
        try:
            return self._ssl.read(len(memory), memory)  # type: ignore[return-value]
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return 0

    def take(self, data: bytes) -> None:
        """Takes what came, for `read_into`."""
        self._in.write(data)

    def output(self) -> bytes:
        """What is to be sent."""
        return self._out.read()

    def seal(self, data: Bytes) -> bytes:
        """What is to be sent so that the other side hears `data`."""
        self._ssl.write(data)
        return self._out.read()

    def _shake_hands(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._ssl.do_handshake()
            self.ready = True


def pieces(data: Bytes) -> Iterable[memoryview]:
    """The bytes in pieces to be encrypted one after the other."""
    view = memoryview(data).cast("B")
    return (view[start : start + _CHUNK] for start in range(0, len(view), _CHUNK))


class TlsSocket:
    """A connected blocking socket behind a tunnel: one thread receives, and others send, one at a time."""

    def __init__(self, sock: socket.socket, tunnel: Tunnel) -> None:
        self._socket = sock
        self._tunnel = tunnel
        self._lock = threading.Lock()
        """For the tunnel; never held while the socket is waited for."""

    @property
    def family(self) -> int:
        return self._socket.family

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._socket.setsockopt(level, option, value)

    def sendall(self, data: Bytes) -> None:
        for piece in pieces(data):
            with self._lock:
                sealed = self._tunnel.seal(piece)
            self._socket.sendall(sealed)

    def recv_into(self, memory: memoryview) -> int:
        while True:
            with self._lock:
                count = self._tunnel.read_into(memory)
            if count:
                return count
            data = self._socket.recv(_RECEIVE)
            if not data:
                return 0
            with self._lock:
                self._tunnel.take(data)

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """An asyncio transport behind a tunnel that is ready: a transport to one protocol, the protocol of another one."""

    def __init__(self, transport: asyncio.Transport, tunnel: Tunnel, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._raw = transport
        self._tunnel = tunnel
        self._protocol = protocol
        transport.set_protocol(self)

    # To the protocol

    def write(self, data: Bytes) -> None:
        for piece in pieces(data):
            self._raw.write(self._tunnel.seal(piece))

    def writelines(self, parts: Iterable[Bytes]) -> None:
        for part in parts:
            self.write(part)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def close(self) -> None:
        self._raw.close()

    def abort(self) -> None:
        self._raw.abort()

    # To the transport

    def data_received(self, data: bytes) -> None:
        try:
            plain = self._tunnel.receive(data)
        except ssl.SSLError as error:
            self._raw.abort()
            self._protocol.connection_lost(error)
            return
        if plain:
            self._protocol.data_received(plain)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)
