"""A pool on one machine whose hosts stand in networks of their own, so that each can be cut off: as one of machines.

Its etcd and the runs on it are at the gateway. Hosts that end are started again, like a machine that is switched on.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from chaos import Network, Plan
from elastic.errors import PoolError
from elastic.pool_secret import FILE
from membership import PASSWORD_FILE

_LEAVE_S = 2.0
"""How long a host may take to leave."""


class NetworkedPool:
    """The etcd and the hosts of a plan's pool. What it starts has `variables`, the marks of a run (see `belongings`).

    Raises `PoolError` if its etcd cannot start.
    """

    def __init__(self, plan: Plan, network: Network, directory: Path, log: IO[bytes], variables: Mapping[str, str]):
        secret = directory / "secret"
        secret.touch(0o600)
        secret.write_text(secrets.token_hex(32))
        self.network = network
        self.variables = {FILE: str(secret), PASSWORD_FILE: str(secret)}
        """What a run needs to join the pool."""
        self._environment = {**os.environ, **variables, **self.variables}
        self._devices = plan.devices_per_host
        self._log = log
        where = ("--listen", f"{network.gateway}:0", "--allow-remote", "--secret-file", str(secret))
        self._etcd = subprocess.Popen(
            [sys.executable, "-m", "membership.server", *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=self._environment,
            start_new_session=True,
        )
        assert self._etcd.stdout is not None
        said = json.loads(self._etcd.stdout.readline() or "{}")
        if said.get("ready") is not True:
            raise PoolError(f"the pool's etcd cannot start: {said.get('reason', 'it ended')}")
        self.address = str(said["address"])
        self._hosts = {host: self._start(host) for host in plan.host_names}

    def keep(self) -> None:
        """Starts the hosts again that have ended."""
        for host, process in self._hosts.items():
            if process.poll() is not None:
                self._hosts[host] = self._start(host)

    def end(self) -> None:
        """Has its processes leave, and kills those that do not."""
        for process in self._hosts.values():
            process.send_signal(signal.SIGINT)
        for process in self._hosts.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVE_S)
            process.kill()
            process.wait()
        self._etcd.communicate()

    def _start(self, host: str) -> subprocess.Popen[bytes]:
        listen = f"{self.network.address(host)}:0"
        command = [sys.executable, "-m", "elastic.cli", "host", "--pool", self.address, "--id", host]
        command += ["--listen", listen, "--devices", str(self._devices)]
        return subprocess.Popen(
            self.network.command(host, command),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )
