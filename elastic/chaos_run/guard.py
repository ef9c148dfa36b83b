"""`python -m elastic.chaos_run.guard DIRECTORY`: ends a run when whoever started it is gone, however it went.

Its stdin is a pipe that carries nothing. At its end, all that belongs to the run is killed, stopped processes too, and
its directory is removed. In a session of its own, so that a terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from elastic.chaos_run.belongings import Belongings


class Guard:
    """Watches over the belongings of a run, until it is closed or this process ends."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "elastic.chaos_run.guard", str(directory)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Ends the run, if it has not ended, and returns when nothing of it is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    sys.stdin.read()
    Belongings(Path(sys.argv[1])).remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
