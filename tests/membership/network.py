"""A network that can be broken: a TCP proxy before each endpoint of a server, with verbs for faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence

_CHUNK = 1 << 14
_DIRECTIONS = ("requests", "answers")


class _Connection:
    """A client's connection and the one it is passed on to."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.passing = asyncio.Event()
        self.passing.set()

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


class Network:
    """All ways from clients to one server. Passes bytes on until it is told otherwise.

    Attributes:
        endpoints: where clients reach the server's endpoints, as host:port, in their order.
        connections: how many were made so far.
        held: set when something is held back because of `hold`.
        refused: set when a connection is refused because of `cut`.
    """

    def __init__(self) -> None:
        self.endpoints: list[str] = []
        self.connections = 0
        self.held = asyncio.Event()
        self.refused = asyncio.Event()
        self._passing = {direction: asyncio.Event() for direction in _DIRECTIONS}
        self._open: set[_Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._cut = False
        self._limits: Iterator[int] = iter(())
        self.heal()

    def hold(self, *directions: str) -> None:
        """Lets nothing pass, or nothing in these directions; connections stay open, as when a cable is cut."""
        self.held.clear()
        for direction in directions or _DIRECTIONS:
            self._passing[direction].clear()

    def hold_open_connections(self) -> None:
        """Lets nothing pass on the connections that there are; new ones are as good as ever."""
        self.held.clear()
        for connection in self._open:
            connection.passing.clear()

    def cut(self) -> None:
        """Breaks all connections, and refuses new ones."""
        self._cut = True
        self.refused.clear()
        self.recycle()

    def recycle(self) -> None:
        """Breaks all connections; new ones are welcome."""
        for connection in self._open:
            connection.abort()

    def break_after(self, limits: Iterator[int]) -> None:
        """Breaks each connection that is made from now on after so many bytes of answers, while there are limits."""
        self._limits = limits

    def heal(self) -> None:
        """Ends `hold`, `hold_open_connections` and `cut`: what was held arrives, and connections are welcome."""
        self._cut = False
        self._pass_all()

    def _pass_all(self) -> None:
        for connection in self._open:
            connection.passing.set()
        for passing in self._passing.values():
            passing.set()

    async def end(self) -> None:
        """Breaks all connections for good."""
        self.cut()
        self._pass_all()
        if self._serving:
            await asyncio.wait(self._serving)

    async def listen(self, target: str) -> asyncio.Server:
        """Makes a way to the endpoint ``target``."""
        host, _, port = target.rpartition(":")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
            self.connections += 1
            if self._cut:
                self.refused.set()
                writer.transport.abort()
                return
            limit = next(self._limits, None)
            try:
                up_reader, up_writer = await asyncio.open_connection(host, int(port))
            except OSError:
                writer.transport.abort()
                return
            if self._cut:  # Meanwhile.
                writer.transport.abort()
                up_writer.transport.abort()
                return
            connection = _Connection(writer, up_writer)
            self._open.add(connection)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(connection, reader, up_writer, "requests", None))
                    group.create_task(self._pass(connection, up_reader, writer, "answers", limit))
            except* (OSError, EOFError):
                pass
            finally:
                self._open.discard(connection)
                connection.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.endpoints.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        return server

    async def _pass(
        self,
        connection: _Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: str,
        limit: int | None,
    ) -> None:
        while data := await reader.read(_CHUNK):
            for passing in (self._passing[direction], connection.passing):
                if not passing.is_set():
                    self.held.set()
                    await passing.wait()
            if limit is not None:
                data = data[:limit]
                limit -= len(data)
            writer.write(data)
            await writer.drain()
            if limit == 0:
                break
        raise EOFError


@contextlib.asynccontextmanager
async def network(targets: Sequence[str]) -> AsyncIterator[Network]:
    """A network before these endpoints."""
    net = Network()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(net.end)
        for target in targets:
            stack.callback((await net.listen(target)).close)
        yield net
