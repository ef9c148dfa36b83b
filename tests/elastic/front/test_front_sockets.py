"""The server with sockets and without a gRPC client: what such a client would not do, and what it cannot see."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from elastic.front import GrpcServer, Limits
from elastic.front import frames as f
from elastic.front import server as front_server
from elastic.front.frames import END_HEADERS, END_STREAM, PREFACE, frame
from elastic.front.server import _Connection

MIB = 1 << 20


async def connect(server: GrpcServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if server.port:
        reader, writer = await asyncio.open_connection(server.host, server.port)
    else:
        reader, writer = await asyncio.open_unix_connection(server.target.removeprefix("unix:"))
    writer.write(PREFACE + frame(f.T_SETTINGS, 0, 0))
    return reader, writer


def request(stream: int, method: bytes, *messages: bytes, flags: int = 0) -> bytes:
    path = b"/x/" + method
    block = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x0f\x10\x10application/grpc"
    payload = b"".join(b"\0" + len(data).to_bytes(4, "big") + data for data in messages)
    return frame(f.T_HEADERS, END_HEADERS, stream, block) + frame(f.T_DATA, flags, stream, payload)


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Type and payload of the next frame."""
    head = await reader.readexactly(9)
    return head[3], await reader.readexactly(int.from_bytes(head[:3], "big"))


