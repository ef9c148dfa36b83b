"""Where connections come in: what they are told, how long they may take, and how many there may be."""

import asyncio
import contextlib
import queue
import socket
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elastic import calling, wire
from elastic.door import Door, ThreadedDoor, Visit
from elastic.handshake import OTHER_POOL, REPLY_BYTES, Dialer, HandshakeError
from elastic.refusals import Reason
from elastic.tls import FIRST_BYTES
from tests.elastic.connections import PATIENCE, SECRET

HELLO = {"role": "peer", "generation": 3}


def pieces(data, sizes):
    while data:
        size = sizes.pop() if sizes else len(data)
        yield data[:size]
        data = data[size:]


@settings(deadline=None)
@given(st.lists(st.integers(1, 20)))
def test_a_visit_is_the_same_however_the_bytes_are_cut(sizes):
    visit, dialer = Visit(SECRET), Dialer(SECRET)
    reply = b"".join([visit.receive(piece) for piece in pieces(dialer.opening(), sizes)])
    for piece in pieces(dialer.proof(reply) + wire.frame(HELLO), sizes):
        assert not visit.done
        assert visit.receive(piece) == b""
    assert (visit.done, visit.hello, visit.rest) == (True, HELLO, b"")


def test_what_comes_behind_the_hello_is_kept():
    visit, dialer = Visit(SECRET), Dialer(SECRET)
    visit.receive(dialer.proof(visit.receive(dialer.opening())) + wire.frame(HELLO) + b"behind")
    assert (visit.hello, visit.rest) == (HELLO, b"behind")


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=100).filter(lambda data: not data.startswith(b"E")))
@example(FIRST_BYTES[:1])
@example(FIRST_BYTES[:1] + b"?")
@example(FIRST_BYTES)
def test_garbage_is_refused_at_its_first_byte_that_is_not_that_of_tls(data):
    visit = Visit(SECRET)
    if data == FIRST_BYTES[:1]:
        assert visit.receive(data) == b""
        data = b"?"
    with pytest.raises(HandshakeError) as refused:
        visit.receive(data)
    assert refused.value.reason is (Reason.TLS if data.startswith(FIRST_BYTES) else Reason.GARBAGE)


def test_who_leaves_is_counted_by_how_far_it_came():
    visit, dialer = Visit(SECRET), Dialer(SECRET)
    assert visit.left().reason is Reason.SILENT
    opening = dialer.opening()
    visit.receive(opening[:10])
    assert visit.left().reason is Reason.GARBAGE
    reply = visit.receive(opening[10:])
    assert visit.left().reason is Reason.WRONG_SECRET
    visit.receive(dialer.proof(reply))
    assert visit.left().reason is Reason.GARBAGE


class OnTheLoop:
    """A door in an event loop of its own thread."""

    def __init__(self, served, refused, settings):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        def serve(hello, link):
            served.put(hello)
            link.redirect(lambda message, _: link.send(wire.frame(message)), lambda _: None)

        async def start():
            door = Door(SECRET, serve, refused, **settings)
            return await self._loop.create_server(door, "127.0.0.1", 0)

        self._server = asyncio.run_coroutine_threadsafe(start(), self._loop).result(PATIENCE)
        self.address = self._server.sockets[0].getsockname()

    def close(self):
        async def stop():
            self._server.close()
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class InThreads:
    def __init__(self, served, refused, settings):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()

        def serve(hello, channel, who):
            assert who.startswith("127.0.0.1:")
            served.put(hello)
            while True:
                channel.send(channel.receive()[0])

        door = ThreadedDoor(self._listener, SECRET, serve, refused, **settings)
        self._thread = threading.Thread(target=door.run)
        self._thread.start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)


