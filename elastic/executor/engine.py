"""Carries out the controller's commands, in order, on this host's devices.

The engine's thread never waits for a device: it starts programs and copies, and leaves waiting, reading and compiling
to helper threads that answer by themselves. What it may wait for is a shard that a peer is sending.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import core
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding
from jaxlib import _jax

from elastic import wire
from elastic.commands import Command
from elastic.dtypes import numpy_dtype
from elastic.executor.callbacks import Callbacks
from elastic.executor.peers import Mailbox, Outbox, host_array
from elastic.executor.programs import Programs, cost
from elastic.executor.snapshots import Record, Snapshots
from elastic.executor.store import Shard, Store, Value
from elastic.executor.world import Member
from elastic.host_memory import digest_of
from elastic.shared_files import map_file, write_file
from elastic.status import Code, StatusError, status_of

Part = list[list[int]]
"""[start, stop] for each dimension."""

_READERS = 4
_WAITERS = 32
"""Sets of devices whose programs may be waited for at once; a thread that is not needed is never started."""
_READ_AT_ONCE = 1 << 16
"""Bytes; to send more may take longer than to wake a thread that does it."""


class Engine:
    """One member of a world at work."""

    def __init__(
        self,
        member: Member,
        channel: wire.Channel,
        mailbox: Mailbox,
        outbox: Outbox,
        callbacks: Callbacks,
        memory: Path,
    ) -> None:
        """`memory` is the host's memory for snapshots."""
        self._member = member
        self._channel = channel
        self._mailbox = mailbox
        self._outbox = outbox
        self._store = Store()
        self._callbacks = callbacks
        self._programs = Programs(member, callbacks)
        self._shardings: dict[tuple[int, str | None], SingleDeviceSharding] = {}
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="reader")
        # One at a time: XLA's compiler uses all cores by itself.
        self._compiler = ThreadPoolExecutor(1, thread_name_prefix="compiler")
        self._snapshots = Snapshots(self._store, memory, self._copy_of, self.place)
        self._saver = ThreadPoolExecutor(1, thread_name_prefix="snapshots")
        self._waiters = ThreadPoolExecutor(_WAITERS, thread_name_prefix="waiter")
        self._handlers: dict[int, Callable[..., None]] = {
            Command.PUT: self._put,
            Command.EXECUTE: self._execute,
            Command.ALIAS: self._alias,
            Command.COPY: self._copy,
            Command.FREE: self._free,
            Command.READ: self._read,
            Command.WAIT: self._wait,
            Command.COMPILE: self._compile,
            Command.LOAD: self._load,
            Command.UNLOAD: self._unload,
            Command.TEXT: self._text,
            Command.COST: self._cost,
            Command.CATCH_UP: self._catch_up,
            Command.FINISHED: self._finished,
            Command.PING: self._ping,
            Command.DIGEST: self._digest,
            Command.FAIL: self._fail,
            Command.SNAPSHOT: self._snapshot,
            Command.RESTORE: self._restore,
            Command.HOLD: self._hold,
        }

    def run(self) -> None:
        """Carries out commands until the controller closes the stream (`EOFError`, `OSError`)."""
        receive, handlers = self._channel.receive, self._handlers
        while True:
            message, payload = receive()
            handlers[message[0]](payload, *message[1:])

    def _answer(self, request: int, work: Callable[[], tuple[Any, wire.Bytes]]) -> None:
        try:
            result, payload = work()
        except Exception as error:
            failure = status_of(error)
            self._channel.send([request, int(failure.code), failure.message])
            return
        self._channel.send([request, 0, result], payload)

    # Arrays

    def _put(
        self,
        payload: memoryview,
        array: int,
        dtype: str,
        shape: list[int],
        strides: list[int] | None,
        devices: list[int],
        parts: list[Part] | None,
        memory_kind: str | None,
        path: str | None,
        digest: bytes | None = None,
    ) -> None:
        try:
            data = map_file(path) if path else payload
            if digest is not None and digest_of(data) != digest:
                raise StatusError(Code.DATA_LOSS, f"the bytes of array {array} were changed on their way")
            values = strided(data, dtype, shape, strides) if strides else host_array(data, dtype, shape)
            mine = [(device, part) for device, part in _with_parts(devices, parts) if device in self._member.local]
            shards = [self.place(cut(values, part), device, memory_kind) for device, part in mine]
            self._store.add_shards(array, [device for device, _ in mine], shards)
        except Exception as error:
            self._store.fail(array, status_of(error))

    def place(
        self, values: np.ndarray, device: int, memory_kind: str | None, layout: list[int] | None = None
    ) -> jax.Array:
        """Puts values on a device of this host; any thread may. `layout`: dimensions from major to minor."""
        sharding = self._sharding(device, memory_kind)
        if layout is not None:
            laid_out: jax.Array = jax.device_put(values, Format(Layout(tuple(layout)), sharding))
            return laid_out
        shard: jax.Array = _jax.batched_device_put(
            core.ShapedArray(values.shape, values.dtype), sharding, [values], [self._member.devices[device]], True
        )
        return shard

    def _sharding(self, device: int, memory_kind: str | None) -> SingleDeviceSharding:
        key = (device, memory_kind)
        found = self._shardings.get(key)
        if found is None:
            found = SingleDeviceSharding(self._member.devices[device], memory_kind=memory_kind)
            self._shardings[key] = found
        return found

    def _alias(self, _: memoryview, array: int, sources: list[list[int]]) -> None:
        for source, device in sources:
            if device in self._member.local:
                try:
                    self._store.add_shards(array, [device], [self._store.get(source).peek(device)])
                except StatusError as error:
                    self._store.fail(array, error)

    def _copy(
        self,
        _: memoryview,
        array: int,
        source: int,
        pairs: list[list[int]],
        parts: list[Part] | None,
        memory_kind: str | None,
    ) -> None:
        local = self._member.local
        value = self._store.get(source)
        for (here, there), part in _with_parts(pairs, parts):
            if here in local and there in local:
                try:
                    shard = self._part(value.shard(here), part)
                    # Where it is already, it would be the same buffer, and gone once one of the two is donated.
                    moved = self._move(shard, there, memory_kind, copy=here == there)
                    self._store.add_shards(array, [there], [moved])
                except Exception as error:
                    self._store.fail(array, status_of(error))
            elif here in local:
                # A copy on the spot: the source may be donated before the sender thread comes to it.
                send = _attempt(partial(self._own_copy, value, here, part))
                self._outbox.send(self._member.owner(there), (array, there), send, memory_kind)
            elif there in local:
                self._store.add_shards(array, [there], [self._mailbox.expect((array, there))])

    def _part(self, shard: jax.Array, part: Part | None) -> jax.Array:
        return shard if part is None else shard[tuple(slice(start, stop) for start, stop in part)]

    def _move(self, shard: jax.Array, device: int, memory_kind: str | None, *, copy: bool = False) -> jax.Array:
        semantics = _jax.ArrayCopySemantics.ALWAYS_COPY if copy else _jax.ArrayCopySemantics.REUSE_INPUT
        binding = self._programs.binding((device,))
        moved: jax.Array = _jax.batched_copy_array_to_devices_with_sharding(
            [shard], [binding.device_list], [self._sharding(device, memory_kind)], [semantics]
        )[0]
        return moved

    def _own_copy(self, value: Value, device: int, part: Part | None) -> jax.Array:
        return self._copy_of(self._part(value.shard(device), part), device)

    def _copy_of(self, shard: jax.Array, device: int) -> jax.Array:
        return self._move(shard, device, shard.sharding.memory_kind, copy=True)

    def _fail(self, _: memoryview, arrays: list[int], code: int, text: str) -> None:
        for array in arrays:
            self._store.fail(array, StatusError(code, text))

    def _free(self, _: memoryview, arrays: list[int]) -> None:
        self._store.free(arrays)

    # Programs

    def _execute(
        self, _: memoryview, program: int, arguments: list[int], results: list[int], kept: list[int], status: int
    ) -> None:
        self._programs.get(program).run(self._store, arguments, results, kept, status)

    def _compile(
        self,
        payload: memoryview,
        request: int,
        program: int,
        options: bytes,
        devices: list[int],
        replicas: int,
        callbacks: list[int],
        want_blob: bool,
    ) -> None:
        portable = bytes(payload)
        self._prepare(
            request,
            program,
            lambda: self._programs.compile(program, portable, options, devices, replicas, callbacks, want_blob),
        )

    def _load(
        self,
        payload: memoryview,
        request: int,
        program: int,
        options: bytes,
        devices: list[int],
        replicas: int,
        callbacks: list[int],
    ) -> None:
        def load() -> tuple[None, bytes]:
            self._programs.load(program, payload, options, devices, replicas, callbacks)
            return None, b""

        self._prepare(request, program, load)

    def _prepare(self, request: int, program: int, work: Callable[[], tuple[Any, wire.Bytes]]) -> None:
        self._programs.expect(program, self._compiler.submit(self._answer, request, work))

    def _unload(self, _: memoryview, request: int, program: int) -> None:
        token = self._programs.unload(program)
        if request:

            def wait() -> tuple[None, bytes]:
                if token is not None:
                    token.block_until_ready()
                return None, b""

            self._readers.submit(self._answer, request, wait)

    def _text(self, _: memoryview, request: int, program: int) -> None:
        self._answer(request, lambda: (self._programs.get(program).executable.get_hlo_text(), b""))

    def _cost(self, _: memoryview, request: int, program: int) -> None:
        self._answer(request, lambda: (cost(self._programs.get(program).executable), b""))

    # What the client waits for

    def _read(
        self, _: memoryview, request: int, array: int, device: int, strides: list[int] | None, path: str | None
    ) -> None:
        shard = _attempt(lambda: self._store.get(array).shards()[device])

        def read() -> tuple[Any, wire.Bytes]:
            data = _bytes_of(shard, strides)
            digest = digest_of(data)
            if path is None:
                return digest, data
            write_file(path, data)
            return digest, b""

        try:
            at_once = shard().is_ready() and shard().nbytes <= _READ_AT_ONCE
        except Exception:
            at_once = False
        if at_once:
            self._answer(request, read)
        else:
            self._readers.submit(self._answer, request, read)

    def _digest(self, _: memoryview, request: int, array: int, device: int, strides: list[int] | None) -> None:
        shard = _attempt(lambda: self._store.get(array).shards()[device])
        self._readers.submit(self._answer, request, lambda: (digest_of(_bytes_of(shard, strides)), b""))

    def _wait(self, _: memoryview, request: int, arrays: list[int]) -> None:
        try:
            shards = [shard for array in arrays for shard in self._store.get(array).shards().values()]
        except StatusError as error:
            self._channel.send([request, int(error.code), error.message])
            return

        def wait() -> tuple[None, bytes]:
            for shard in shards:
                _computed(shard)
            return None, b""

        self._readers.submit(self._answer, request, wait)

    def _snapshot(self, _: memoryview, request: int, number: int) -> None:
        # So that each call of a callback is either before the snapshot or behind it.
        self._programs.finish_callbacks()
        self._callbacks.snapshot = number
        finish = self._snapshots.take()
        self._saver.submit(self._answer, request, lambda: (finish(), b""))

    def _hold(self, _: memoryview, request: int, mark: int, device: int, arrays: list[int]) -> None:
        try:
            finish = self._snapshots.hold(mark, device, arrays)
        except StatusError as error:
            self._channel.send([request, int(error.code), error.message])
            return
        self._saver.submit(self._answer, request, lambda: (finish(), b""))

    def _restore(self, _: memoryview, request: int, number: int, records: list[Record]) -> None:
        self._callbacks.snapshot = number
        self._answer(request, lambda: (self._snapshots.restore(records), b""))

    def _catch_up(self, _: memoryview, request: int) -> None:
        shards = self._store.shards()

        def wait() -> tuple[None, bytes]:
            for shard in shards:
                with contextlib.suppress(Exception):  # It is an error, or a later program has taken its memory.
                    _computed(shard)
            return None, b""

        self._readers.submit(self._answer, request, wait)

    def _finished(self, _: memoryview, request: int, devices: list[int]) -> None:
        token = self._programs.last_token(devices)

        def wait() -> tuple[None, bytes]:
            if token is not None:
                with contextlib.suppress(Exception):  # It is an error of its results.
                    token.block_until_ready()
            return None, b""

        self._waiters.submit(self._answer, request, wait)

    def _ping(self, _: memoryview, request: int) -> None:
        self._channel.send([request, 0, None])


