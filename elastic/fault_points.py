"""Points in the life of a host's processes at which an experiment may have something go wrong.

A process that comes to a point looks into the directory that ELASTIC_FAULT_POINTS names: a file there, named after the
point, is a fault that waits. Without the variable nothing is looked at.

At these points a process dies (`reach`). Whichever process removes the file first is killed on the spot, with SIGKILL,
and others pass. So each file is one death, and its absence shows that it happened.

    compile      an executor is about to compile a program
    collective   an executor is about to run its part of a program of several hosts, while the others run theirs
    snapshot     an executor has saved a part of a snapshot, and has not told of it
    restore      an executor of a new world has restored a part of what it has to hold
    copies       an agent has sent a part of the second copies of a snapshot
    store        an agent has written a part of a checkpoint
    parity       an agent has made a part of the parity of a snapshot, or of what was lost

At these something of one host goes wrong (`armed`), whose name follows that of the point, as in ``flip-bit.h1``. What
the file says is how.

    flip-bit      an executor is about to run a program: one bit of what it takes changes, once (`executor.bit_flips`)
    device-check  devices are checked: one fails, for as long as the file is there (`executor.device_faults`)
    slow-disk     an agent is about to write or read a file of a checkpoint: it takes so many seconds longer, for as
                  long as the file is there (`agent.storage`)
    full-memory   something is about to be saved in the host's memory: there is no space, for as long as the file is
                  there (`host_memory`)
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

DIRECTORY = "ELASTIC_FAULT_POINTS"
HOST = "ELASTIC_FAULT_HOST"
"""The environment variable by which the processes of a host know whose they are."""

POINTS = ("compile", "collective", "snapshot", "restore", "copies", "parity", "store")
"""Where a process may die."""

FLIP_BIT, DEVICE_CHECK, SLOW_DISK, FULL_MEMORY = "flip-bit", "device-check", "slow-disk", "full-memory"
OF_HOSTS = (FLIP_BIT, DEVICE_CHECK, SLOW_DISK, FULL_MEMORY)
"""Where something of one host may go wrong."""

_directory = os.environ.get(DIRECTORY)


def arm(directory: Path, point: str, host: str = "", fault: str = "") -> None:
    """Has the next process that reaches the point killed; or something of the host go wrong there, as `fault` says.

    Raises `ValueError` for a point that does not exist.
    """
    points = OF_HOSTS if host else POINTS
    if point not in points:
        raise ValueError(f"there is no point {point!r}; there are {', '.join(points)}")
    unfinished = directory / f"unfinished-{point}.{host}"
    unfinished.write_text(fault)
    unfinished.rename(_file(directory, point, host))


def disarm(directory: Path, point: str, host: str = "") -> None:
    """Takes back what was armed; does nothing if it has happened."""
    _file(directory, point, host).unlink(missing_ok=True)


def is_armed(directory: Path, point: str, host: str = "") -> bool:
    """Whether what was armed still waits for a process."""
    return _file(directory, point, host).exists()


def reach(point: str) -> None:
    """Kills this process if the point is armed."""
    if _taken(point):
        os.kill(os.getpid(), signal.SIGKILL)


def armed(point: str) -> str | None:
    """What is to go wrong on this process's host; None if nothing is."""
    if _directory is None:
        return None
    try:
        return _file(Path(_directory), point, _host()).read_text()
    except FileNotFoundError:
        return None


def take(point: str) -> bool:
    """Whether this process is the one in which it does, if that happens but once."""
    return _taken(point, _host())


def _taken(point: str, host: str = "") -> bool:
    if _directory is None:
        return False
    try:
        _file(Path(_directory), point, host).unlink()
    except FileNotFoundError:
        return False
    return True


def _host() -> str:
    return os.environ.get(HOST, "")


def _file(directory: Path, point: str, host: str) -> Path:
    return directory / (f"{point}.{host}" if host else point)
