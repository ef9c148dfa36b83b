"""Bytes that processes of one machine hand over as files in shared memory, without copying them through a socket."""

from __future__ import annotations

import contextlib
import mmap
import os


def write_file(path: str, data: memoryview) -> None:
    """Writes a new file that only its owner can read; one that a killed writer left there is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
    finally:
        os.close(descriptor)


def map_file(path: str) -> memoryview:
    """A file's bytes, mapped; they live as long as the result does, even if the file is removed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    except ValueError:
        return memoryview(b"")
    finally:
        os.close(descriptor)
