"""Connections of frames on the event loop."""

import asyncio
import itertools
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic import calling, wire
from elastic.handshake import HandshakeError
from tests.elastic.connections import SECRET, frames_server, run

MIB = 1 << 20
messages = st.lists(st.integers(0, 1 << 40) | st.text(max_size=10) | st.binary(max_size=30), max_size=4)
frames = st.lists(st.tuples(messages, st.binary(max_size=300)), min_size=1, max_size=8)


class Wire(asyncio.Transport):
    """A transport that notes what is written."""

    def __init__(self):
        super().__init__()
        self.writes = []
        self.aborted = False

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def write(self, data):
        self.writes.append(bytes(data))

    def writelines(self, parts):
        self.writes.append(b"".join(parts))

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True


class Heard:
    """What a link told its owner."""

    def __init__(self):
        self.frames = []
        self.reasons = []
        self.closed = asyncio.Event()
        self.changed = asyncio.Event()

    def received(self, message, payload):
        self.frames.append((message, bytes(payload)))
        self.changed.set()

    def lost(self, reason):
        self.reasons.append(reason)
        self.closed.set()

    async def frame(self):
        while not self.frames:
            self.changed.clear()
            await self.changed.wait()
        return self.frames.pop(0)


def on_a_wire():
    """(link, transport, heard); needs a running loop."""
    heard, transport = Heard(), Wire()
    link = wire.Link(heard.received, heard.lost)
    link.connection_made(transport)
    return link, transport, heard


def pieces(data, cuts):
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


@settings(deadline=None)
@given(frames, st.lists(st.integers(0, 3000), max_size=20))
def test_a_link_receives_the_same_frames_however_the_bytes_are_cut(sent, cuts):
    async def main():
        link, _, heard = on_a_wire()
        for piece in pieces(b"".join(wire.frame(*one) for one in sent), cuts):
            link.data_received(piece)
        assert heard.frames == [(message, payload) for message, payload in sent]
        assert heard.reasons == []

    run(main())


def test_a_link_receives_frames_byte_by_byte():
    async def main():
        sent = [([1, "two"], b"payload" * 30), ({"three": None}, b""), ([], bytes(1000))]
        link, _, heard = on_a_wire()
        for byte in b"".join(wire.frame(*one) for one in sent):
            link.data_received(bytes([byte]))
        assert heard.frames == sent

    run(main())


def test_a_frame_is_heard_as_soon_as_its_last_byte_is_there():
    async def main():
        link, _, heard = on_a_wire()
        data = wire.frame(["one"], b"payload")
        link.data_received(data[:-1])
        assert heard.frames == []
        link.data_received(data[-1:] + data[:5])
        assert heard.frames == [(["one"], b"payload")]

    run(main())


def test_frames_of_one_turn_of_the_loop_leave_in_one_write_and_in_order():
    async def main():
        link, transport, _ = on_a_wire()
        link.send(wire.frame_header([1], 3))
        link.send(b"abc")
        link.send(wire.frame([2]))
        assert transport.writes == []
        await asyncio.sleep(0)
        assert transport.writes == [wire.frame([1], b"abc") + wire.frame([2])]
        link.send(wire.frame([3]))
        await asyncio.sleep(0)
        assert transport.writes[1:] == [wire.frame([3])]

    run(main())


def test_a_closed_link_sends_nothing_and_says_once_that_it_closed():
    async def main():
        link, transport, heard = on_a_wire()
        link.send(wire.frame("too late"))
        link.close()
        await asyncio.sleep(0)
        assert transport.aborted
        assert transport.writes == []
        link.connection_lost(None)
        link.connection_lost(None)
        link.send(wire.frame("much too late"))
        link.close()
        await asyncio.sleep(0)
        assert heard.reasons == ["its connection closed"]
        assert transport.writes == []

    run(main())


def test_the_reason_names_what_broke_the_connection():
    async def main():
        link, _, heard = on_a_wire()
        link.connection_lost(ConnectionResetError("reset by peer"))
        assert heard.reasons == ["its connection broke (reset by peer)"]

    run(main())


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 100, struct.pack("<IQ", 0, 0), struct.pack("<IQ", 3, 9) + b"\xc1\xc1\xc1", b"\0" * 12],
    ids=["ones", "nothing", "no-msgpack", "zeros"],
)
def test_garbage_closes_the_link_with_a_reason(garbage):
    async def main():
        link, transport, heard = on_a_wire()
        link.data_received(wire.frame("good", b"p") + garbage)
        assert heard.frames == [("good", b"p")]
        link.connection_lost(None)
        assert len(heard.reasons) == 1
        assert "something else than frames" in heard.reasons[0]
        assert transport.aborted

    run(main())


