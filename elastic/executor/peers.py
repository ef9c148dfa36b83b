"""Shards that go from executor to executor, past the controller.

The sender pushes: it knows from the stream of commands what the receiver will expect, under the name (array, device).
A shard may arrive before or after its receiver's own stream asks for it. Sends leave in the order of the stream, so no
two hosts can wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from elastic import calling, wire
from elastic.dtypes import numpy_dtype
from elastic.status import StatusError, status_of

Name = tuple[int, int]
"""(array, device)."""


class Mailbox:
    """Shards by name: a future for whoever comes first, the receiver or the shard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Name, Future[Any]] = {}

    def expect(self, name: Name) -> Future[Any]:
        """The future of a shard; each name is expected once."""
        return self._take(name)

    def deliver(self, name: Name, shard: Any) -> None:
        """Fulfils the future of a shard, with an exception if `shard` is one."""
        future = self._take(name)
        if isinstance(shard, BaseException):
            future.set_exception(shard)
        else:
            future.set_result(shard)

    def _take(self, name: Name) -> Future[Any]:
        with self._lock:
            future = self._waiting.pop(name, None)
            if future is None:
                future = self._waiting[name] = Future()
            return future


class Outbox:
    """Sends shards to peers, in order, on a thread of its own."""

    def __init__(self, secret: bytes, generation: int) -> None:
        self._secret = secret
        self._generation = generation
        self._channels: dict[str, wire.Channel] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="to-peers")

    def send(self, address: str, name: Name, shard: Callable[[], Any], memory_kind: str | None) -> None:
        """Sends the shard that `shard()` gives, once it is computed, or the error that it raises.

        `memory_kind` is where the receiver is to put it.
        """
        self._thread.submit(self._send, address, name, shard, memory_kind)

    def _send(self, address: str, name: Name, shard: Callable[[], Any], memory_kind: str | None) -> None:
        channel = self._channels.get(address)
        if channel is None:
            hello = {"role": "peer", "generation": self._generation}
            channel = self._channels[address] = calling.dial(address, self._secret, hello)
        try:
            values = np.asarray(shard())
        except Exception as error:
            failure = status_of(error)
            channel.send([*name, int(failure.code), failure.message])
            return
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        channel.send([*name, 0, values.dtype.name, list(values.shape), memory_kind], data.data)


Place = Callable[[np.ndarray, int, str | None], Any]
"""Puts (values, virtual device, memory kind) on a device; the result is the shard."""


def receive(channel: wire.Channel, mailbox: Mailbox, place: Place) -> None:
    """Takes shards from one peer until it goes away, and puts each on its device.

    Raises `FrameError` if the peer sends something else. The channel is closed in any case.
    """
    try:
        while True:
            message, payload = channel.receive()
            name, code, text, rest = _parse(message)
            if code:
                mailbox.deliver(name, StatusError(code, text))
                continue
            try:
                shape, memory_kind = rest
                mailbox.deliver(name, place(host_array(payload, text, shape), name[1], memory_kind))
            except Exception as error:
                mailbox.deliver(name, status_of(error))
    except (OSError, EOFError):
        pass
    finally:
        channel.close()


def _parse(message: Any) -> tuple[Name, int, str, list[Any]]:
    match message:
        case [int(array), int(device), int(code), str(text), *rest]:
            return (array, device), code, text, rest
    raise wire.FrameError("it is no shard")


def host_array(data: memoryview, dtype: str, shape: list[int]) -> np.ndarray:
    """Received bytes as a numpy array, without a copy."""
    element = numpy_dtype(dtype)
    return np.frombuffer(data, element).reshape(shape) if len(data) else np.empty(shape, element)
