"""Files that are whole or not there, and stay when the machine loses its power."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import xxhash

from checkpoint.errors import BadCheckpointError
from checkpoint.manifest import FileEntry


def write_durably(path: Path, data: bytes | bytearray | memoryview) -> None:
    """Writes a file under another name first; what stood under this one is replaced. Raises `OSError`; then nothing
    new is left."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "wb", buffering=0) as file:
            view = memoryview(data).cast("B")
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        os.rename(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes durable what names a directory has."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_checked(path: Path, entry: FileEntry) -> bytes:
    """Raises `BadCheckpointError`, which names the file, if it is not there or not what it has to be."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadCheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) != entry.bytes:
        raise BadCheckpointError(f"{path} has {len(data)} bytes instead of {entry.bytes}")
    if xxhash.xxh3_128_hexdigest(data) != entry.digest:
        raise BadCheckpointError(f"{path} was changed: its checksum does not fit")
    return data
