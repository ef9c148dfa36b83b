"""From which checkpoint a training loop goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from checkpoint import BadCheckpointError, Manifest, read_region, steps, whole_steps
from checkpoint import CheckpointError as Unusable
from elastic.errors import CheckpointError
from elastic.loop import tree


@dataclass(frozen=True)
class Resumed:
    """A state, how many steps were done then, and what had been used of the data."""

    state: Any
    step: int
    position: Mapping[str, Any]


def extra_of(leaves: list[tree.Leaf], position: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint of a loop says besides its arrays; `resume` reads it."""
    return {"loop": {"kinds": tree.kinds_of(leaves), "data": position}}


def resume(root: Path, state: Any, skipped: Callable[[str], None]) -> Resumed | None:
    """The newest whole checkpoint, on the devices on which `state` is; None if there is no checkpoint at all.

    `skipped(why)` is told of each that is passed over. All that is used of one is compared with its checksums first.

    Raises:
        CheckpointError: there are checkpoints and none is whole, or the newest whole one is of another kind of state.
    """
    reasons: list[str] = []
    try:
        for path, manifest in whole_steps(root, reasons.append):
            resumed = _from(path, manifest, state, reasons)
            if resumed is not None:
                _tell(reasons, skipped)
                return resumed
        finished = [step for step in steps(root) if step.finished]
    except Unusable as error:
        raise CheckpointError(str(error)) from error
    if finished:
        raise CheckpointError(
            f"no checkpoint in {root} can be used: {'; '.join(reasons)}. To begin again from the first step, pass "
            "resume=False or save elsewhere"
        )
    _tell(reasons, skipped)
    return None


def newer_than(root: Path, step: int) -> set[int]:
    """The finished steps that are of no use to a loop that begins with this one. Raises `CheckpointError`."""
    try:
        return {found.number for found in steps(root) if found.finished and found.number > step}
    except Unusable as error:
        raise CheckpointError(str(error)) from error


def _from(path: Path, manifest: Manifest, state: Any, reasons: list[str]) -> Resumed | None:
    saved = manifest.extra.get("loop")
    if saved is None:
        raise CheckpointError(f"{path} was not saved by elastic.wrap; save elsewhere")
    try:
        restored = tree.restore(state, manifest, saved["kinds"], partial(read_region, path, manifest))
    except BadCheckpointError as error:
        reasons.append(f"step {manifest.step}: {error}")
        return None
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be used: {error}") from error
    return Resumed(restored, manifest.step, saved["data"])


def _tell(reasons: list[str], skipped: Callable[[str], None]) -> None:
    for reason in reasons:
        skipped(reason)
