"""Snapshots on the executor's side: the shards of all arrays, as they are at one point of the stream, in host memory.

Host memory is a directory of shared memory that the host's agent owns and that outlives the executor. Its files are
named by the digest of their content, so what an earlier snapshot, another device or a replica has saved is not saved
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from elastic.executor.peers import host_array
from elastic.executor.store import Store, Value
from elastic.fault_points import reach
from elastic.host_memory import digest_of, has, hold, read, save
from elastic.status import Code, StatusError, status_of

Record = list[Any]
"""One shard in a snapshot, beginning with [array, device, what]; `what` is one of

    "bytes", dtype, shape, memory kind, layout, bytes, digest
                              dense; `layout` is how they lie on the device, dimensions from major to minor, or None
    "error", code, text       the value is an error; the device is -1
    "token"                   the end of an execution, which has come; the device is -1
"""

_EVERYWHERE = -1

Put = Callable[[np.ndarray, int, str | None, list[int] | None], jax.Array]
"""Puts (values, virtual device, memory kind, layout) on a device; the result is the shard."""


@dataclass(frozen=True)
class _Held:
    """Values, or what the end of an execution gives, and how they lie in which kind of memory."""

    values: Any
    memory_kind: str | None = None
    layout: list[int] | None = None


_Coming = dict[Future[Any], tuple[Future[_Held], Future[Any]]]
"""A shard that a peer is sending -> its values, and what to put in its place (see `_hold_coming`)."""


class Snapshots:
    """Saves the arrays of a store, and brings them back."""

    def __init__(self, store: Store, memory: Path, copy: Callable[[jax.Array, int], jax.Array], place: Put) -> None:
        """`memory` is the host's; `copy(shard, device)` starts a copy on the spot, `place` puts values on a device."""
        self._store = store
        self._memory = memory
        self._copy = copy
        self._place = place
        self._saved: dict[tuple[int, int], Record] = {}

    def take(self) -> Callable[[], dict[str, Any]]:
        """Holds on to all that is in the store now; the result saves it, on any thread, and describes it.

        What is still being computed may be donated to a later program before it can be saved, so a copy is started.
        The seconds that it tells are those of a core: what waiting for one adds is no cost of snapshots, and to take
        fewer of them on a busy machine would only make recoveries longer.
        """
        began = time.thread_time()
        records: list[Record | Callable[[], Record]] = []
        saved: dict[tuple[int, int], Record] = {}
        coming: _Coming = {}
        for array, value in self._store.items():
            if value.error is not None:
                records.append(_error_record(array, value.error))
                continue
            for device, shard in value.shards().items() if not value.deleted else ():
                known = self._saved.get((array, device))
                if known is not None and has(self._memory, known[-1]):
                    saved[array, device] = known
                    records.append(known)
                elif (values := self._values_later(value, device, shard, coming)) is not None:
                    records.append(partial(self._save, array, device, values))
        self._saved = saved
        held = time.thread_time() - began
        return partial(self._finish, records, held)

    def hold(self, mark: int, device: int, arrays: Iterable[int]) -> Callable[[], list[Record]]:
        """As `take`, of some arrays' shards on one device; the result keeps them under a mark and gives their records.

        Raises the error that one of the arrays is, when it is called if that is not known before.
        """
        later: list[Callable[[], Record]] = []
        coming: _Coming = {}
        for array in arrays:
            value = self._store.get(array)
            values = self._values_later(value, device, value.peek(device), coming)
            if values is None:
                raise StatusError(Code.INVALID_ARGUMENT, f"array {array} has been deleted or donated")
            later.append(partial(self._hold_record, mark, array, device, values))
        return lambda: [record() for record in later]

    def restore(self, records: Iterable[Record]) -> list[bytes]:
        """Brings shards back into the store; returns the digests of files that are missing or were changed."""
        bad = []
        for record in records:
            array, device, what, *rest = record
            if what == "error":
                self._store.fail(array, StatusError(*rest))
            elif what == "token":
                self._store.set(array, Value(shards={_EVERYWHERE: _Ended()}))
            else:
                dtype, shape, memory_kind, layout, _, digest = rest
                try:
                    data = read(self._memory, digest)
                except StatusError:
                    bad.append(digest)
                    continue
                values = host_array(data, dtype, shape)
                self._store.add_shards(array, [device], [self._place(values, device, memory_kind, layout)])
                self._saved[array, device] = record
                reach("restore")
        return bad

    def _values_later(self, value: Value, device: int, shard: Any, coming: _Coming) -> Callable[[], _Held] | None:
        """Something to call for a shard's values later, whatever is done to it meanwhile; None if it is gone already.

        `coming` has what was made of shards that a peer is sending: one of them may stand for several arrays.
        """
        if isinstance(shard, Future):
            kept, behind = coming.get(shard) or coming.setdefault(shard, _hold_coming(shard))
            value.add(device, behind)
            return kept.result
        return None if _is_deleted(shard) else self._hold(shard, device)

    def _hold(self, shard: Any, device: int) -> Callable[[], _Held]:
        """Something to call for a shard's values later, whatever is done to it meanwhile."""
        if not isinstance(shard, jax.Array):
            return lambda: _Held(shard.block_until_ready())
        try:
            if shard.is_ready():
                # While numpy looks at its memory, XLA gives a donated array's memory to nobody.
                found = _held(shard)
                return lambda: found
            copied = self._copy(shard, device)
            memory_kind, layout = _memory_kind(shard), _said_layout(shard)  # A copy has the usual layout.
        except Exception as error:
            failure = status_of(error)

            def fail() -> Any:
                raise failure

            return fail
        return lambda: _Held(_values(copied), memory_kind, layout)

    def _finish(self, records: list[Record | Callable[[], Record]], seconds: float) -> dict[str, Any]:
        done: list[Record] = []
        for record in records:
            if callable(record):
                record = record()
                seconds += record.pop()
                reach("snapshot")
            done.append(record)
        return {"records": done, "seconds": seconds}

    def _save(self, array: int, device: int, values: Callable[[], _Held]) -> Record:
        try:
            held = values()
        except Exception as error:
            return [*_error_record(array, status_of(error)), 0.0]
        if not isinstance(held.values, np.ndarray):
            return [array, _EVERYWHERE, "token", 0.0]
        began = time.thread_time()
        record, data = _record(array, device, held)
        if not has(self._memory, record[-1]):
            save(self._memory, record[-1], data)
        self._saved[array, device] = record
        return [*record, time.thread_time() - began]

    def _hold_record(self, mark: int, array: int, device: int, values: Callable[[], _Held]) -> Record:
        record, data = _record(array, device, values())
        hold(self._memory, mark, record[-1], data)
        return record


