"""`GET /metrics` over HTTP/1: a page that somebody else makes, to whoever asks.

On the controller's event loop, so nothing here waits, and no number of visitors may cost much: a page is made at most
once a second, only so many connections stand at a time, and none for long. Not for: any other path or method.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATH = "/metrics"

MOST = 64
"""Connections at a time; another one takes the place of the oldest."""

PATIENCE_S = 10.0
"""Seconds in which a request must have come and its answer been taken."""

_MOST_REQUEST = 8 << 10
"""Bytes of a request."""

_FRESH_S = 1.0
"""Seconds for which a page is given again."""


class MetricsServer:
    """Serves one page at one address."""

    def __init__(self, page: Callable[[], bytes], media_type: str) -> None:
        self.address = ""
        """Where it listens, as HOST:PORT, once it does."""
        self._page = page
        self._media_type = media_type
        self._made = b""
        self._stale_at = float("-inf")
        self._visits: dict[_Visit, None] = {}
        """The oldest first."""
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listens; port 0 is any that is free. Raises `OSError`."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Visit(self), host, port)
        name = self._server.sockets[0].getsockname()
        self.address = f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for visit in list(self._visits):
            visit.leave()

    def enter(self, visit: _Visit) -> None:
        """A connection more."""
        self._visits[visit] = None
        if len(self._visits) > MOST:
            next(iter(self._visits)).leave()

    def left(self, visit: _Visit) -> None:
        """A connection less."""
        self._visits.pop(visit, None)

    def answer(self, request: bytes) -> bytes:
        """The whole answer to a request, of which the head is there."""
        words = request.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return self._refusal("400 Bad Request")
        method, target, _ = words
        if target.split(b"?", 1)[0] != PATH.encode():
            return self._refusal("404 Not Found")
        if method not in (b"GET", b"HEAD"):
            return self._refusal("405 Method Not Allowed")
        now = asyncio.get_running_loop().time()
        if now >= self._stale_at:
            self._made, self._stale_at = self._page(), now + _FRESH_S
        return _answer("200 OK", self._media_type, self._made, body=method == b"GET")

    def too_long(self) -> bytes:
        """The answer to a request that does not end."""
        return self._refusal("431 Request Header Fields Too Large")

    def _refusal(self, status: str) -> bytes:
        return _answer(status, "text/plain", f"{status}; there is GET {PATH}\n".encode())


class _Visit(asyncio.Protocol):
    """One connection, with one request and its answer."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._request = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.leave)
        self._server.enter(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        self._request += data
        if b"\r\n\r\n" in self._request:
            self._transport.write(self._server.answer(self._request))
        elif len(self._request) > _MOST_REQUEST:
            self._transport.write(self._server.too_long())
        else:
            return
        self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._server.left(self)

    def leave(self) -> None:
        """Ends it, whatever is still to be said."""
        self._server.left(self)
        if self._transport is not None:
            self._transport.abort()


def _answer(status: str, media_type: str, content: bytes, *, body: bool = True) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media_type}", f"Content-Length: {len(content)}"]
    head = "\r\n".join([*lines, "Connection: close", "", ""]).encode()
    return head + content if body else head
