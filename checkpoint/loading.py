"""Values out of a checkpoint, each file checked before anything of it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoint.errors import BadCheckpointError
from checkpoint.files import read_checked
from checkpoint.manifest import ArrayEntry, Manifest
from checkpoint.regions import Region, overlap, shape_of, slices, whole
from checkpoint.store import load_manifest, steps

if TYPE_CHECKING:
    import numpy as np


def read_region(step: Path, manifest: Manifest, entry: ArrayEntry, region: Region) -> np.ndarray[Any, Any]:
    """A region of an array; only files that have a part of it are read. Raises `BadCheckpointError`.

    What is exactly one file's is not copied, and then cannot be written to.
    """
    # Not sooner: agents and launchers, which import this package too, can do without.
    import ml_dtypes  # noqa: F401  It teaches numpy the names of its types.
    import numpy as np

    dtype = np.dtype(entry.dtype)
    result: np.ndarray[Any, Any] | None = None
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


def whole_steps(root: Path, skipped: Callable[[str], None]) -> Iterator[tuple[Path, Manifest]]:
    """The finished steps whose manifest can be read, newest first.

    `skipped(why)` is told of each other one that is passed. Raises `CheckpointError` if the directory cannot be read.
    """
    for step in steps(root):
        if step.problem:
            skipped(f"{step.path}: {step.problem}")
            continue
        try:
            manifest = load_manifest(step.path)
        except BadCheckpointError as error:
            skipped(str(error))
        else:
            yield step.path, manifest
