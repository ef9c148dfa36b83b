"""A directory on a disk of its own, which can be filled and made read-only: a tmpfs of this machine.

    with Disk(Path("/tmp/checkpoints")) as disk:
        disk.fill()    # who writes is told that there is no space left; nothing is written to bring that about
        disk.heal()

It takes as much memory as there is in its files. Needs root; Linux only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

_MIB = 1 << 20
SIZE = 1024 * _MIB
"""Bytes of a disk that nobody has filled; and so the most memory that it takes."""

_MOST_SHARE = 4
"""A disk has at most one part in so many of the memory that is free when it is made."""


class DiskError(Exception):
    """The disk cannot be made or changed; the text is that of mount(8)."""


class Disk:
    """The disk under a directory that exists; a context manager that leaves nothing behind.

    Raises `DiskError` if it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        if os.geteuid() != 0:
            raise DiskError("a disk of its own for checkpoints needs root")
        self._path = path
        self._size = min(SIZE, _free_memory() // _MOST_SHARE)
        _run("mount", "-t", "tmpfs", "-o", f"size={self._size},mode=0700", "elastic-chaos", str(path))

    @classmethod
    def made(cls, path: Path) -> Self:
        """The one that another process has made and will take down."""
        disk = cls.__new__(cls)
        disk._path, disk._size = path, shutil.disk_usage(path).total
        return disk

    def fill(self) -> None:
        """Leaves no space but what is used. Raises `DiskError` if files grow at this moment."""
        self._remount(f"size={max(shutil.disk_usage(self._path).used, os.sysconf('SC_PAGESIZE'))}")

    def protect(self) -> None:
        """Makes it read-only. Raises `DiskError` if a file is being written at this moment."""
        self._remount("ro")

    def heal(self) -> None:
        """Makes it as it was in the beginning."""
        self._remount(f"rw,size={self._size}")

    def close(self) -> None:
        """Takes it down with all that is on it; who still has a file open keeps that."""
        _run("umount", "--lazy", str(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _remount(self, options: str) -> None:
        _run("mount", "-o", f"remount,{options}", str(self._path))


def _free_memory() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE")


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DiskError(f"{' '.join(command)}: {done.stderr.strip()}")
