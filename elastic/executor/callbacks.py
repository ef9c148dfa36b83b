"""Host callbacks on the executor's side: stubs that call functions of the client and wait for what they return.

A stub may be called on any thread, also on the one that reads commands, so answers come over a connection of their own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from jaxlib._jax import ffi

from elastic import wire
from elastic.callback_values import pack, unpack
from elastic.status import Code, StatusError


class Callbacks:
    """The connection over which this executor calls the client."""

    def __init__(self) -> None:
        self._channel: wire.Channel | None = None
        self._connected = threading.Event()
        self._calls = itertools.count(1)
        self._lock = threading.Lock()
        self._ended = False
        self._waiting: dict[int, Future[tuple[Any, memoryview]]] = {}
        self.snapshot = 0
        """The number of the last snapshot before the calls that are made now."""

    def serve(self, channel: wire.Channel) -> None:
        """Takes answers from the controller until the connection ends.

        Raises `FrameError` if something else comes. The channel is closed in any case.
        """
        self._channel = channel
        self._connected.set()
        try:
            while True:
                message, payload = channel.receive()
                call, code, result = _parse(message)
                waiting = self._waiting.pop(call, None)
                if waiting is None:
                    continue
                if code:
                    waiting.set_exception(StatusError(code, result))
                else:
                    waiting.set_result((result, payload))
        except (OSError, EOFError):
            pass
        finally:
            channel.close()
            with self._lock:
                self._ended = True
                waiting_ones, self._waiting = list(self._waiting.values()), {}
            for one in waiting_ones:
                one.set_exception(_ended())

    def stub(self, number: int) -> Callable[..., tuple[np.ndarray | None, ...]]:
        """A function for XLA to call in place of the client's function of this number."""

        def call(*arguments: Any) -> tuple[np.ndarray | None, ...]:
            if arguments and isinstance(arguments[0], ffi.ExecutionContext):
                self._fill(number, arguments[1:])
                return ()
            return self._call(number, arguments, None)

        return call

    def _fill(self, number: int, buffers: Sequence[Any]) -> None:
        """Calls the function of a buffer callback, and puts what it wrote into XLA's buffers."""
        values = [np.asarray(buffer) for buffer in buffers]
        writeable = [bool(buffer.writeable) for buffer in buffers]
        written = iter(self._call(number, values, writeable))
        for array, may_write in zip(values, writeable, strict=True):
            if may_write:
                array[...] = next(written)

    def _call(self, number: int, arguments: Sequence[Any], writeable: list[bool] | None) -> tuple[Any, ...]:
        description, payload = pack(arguments)
        self._connected.wait()
        assert self._channel is not None
        call = next(self._calls)
        answer: Future[tuple[Any, memoryview]] = Future()
        with self._lock:
            if self._ended:
                raise _ended()
            self._waiting[call] = answer
        try:
            self._channel.send([call, number, description, writeable, self.snapshot], payload)
        except OSError:
            raise _ended() from None
        return unpack(*answer.result())


def _parse(message: Any) -> tuple[int, int, Any]:
    match message:
        case [int(call), int(code), result]:
            return call, code, result
    raise wire.FrameError("it is no answer to a callback")


def _ended() -> StatusError:
    return StatusError(Code.UNAVAILABLE, "the connection to the controller ended")
