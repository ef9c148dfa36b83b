"""Values out of a checkpoint, each file checked before anything of it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes  # noqa: F401  It teaches numpy the names of its types.
import numpy as np

from checkpoint.errors import BadCheckpointError
from checkpoint.files import read_checked
from checkpoint.manifest import ArrayEntry, Manifest
from checkpoint.regions import Region, overlap, shape_of, slices, whole
from checkpoint.store import load_manifest, steps


def read_region(step: Path, manifest: Manifest, entry: ArrayEntry, region: Region) -> np.ndarray:
    """A region of an array; only files that have a part of it are read. Raises `BadCheckpointError`.

    What is exactly one file's is not copied, and then cannot be written to.
    """
    dtype = np.dtype(entry.dtype)
    result: np.ndarray | None = None
    for name, has in entry.files(region).items():
        data = np.frombuffer(read_checked(step / name, manifest.files[name]), dtype)
        values = data.reshape(entry.chunk)[slices(whole(shape_of(has)))]
        if has == region:
            return values
        if result is None:
            result = np.empty(shape_of(region), dtype)
        both = overlap(has, region)
        assert both is not None  # The file would not have been asked for.
        result[slices(both, region)] = values[slices(both, has)]
    return np.empty(shape_of(region), dtype) if result is None else result


def newest_whole(root: Path, skipped: Callable[[str], None]) -> tuple[Path, Manifest] | None:
    """The newest finished step whose manifest can be read; None if there is none.

    `skipped(why)` is told of each newer one. Raises `CheckpointError` if the directory cannot be read.
    """
    for step in steps(root):
        if step.problem:
            skipped(f"{step.path}: {step.problem}")
            continue
        try:
            return step.path, load_manifest(step.path)
        except BadCheckpointError as error:
            skipped(str(error))
    return None
