"""Points in the life of a host's processes at which an experiment may have one of them killed, or worse.

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

At one more point nobody dies: the file ``flip-bit.HOST`` has an executor of this host change one bit of an array that
it is about to use (see `elastic.executor.bit_flips`); what the file says is which.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

DIRECTORY = "ELASTIC_FAULT_POINTS"
HOST = "ELASTIC_FAULT_HOST"
"""The environment variable by which an agent tells its executors whose they are."""

POINTS = ("compile", "collective", "snapshot", "restore", "copies", "parity", "store")

_directory = os.environ.get(DIRECTORY)


def arm(directory: Path, point: str) -> None:
    """Has the next process that reaches the point killed. Raises `ValueError` for a point that does not exist."""
    if point not in POINTS:
        raise ValueError(f"there is no point {point!r}; there are {', '.join(POINTS)}")
    (directory / point).touch()


def arm_flip(directory: Path, host: str, text: str) -> None:
    """Has an executor of a host change one bit; the text says where."""
    unfinished = directory / f"unfinished.{host}"
    unfinished.write_text(f"{text}\n")
    unfinished.rename(directory / f"flip-bit.{host}")


def armed(point: str) -> str:
    """What is armed for this process's host, in words; empty if nothing is."""
    if _directory is None:
        return ""
    try:
        return _of_host(_directory, point).read_text()
    except FileNotFoundError:
        return ""


def take(point: str) -> bool:
    """Whether this process is the one that does what is armed for its host."""
    try:
        _of_host(_directory or "", point).unlink()
    except FileNotFoundError:
        return False
    return True


def _of_host(directory: str, point: str) -> Path:
    return Path(directory) / f"{point}.{os.environ.get(HOST, '')}"


def reach(point: str) -> None:
    """Kills this process if the point is armed."""
    if _directory is None:
        return
    try:
        (Path(_directory) / point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
