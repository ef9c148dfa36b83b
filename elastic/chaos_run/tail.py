"""A text file that grows, line by line."""

from __future__ import annotations

from pathlib import Path


class Tail:
    """Reads what is new in a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""

    def lines(self) -> list[str]:
        """The lines that were finished since the last call, without their ends."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def close(self) -> None:
        self._file.close()
