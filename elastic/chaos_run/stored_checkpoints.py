"""The directory in which a run under faults stores checkpoints: its disk, its newest files, and what is not the run's.

What is foreign is put there before the run starts, under names that look like those of checkpoints: a run must leave it
alone, whatever it removes of its own.
"""

from __future__ import annotations

from pathlib import Path

from chaos import Disk
from checkpoint import Step, load_manifest, steps, verify

_FOREIGN = {
    "notes.txt": b"mine",
    "0/values": b"a step of somebody else",
    "7.orbax-checkpoint-tmp/values": b"unfinished",
}
"""Files by name, and what is in them."""


class StoredCheckpoints:
    """What is in the directory; `disk` is the one that it is on, if that is its own."""

    def __init__(self, directory: Path, disk: Disk | None) -> None:
        self.disk = disk
        self._directory = directory
        self._foreign: dict[Path, bytes] = {}

    def put_foreign(self, within: Path | None = None) -> None:
        """Puts foreign files there, or into a folder in it, once each. Raises `OSError` if the disk refuses."""
        for name, content in _FOREIGN.items():
            path = (within or self._directory) / name
            if path not in self._foreign:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                self._foreign[path] = content

    def foreign_gone(self) -> list[str]:
        """Foreign files that are not there any more, or have changed."""
        return [str(path) for path, content in self._foreign.items() if not _has(path, content)]

    def newest_files(self) -> list[Path]:
        """The files of the arrays of the newest checkpoint that is finished; none if there is none."""
        newest = max(self._finished(), key=lambda step: step.number, default=None)
        if newest is None:
            return []
        arrays = load_manifest(newest.path).arrays
        return [newest.path / name for array in arrays for name in array.files()]

    def bad(self) -> list[str]:
        """What is wrong with the checkpoints that are finished, a line for each file."""
        return [problem for step in self._finished() for problem in verify(step.path)]

    def _finished(self) -> list[Step]:
        runs = [path for path in self._directory.iterdir() if path.is_dir()]
        return [step for run in runs for step in steps(run) if step.finished and step.ours]


def _has(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
