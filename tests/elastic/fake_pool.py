"""A pool of small programs that need no JAX; run as a program, `elastic` on such a pool. For tests of launchers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from elastic import cli, local_pool
from elastic.local_pool import LocalPool
from elastic.run_directory import RunDirectory

FAULTS = "FAKE_POOL"  # See fake_children.
BASE = "FAKE_POOL_BASE"  # Where run directories are made.
_CHILDREN = Path(__file__).with_name("fake_children.py")


class FakePool(LocalPool):
    def __init__(self, hosts: int = 4, devices_per_host: int = 2, listen: str | None = None, log_dir=None, **settings):
        settings.setdefault("base_dir", os.environ.get(BASE))
        super().__init__(hosts, devices_per_host, listen, log_dir, **settings)

    def agent_command(self, host: str, directory: RunDirectory) -> Sequence[str]:
        return self._fake(super().agent_command(host, directory))

    def controller_command(self, directory: RunDirectory) -> Sequence[str]:
        return self._fake(super().controller_command(directory))

    def membership_command(self, directory: RunDirectory) -> Sequence[str]:
        return self._fake(super().membership_command(directory))

    def _fake(self, command: Sequence[str]) -> Sequence[str]:
        assert list(command[:2]) == [sys.executable, "-m"]
        role = command[2].removeprefix("elastic.")
        return [sys.executable, "-S", "-E", str(_CHILDREN), role, *command[3:]]


if __name__ == "__main__":
    local_pool.LocalPool = FakePool  # type: ignore[misc]
    sys.exit(cli.main())
