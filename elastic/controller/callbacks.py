"""The way of host callbacks between executors and the client, and the account of them: each runs exactly once.

A call comes from an executor under its own number, goes to the client under one of ours, and its answer goes back. Call
0 tells the client which functions nothing calls any more.

What was called since the snapshot that a run might go back to is kept with its result. A world that is told the
journal again makes the same calls again; these are answered from the account, by function and arguments, in the order
in which they were first made.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgpack

from elastic import wire
from elastic.controller import history
from elastic.host_memory import digest_of
from elastic.status import Code


class Callee(Protocol):
    """Who hears the calls that executors make."""

    def called(self, executor: wire.Link, message: list[Any], payload: wire.Bytes) -> None: ...


_Key = tuple[int, bytes]
"""(function, digest of what it was called with)."""


@dataclass(slots=True, eq=False)
class _Call:
    """One call of a function of the client.

    Attributes:
        snapshot: the last snapshot before it, of the world that made it last.
        result: (message without the call's number, payload), once the client has answered.
        caller: who waits for it: an executor's link and its number of the call.
        made: whether the world that there is has made it.
    """

    key: _Key
    snapshot: int
    caller: tuple[wire.Link, int] | None
    result: tuple[list[Any], wire.Bytes] | None = None
    made: bool = True

    def answer(self) -> None:
        """Answers who waits, if the result is there."""
        if self.caller is not None and self.result is not None:
            link, number = self.caller
            message, payload = self.result
            link.send(wire.frame([number, *message], payload))
            self.caller = None


class Account:
    """Answers the calls of an execution that is made for comparison only; none reaches the client."""

    def __init__(self, calls: Iterable[_Call]) -> None:
        self._results: dict[_Key, deque[tuple[list[Any], wire.Bytes]]] = {}
        for call in calls:
            if call.result is not None:
                self._results.setdefault(call.key, deque()).append(call.result)

    def called(self, executor: wire.Link, message: list[Any], payload: wire.Bytes) -> None:
        """As `CallbackSwitch.called`; a call that was not made before gets an error."""
        number, function, description, _, _ = message
        results = self._results.get(_key(function, description, payload))
        if results:
            result, answer = results.popleft()
            executor.send(wire.frame([number, *result], answer))
        else:
            executor.send(wire.frame([number, int(Code.INTERNAL), _ANOTHER_CALL]))


class CallbackSwitch:
    """Connects the executors' calls with the client that answers them."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        """Called when the client is called though it was not, and when it has answered all calls."""
        self._client: wire.Link | None = None
        self._numbers = itertools.count(1)
        self._running: dict[int, _Call] = {}
        self._calls: list[_Call] = []
        """All since the last snapshot that a run might go back to, in the order in which they were first made."""
        self._to_repeat: dict[_Key, deque[_Call]] = {}
        """Those that the world that there is has still to make."""

    @property
    def running(self) -> bool:
        """Whether the client has been called, and has not answered."""
        return bool(self._running)

    def serve_client(self, hello: dict[str, Any], link: wire.Link) -> None:
        """Takes a client's connection; it replaces the last one's."""
        if hello.get("role") != "callbacks":
            link.close()
            return
        self._drop_client()
        self._client = link
        link.redirect(self._answered, lambda _: self._client_left(link))

    def called(self, executor: wire.Link, message: list[Any], payload: wire.Bytes) -> None:
        """An executor calls: [call, number, description, which may be written or None, snapshot] + arguments."""
        number, function, description, writeable, snapshot = message
        key = _key(function, description, payload)
        repeated = self._to_repeat.get(key)
        if repeated:
            call = repeated.popleft()
            call.caller, call.snapshot, call.made = (executor, number), snapshot, True
            call.answer()
            history.tell("repeated", function=function, arguments=key[1])
            return
        if self._client is None:
            executor.send(wire.frame([number, int(Code.UNAVAILABLE), _NO_CLIENT]))
            return
        call = _Call(key, snapshot, (executor, number))
        self._calls.append(call)
        history.tell("callback", function=function, arguments=key[1])
        ours = next(self._numbers)
        self._running[ours] = call
        self._client.send(wire.frame([ours, function, description, writeable], payload))
        if len(self._running) == 1:
            self.on_change()

    def repeat(self, snapshot: int) -> None:
        """The world that made the calls is gone; the next one will make those behind this snapshot again."""
        self._to_repeat = {}
        for call in self._calls:
            call.caller = None
            if call.snapshot < snapshot and call.made:
                continue
            call.made = False
            self._to_repeat.setdefault(call.key, deque()).append(call)

    def account(self, first: int, second: int) -> Account:
        """Answers for an execution of what lies between two snapshots."""
        return Account(call for call in self._calls if first <= call.snapshot < second)

    def committed(self, snapshot: int) -> None:
        """Calls before this snapshot will not be made again."""
        self._calls = [call for call in self._calls if not call.made or call.snapshot >= snapshot]

    def not_again(self, functions: Collection[int]) -> None:
        """No world will make the calls of these functions again that were made until now."""
        self._calls = [call for call in self._calls if call.key[0] not in functions]
        self._to_repeat = {key: calls for key, calls in self._to_repeat.items() if key[0] not in functions}

    def clear(self) -> None:
        """No call will be made again."""
        self._calls, self._to_repeat = [], {}

    def forget(self, functions: Sequence[int]) -> None:
        """Tells the client that nothing calls these functions any more."""
        if self._client is not None:
            self._client.send(wire.frame([0, 0, list(functions), None]))

    def _answered(self, message: list[Any], payload: wire.Bytes) -> None:
        ours, *result = message
        call = self._running.pop(ours, None)
        if call is not None:
            call.result = (result, payload)
            call.answer()
            if not self._running:
                self.on_change()

    def _client_left(self, link: wire.Link) -> None:
        if self._client is link:
            self._drop_client()

    def _drop_client(self) -> None:
        self._client = None
        running, self._running = self._running, {}
        for call in running.values():
            call.result = ([int(Code.UNAVAILABLE), _NO_CLIENT], b"")
            call.answer()
        if running:
            self.on_change()


def _key(function: int, description: Any, payload: wire.Bytes) -> _Key:
    return function, digest_of(msgpack.packb(description) + bytes(payload))


_ANOTHER_CALL = "the client was not called like this when it was computed before"
_NO_CLIENT = "the client that holds this callback is gone"
