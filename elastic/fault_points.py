"""Points in the life of a host's processes at which an experiment may have one of them killed.

A process passes `reach("compile")` at such a point. If the directory that ELASTIC_FAULT_POINTS names has a file
``compile``, whichever process removes it first is killed on the spot, with SIGKILL, and others pass. So each file is
one death, and its absence shows that it happened. Without the variable nothing is looked at.

    compile      an executor is about to compile a program
    collective   an executor is about to run its part of a program of several hosts, while the others run theirs
    snapshot     an executor has saved a part of a snapshot, and has not told of it
    restore      an executor of a new world has restored a part of what it has to hold
    copies       an agent has sent a part of the second copies of a snapshot
    store        an agent has written a part of a checkpoint
    parity       an agent has made a part of the parity of a snapshot, or of what was lost
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

DIRECTORY = "ELASTIC_FAULT_POINTS"
POINTS = ("compile", "collective", "snapshot", "restore", "copies", "parity", "store")

_directory = os.environ.get(DIRECTORY)


def arm(directory: Path, point: str) -> None:
    """Has the next process that reaches the point killed. Raises `ValueError` for a point that does not exist."""
    if point not in POINTS:
        raise ValueError(f"there is no point {point!r}; there are {', '.join(POINTS)}")
    (directory / point).touch()


def reach(point: str) -> None:
    """Kills this process if the point is armed."""
    if _directory is None:
        return
    try:
        (Path(_directory) / point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
