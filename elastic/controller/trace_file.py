"""A trace on disk: JSON in the form of an array, one trace event a line, appended as they come.

Readers of traces accept an array without an end, as a controller that is killed leaves it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from elastic.controller.trace import Item

log = logging.getLogger(__name__)


class TraceFile:
    """Writes one file. A disk that is full ends the trace, and not the run."""

    def __init__(self, path: Path) -> None:
        """Replaces what is there. Raises `OSError`."""
        self._path = path
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._before = b"[\n"

    def write(self, items: Iterable[Item]) -> None:
        """Appends trace events."""
        for item in items:
            self._append(self._before + json.dumps(item).encode())
            self._before = b",\n"

    def close(self) -> None:
        """Ends the array."""
        self._append(b"\n]\n")
        self._give_up()

    def _append(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            os.write(self._file, data)
        except OSError as error:
            log.warning("the trace %s ends here: %s", self._path, error.strerror)
            self._give_up()

    def _give_up(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