def _record(array: int, device: int, held: _Held) -> tuple[Record, memoryview]:
    """The record of a shard that has bytes, and these, dense."""
    value = held.values
    data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    where = [held.memory_kind, held.layout]
    record = [array, device, "bytes", value.dtype.name, list(value.shape), *where, len(data), digest_of(data)]
    return record, data


def _hold_coming(shard: Future[Any]) -> tuple[Future[_Held], Future[Any]]:
    """For a shard that a peer is sending: its values, and a future to put in its place.

    That one comes when the values are held: who waits for it may have a program take its memory at once.
    """
    held: Future[_Held] = Future()
    behind: Future[Any] = Future()

    def came(shard: Future[Any]) -> None:
        try:
            held.set_result(_held(shard.result()))
            behind.set_result(shard.result())
        except Exception as error:
            for future in (held, behind):
                if not future.done():
                    future.set_exception(error)

    shard.add_done_callback(came)
    return held, behind


def _held(shard: jax.Array) -> _Held:
    """Of a shard that has been computed."""
    values = _values(shard)
    layout = None
    if not values.flags.c_contiguous:  # The view shows how they lie.
        layout = sorted(range(values.ndim), key=lambda dimension: -values.strides[dimension])
    return _Held(values, _memory_kind(shard), layout)


def _values(shard: jax.Array) -> np.ndarray:
    """The values of a shard; waits for them. Raises the error that it holds.

    What a program with ordered callbacks leaves for the next one is a token, which has no bytes and which numpy cannot
    look at; where one is wanted an array without elements will do, as for the first of these programs.
    """
    if shard.size:
        return np.asarray(shard)
    shard.block_until_ready()
    return np.zeros(shard.shape, shard.dtype)


def _said_layout(shard: jax.Array) -> list[int] | None:
    """What a shard that is still being computed says of its layout; None for the usual."""
    layout = shard.format.layout
    order = list(getattr(layout, "major_to_minor", ()))
    return order if order != sorted(order) else None


def _error_record(array: int, error: StatusError) -> Record:
    return [array, _EVERYWHERE, "error", int(error.code), error.message]


def _memory_kind(shard: jax.Array) -> str | None:
    kind: str | None = shard.sharding.memory_kind
    return kind


def _is_deleted(shard: Any) -> bool:
    return isinstance(shard, jax.Array) and shard.is_deleted()


class _Ended:
    """The token of an execution that ended before the snapshot."""

    def block_until_ready(self) -> _Ended:
        return self
