"""What belongs to a run on this machine: its processes and its shared memory, found by a mark that they inherit.

The mark is the variable with the path of the run's history, in a directory that no other run has. So they are found
however they were started, and whoever their parent is now. Linux only (/proc).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from elastic.controller.history import FILE
from elastic.run_directory import BASE

_POLL_S = 0.02


class Belongings:
    """The directory of a run, and all processes that carry its mark."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.history = directory / "history.jsonl"
        self.points = directory / "points"
        """Where deaths at points are armed (see `elastic.fault_points`)."""
        self.pools = directory / "pools"
        """Where the run has its own directory of shared memory."""
        self.disk = directory / "disk"
        """Where it stores checkpoints, if it does."""

    def make(self) -> None:
        self.points.mkdir()
        self.pools.mkdir()
        self.disk.mkdir(exist_ok=True)
        self.history.touch()

    @property
    def variables(self) -> Mapping[str, str]:
        """The mark, for the environment of the run."""
        return {FILE: str(self.history), BASE: str(self.pools)}

    def processes(self) -> Iterator[int]:
        """The pids of all that live."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and self.owns(int(entry.name)):
                yield int(entry.name)

    def owns(self, pid: int) -> bool:
        """Whether a process belongs to the run, and lives."""
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            return f"{FILE}={self.history}".encode() in variables and not _is_zombie(pid)
        return False

    def left(self, patience_s: float) -> tuple[list[str], list[str]]:
        """The processes and the paths of shared memory that are still there when that time is over, in words."""
        give_up = time.monotonic() + patience_s
        while time.monotonic() < give_up and (next(self.processes(), None) or any(self.pools.iterdir())):
            time.sleep(_POLL_S)
        return [f"{pid} ({command(pid)})" for pid in self.processes()], [str(path) for path in self.pools.iterdir()]

    def kill(self) -> None:
        """Kills all processes, and returns when none is left."""
        while living := list(self.processes()):  # Who forks at this moment is found the next time.
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)

    def remove(self) -> None:
        """Kills what lives, and removes the directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def command(pid: int) -> str:
    """The command line of a process; empty if there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
