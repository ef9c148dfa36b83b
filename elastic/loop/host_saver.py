"""Saving by the hosts of a pool: each writes what it has, and nothing passes the client."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jax

from elastic import client_environment as variables
from elastic.host_saves import HostSaves
from elastic.loop.kept_steps import KeptSteps
from elastic.loop.saver import WRITER, Saved, not_saved
from elastic.loop.tree import Leaf


def on_a_pool() -> bool:
    """Whether this program's devices are those of a pool."""
    return variables.CONTROLLER in os.environ and jax.devices()[0].client.platform_version.startswith("elastic")


@functools.cache
def _connection() -> HostSaves:
    """One for the process: the controller counts its marks."""
    return HostSaves()


class HostSaver:
    """A `Saver`. The directory has to be one that the controller and all hosts see.

    What the state is when `begin` is called is kept in the memory of hosts until it is written; as far as a snapshot
    has the same, that takes no memory.
    """

    def __init__(self, root: Path, kept: KeptSteps) -> None:
        self._root = root
        self._kept = kept

    def begin(self, step: int, leaves: Sequence[Leaf], extra: Mapping[str, Any]) -> Future[Saved]:
        future: Future[Saved] = Future()
        began = time.monotonic()

        def written(save: Future[tuple[Path, int]]) -> None:
            error = save.exception()
            if error is not None:
                future.set_exception(not_saved(step, self._root, error))
                return
            path, size = save.result()
            left = self._kept.tidy(step)
            future.set_result(Saved(step, path, size, time.monotonic() - began, left))

        try:
            named = [(leaf.path, leaf.value, leaf.key_implementation) for leaf in leaves]
            _connection().save(self._root, step, WRITER, named, extra).add_done_callback(written)
        except Exception as error:
            future.set_exception(not_saved(step, self._root, error))
        return future