def test_the_owner_hears_of_congestion_and_of_its_end():
    async def main():
        link, _, _ = on_a_wire()
        states = []
        link.on_congestion = lambda: states.append(link.congested)
        assert not link.congested
        link.pause_writing()
        link.resume_writing()
        assert states == [True, False]

    run(main())


def test_a_link_can_be_given_to_another_owner_between_two_frames():
    async def main():
        first, second = Heard(), Heard()

        def greet(message, payload):
            first.received(message, payload)
            link.redirect(second.received, second.lost)

        link = wire.Link(greet, first.lost)
        link.connection_made(Wire())
        link.data_received(wire.frame("hello") + wire.frame("order", b"1") + wire.frame("order", b"2"))
        link.connection_lost(None)
        assert (first.frames, first.reasons) == ([("hello", b"")], [])
        assert second.frames == [("order", b"1"), ("order", b"2")]
        assert second.reasons == ["its connection closed"]

    run(main())


def test_a_link_and_a_listener_talk():
    async def main():
        async with frames_server() as server:
            heard = Heard()
            link = await calling.open_link(server.address, SECRET, {"role": "test"}, heard.received, heard.lost)
            other = await server.connections.get()
            assert other.hello == {"role": "test"}
            link.send(wire.frame([1], b"there"))
            assert await other.read() == ([1], b"there")
            other.write([2], b"and back")
            assert await heard.frame() == ([2], b"and back")
            link.close()
            assert await other.until_gone() == []
            await heard.closed.wait()
        assert heard.reasons == ["its connection closed"]

    run(main())


def test_big_payloads_cross_both_ways_at_once():
    async def main():
        payload = bytes(range(256)) * (12 * MIB // 256) + b"end"
        async with frames_server() as server:
            heard = Heard()
            link = await calling.open_link(server.address, SECRET, 0, heard.received, heard.lost)
            other = await server.connections.get()
            link.send(wire.frame_header("up", len(payload)))
            link.send(memoryview(payload))
            link.send(wire.frame("after"))
            other.write("down", payload)
            other.write("after")
            got, after = await other.read(), await other.read()
            assert got == ("up", payload)
            assert after == ("after", b"")
            assert await heard.frame() == ("down", payload)
            assert await heard.frame() == ("after", b"")
            link.close()

    run(main())


@pytest.mark.parametrize("garbage", [b"\xff" * 100, struct.pack("<IQ", 1, 1 << 63) + b"\x01"], ids=["ones", "endless"])
def test_garbage_on_one_link_disturbs_no_other(garbage):
    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with frames_server() as server:
            links = {}
            for name in "ab":
                heard = Heard()
                link = await calling.open_link(server.address, SECRET, name, heard.received, heard.lost)
                links[name] = link, heard, await server.connections.get()
            link, heard, other = links["a"]
            other.write_raw(garbage)
            await heard.closed.wait()
            assert len(heard.reasons) == 1
            assert await other.until_gone() == []
            link, heard, other = links["b"]
            link.send(wire.frame("still"))
            assert await other.read() == ("still", b"")
            other.write("here")
            assert await heard.frame() == ("here", b"")
            link.close()

    run(main())


def test_the_end_of_the_other_side_is_the_end_of_the_link():
    async def main():
        async with frames_server() as server:
            heard = Heard()
            await calling.open_link(server.address, SECRET, 0, heard.received, heard.lost)
            other = await server.connections.get()
            other.write("last words")
            other._writer.close()
            await heard.closed.wait()
            assert heard.frames == [("last words", b"")]
            assert heard.reasons == ["its connection closed"]

    run(main())


def test_a_link_to_one_who_knows_another_secret_is_refused():
    async def main():
        async with frames_server(b"another") as server:
            with pytest.raises(HandshakeError, match="secret"):
                await calling.open_link(server.address, SECRET, 0, print, print)

    run(main())


def test_a_link_to_one_who_hangs_up_is_the_end_of_the_file():
    async def main():
        server = await asyncio.start_server(lambda _, writer: writer.transport.abort(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        with pytest.raises((EOFError, OSError)):
            await calling.open_link(f"{host}:{port}", SECRET, 0, print, print)
        server.close()

    run(main())


def test_a_link_to_nobody_is_an_os_error():
    async def main():
        async with frames_server() as server:
            address = server.address
        with pytest.raises(OSError, match=r"[Cc]onnect"):
            await calling.open_link(address, SECRET, 0, print, print)

    run(main())
