"""Values into the files of a checkpoint that is being written; `loading` is the way back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoint.files import write_durably
from checkpoint.manifest import ArrayEntry, FileEntry
from checkpoint.regions import Region, shape_of, slices, whole

if TYPE_CHECKING:
    import numpy as np


def write_region(
    folder: Path, entry: ArrayEntry, region: Region, values: np.ndarray[Any, Any]
) -> Mapping[str, FileEntry]:
    """Writes a region that is made of whole chunks; the files, by their names from the folder of the step.

    Raises `OSError` if the disk refuses.
    """
    import numpy as np  # Not sooner: agents and launchers, which import this package too, can do without.

    written = {}
    for name, has in entry.files(region).items():
        chunk = values[slices(has, region)]
        if chunk.shape != entry.chunk:  # At the array's end: zarr's files all have one size.
            padded = np.zeros(entry.chunk, values.dtype)
            padded[slices(whole(shape_of(has)))] = chunk
            chunk = padded
        data = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data
        written[name] = write_durably(folder / name, data)
    return written
