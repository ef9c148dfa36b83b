"""Who writes the state of a training loop to disk while the loop goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from checkpoint import ArrayEntry, FileEntry, Region, Retention, grid_of, of_slices, steps, tidy, whole, write_region
from checkpoint import CheckpointError as NotSaved
from checkpoint import begin as begin_step
from elastic.errors import CheckpointError
from elastic.loop.tree import Leaf

WRITER = "client"
"""The name under which scripts write: a directory has one at a time, and what a dead one left is its heir's."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is on disk. `bytes` were written in `seconds`; `left` says what could not be tidied up."""

    step: int
    path: Path
    bytes: int
    seconds: float
    left: str = ""


class Saver(Protocol):
    """Saves one state at a time."""

    def begin(self, step: int, leaves: Sequence[Leaf], extra: Mapping[str, Any]) -> Future[Saved]:
        """Begins to save a state, without waiting for it to be computed.

        The arrays may be donated as soon as this returns. `extra` is anything that JSON can hold. The result is there
        when the checkpoint is durable and older ones are removed as far as they are not to be kept; it raises
        `CheckpointError` if nothing was saved. To be called again only when it is there.
        """


class ClientSaver:
    """The client reads the arrays and writes them, in a thread.

    They are copied on their devices first, so that they may be donated: until it is written, a state takes its memory
    there twice. What several devices hold is read once.
    """

    def __init__(self, root: Path, retention: Retention, superseded: set[int]) -> None:
        """`superseded` are steps that are there now and are not to be kept once there is a newer one."""
        self._root = root
        self._retention = retention
        self._superseded = superseded

    def begin(self, step: int, leaves: Sequence[Leaf], extra: Mapping[str, Any]) -> Future[Saved]:
        future: Future[Saved] = Future()
        try:
            copies = _copied(leaves)
        except Exception as error:
            future.set_exception(_not_saved(step, self._root, error))
            return future
        thread = threading.Thread(target=self._work, args=(future, step, copies, extra), name=f"elastic-save-{step}")
        try:
            thread.start()
        except RuntimeError:  # The interpreter is about to end, and starts none any more.
            self._work(future, step, copies, extra)
        return future

    def _work(self, future: Future[Saved], step: int, leaves: list[Leaf], extra: Mapping[str, Any]) -> None:
        try:
            saved = self._save(step, leaves, extra)
        except BaseException as error:
            future.set_exception(_not_saved(step, self._root, error))
        else:
            future.set_result(saved)

    def _save(self, step: int, leaves: list[Leaf], extra: Mapping[str, Any]) -> Saved:
        began = time.monotonic()
        entries = [_entry(leaf) for leaf in leaves]
        unfinished = begin_step(self._root, step, entries, WRITER)
        files: dict[str, FileEntry] = {}
        try:
            for entry in entries:
                # Taken off the list, so that the devices' memory is free again as soon as it can be.
                for region, values in _parts(leaves.pop(0)):
                    files |= write_region(unfinished.path, entry, region, values)
            path = unfinished.publish(files, extra)
        except BaseException:
            unfinished.abandon()
            raise
        saved = Saved(step, path, sum(file.bytes for file in files.values()), time.monotonic() - began)
        try:
            self._tidy(step)
        except (OSError, NotSaved) as error:
            return replace(saved, left=f"older checkpoints in {self._root} could not be removed: {error}")
        return saved

    def _tidy(self, step: int) -> None:
        self._superseded.discard(step)
        ours = {found.number for found in steps(self._root) if found.finished and found.ours}
        tidy(self._root, self._retention.keeps(ours - self._superseded), WRITER)


def _copied(leaves: Sequence[Leaf]) -> list[Leaf]:
    """Copies that nothing done to the given arrays reaches, dispatched in one piece."""
    arrays = [leaf.value for leaf in leaves if isinstance(leaf.value, jax.Array)]
    copies = iter(jax.device_put(arrays, [array.sharding for array in arrays], may_alias=False))
    return [
        replace(leaf, value=next(copies) if isinstance(leaf.value, jax.Array) else leaf.value.copy()) for leaf in leaves
    ]


def _entry(leaf: Leaf) -> ArrayEntry:
    shape = leaf.value.shape
    if isinstance(leaf.value, jax.Array):
        indices = leaf.value.sharding.devices_indices_map(shape).values()
        regions = {of_slices(index, shape) for index in indices}
    else:
        regions = {whole(shape)}
    chunk = grid_of(shape, regions)
    return ArrayEntry(leaf.path, leaf.value.dtype.name, shape, chunk, leaf.key_implementation)


def _parts(leaf: Leaf) -> Iterator[tuple[Region, np.ndarray[Any, Any]]]:
    """The values of a leaf, each once."""
    shape = leaf.value.shape
    if not isinstance(leaf.value, jax.Array):
        yield whole(shape), leaf.value
        return
    shards = {of_slices(shard.index, shape): shard.data for shard in leaf.value.addressable_shards}
    for region, data in shards.items():
        yield region, np.asarray(data)


def _not_saved(step: int, root: Path, error: BaseException) -> CheckpointError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    failure = CheckpointError(f"step {step} was not saved in {root}: {reason}")
    failure.__cause__ = error
    return failure
