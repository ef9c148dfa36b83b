"""Which checkpoints of a loop stay on disk."""

from __future__ import annotations

from pathlib import Path

from checkpoint import CheckpointError, Retention, steps, tidy


class KeptSteps:
    """Those in a directory to which one loop saves."""

    def __init__(self, root: Path, writer: str, retention: Retention, superseded: set[int]) -> None:
        """`superseded` are steps that are there now and are not to be kept once there is a newer one."""
        self._root = root
        self._writer = writer
        self._retention = retention
        self._superseded = superseded

    def tidy(self, step: int) -> str:
        """Removes what is not to be kept, now that a step is saved; what could not be removed, in words."""
        self._superseded.discard(step)
        try:
            ours = {found.number for found in steps(self._root) if found.finished and found.ours}
            tidy(self._root, self._retention.keeps(ours - self._superseded), self._writer)
        except (OSError, CheckpointError) as error:
            return f"older checkpoints in {self._root} could not be removed: {error}"
        return ""
