"""A run on a pool that is there already: a controller here, which claims hosts of the pool and gives them back.

Not for: the pool's hosts, which live on when the run ends.
"""

from __future__ import annotations

import os
from typing import Any

from elastic import run_directory, run_settings
from elastic.client_environment import pool_variables
from elastic.errors import UsageError
from elastic.local_pool import LocalPool
from elastic.pool_target import Target
from elastic.run_directory import Kind, RunDirectory


class JoinedPool(LocalPool):
    """As `LocalPool`, with hosts of a pool instead of its own.

    Args:
        target: the pool.
        hosts: how many hosts to wait for.
        devices_per_host: the run has so many times `hosts` virtual devices; 0 for as many as the hosts have.
        spares: how many hosts more to take, if there are any.
        settings: as those of `LocalPool`.
    """

    def __init__(
        self, target: Target, hosts: int = 4, devices_per_host: int = 0, *, spares: int = 0, **settings: Any
    ) -> None:
        super().__init__(hosts, devices_per_host, spares=spares, **settings)
        self.target = target

    def pool_address(self, directory: RunDirectory) -> str:
        return str(self.target.address)

    def make_directory(self) -> RunDirectory:
        secret = self.target.need_secret()
        return run_directory.create(self._base, self.log_dir, kind=Kind.JOINED, secret=secret)

    def check_settings(self) -> None:
        if self.hosts < 1 or self.spares < 0 or self.devices_per_host < 0:
            raise UsageError(
                f"a run on {self.hosts} hosts and {self.spares} spares cannot be; ask for at least 1 host, and 0 spares"
            )
        run_settings.check(self)
        self.target.need_secret()

    def child_variables(self) -> dict[str, str]:
        return {**pool_variables(os.environ), **self.target.variables}

    def start_processes(self) -> None:
        self.start_controller()
