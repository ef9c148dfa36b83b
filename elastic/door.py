"""Where connections of frames come in: from a stranger nothing is read but its proof and its hello, and not for long.

`Visit` is the conversation, bytes in and bytes out. `Door` has it on the event loop, `ThreadedDoor` in threads, for
processes that block. Both keep few strangers at a time and none for longer than `PATIENCE_S`; whoever is refused is
counted (`elastic.refusals`) and hears no more than that it is of another pool, if that is so.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from elastic import wire
from elastic.handshake import MAGIC, NO_TLS, OPENING_BYTES, PROOF_BYTES, WANTS_TLS, HandshakeError, Listener
from elastic.refusals import Reason
from elastic.tls import ALL_OR_NONE, FIRST_BYTES, Tls, TlsSocket, TlsTransport, Tunnel

log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""Seconds in which a connection must have proven the secret and said hello; a fast one takes milliseconds."""

MOST = 256
"""Connections that have not done so, at a time."""

_GRACE_S = 1.0
"""Seconds that a `ThreadedDoor` gives each of them even when there are too many, before it makes room for others."""

_MOST_HELLO = 1 << 16
"""Bytes of a hello."""

_RECEIVE = 1 << 12

Refused = Callable[[Reason, str], None]
"""Takes note of a refused connection."""


class _Stage(enum.Enum):
    OPENING = 0
    PROOF = 1
    HELLO = 2
    DONE = 3


class Visit:
    """What a listener reads and answers until it knows who is there: `receive` until `done`."""

    def __init__(self, secret: bytes, tls: Tls | None = None) -> None:
        """With `tls` nothing is said in clear."""
        self.tunnel = Tunnel(tls, listens=True) if tls is not None else None
        self._listener = Listener(secret, b"" if self.tunnel is None else self.tunnel.binding)
        self._stage = _Stage.OPENING
        self._first = b""
        """The first bytes as they came, until they show whether it is TLS."""
        self._sure = False
        self._data = b""
        self.hello: Any = None
        """The first message, once `done`."""

    @property
    def done(self) -> bool:
        return self._stage is _Stage.DONE

    @property
    def rest(self) -> bytes:
        """What came behind the hello."""
        return self._data

    def receive(self, data: bytes) -> bytes:
        """Takes what came; the result is what to answer. Raises `HandshakeError`: the connection is to be closed."""
        if not self._sure:
            data, self._first = self._first + data, b""
            if len(data) < len(FIRST_BYTES) and FIRST_BYTES.startswith(data):
                self._first = data
                return b""
            self._check_tls(data)
        if self.tunnel is None:
            return self._converse(data)
        try:
            plain = self.tunnel.receive(data)
        except ssl.SSLError as error:
            words = f"its TLS is not good here: {error.reason or error}"
            raise HandshakeError(words, Reason.TLS, self.tunnel.output()) from error
        try:
            answer = self._converse(plain)
        except HandshakeError as error:
            error.answer = self.tunnel.output() + (self.tunnel.seal(error.answer) if error.answer else b"")
            raise
        return self.tunnel.output() + (self.tunnel.seal(answer) if answer else b"")

    def _check_tls(self, data: bytes) -> None:
        speaks = data.startswith(FIRST_BYTES)
        if speaks and self.tunnel is None:
            words = f"it speaks TLS, and there is no certificate here: {ALL_OR_NONE}"
            raise HandshakeError(words, Reason.TLS, NO_TLS)
        if not speaks and self.tunnel is not None and data.startswith(MAGIC[: len(data)]):
            raise HandshakeError(f"it does not speak TLS: {ALL_OR_NONE}", Reason.TLS, WANTS_TLS)
        if not speaks and self.tunnel is not None:
            raise HandshakeError("what connected does not speak TLS")
        self._sure = True

    def _converse(self, data: bytes) -> bytes:
        self._data += data
        answer = b""
        if self._stage is _Stage.OPENING:
            if not self._data.startswith(MAGIC[: len(self._data)]):
                raise HandshakeError("what connected does not speak this version of elastic's protocol")
            if len(self._data) >= OPENING_BYTES:
                answer = self._listener.reply(self._take(OPENING_BYTES))
                self._stage = _Stage.PROOF
        if self._stage is _Stage.PROOF and len(self._data) >= PROOF_BYTES:
            self._listener.check(self._take(PROOF_BYTES))
            self._stage = _Stage.HELLO
        if self._stage is _Stage.HELLO:
            self._read_hello()
        return answer

    def _read_hello(self) -> None:
        try:
            size = wire.small_frame_size(self._data, _MOST_HELLO)
            if size is not None:
                self.hello, _ = wire.unframe(self._take(size))
                self._stage = _Stage.DONE
        except wire.FrameError as error:
            raise HandshakeError(f"it knows the secret, but its hello is none: {error}") from error

    def left(self) -> HandshakeError:
        """What to make of it if it leaves now."""
        if self._stage is _Stage.PROOF:
            return HandshakeError("it left without a proof that it knows the secret", Reason.WRONG_SECRET)
        if self._sure and self.tunnel is not None and not self.tunnel.ready:
            return HandshakeError("it left in the middle of TLS: it does not accept this certificate", Reason.TLS)
        if self._stage is _Stage.HELLO or self._data or self._first or self._sure:
            return HandshakeError("it left in the middle of the handshake")
        return HandshakeError("it left without a word", Reason.SILENT)

    def _take(self, size: int) -> bytes:
        taken, self._data = self._data[:size], self._data[size:]
        return taken


