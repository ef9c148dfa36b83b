"""Connections of a machine with itself, for tests of what speaks over them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from elastic import wire
from elastic.handshake import OPENING_BYTES, PROOF_BYTES, HandshakeError, Listener

PATIENCE = 30  # seconds until a test gives up; no test waits for time to pass
SECRET = b"the secret of a pool of tests"


@contextlib.contextmanager
def tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of one TCP connection; a read that waits in vain fails."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), PATIENCE) as ours,
    ):
        theirs, _ = server.accept()
        theirs.settimeout(PATIENCE)
        with theirs:
            yield ours, theirs


@contextlib.contextmanager
def beside(work: Callable[[], Any]) -> Iterator[concurrent.futures.Future[Any]]:
    """Does `work` in a thread while the body runs; the result, or its exception, is there at the end of the body."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        future = thread.submit(work)
        yield future
        future.result(PATIENCE)


def run(main: Awaitable[Any]) -> Any:
    """Runs a coroutine on a new event loop, and gives up after PATIENCE."""

    async def limited() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await main

    return asyncio.run(limited())


async def until_done() -> None:
    """Waits for all other tasks of this event loop, and for those that they start."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


class Frames:
    """A server of frames on the event loop, for tests that play an agent or an executor.

    Every connection that proves the secret is put into `connections`, with its hello.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._all: list[Connection] = []
        self.connections: asyncio.Queue[Connection] = asyncio.Queue()
        self.address = ""

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener = Listener(self._secret)
        connection = Connection(reader, writer)
        self._all.append(connection)
        try:
            writer.write(listener.reply(await reader.readexactly(OPENING_BYTES)))
            listener.check(await reader.readexactly(PROOF_BYTES))
            connection.hello, _ = await connection.read()
            self.connections.put_nowait(connection)
        except HandshakeError as error:
            writer.write(error.answer)
            writer.close()
        except (EOFError, OSError):
            connection.drop()


@contextlib.asynccontextmanager
async def frames_server(secret: bytes = SECRET) -> AsyncIterator[Frames]:
    frames = Frames(secret)
    server = await asyncio.start_server(frames._greet, "127.0.0.1", 0)
    frames.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield frames
    finally:
        server.close()
        for connection in frames._all:
            connection.drop()


class Connection:
    """The server's end of one connection."""

    hello: Any = None

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> tuple[Any, bytes]:
        """The next (message, payload). Raises `EOFError` (or `OSError`) once the other side is gone."""
        size = int.from_bytes(await self._reader.readexactly(4), "little")
        payload = int.from_bytes(await self._reader.readexactly(8), "little")
        message = wire.unpack(await self._reader.readexactly(size))
        return message, await self._reader.readexactly(payload)

    async def until_gone(self) -> list[Any]:
        """The messages that still come before the other side goes away."""
        messages = []
        with contextlib.suppress(EOFError, OSError):
            while True:
                messages.append((await self.read())[0])
        return messages

    def write(self, message: Any, payload: bytes = b"") -> None:
        self._writer.write(wire.frame(message, payload))

    def write_raw(self, data: bytes) -> None:
        self._writer.write(data)

    def drop(self) -> None:
        """Ends the connection as the death of this process would."""
        self._writer.transport.abort()


def all_frames(channel):
    """What comes on a channel until its end."""
    received = []
    try:
        while True:
            message, payload = channel.receive()
            received.append((message, bytes(payload)))
    except EOFError:
        return received