def _computed(shard: Shard) -> None:
    """Waits for a shard. Raises the error that it is."""
    found = shard.result() if isinstance(shard, Future) else shard
    found.block_until_ready()


def cut(values: np.ndarray, part: Part | None) -> np.ndarray:
    """A part of an array, dense; or all of it."""
    if part is None:
        return values
    found = values[tuple(slice(start, stop) for start, stop in part)]
    return np.ascontiguousarray(found).reshape(found.shape)


def _with_parts(items: Sequence[Any], parts: list[Part] | None) -> Iterable[tuple[Any, Part | None]]:
    return zip(items, parts or itertools.repeat(None), strict=False)


def strided(data: memoryview, dtype: str, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """Bytes with the given strides (bytes, negative ones too) as a dense array."""
    element = numpy_dtype(dtype)
    if not all(shape):
        return np.empty(shape, element)
    lowest = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True) if stride < 0)
    view = np.ndarray(shape, element, np.frombuffer(data, np.uint8), offset=-lowest, strides=strides)
    return np.ascontiguousarray(view).reshape(shape)


def as_bytes(values: np.ndarray, strides: Sequence[int] | None) -> memoryview:
    """The bytes of an array, dense or laid out with the given strides (bytes)."""
    if strides and values.size > 1 and tuple(strides) != _dense_strides(values):
        out = np.empty(values.nbytes, np.uint8)
        lowest = sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True) if stride < 0)
        np.ndarray(values.shape, values.dtype, out, offset=-lowest, strides=strides)[...] = values
        return out.data
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _dense_strides(values: np.ndarray) -> tuple[int, ...]:
    strides, step = [], values.itemsize
    for size in reversed(values.shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _bytes_of(shard: Callable[[], Any], strides: Sequence[int] | None) -> memoryview:
    found = shard()
    return as_bytes(np.asarray(found.result() if isinstance(found, Future) else found), strides)


def _attempt(work: Callable[[], Any]) -> Callable[[], Any]:
    """Does the work now; the outcome, a value or an exception, comes when the result is called."""
    try:
        value = work()
    except Exception as error:
        failure = status_of(error)

        def fail() -> Any:
            raise failure

        return fail
    return lambda: value
