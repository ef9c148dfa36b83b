"""`python -m elastic.chaos_run.guard DIRECTORY [HOST...]`: ends a run when whoever started it is gone, however it went.

Its stdin is a pipe that carries nothing. At its end, all that belongs to the run is killed, stopped processes too, and
its directory is removed. The network of the hosts, if any are named, is made here and removed here, for the same
reason. In a session of its own, so that a terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chaos import Network, NetworkError
from elastic.chaos_run.belongings import Belongings
from elastic.errors import UsageError


class Guard:
    """Watches over the belongings of a run, until it is closed or this process ends.

    Attributes:
        network: that of the hosts that were named; None without.

    Raises `UsageError` if a network cannot be made.
    """

    def __init__(self, directory: Path, hosts: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "elastic.chaos_run.guard", str(directory), *hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.network = Network.made(hosts, self._network_number()) if hosts else None

    def _network_number(self) -> int:
        assert self._process.stdout is not None
        said = json.loads(self._process.stdout.readline() or "{}")
        if "number" not in said:
            self.close()
            raise UsageError(f"hosts cannot be cut off here: {said.get('failed', 'their guard has ended')}")
        return int(said["number"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Ends the run, if it has not ended, and returns when nothing of it is left."""
        self._process.communicate()


def main() -> int:
    directory, *hosts = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        if hosts:
            try:
                print(json.dumps({"number": stack.enter_context(Network(hosts)).number}), flush=True)
            except NetworkError as error:
                print(json.dumps({"failed": str(error)}), flush=True)
        stack.callback(Belongings(Path(directory)).remove)  # Before the network: nobody must be in it any more.
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