def _too_slow(seconds: float) -> HandshakeError:
    return HandshakeError(f"it did not prove anything within {seconds:.0f} s", Reason.SILENT)


class Door:
    """Makes the protocols of an asyncio listener; `serve(hello, link)` is called for each who may come in.

    A hello is a map. A frame behind it ends the connection, unless `serve` has redirected the link.
    """

    def __init__(
        self,
        secret: bytes,
        serve: Callable[[dict[str, Any], wire.Link], None],
        refused: Refused = lambda *_: None,
        tls: Tls | None = None,
        *,
        patience_s: float = PATIENCE_S,
        most: int = MOST,
    ) -> None:
        self.secret = secret
        self.serve = serve
        self.refused = refused
        self.tls = tls
        self.patience_s = patience_s
        self._most = most
        self._strangers: dict[_Stranger, None] = {}
        """In the order in which they came."""

    def __call__(self) -> asyncio.Protocol:
        return _Stranger(self)

    def came(self, stranger: _Stranger) -> None:
        self._strangers[stranger] = None
        if len(self._strangers) > self._most:
            oldest = next(iter(self._strangers))
            oldest.refuse(HandshakeError("it had not proven anything yet, and too many others came", Reason.SILENT))

    def knows(self, stranger: _Stranger) -> None:
        """It is none any more."""
        self._strangers.pop(stranger, None)


