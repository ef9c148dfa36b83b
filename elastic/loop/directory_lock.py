"""One process at a time saves to a directory of checkpoints. The lock ends with the process, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from elastic.errors import UsageError

_NAME = ".elastic-lock"


class DirectoryLock:
    """Raises `UsageError` if another process has it, `OSError` if the directory cannot be written to.

    On file systems without locks it does nothing. A child process of ours, such as a data loader's, does not have it.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = os.open(directory / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.read(self._file, 20).decode(errors="replace").strip()
            os.close(self._file)
            raise UsageError(f"process {holder or 'unknown'} saves to {directory}; end it, or save elsewhere") from None
        except OSError:
            return
        with contextlib.suppress(OSError):  # The disk may be full.
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)