class At:
    """A door and what happens there."""

    def __init__(self, kind, **settings):
        self.served = queue.SimpleQueue()
        self._refused = queue.SimpleQueue()
        self._door = kind(self.served, lambda *what: self._refused.put(what), settings)
        self.name = wire.parse_address("{}:{}".format(*self._door.address))

    def connect(self):
        return socket.create_connection(self.name, PATIENCE)

    def dial(self, hello=HELLO, secret=SECRET):
        return calling.dial("{}:{}".format(*self.name), secret, hello, PATIENCE)

    def refused(self):
        """The (reason, words) of the next refusal."""
        return self._refused.get(timeout=PATIENCE)

    def close(self):
        self._door.close()


@pytest.fixture(params=[OnTheLoop, InThreads])
def door(request):
    """Makes a door with settings."""
    with contextlib.ExitStack() as stack:

        def make(**settings):
            made = At(request.param, **settings)
            stack.callback(made.close)
            return made

        yield make


def until_closed(sock):
    with sock, contextlib.suppress(ConnectionError):
        return sock.recv(1000)


def test_who_proves_the_secret_is_served(door):
    at = door()
    channel = at.dial()
    assert at.served.get(timeout=PATIENCE) == HELLO
    channel.send(["said", 1])
    assert channel.receive()[0] == ["said", 1]
    channel.close()


def test_who_says_nothing_is_dropped_after_a_while(door):
    at = door(patience_s=0.2)
    assert not until_closed(at.connect())
    reason, words = at.refused()
    assert reason is Reason.SILENT
    assert words.startswith("127.0.0.1:")
    assert "within" in words


def test_time_is_up_for_who_drips_as_well(door):
    at = door(patience_s=0.3)
    ended = threading.Event()
    with at.connect() as sock:

        def drip():
            with contextlib.suppress(OSError):
                for byte in Dialer(SECRET).opening():
                    sock.send(bytes([byte]))
                    ended.wait(0.05)  # All of it would take 2.4 s.

        thread = threading.Thread(target=drip)
        thread.start()
        assert at.refused()[0] is Reason.SILENT
        ended.set()
        thread.join(PATIENCE)


def test_time_is_up_for_who_proves_the_secret_and_does_not_say_hello(door):
    at = door(patience_s=0.3)
    with at.connect() as sock:
        dialer = Dialer(SECRET)
        sock.sendall(dialer.opening())
        sock.sendall(dialer.proof(sock.recv(REPLY_BYTES, socket.MSG_WAITALL)))
        assert at.refused()[0] is Reason.SILENT


def test_the_oldest_makes_room_when_too_many_say_nothing(door):
    at = door(most=3)
    silent = [at.connect() for _ in range(3)]
    channel = at.dial()
    assert at.served.get(timeout=PATIENCE) == HELLO
    assert at.refused()[0] is Reason.SILENT
    assert not until_closed(silent.pop(0))
    channel.send("still there")
    assert channel.receive()[0] == "still there"
    channel.close()
    for one in silent:
        one.close()


def test_who_is_of_another_pool_is_told_so_and_nothing_else(door):
    at = door()
    with at.connect() as sock:
        sock.sendall(Dialer(b"another").opening())
        assert sock.recv(1000, socket.MSG_WAITALL) == OTHER_POOL
    assert at.refused()[0] is Reason.FOREIGN_POOL
    with pytest.raises(HandshakeError, match="it is of another pool"):
        at.dial(secret=b"another")


def test_who_is_proven_and_sends_no_frames_is_counted_too(door):
    at = door()
    with at.connect() as sock:
        dialer = Dialer(SECRET)
        sock.sendall(dialer.opening())
        sock.sendall(dialer.proof(sock.recv(REPLY_BYTES, socket.MSG_WAITALL)) + wire.frame(HELLO) + b"\xff" * 100)
        reason, words = at.refused()
    assert reason is Reason.GARBAGE
    assert "which knows the secret" in words


def test_no_refusal_repeats_what_a_stranger_sent_or_a_secret(door):
    at = door()
    for sent in (b"password=hunter2\r\n" * 10, Dialer(b"hunter2").opening()):
        with at.connect() as sock:
            sock.sendall(sent)
            _, words = at.refused()
            assert "hunter2" not in words
            assert SECRET.decode() not in words
