"""The client's buffers: bytes on their way up, before an array takes them, or down, before the client fetches them.

Uploads of a client on this machine come as files in shared memory, which the hosts map; their bytes never pass through
the controller.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from elastic.shared_files import map_file
from elastic.status import Code, StatusError

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Buffer:
    """Bytes in memory, or a file that holds them."""

    data: Bytes = b""
    path: str | None = None
    file_bytes: int = 0

    def read(self) -> Bytes:
        """The bytes, wherever they are."""
        return Path(self.path).read_bytes() if self.path else self.data

    def discard(self) -> None:
        """Removes the file, if it is one. Who has mapped it keeps the bytes."""
        if self.path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)


class HostBuffers:
    """The buffers of one session by handle. Files that nobody took are removed by `close`."""

    def __init__(self, directory: Path, session: int) -> None:
        self._directory = directory
        self._session = session
        self._buffers: dict[int, Buffer] = {}
        self.on_arrival: Callable[[], None] = lambda: None

    def __contains__(self, handle: int) -> bool:
        return handle in self._buffers

    def store(self, handle: int, data: Bytes) -> None:
        self.delete(handle)
        self._buffers[handle] = Buffer(data)
        self.on_arrival()

    def store_file(self, handle: int, size: int) -> None:
        """Takes over the file in which the client left an upload. Raises `StatusError` if it is not there whole."""
        left = self._directory / f"lt_{handle}"
        taken = self._directory / f"s{self._session}_{handle}"
        try:
            if left.stat().st_size != size:
                raise StatusError(Code.INVALID_ARGUMENT, f"{left} has not the {size} bytes that were announced")
            left.rename(taken)
        except OSError as error:
            raise StatusError(Code.NOT_FOUND, f"the upload {left} cannot be taken: {error}") from None
        self._buffers[handle] = Buffer(path=str(taken), file_bytes=size)
        self.on_arrival()

    def download_path(self, handle: int) -> str:
        """Where a host is to leave the bytes of a read."""
        return str(self._directory / f"r{self._session}_{handle}")

    def store_mapped(self, handle: int, path: str) -> None:
        """Takes over a file that a host has written; only its mapping remains."""
        self.store(handle, map_file(path))
        os.unlink(path)

    def get(self, handle: int) -> Buffer:
        """Raises `StatusError` if there is no such buffer."""
        found = self._buffers.get(handle)
        if found is None:
            raise StatusError(Code.NOT_FOUND, f"there is no host buffer with the handle {handle}")
        return found

    def take(self, handle: int) -> Buffer:
        """As `get`, and forgets it; the caller discards it."""
        found = self.get(handle)
        del self._buffers[handle]
        return found

    def delete(self, handle: int) -> None:
        buffer = self._buffers.pop(handle, None)
        if buffer is not None:
            buffer.discard()

    def close(self) -> None:
        for handle in list(self._buffers):
            self.delete(handle)
