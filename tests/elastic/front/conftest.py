"""Both sides of the front, for tests: a client that says exactly the frames it is told to, and an application."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
from hpack import Decoder, Encoder

from elastic.front import Call, GrpcError, GrpcServer, Limits, Status, frames
from elastic.front.frames import END_HEADERS, PREFACE, frame
from elastic.front.http2 import DATA, Connection, Event


@dataclass(frozen=True)
class Frame:
    kind: int
    flags: int
    stream: int
    payload: bytes


def split_frames(data: bytes) -> list[Frame]:
    result = []
    while data:
        size = int.from_bytes(data[:3], "big")
        assert len(data) >= 9 + size, "half a frame"
        result.append(Frame(data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
        data = data[9 + size :]
    return result


def merged(events: list[Event]) -> list[tuple]:
    """Events with neighbouring pieces of one payload joined: what must not depend on how the input was cut."""
    result: list[tuple] = []
    for event in events:
        if event[0] == DATA:
            last = result[-1] if result else (None,)
            if last[0] == DATA and last[1] == event[1] and not last[3]:
                result[-1] = (DATA, event[1], last[2] + bytes(event[2]), event[3])
            else:
                result.append((DATA, event[1], bytes(event[2]), event[3]))
        else:
            result.append(tuple(str(part) if isinstance(part, Exception) else part for part in event))
    return result


class Peer:
    """A client of a `Connection` (or of anything else with `receive` and `take`), in memory."""

    REQUEST = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/test.Service/Method"),
        (b":authority", b"test"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )

    def __init__(self, connection: Connection | None = None) -> None:
        self.connection = connection if connection is not None else Connection()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def hello(self, settings: bytes = b"") -> Peer:
        """The handshake, with what the server says to it thrown away."""
        self.send(PREFACE, frame(frames.T_SETTINGS, 0, 0, settings), frame(frames.T_SETTINGS, frames.ACK, 0))
        self.connection.take()
        return self

    def send(self, *data: bytes) -> list[Event]:
        return self.connection.receive(b"".join(data))

    def sent(self, budget: int = 1 << 30) -> list[Frame]:
        """All that the server has to say now."""
        data = b""
        while more := self.connection.take(budget):
            data += more
        return split_frames(data)

    def headers(self, stream: int, flags: int = END_HEADERS, fields=REQUEST) -> bytes:
        return frame(frames.T_HEADERS, flags, stream, self.encoder.encode(fields))

    def fields(self, block: bytes) -> list[tuple[bytes, bytes]]:
        return [tuple(field) for field in self.decoder.decode(block, raw=True)]


class Handler:
    """Base of the methods of `App`, named like them."""

    def __init__(self, call: Call, app: App) -> None:
        self.call, self.app = call, app

    def message(self, data: bytes) -> None:
        pass

    def half_closed(self) -> None:
        pass

    def cancelled(self) -> None:
        self.app.cancelled.append(self.call.method)
        self.app.changed.set()


class Unary(Handler):
    """Answers with what it got and the metadata whose name ends in -bin."""

    def message(self, data: bytes) -> None:
        self.call.write(b"got ", data, *(v for k, v in self.call.metadata.items() if k.endswith("-bin")))
        self.call.finish()


class Upload(Handler):
    """Takes any number of messages, answers with their count and size."""

    count = size = 0

    def message(self, data: bytes) -> None:
        self.count += 1
        self.size += len(data)

    def half_closed(self) -> None:
        self.call.write(f"{self.count} {self.size}".encode())
        self.call.finish()


class Download(Handler):
    """Sends as many messages of 1 MiB as it is asked for, all at once."""

    PIECE = os.urandom(1 << 20)

    def message(self, data: bytes) -> None:
        for _ in range(int(data)):
            self.call.write(self.PIECE)
        self.call.finish()


class Echo(Handler):
    def message(self, data: bytes) -> None:
        self.call.write(data)

    def half_closed(self) -> None:
        self.call.finish()


class Fail(Handler):
    def message(self, data: bytes) -> None:
        if data == b"crash":
            raise ZeroDivisionError("as asked")
        raise GrpcError(Status.FAILED_PRECONDITION, "nö: 100%")


class Wait(Handler):
    """Never answers."""

    def message(self, data: bytes) -> None:
        self.app.waiting += 1
        self.app.changed.set()


class App:
    """A service with the methods above, and what happened to it."""

    PIECE = Download.PIECE

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.cancelled: list[str] = []
        self.waiting = 0
        self.changed = asyncio.Event()

    def __call__(self, call: Call) -> Handler:
        self.calls.append(call)
        for kind in (Unary, Upload, Download, Echo, Fail, Wait):
            if kind.__name__ == call.method:
                return kind(call, self)
        raise GrpcError(Status.UNIMPLEMENTED, f"no method {call.method}")

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


PATIENCE = 60  # seconds until a test gives up; no test waits for time to pass


@contextlib.asynccontextmanager
async def serve(address, limits: Limits | None = None) -> AsyncIterator[tuple[GrpcServer, App]]:
    app = App()
    async with asyncio.timeout(PATIENCE):
        server = await GrpcServer.start(app, limits=limits, **address)
        try:
            yield server, app
        finally:
            await server.close()


@pytest.fixture
def peer() -> Peer:
    """A client of a bare HTTP/2 connection, after the handshake."""
    return Peer().hello()


@pytest.fixture(scope="session")
def make_peer() -> type[Peer]:
    return Peer


@pytest.fixture(scope="session")
def merge() -> Callable[[list[Event]], list[tuple]]:
    return merged


@pytest.fixture(scope="session")
def split() -> Callable[[bytes], list[Frame]]:
    return split_frames


@pytest.fixture(scope="session")
def make_app() -> type[App]:
    return App


@pytest.fixture(scope="session")
def serving():
    """`async with serving(address) as (server, app)`, which fails the test after PATIENCE."""
    return serve


@pytest.fixture(params=["unix", "tcp"])
def address(request, tmp_path):
    """Arguments of `GrpcServer.start`."""
    return {"path": tmp_path / "s"} if request.param == "unix" else {"host": "127.0.0.1"}
