"""Has the hosts of a pool write arrays of this program to disk, as they are now; the client's side of `named_saves`.

The arrays are marked by running a program that takes them and does nothing: so the controller learns which they are,
and at which point between this program's operations. They may be donated right after.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from elastic import calling, plugin, wire
from elastic import client_environment as variables
from elastic.errors import CheckpointError, PoolError
from elastic.handshake import HandshakeError

Named = tuple[tuple[str | int, ...], Any, str | None]
"""(path in the tree, a jax.Array or a numpy array, implementation of random keys whose raw values it has)."""


def elastic_mark(*arrays: jax.Array) -> jax.Array:
    """The controller knows this program by its name."""
    return jnp.zeros((), jnp.int8)


_mark = jax.jit(elastic_mark, keep_unused=True)


class HostSaves:
    """The connection of this program to its controller for this; one is enough."""

    def __init__(self) -> None:
        """Raises `PoolError` if the controller cannot be reached."""
        address = os.environ[variables.CONTROLLER]
        secret = bytes.fromhex(plugin.token(address).decode())
        try:
            self._channel = calling.dial(address.removeprefix("grpc://"), secret, {"role": "saves"}, to_controller=True)
        except (OSError, EOFError, HandshakeError) as error:
            raise PoolError(f"the controller at {address} cannot be reached: {error}") from error
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._marks = 0
        self._waiting: dict[int, Future[tuple[Path, int]]] = {}
        self._gone = False
        threading.Thread(target=self._serve, name="elastic-saves", daemon=True).start()

    def save(
        self, root: Path, step: int, writer: str, leaves: Sequence[Named], extra: Mapping[str, Any]
    ) -> Future[tuple[Path, int]]:
        """Begins to save a tree as a step in a directory that the controller and all hosts see.

        `writer` names the script towards others that write there. The result is the step's folder and its bytes, once
        it is durable; it raises `CheckpointError` if that failed. Raises what JAX does for arrays that are no more.
        """
        groups: dict[Any, list[Named]] = {}
        small = [leaf for leaf in leaves if not isinstance(leaf[1], jax.Array)]
        for leaf in leaves:
            if isinstance(leaf[1], jax.Array):
                groups.setdefault(tuple(leaf[1].sharding._device_assignment), []).append(leaf)
        first = self._marks
        for group in groups.values():
            _mark(*(array for _, array, _ in group))
            self._marks += 1
        described: list[list[Any]] = [[list(path), key, None] for group in groups.values() for path, _, key in group]
        data = bytearray()
        for path, value, _ in small:
            values = np.ascontiguousarray(value)
            described.append([list(path), None, [values.dtype.name, list(values.shape), values.nbytes]])
            data += values.tobytes()
        future: Future[tuple[Path, int]] = Future()
        number = next(self._numbers)
        message = [number, first, len(groups), str(root.absolute()), step, writer, described, dict(extra)]
        with self._lock:
            if not self._gone:
                self._waiting[number] = future
        try:
            self._channel.send(message, bytes(data))
        except OSError:
            self._end()
        if self._gone and not future.done():
            future.set_exception(_gone())
        return future

    def _serve(self) -> None:
        try:
            while True:
                (number, path, size, problem), _ = self._channel.receive()
                with self._lock:
                    future = self._waiting.pop(number)
                if problem:
                    future.set_exception(CheckpointError(problem))
                else:
                    future.set_result((Path(path), size))
        except (OSError, EOFError, wire.FrameError):
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._gone = True
            waiting, self._waiting = self._waiting, {}
        self._channel.close()
        for future in waiting.values():
            future.set_exception(_gone())


def _gone() -> CheckpointError:
    return CheckpointError("the controller is gone, and with it what was to be saved")