class _Stranger(asyncio.Protocol):
    """A connection until it has proven the secret and said hello; then its frames go to whoever serves it."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._visit = Visit(door.secret, door.tls)
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._who = _name(transport.get_extra_info("peername"))
        patience = self._door.patience_s
        self._limit = asyncio.get_running_loop().call_later(patience, lambda: self.refuse(_too_slow(patience)))
        self._door.came(self)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        try:
            answer = self._visit.receive(data)
            if answer:
                self._transport.write(answer)
            if self._visit.done:
                self._welcome()
        except HandshakeError as error:
            self.refuse(error)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._over:
            self.refuse(self._visit.left())

    def refuse(self, why: HandshakeError) -> None:
        """Ends the connection."""
        self._end()
        self._door.refused(why.reason, f"{self._who}: {why}")
        if why.answer:
            self._transport.write(why.answer)
            self._transport.close()
        else:
            self._transport.abort()

    def _welcome(self) -> None:
        if not isinstance(self._visit.hello, dict):
            raise HandshakeError("it knows the secret, but its hello is none")
        self._end()
        link = wire.Link(lambda *_: link.close(), lambda _: None)
        transport, tunnel = self._transport, self._visit.tunnel
        if tunnel is None:
            transport.set_protocol(link)
        else:
            transport = TlsTransport(transport, tunnel, link)
        link.connection_made(transport)
        link.on_broken = lambda why: self._door.refused(Reason.GARBAGE, f"{self._who}, which knows the secret: {why}")
        self._door.serve(self._visit.hello, link)
        if self._visit.rest:
            link.data_received(self._visit.rest)

    def _end(self) -> None:
        self._over = True
        self._limit.cancel()
        self._door.knows(self)


def accept(
    sock: socket.socket, secret: bytes, tls: Tls | None = None, patience_s: float = PATIENCE_S
) -> tuple[Any, wire.Channel]:
    """The (hello, channel) of a connection that a blocking listener accepted.

    Raises `HandshakeError` if the other side does not prove itself and say hello within `patience_s`, or leaves.
    """
    visit, deadline = Visit(secret, tls), time.monotonic() + patience_s
    try:
        while not visit.done:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _too_slow(patience_s)
            sock.settimeout(left)
            data = sock.recv(_RECEIVE)
            if not data:
                raise visit.left()
            answer = visit.receive(data)
            if answer:
                sock.sendall(answer)
        sock.settimeout(None)
        return visit.hello, wire.Channel(TlsSocket(sock, visit.tunnel) if visit.tunnel else sock, visit.rest)
    except HandshakeError as error:
        if error.answer:
            with contextlib.suppress(OSError):
                sock.sendall(error.answer)
        raise
    except TimeoutError:
        raise _too_slow(patience_s) from None
    except OSError:
        raise visit.left() from None


class ThreadedDoor:
    """Accepts connections for as long as the process lives; each that may come in is served in a thread of its own."""

    def __init__(
        self,
        listener: socket.socket,
        secret: bytes,
        serve: Callable[[dict[str, Any], wire.Channel, str], None],
        refused: Refused,
        tls: Tls | None = None,
        *,
        patience_s: float = PATIENCE_S,
        most: int = MOST,
    ) -> None:
        """`serve(hello, channel, who)` is called in that thread, with the other side's address, and owns the channel.

        It may raise `FrameError` and errors of the channel's; they end the connection.
        """
        self._listener = listener
        self._secret = secret
        self._serve = serve
        self._refused = refused
        self._tls = tls
        self._patience_s = patience_s
        self._most = most
        self._strangers: dict[socket.socket, float] = {}
        """Since when each is here, in the order in which they came."""
        self._changed = threading.Condition()

    def run(self) -> None:
        """Accepts until the listener is closed."""
        while self._listener.fileno() >= 0:
            self._make_room()
            try:
                sock, who = self._listener.accept()
            except OSError as error:  # Such as too many open files: some will be closed.
                log.warning("a connection cannot be accepted: %s", error)
                time.sleep(0.05)
                continue
            with self._changed:
                self._strangers[sock] = time.monotonic()
            try:
                threading.Thread(target=self._greet, args=(sock, _name(who)), name="connection", daemon=True).start()
            except RuntimeError as error:  # No more threads for now.
                self._forget(sock)
                sock.close()
                log.warning("a connection cannot be served: %s", error)

    def _make_room(self) -> None:
        """Waits until there is room for one more, and ends the oldest one when it has had its time."""
        with self._changed:
            while len(self._strangers) >= self._most:
                oldest, since = next(iter(self._strangers.items()))
                wait = since + _GRACE_S - time.monotonic()
                if wait <= 0:
                    wait = _GRACE_S
                    with contextlib.suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)  # Its thread wakes and does the rest.
                self._changed.wait(wait)

    def _greet(self, sock: socket.socket, who: str) -> None:
        try:
            try:
                hello, channel = accept(sock, self._secret, self._tls, self._patience_s)
            finally:
                self._forget(sock)
            if not isinstance(hello, dict):
                raise HandshakeError("it knows the secret, but its hello is none")
        except HandshakeError as error:
            sock.close()
            self._refused(error.reason, f"{who}: {error}")
            return
        try:
            self._serve(hello, channel, who)
        except wire.FrameError as error:
            channel.close()
            self._refused(Reason.GARBAGE, f"{who}, which knows the secret: {error}")
        except (OSError, EOFError):
            channel.close()

    def _forget(self, sock: socket.socket) -> None:
        with self._changed:
            self._strangers.pop(sock, None)
            self._changed.notify()


def _name(who: Any) -> str:
    """The address of another side, as `socket` gives it, as text."""
    return f"{who[0]}:{who[1]}" if isinstance(who, tuple) else "a process of this machine"
