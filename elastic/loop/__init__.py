"""`elastic.wrap`: a training loop that saves its state and, started again, goes on where it was, data included.

    loop.py             steps, when to save, and how it ends
    data_position.py    where it is in the data
    tree.py             the state as arrays of a checkpoint, and back
    saver.py            who writes them, while training goes on; host_saver.py on a pool
    resuming.py         which checkpoint to go on from
    kept_steps.py, stopping.py, directory_lock.py, progress.py

It needs no pool: the same script runs on plain JAX.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoint import Retention
from elastic.errors import UsageError
from elastic.loop.loop import Loop

__all__ = ["Loop", "wrap"]


def wrap(
    train_step: Callable[[Any, Any], tuple[Any, Any]],
    *,
    checkpoint: str | os.PathLike[str],
    save_every: int = 100,
    keep: int = 3,
    keep_every: int | None = None,
    resume: bool = True,
    written_by: str = "hosts",
) -> Loop:
    """A training loop of a step function, which goes on from the newest whole checkpoint::

        loop = elastic.wrap(train_step, checkpoint="runs/a")
        for step, metrics in loop(state, batches, steps=10_000):
            ...

    Args:
        train_step: ``(state, batch) -> (state, metrics)``, any function, jitted for speed; it may donate the state.
        checkpoint: the directory of the checkpoints, which Orbax can read. One process at a time saves to it.
        save_every: saves at steps that are multiples of this; not while the save before is under way.
        keep: how many checkpoints stay; the newest ones.
        keep_every: those whose step is a multiple of this stay too.
        written_by: "hosts" has the hosts of a pool write what they have, to a directory that all of them see; "client"
            has this process write everything, which takes longer. Without a pool there is only this process.
        resume: False begins from the first step; the checkpoints that are there go when there is a new one.

    Raises:
        UsageError: a setting cannot work.
    """
    if save_every < 1:
        raise UsageError(f"save_every is {save_every}; a number of steps is at least 1")
    if written_by not in ("hosts", "client"):
        raise UsageError(f"checkpoints are written by 'hosts' or by the 'client'; {written_by!r} is neither")
    if "://" in os.fspath(checkpoint):
        raise UsageError(
            f"checkpoints are written to a directory, and {checkpoint} is a URL; mount it, or save elsewhere"
        )
    try:
        retention = Retention(keep, keep_every)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return Loop(train_step, Path(os.path.abspath(checkpoint)), save_every, retention, resume, written_by)
