"""The page of metrics over HTTP, to visitors of all kinds."""

import asyncio

import pytest

from elastic.controller import metrics_server
from elastic.controller.metrics_server import MOST, MetricsServer
from tests.elastic.connections import run

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


class Visitors:
    """A server, and whoever comes to it."""

    def __init__(self):
        self.pages = 0
        self.server = MetricsServer(self._page, "text/plain")

    def _page(self):
        self.pages += 1
        return b"the page\n"

    async def connect(self):
        host, port = self.server.address.split(":")
        return await asyncio.open_connection(host, int(port))

    async def ask(self, request):
        reader, writer = await self.connect()
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer.decode()


def visiting(play):
    """Runs a story with a server."""

    async def main():
        visitors = Visitors()
        await visitors.server.start("127.0.0.1", 0)
        try:
            await play(visitors)
        finally:
            visitors.server.close()

    run(main())


def test_who_asks_gets_the_page():
    async def play(visitors):
        answer = await visitors.ask(REQUEST)
        assert answer.startswith("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n")
        assert answer.endswith("\r\n\r\nthe page\n")
        assert "the page" in await visitors.ask(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n")

    visiting(play)


def test_head_gets_no_page():
    async def play(visitors):
        answer = await visitors.ask(b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert "Content-Length: 9\r\n" in answer
        assert answer.endswith("\r\n\r\n")

    visiting(play)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\xff\x00\x16\x03\x01\r\n\r\n", 400),
        (b"GET /metrics SMTP\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"x" * 9000, 431),
    ],
)
def test_who_asks_for_something_else_is_told_so(asked, status):
    async def play(visitors):
        assert (await visitors.ask(asked)).startswith(f"HTTP/1.1 {status} ")
        assert visitors.pages == 0

    visiting(play)


def test_a_askedmay_come_byte_by_byte():
    async def play(visitors):
        reader, writer = await visitors.connect()
        for byte in REQUEST:
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await reader.read()).endswith(b"the page\n")
        writer.close()

    visiting(play)


def test_many_that_ask_at_once_cost_one_page():
    async def play(visitors):
        answers = await asyncio.gather(*(visitors.ask(REQUEST) for _ in range(30)))
        assert all(answer.endswith("the page\n") for answer in answers)
        assert visitors.pages <= 2  # A second one if that took more than a second.

    visiting(play)


def test_those_that_say_nothing_make_room_for_others_and_are_not_kept_for_long(monkeypatch):
    monkeypatch.setattr(metrics_server, "PATIENCE_S", 0.2)

    async def play(visitors):
        silent = [await visitors.connect() for _ in range(MOST + 5)]
        assert await silent[0][0].read() == b""
        assert (await visitors.ask(REQUEST)).endswith("the page\n")
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()

    visiting(play)


def test_who_does_not_take_the_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(metrics_server, "PATIENCE_S", 0.2)

    async def play(visitors):
        gone, left = asyncio.Event(), visitors.server.left
        visitors.server.left = lambda visit: (left(visit), gone.set())
        visitors.server._page = lambda: b"x" * (64 << 20)
        reader, writer = await visitors.connect()
        writer.write(REQUEST)
        await reader.readexactly(1)
        reader._transport.pause_reading()
        await gone.wait()
        writer.close()

    visiting(play)
