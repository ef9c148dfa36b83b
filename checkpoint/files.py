"""Files that are whole or not there, and stay when the machine loses its power."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from pathlib import Path

import xxhash

from checkpoint.errors import BadCheckpointError
from checkpoint.manifest import FileEntry

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # renameat2(2)
_libc = ctypes.CDLL(None, use_errno=True)


def write_durably(path: Path, data: bytes | bytearray | memoryview) -> FileEntry:
    """Writes a file under another name first; what stood under this one is replaced. Raises `OSError`; then nothing
    new is left.

    Its bytes are durable then; its name is when its directory is, see `sync_directory`. The result is what the file has
    to be, taken from memory and not from the disk.
    """
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
    return entry_of(data)


def entry_of(data: bytes | bytearray | memoryview) -> FileEntry:
    """For a file with these bytes."""
    return FileEntry(memoryview(data).nbytes, xxhash.xxh3_128_hexdigest(data))


def sync_directory(path: Path) -> None:
    """Makes durable what names a directory has."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange(one: Path, other: Path) -> bool:
    """Each gets the other's name, in one moment. False if this file system cannot do that; raises other `OSError`s."""
    names = os.fsencode(one), os.fsencode(other)
    if _libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


def check_size(path: Path, entry: FileEntry) -> None:
    """Raises `BadCheckpointError`, which names the file, if it is not there or of another size than it has to be."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    if size != entry.bytes:
        raise _missized(path, size, entry)


def read_checked(path: Path, entry: FileEntry) -> bytes:
    """Raises `BadCheckpointError`, which names the file, if it is not there or not what it has to be."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) != entry.bytes:
        raise _missized(path, len(data), entry)
    if entry_of(data) != entry:
        raise BadCheckpointError(f"{path} was changed: its checksum does not fit")
    return data


def _unreadable(path: Path, error: OSError) -> BadCheckpointError:
    return BadCheckpointError(f"{path} cannot be read: {error.strerror or error}")


def _missized(path: Path, size: int, entry: FileEntry) -> BadCheckpointError:
    return BadCheckpointError(f"{path} has {size} bytes instead of {entry.bytes}")
