"""Files of checkpoints, written from a host's memory and read into it. Blocks for as long as the disk does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkpoint import BadCheckpointError, FileEntry, read_checked, write_durably
from elastic.fault_points import SLOW_DISK, armed, reach
from elastic.host_memory import has, read, save
from elastic.status import StatusError

_LOOK_S = 0.02
"""How often somebody looks whether a slow disk has become as fast as before."""


def store(memory: Path, files: Sequence[tuple[bytes, str]]) -> str | None:
    """Writes copies, each to a path; what went wrong, or None."""
    for digest, path in files:
        _wait_for_slow_disk()
        try:
            write_durably(Path(path), read(memory, digest))
        except StatusError as error:
            return error.message
        except OSError as error:
            return f"{path} cannot be written: {error.strerror or error}"
        reach("store")
    return None


def fetch(memory: Path, files: Sequence[tuple[bytes, int, str]]) -> dict[str, Any]:
    """Reads copies, each from a path and of so many bytes.

    The result has the "problem", None if there was none, and under "bad" the copies whose files are not here, or not
    whole.
    """
    for digest, size, path in files:
        if has(memory, digest):
            continue
        _wait_for_slow_disk()
        try:
            save(memory, digest, read_checked(Path(path), FileEntry(size, digest.hex())))
        except BadCheckpointError as error:
            return {"problem": str(error), "bad": [digest]}
        except OSError as error:
            return {"problem": f"what was read from {path} cannot be kept: {error.strerror or error}", "bad": []}
    return {"problem": None, "bad": []}


def _wait_for_slow_disk() -> None:
    """Takes as long as the disk of this host is slow for each file, if an experiment has made it so."""
    began = time.monotonic()
    while (seconds := armed(SLOW_DISK)) is not None and time.monotonic() - began < float(seconds):
        time.sleep(_LOOK_S)
