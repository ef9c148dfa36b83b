"""`python -m elastic.chaos_run.guard [--disk] DIRECTORY [HOST...]`: ends a run when whoever started it is gone.

Its stdin is a pipe that carries nothing. At its end, all that belongs to the run is killed, stopped processes too, and
its directory is removed. The network of the hosts, if any are named, is made here and removed here, and the disk for
the run's checkpoints, for the same reason. In a session of its own, so that a terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chaos import Disk, DiskError, Network, NetworkError
from elastic.chaos_run.belongings import Belongings
from elastic.errors import UsageError


class Guard:
    """Watches over the belongings of a run, until it is closed or this process ends.

    Attributes:
        network: that of the hosts that were named; None without.
        disk: that of the run's checkpoints; None if they are not to be on a disk of their own.

    Raises `UsageError` if a network or a disk cannot be made.
    """

    def __init__(self, directory: Path, hosts: Sequence[str] = (), *, disk: bool = False) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "elastic.chaos_run.guard", *(["--disk"] if disk else []), str(directory), *hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        made = self._made() if hosts or disk else {}
        self.network = Network.made(hosts, made["number"]) if hosts else None
        self.disk = Disk.made(Belongings(directory).disk) if disk else None

    def _made(self) -> dict[str, int]:
        assert self._process.stdout is not None
        said = json.loads(self._process.stdout.readline() or '{"failed": "the guard has ended"}')
        if "failed" in said:
            self.close()
            raise UsageError(f"what the plan does cannot be done here: {said['failed']}")
        return dict(said)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Ends the run, if it has not ended, and returns when nothing of it is left."""
        self._process.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m elastic.chaos_run.guard", description=__doc__)
    parser.add_argument("--disk", action="store_true", help="checkpoints are on a disk of their own")
    parser.add_argument("directory", type=Path, metavar="DIRECTORY")
    parser.add_argument("hosts", nargs="*", metavar="HOST", help="stands in a network of its own")
    asked = parser.parse_args()
    belongings = Belongings(asked.directory)
    with contextlib.ExitStack() as stack:
        stack.callback(belongings.remove)
        said: dict[str, object] = {}
        try:
            if asked.hosts:
                said["number"] = stack.enter_context(Network(asked.hosts)).number
            if asked.disk:
                belongings.disk.mkdir(exist_ok=True)
                stack.enter_context(Disk(belongings.disk))
        except (NetworkError, DiskError) as error:
            said = {"failed": str(error)}
        print(json.dumps(said), flush=True)
        stack.callback(belongings.kill)  # Before all else: nobody must be in the network or on the disk any more.
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
