"""The front's sockets: an asyncio server around `GrpcConnection`.

Everything runs in plain callbacks of one event loop; there is no thread, and no task for a message. What handlers write
while input is handled leaves in one `transport.write` at the end; what is written at other times leaves together at the
next turn of the loop. If the transport has enough to do, output stays in the streams, where a reset can still drop it
and other streams still get their turn.

Not for security: there is no TLS here, and anybody who can connect may call.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import stat
from collections.abc import Callable, Mapping
from typing import Final, cast

from elastic.front.frames import PREFACE, Limits
from elastic.front.grpc import GrpcConnection, Service

# One write, and at the same time where the transport tells us to hold back: about what a socket buffer takes.
_BUDGET: Final = 1 << 18
_LOW_WATER: Final = 1 << 16
# Seconds for a client to take our last words (GOAWAY, statuses) before the connection is cut.
_LINGER: Final = 1.0
_MAGIC_BYTES: Final = 8
# Seconds in which a connection must have said so much, and how many may not have, at a time.
_PATIENCE: Final = 10.0
_MOST_SILENT: Final = 256
# Seconds between two looks whether a client has left from which nothing is read.
_LOOK: Final = 0.5


class GrpcServer:
    """Serves gRPC calls on a Unix socket or a TCP port. Made by `start`."""

    def __init__(
        self,
        service: Service,
        limits: Limits,
        others: Mapping[bytes, Callable[[], asyncio.Protocol]] | None = None,
        refused: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._service = service
        self._refused = refused
        self._doorways: dict[_Doorway, None] = {}
        self._others = others or {}
        self._limits = limits
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._paused = False
        self._look: asyncio.TimerHandle | None = None
        self._closing = False
        self._path: str | None = None
        self._inode: tuple[int, int] | None = None
        self.host: str | None = None
        self.port = 0

    @classmethod
    async def start(
        cls,
        service: Service,
        *,
        path: str | os.PathLike[str] | None = None,
        host: str | None = None,
        port: int | None = None,
        limits: Limits | None = None,
        others: Mapping[bytes, Callable[[], asyncio.Protocol]] | None = None,
        refused: Callable[[bool], None] = lambda _: None,
    ) -> GrpcServer:
        """Listen on the Unix socket `path`, or on `host` (default 127.0.0.1) and `port` (default 0: any free one).

        A connection whose first bytes are a key of `others` (8 bytes) is not gRPC and given to that protocol. Then one
        that does not say that much within 10 seconds is dropped, and the oldest of those when there are too many.
        `refused(silent)` is called for each that is dropped so, and for each that speaks something else.

        An address that is in use gives OSError: ports are never shared, and a socket file is replaced only if nobody
        listens on it any more.
        """
        if path is not None and (host is not None or port is not None):
            raise ValueError("GrpcServer.start: give either path, or host and port, not both")
        server = cls(service, limits or Limits(), others, refused)
        loop = asyncio.get_running_loop()
        if path is not None:
            server._path = os.fspath(path)
            _check_unused(server._path)
            server._server = await loop.create_unix_server(server._connection, server._path, backlog=1024)
            status = os.stat(server._path)
            server._inode = (status.st_dev, status.st_ino)
        else:
            server.host = host if host is not None else "127.0.0.1"
            server._server = await loop.create_server(
                server._connection, server.host, port or 0, backlog=1024, reuse_port=False
            )
            server.port = server._server.sockets[0].getsockname()[1]
        return server

    @property
    def target(self) -> str:
        """Where a gRPC client finds the server: "unix:/path" or "host:port"."""
        if self._path is not None:
            return "unix:" + os.path.abspath(self._path)
        assert self.host is not None
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def pause_reading(self) -> None:
        """Stop reading from all clients, also from those to come, but for those that have left, which is heard of soon.

        See `Call.pause_reading` for one client.
        """
        self._paused = True
        for connection in self._connections:
            connection.update_reading()
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_who_left)

    def _look_who_left(self) -> None:
        self._look = None
        if self._paused and not self._closing:
            for connection in self._connections:
                connection.look_whether_left()
            self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_who_left)

    def resume_reading(self) -> None:
        self._paused = False
        for connection in self._connections:
            connection.update_reading()

    async def close(self, grace: float = 0.0) -> None:
        """Stop listening, let open calls end for `grace` seconds, end the rest as UNAVAILABLE and disconnect."""
        self._closing = True
        assert self._server is not None
        self._server.close()
        self._unlink()
        for connection in list(self._connections):
            connection.leave()
        await self._gone(grace)
        for doorway in list(self._doorways):
            doorway.close()
        for connection in list(self._connections):
            connection.stop()
        await self._gone(_LINGER)
        for connection in list(self._connections):
            connection.abort()
        await self._gone(None)
        await self._server.wait_closed()

    async def _gone(self, seconds: float | None) -> None:
        if self._connections:
            await asyncio.wait([connection.gone for connection in self._connections], timeout=seconds)

    def _unlink(self) -> None:
        """Remove our socket file, unless somebody else has put another in its place."""
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(self._path)
                if (status.st_dev, status.st_ino) == self._inode:
                    os.unlink(self._path)

    def _connection(self) -> asyncio.Protocol:
        connection = _Connection(self, self._service, self._limits)
        return _Doorway(self, connection, self._others) if self._others else connection


class _Doorway(asyncio.Protocol):
    """A connection until its first bytes have told what it is."""

    def __init__(
        self,
        server: GrpcServer,
        otherwise: asyncio.Protocol,
        others: Mapping[bytes, Callable[[], asyncio.Protocol]],
    ) -> None:
        self._server = server
        self._otherwise = otherwise
        self._others = others
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._limit = asyncio.get_running_loop().call_later(_PATIENCE, self.drop)
        waiting = self._server._doorways
        waiting[self] = None
        if len(waiting) > _MOST_SILENT:
            next(iter(waiting)).drop()

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) < _MAGIC_BYTES:
            return
        self._leave()
        make = self._others.get(self._data[:_MAGIC_BYTES])
        protocol = make() if make is not None else self._otherwise
        if make is None and self._data[:_MAGIC_BYTES] != PREFACE[:_MAGIC_BYTES]:
            self._server._refused(False)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._data)

    def connection_lost(self, error: Exception | None) -> None:
        self._leave()

    def drop(self) -> None:
        self.close()
        self._server._refused(True)

    def close(self) -> None:
        self._leave()
        self._transport.abort()

    def _leave(self) -> None:
        self._limit.cancel()
        self._server._doorways.pop(self, None)


class _Connection(asyncio.Protocol):
    """One client: moves bytes between its transport and its GrpcConnection."""

    def __init__(self, server: GrpcServer, service: Service, limits: Limits) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._grpc = GrpcConnection(service, limits, self._on_output, self._on_pause)
        self._transport: asyncio.Transport | None = None
        self._receiving = False  # in data_received, which flushes at its end
        self._scheduled = False  # a flush will come
        self._full = False  # the transport has enough to write
        self._paused = False  # a call wants no more input
        self._left = False  # the client is gone
        self._leaving = False  # close when the last call has ended
        self._ended = False  # our side of the connection is closed
        self._cut: asyncio.TimerHandle | None = None
        self.gone: asyncio.Future[None] = self._loop.create_future()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of uvloop are of no class of asyncio.
        transport = cast(asyncio.Transport, transport)
        if self._server._closing:
            transport.abort()
            return
        self._transport = transport
        sock: socket.socket | None = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=_BUDGET, low=_LOW_WATER)
        self._server._connections.add(self)
        # Not at once: a transport of Python 3.11.2 begins to read after this call, paused or not.
        self._loop.call_soon(self.update_reading)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._receiving = True
        try:
            self._grpc.receive(data)
        finally:
            self._receiving = False
            self._flush()

    def eof_received(self) -> None:
        """The client left; asyncio closes the transport, once it has written what it holds."""
        self._linger()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        # Not at once: asyncio calls this in the midst of a write, and if ours then fails (the client is gone) it ends
        # the connection twice.
        self._on_output()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if self._cut is not None:
            self._cut.cancel()
        self._server._connections.discard(self)
        self._grpc.lost()
        if not self.gone.done():
            self.gone.set_result(None)

    # Called by the server.

    def leave(self) -> None:
        self._leaving = True
        self._grpc.leave()
        self._flush()

    def stop(self) -> None:
        self._grpc.stop()
        self._flush()
        self._linger()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def look_whether_left(self) -> None:
        """Reads again if the client has left: what it had still sent, and then the end."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            poll = select.poll()
            poll.register(sock.fileno(), select.POLLRDHUP)
            if poll.poll(0):
                self._left = True
                self.update_reading()

    def update_reading(self) -> None:
        if self._transport is not None:
            if (self._paused or self._server._paused) and not self._left:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # Called by GrpcConnection.

    def _on_output(self) -> None:
        if not self._receiving and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _on_pause(self, paused: bool) -> None:
        self._paused = paused
        self.update_reading()

    def _flush(self) -> None:
        self._scheduled = False
        grpc, transport = self._grpc, self._transport
        if self._ended or transport is None or transport.is_closing():
            return
        failed = grpc.failure is not None
        if not self._full or failed:
            data = grpc.take(_BUDGET)
            if data:
                transport.write(data)
            if failed:
                self._end()
            elif grpc.has_output:
                if not self._full:
                    # More than one write may take: other connections get their turn first.
                    self._on_output()
            elif self._leaving and grpc.idle:
                self._end()

    def _end(self) -> None:
        """Close our side. Input is still read, and ignored, as closing with unread input would cut our last words."""
        self._ended = True
        if self._transport is not None:
            # It may be gone already; then we shall hear of that next.
            with contextlib.suppress(OSError):
                self._transport.write_eof()
            self._linger()

    def _linger(self) -> None:
        if self._cut is None:
            self._cut = self._loop.call_later(_LINGER, self.abort)


def _check_unused(path: str) -> None:
    """asyncio replaces a socket file without asking whether somebody listens on it."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "a file that is no socket is in the way", path)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # its backlog is full, so somebody is there
    raise OSError(errno.EADDRINUSE, "another server listens on this socket", path)
