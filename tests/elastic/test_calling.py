"""Calling a listener of the pool: who is let in, and what becomes of those who are not."""

import socket

import pytest

from elastic import calling, door
from elastic.handshake import HandshakeError
from elastic.refusals import Reason
from tests.elastic.connections import PATIENCE, SECRET, all_frames, beside


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


def address_of(listener):
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_who_dials_and_who_accepts_get_to_know_each_other(listener):
    with beside(lambda: door.accept(listener.accept()[0], SECRET)) as accepted:
        ours = calling.dial(address_of(listener), SECRET, {"role": "peer", "generation": 3})
    hello, theirs = accepted.result()
    assert hello == {"role": "peer", "generation": 3}
    theirs.send("welcome", b"!")
    assert ours.receive() == ("welcome", b"!")
    ours.send("thanks")
    assert theirs.receive() == ("thanks", b"")
    ours.close()
    theirs.close()


def test_what_follows_the_hello_at_once_is_not_lost(listener):
    def dial():
        channel = calling.dial(address_of(listener), SECRET, "hello")
        for number in range(100):
            channel.send(number, b"x" * number)
        channel.close()

    with beside(dial):
        _, theirs = door.accept(listener.accept()[0], SECRET)
        assert [message for message, _ in all_frames(theirs)] == list(range(100))
    theirs.close()


def test_a_dialer_without_the_secret_is_refused_and_notices(listener):
    def accept():
        sock, _ = listener.accept()
        with sock, pytest.raises(HandshakeError) as refused:
            door.accept(sock, SECRET)
        assert refused.value.reason is Reason.FOREIGN_POOL

    with beside(accept), pytest.raises(HandshakeError, match="secret"):
        calling.dial(address_of(listener), b"a guess", "hello")


def test_a_listener_that_is_something_else_is_noticed(listener):
    def answer():
        sock, _ = listener.accept()
        with sock:
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\n" + bytes(100))
            sock.recv(1000)

    with beside(answer), pytest.raises(HandshakeError, match="not an elastic process"):
        calling.dial(address_of(listener), SECRET, "hello")


def test_a_connection_that_ends_in_the_handshake_is_the_end_of_the_file(listener):
    with beside(lambda: listener.accept()[0].close()), pytest.raises((EOFError, OSError)):
        calling.dial(address_of(listener), SECRET, "hello")
    with beside(lambda: socket.create_connection(listener.getsockname()).close()):
        sock, _ = listener.accept()
        with sock, pytest.raises(HandshakeError) as left:
            door.accept(sock, SECRET)
        assert left.value.reason is Reason.SILENT


def test_nobody_there_is_an_os_error(listener):
    address = address_of(listener)
    listener.close()
    with pytest.raises(OSError, match="refused"):
        calling.dial(address, SECRET, "hello")
