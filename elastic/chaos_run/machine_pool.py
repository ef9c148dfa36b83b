"""A pool on this machine as one of machines: its etcd and each of its hosts are started, and fail, by themselves.

With a network, each host and etcd stand in a namespace of their own, and runs at the gateway; without, all are at this
machine's loopback. Hosts that end are started again, like a machine that is switched on.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from chaos import ETCD, Network, Plan
from elastic.chaos_run.etcd_members import EtcdMembers, own_address
from elastic.pool_secret import FILE

_LEAVE_S = 2.0
"""How long a host may take to leave."""

_PORT = 7000
"""Of an agent with an address of its own: whoever takes its place there is found where it was."""


class MachinePool:
    """The etcd and the hosts of a plan's pool. What it starts has `variables`, the marks of a run (see `belongings`).

    Raises `PoolError` or `UsageError` if its etcd cannot start.
    """

    def __init__(
        self, plan: Plan, network: Network | None, directory: Path, log: Path, variables: Mapping[str, str]
    ) -> None:
        """`directory` is that of the run, `log` a file for what all of them have to say."""
        secret = directory / "secret"
        secret.touch(0o600)
        secret.write_text(secrets.token_hex(32))
        environment = {**os.environ, **variables}
        self._log = log.open("ab")
        address, within = own_address(), _here
        if network is not None:
            address, within = network.address(ETCD), partial(network.command, ETCD)
        self.etcd = EtcdMembers(plan.etcd, address, directory, self._log, environment, within)
        self.variables = {FILE: str(secret), **self.etcd.variables}
        """What a run needs to join the pool."""
        self._network = network
        self._environment = {**environment, **self.variables}
        self._devices = plan.devices_per_host
        self._places = {host: host for host in plan.host_names}
        """Where in the network each host is."""
        self._hosts = {host: self._start(host) for host in plan.host_names}

    def keep(self) -> None:
        """Starts the hosts again that have ended."""
        for host, process in self._hosts.items():
            if process.poll() is not None:
                self._hosts[host] = self._start(host)

    def replace(self, host: str) -> None:
        """Kills a host for good, and has one of another name come up at its address and port."""
        process = self._hosts.pop(host)
        process.kill()
        process.wait()
        successor = f"{host}-successor"
        self._places[successor] = self._places.pop(host)
        self._hosts[successor] = self._start(successor)

    def end(self) -> None:
        """Has its processes leave, and kills those that do not."""
        for process in self._hosts.values():
            process.send_signal(signal.SIGINT)
        for process in self._hosts.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVE_S)
            process.kill()
            process.wait()
        self.etcd.end()
        self._log.close()

    def _start(self, host: str) -> subprocess.Popen[bytes]:
        place, network = self._places[host], self._network
        listen = "127.0.0.1:0" if network is None else f"{network.address(place)}:{_PORT}"
        command = [sys.executable, "-m", "elastic.cli", "host", "--pool", self.etcd.url, "--id", host]
        command += ["--listen", listen, "--devices", str(self._devices)]
        return subprocess.Popen(
            command if network is None else network.command(place, command),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )


def _here(command: Sequence[str]) -> Sequence[str]:
    return command
