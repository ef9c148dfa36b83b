"""The way of host callbacks between executors and the client.

A call comes from an executor under its own number, goes to the client under one of ours, and its answer goes back. Call
0 tells the client which functions nothing calls any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from elastic import wire
from elastic.status import Code


class CallbackSwitch:
    """Connects the executors' calls with the client that answers them."""

    def __init__(self) -> None:
        self._client: wire.Link | None = None
        self._calls = itertools.count(1)
        self._waiting: dict[int, tuple[wire.Link, int]] = {}

    def serve_client(self, hello: dict[str, Any], link: wire.Link) -> None:
        """Takes a client's connection; it replaces the last one's."""
        if hello.get("role") != "callbacks":
            link.close()
            return
        self._drop_client()
        self._client = link
        link.redirect(self._answered, lambda _: self._client_left(link))

    def called(self, executor: wire.Link, message: list[Any], payload: wire.Bytes) -> None:
        """An executor calls: [call, number, description, which may be written or None] + arguments."""
        call, number, description, writeable = message
        if self._client is None:
            executor.send(wire.frame([call, int(Code.UNAVAILABLE), _NO_CLIENT]))
            return
        ours = next(self._calls)
        self._waiting[ours] = (executor, call)
        self._client.send(wire.frame([ours, number, description, writeable], payload))

    def forget(self, functions: Sequence[int]) -> None:
        """Tells the client that nothing calls these functions any more."""
        if self._client is not None:
            self._client.send(wire.frame([0, 0, list(functions), None]))

    def _answered(self, message: list[Any], payload: wire.Bytes) -> None:
        ours, code, result = message
        waiting = self._waiting.pop(ours, None)
        if waiting is not None:
            executor, call = waiting
            executor.send(wire.frame([call, code, result], payload))

    def _client_left(self, link: wire.Link) -> None:
        if self._client is link:
            self._drop_client()

    def _drop_client(self) -> None:
        self._client = None
        waiting, self._waiting = self._waiting, {}
        for executor, call in waiting.values():
            executor.send(wire.frame([call, int(Code.UNAVAILABLE), _NO_CLIENT]))


_NO_CLIENT = "the client that holds this callback is gone"
