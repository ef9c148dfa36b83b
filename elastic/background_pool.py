"""A pool that stays between runs: membership server and agents, which are started again when they end.

Not for: going to the background (`elastic.supervisor`), or runs, which join it as any pool (`elastic.joined_pool`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from elastic import pool_size, run_directory
from elastic.client_environment import pool_variables
from elastic.local_pool import LocalPool, PoolEvent, Restart
from elastic.run_directory import Kind, RunDirectory
from membership import PASSWORD_FILE


class BackgroundPool(LocalPool):
    """As `LocalPool`, without a run.

    Args:
        hosts: how many hosts to start.
        devices_per_host: devices of each.
        listen: where the pool's etcd and, on other ports, its agents listen on TCP; without it they can only be reached
            from this machine, etcd by this user alone.
        settings: as those of `LocalPool`.
    """

    def __init__(
        self, hosts: int = 4, devices_per_host: int = 2, listen: str | None = None, log_dir: str | None = None
    ) -> None:
        super().__init__(hosts, devices_per_host, listen, log_dir)
        self._etcd_address = ""
        self._membership_restart = Restart()

    def make_directory(self) -> RunDirectory:
        return run_directory.create(self._base, self.log_dir, kind=Kind.BACKGROUND)

    def check_settings(self) -> None:
        pool_size.check_size(self.hosts, self.devices_per_host, pool_size.machine_memory())
        # The pool's etcd may take any free port, as a controller may not: its address is told.
        if self.listen is not None and not self.listen.endswith(":0"):
            pool_size.check_listen(self.listen)

    def pool_address(self, directory: RunDirectory) -> str:
        return self._etcd_address

    def membership_command(self, directory: RunDirectory) -> Sequence[str]:
        if self.listen is None:
            return super().membership_command(directory)
        # When it is started again it takes the port that it had.
        listen = self._etcd_address.rpartition("@")[2] or self.listen
        return (
            *(sys.executable, "-m", "membership.server", "--listen", listen, "--allow-remote"),
            *("--secret-file", str(directory.secret)),
        )

    def agent_command(self, host: str, directory: RunDirectory) -> Sequence[str]:
        command = super().agent_command(host, directory)
        if self.listen is None:
            return command
        address = self.listen.rpartition(":")[0]
        return (*command, "--listen", f"{address}:0")

    def child_variables(self) -> dict[str, str]:
        variables = pool_variables(os.environ)
        if self.listen is not None:
            variables[PASSWORD_FILE] = str(self.directory.secret)
        return variables

    def start_processes(self) -> None:
        self._etcd_address = str(self.start_membership()["address"])
        self.start_agents(wait=True)

    def deadline(self) -> float | None:
        times = [time for time in (super().deadline(), self._membership_restart.at) if time is not None]
        return min(times, default=None)

    def poll(self, *, closing: bool = False) -> PoolEvent | None:
        event = super().poll(closing=closing)
        self._replace_membership(time.monotonic())
        return event

    def _replace_membership(self, now: float) -> None:
        """Starts the membership server again; hosts and runs tell it what they are and have as soon as it is there."""
        ended, restart = self._membership, self._membership_restart
        if ended is None or ended not in self._ended:
            return
        if restart.at is None:
            restart.again(now)
        elif restart.at <= now:
            restart.at = None
            ended.kill_session()
            ended.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.directory.membership_socket)
            self.spawn_membership()


def about(pool: BackgroundPool) -> dict[str, Any]:
    """What the supervisor tells whoever started it."""
    return {"address": pool.pool_address(pool.directory), "directory": str(pool.directory.path)}