async def ping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the server has read all that was written before."""
    mark = os.urandom(8)
    writer.write(frame(f.T_PING, 0, 0, mark))
    while await read_frame(reader) != (f.T_PING, mark):
        pass


def test_a_violation_gets_goaway_and_then_the_end_and_the_others_go_on(address, split, serving):
    async def main():
        async with serving(address) as (server, app):
            good_reader, good_writer = await connect(server)
            bad_reader, bad_writer = await connect(server)
            bad_writer.write(request(1, b"Wait", b"x"))
            await app.until(lambda: app.waiting == 1)
            # More than the server reads at once, so that closing at once would lose its last words.
            bad_writer.write(frame(f.T_PING, 0, 1, bytes(8)) + bytes(3 * MIB))
            *_, goaway = split(await bad_reader.read())
            assert goaway.kind == f.T_GOAWAY
            assert b"frame of type 6 on stream 1" in goaway.payload
            assert app.cancelled == ["Wait"]
            bad_writer.close()
            good_writer.write(request(1, b"Unary", b"x", flags=END_STREAM))
            while await read_frame(good_reader) != (f.T_DATA, b"\0\0\0\0\5got x"):
                pass
            good_writer.close()

    asyncio.run(main())


def test_pausing_a_call_stops_reading_from_its_client_alone(address, serving):
    async def main():
        async with serving(address) as (server, app):
            _, writer = await connect(server)
            writer.write(request(1, b"Wait", b"first"))
            await app.until(lambda: app.waiting == 1)
            app.calls[0].pause_reading()
            writer.write(frame(f.T_DATA, 0, 1, b"\0\0\0\0\0"))
            other_reader, other_writer = await connect(server)
            for _ in range(5):
                await ping(other_reader, other_writer)
            assert app.waiting == 1
            app.calls[0].resume_reading()
            await app.until(lambda: app.waiting == 2)
            # All clients, also one that comes meanwhile.
            server.pause_reading()
            late_reader, late_writer = await connect(server)
            for w in (writer, other_writer, late_writer):
                w.write(request(5, b"Wait", b"x"))
            for _ in range(10):
                # Turns of the loop in which the server could have read.
                await asyncio.sleep(0)
            assert app.waiting == 2
            server.resume_reading()
            await app.until(lambda: app.waiting == 5)
            await ping(late_reader, late_writer)
            for w in (writer, other_writer, late_writer):
                w.close()

    asyncio.run(main())


def test_that_a_client_has_left_is_heard_though_nothing_is_read(address, serving):
    async def main():
        async with serving(address) as (server, app):
            _, writer = await connect(server)
            _, other = await connect(server)
            for w in (writer, other):
                w.write(request(1, b"Wait", b"x"))
            await app.until(lambda: app.waiting == 2)
            server.pause_reading()
            for w in (writer, other):
                w.write(frame(f.T_DATA, 0, 1, b"\0\0\0\0\1y"))
            await writer.drain()
            writer.close()
            await app.until(lambda: app.cancelled == ["Wait"])
            assert app.waiting == 3
            other.close()

    asyncio.run(main())


def test_a_busy_port_is_an_error(serving, make_app):
    async def main():
        async with serving({"port": 0}) as (server, _):
            with pytest.raises(OSError, match="in use"):
                await GrpcServer.start(make_app(), port=server.port)

    asyncio.run(main())


def test_a_busy_socket_file_is_an_error_and_a_stale_one_is_replaced(tmp_path, serving, make_app):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    async def main():
        async with serving({"path": path}) as (server, _):
            with pytest.raises(OSError, match="another server listens on this socket"):
                await GrpcServer.start(make_app(), path=path)
            reader, writer = await connect(server)
            assert await reader.read(9)
            writer.close()
        path.write_text("mine")
        with pytest.raises(OSError, match="no socket"):
            await GrpcServer.start(make_app(), path=path)
        assert path.read_text() == "mine"

    asyncio.run(main())


def test_an_address_is_either_a_path_or_a_port(tmp_path, make_app):
    with pytest.raises(ValueError, match="give either path, or host and port"):
        asyncio.run(GrpcServer.start(make_app(), path=tmp_path / "s", port=5))


class Transport(asyncio.Transport):
    """Counts writes. `room` bytes fit, then it is full."""

    def __init__(self, room: int = 1 << 40) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.room = room
        self.protocol: _Connection

    def write(self, data) -> None:
        self.writes.append(bytes(data))
        self.room -= len(data)
        if self.room < 0:
            self.protocol.pause_writing()

    def set_write_buffer_limits(self, high=None, low=None) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False


def connected(app, room: int = 1 << 40) -> tuple[_Connection, Transport]:
    transport = Transport(room)
    transport.protocol = connection = _Connection(GrpcServer(app, Limits()), app, Limits())
    connection.connection_made(transport)
    connection.data_received(
        PREFACE + frame(f.T_SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff") + frame(f.T_WINDOW_UPDATE, 0, 0, b"\x7f\0\0\0")
    )
    transport.writes.clear()
    return connection, transport


def test_output_of_one_input_is_one_write(split, make_app):
    async def main():
        app = make_app()
        connection, transport = connected(app)
        connection.data_received(
            request(1, b"Unary", b"a")
            + request(3, b"Unary", b"b")
            + frame(f.T_PING, 0, 0, bytes(8))
            + request(5, b"Wait", b"c")
        )
        (data,) = transport.writes
        assert {x.stream for x in split(data)} == {0, 1, 3}
        # Written outside of any input: together, at the next turn of the loop.
        app.calls[2].write(b"d")
        app.calls[2].write(b"e")
        app.calls[2].finish()
        assert len(transport.writes) == 1
        await asyncio.sleep(0)
        assert len(transport.writes) == 2
        connection.connection_lost(None)

    asyncio.run(main())


def test_a_full_transport_is_left_alone_until_it_has_room(split, make_app):
    async def main():
        app = make_app()
        connection, transport = connected(app, room=600_000)
        connection.data_received(request(1, b"Download", b"4", flags=END_STREAM))
        for _ in range(20):
            await asyncio.sleep(0)
        assert 600_000 < sum(map(len, transport.writes)) < 600_000 + 400_000
        assert all(len(data) < 300_000 for data in transport.writes)
        transport.room = 1 << 40
        before = len(transport.writes)
        connection.resume_writing()
        assert len(transport.writes) == before, "asyncio does not bear it"
        for _ in range(20):
            await asyncio.sleep(0)
        payload = b"".join(x.payload for x in split(b"".join(transport.writes)) if x.kind == f.T_DATA)
        assert payload == (b"\0" + MIB.to_bytes(4, "big") + make_app.PIECE) * 4
        connection.connection_lost(None)

    asyncio.run(main())


def test_a_connection_that_begins_with_other_bytes_is_given_to_whom_they_name(short_directory):
    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(b"got " + data)

    async def main():
        path = str(short_directory / "s")
        server = await GrpcServer.start(lambda call: None, path=path, others={b"ELSEWISE": Echo})
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"ELSE")
        await writer.drain()
        writer.write(b"WISE!")
        assert await reader.readexactly(13) == b"got ELSEWISE!"
        writer.close()
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        assert (await reader.readexactly(9))[3] == 4
        writer.close()
        await server.close()

    asyncio.run(main())


async def start_with_others(path, refused):
    return await GrpcServer.start(
        lambda call: None, path=path, others={b"ELSEWISE": asyncio.Protocol}, refused=refused.put_nowait
    )


def test_a_connection_that_does_not_say_what_it_speaks_is_dropped(short_directory, monkeypatch):
    monkeypatch.setattr(front_server, "_PATIENCE", 0.1)

    async def main():
        refused = asyncio.Queue()
        server = await start_with_others(str(short_directory / "s"), refused)
        reader, writer = await asyncio.open_unix_connection(str(short_directory / "s"))
        writer.write(b"ELSE")
        assert await refused.get() is True
        assert await reader.read() == b""
        assert not server._doorways
        writer.close()
        await server.close()

    asyncio.run(main())


def test_the_oldest_of_too_many_that_say_nothing_is_dropped(short_directory, monkeypatch):
    monkeypatch.setattr(front_server, "_MOST_SILENT", 2)

    async def main():
        refused = asyncio.Queue()
        path = str(short_directory / "s")
        server = await start_with_others(path, refused)
        connections = [await asyncio.open_unix_connection(path) for _ in range(3)]
        assert await refused.get() is True
        assert await connections[0][0].read() == b""
        connections[2][1].write(PREFACE + frame(f.T_SETTINGS, 0, 0))
        assert (await read_frame(connections[2][0]))[0] == f.T_SETTINGS
        await server.close()
        assert await connections[1][0].read() == b""
        for _, writer in connections:
            writer.close()

    asyncio.run(main())


def test_a_connection_that_speaks_something_else_is_told_of(short_directory):
    async def main():
        refused = asyncio.Queue()
        server = await start_with_others(str(short_directory / "s"), refused)
        _, writer = await asyncio.open_unix_connection(str(short_directory / "s"))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await refused.get() is False
        writer.close()
        await server.close()

    asyncio.run(main())
