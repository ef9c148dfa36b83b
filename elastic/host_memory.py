"""A host's memory for snapshots: files of shared memory, each named by the digest of its content.

It belongs to the host's agent and outlives executors. Equal bytes are one file, whichever arrays they are of.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import xxhash

from elastic.fault_points import FULL_MEMORY, armed
from elastic.shared_files import map_file, write_file
from elastic.status import Code, StatusError

DIRECTORY = "ELASTIC_HOST_MEMORY"
"""The environment variable by which an agent tells its executors where its memory is."""


DIGEST_BYTES = 16

HELD = "held"
"""A directory inside, for what is kept apart from snapshots, in a directory for each reason why. What is in several
takes its space once."""


def digest_of(data: memoryview | bytes | bytearray) -> bytes:
    """XXH3, 128 bits: by all that chance can do, equal for equal bytes only."""
    return xxhash.xxh3_128_digest(data)


def has(memory: Path, digest: bytes) -> bool:
    return (memory / digest.hex()).exists()


def save(memory: Path, digest: bytes, data: memoryview | bytes | bytearray) -> None:
    """Raises `OSError` if there is no space; nothing is left then."""
    path = memory / digest.hex()
    # Complete or not there: who is killed here must leave no half of a file under its final name.
    unfinished = f"{path}.{os.getpid()}"
    _check_space()
    try:
        write_file(unfinished, memoryview(data))
        os.rename(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _check_space() -> None:
    """Raises `OSError` if an experiment has it that there is no space."""
    if armed(FULL_MEMORY) is not None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def held(memory: Path, mark: int) -> Path:
    """Where it is what is held for one reason."""
    return memory / HELD / str(mark)


def hold(memory: Path, mark: int, digest: bytes, data: memoryview | bytes | bytearray) -> None:
    """Keeps a copy under a mark, whether it is in the memory itself or not. Raises `OSError` if there is no space."""
    directory = held(memory, mark)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.link(memory / digest.hex(), directory / digest.hex())
    except FileNotFoundError:
        save(directory, digest, data)
    except FileExistsError:
        pass


def let_go(memory: Path, mark: int) -> None:
    """Removes what was kept under a mark."""
    shutil.rmtree(held(memory, mark), ignore_errors=True)


class Growing:
    """A file that is saved in pieces: what its name will be is known at its end. Made by `growing`."""

    def __init__(self, memory: Path, descriptor: int, path: Path) -> None:
        self._memory = memory
        self._descriptor = descriptor
        self._path = path
        self._digest = xxhash.xxh3_128()

    def add(self, data: memoryview) -> None:
        """Raises `OSError` if there is no space."""
        self._digest.update(data)
        while data:
            data = data[os.write(self._descriptor, data) :]

    @property
    def digest(self) -> bytes:
        """Of what was added so far."""
        return self._digest.digest()

    def complete(self) -> None:
        """Gives it its name; there is nothing to add any more."""
        os.rename(self._path, self._memory / self.digest.hex())


_numbers = itertools.count()


@contextlib.contextmanager
def growing(memory: Path) -> Iterator[Growing]:
    """A new file; nothing is left of it if it is not completed. Raises `OSError`."""
    path = memory / f"growing.{os.getpid()}.{next(_numbers)}"
    _check_space()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield Growing(memory, descriptor, path)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def piece(memory: Path, digest: bytes, start: int, size: int) -> bytes:
    """Some of a file's bytes, less where it ends; they are not checked. Raises `OSError` if it is not there."""
    descriptor = os.open(memory / digest.hex(), os.O_RDONLY)
    try:
        return os.pread(descriptor, size, start)
    finally:
        os.close(descriptor)


def read(memory: Path, digest: bytes) -> memoryview:
    """The bytes, mapped. Raises `StatusError` (DATA_LOSS) if they are not there or were changed.

    What was changed is removed, so that who still has it saves it again.
    """
    path = memory / digest.hex()
    try:
        data = map_file(str(path))
    except OSError as error:
        raise StatusError(Code.DATA_LOSS, f"the copy {digest.hex()} is not here: {error.strerror}") from None
    if digest_of(data) != digest:
        path.unlink(missing_ok=True)
        raise StatusError(Code.DATA_LOSS, f"the copy {digest.hex()} was changed")
    return data


def contents(memory: Path) -> list[bytes]:
    """The digests of all that is there."""
    names = (path.name for path in memory.iterdir())
    return [bytes.fromhex(name) for name in names if len(name) == 2 * DIGEST_BYTES]


def keep_only(memory: Path, digests: set[bytes]) -> None:
    """Removes everything else, except what is held."""
    names = {digest.hex() for digest in digests}
    for path in memory.iterdir():
        if path.name not in names and path.name != HELD:
            path.unlink(missing_ok=True)
