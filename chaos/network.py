"""Hosts in network namespaces of this machine, joined by a bridge: a network whose cables can be pulled.

    with Network(["h1", "h2"]) as network:
        command = network.command("h1", ["elastic", "host", "--listen", f"{network.address('h1')}:0", ...])
        network.cut("h1")
        network.heal("h1")

Who is in no namespace, such as the controller, is at `network.gateway`. Nothing leaves the machine. Needs root and
iproute2; Linux only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_NAMESPACES = Path("/run/netns")
_MOST_HOSTS = 200
_NETWORKS = range(64, 128)
"""The third numbers of addresses 10.213.x.0/24, of which a network takes one that no device has."""


class NetworkError(Exception):
    """The network cannot be made or changed; the text is that of ip(8)."""


@functools.cache
def missing() -> str | None:
    """Why no network can be made here; None if one can, which is found out by making one."""
    try:
        with Network(["probe"]):
            return None
    except NetworkError as error:
        return str(error)


def _lacks() -> str | None:
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need iproute2: apt-get install iproute2"
    return None


class Network:
    """A bridge, and a namespace for each host; a context manager that leaves nothing behind.

    Raises `NetworkError` if it cannot be made.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        if (why := _lacks()) is not None:
            raise NetworkError(why)
        if len(hosts) > _MOST_HOSTS:
            raise NetworkError(f"a network has at most {_MOST_HOSTS} hosts, not {len(hosts)}")
        self._numbers = _numbers(hosts)
        self._third = self._make_bridge()
        try:
            for host in hosts:
                self._join(host)
        except BaseException:
            self.close()
            raise

    @classmethod
    def made(cls, hosts: Sequence[str], number: int) -> Self:
        """The network of these hosts that another process has made and will close, by its number."""
        network = cls.__new__(cls)
        network._numbers, network._third = _numbers(hosts), number
        return network

    @property
    def number(self) -> int:
        """Tells it from the other networks of this machine."""
        return self._third

    @property
    def gateway(self) -> str:
        """The address of whoever is in no namespace."""
        return f"10.213.{self._third}.1"

    def address(self, host: str) -> str:
        return f"10.213.{self._third}.{self._numbers[host]}"

    def command(self, host: str, command: Sequence[str]) -> list[str]:
        """The command that runs a command on a host."""
        return ["ip", "netns", "exec", self._namespace(host), *command]

    def cut(self, host: str) -> None:
        """Pulls the host's cable: what is sent to it or by it is lost, and nobody is told."""
        _ip("link", "set", self._port(host), "down")

    def heal(self, host: str) -> None:
        _ip("link", "set", self._port(host), "up")

    def close(self) -> None:
        for host in self._numbers:
            # The kernel removes a namespace later, and its cables with it: until then their names would be taken.
            with contextlib.suppress(NetworkError):
                _ip("link", "del", self._port(host))
            if (_NAMESPACES / self._namespace(host)).exists():
                _ip("netns", "del", self._namespace(host))
        with contextlib.suppress(NetworkError):
            _ip("link", "del", self._bridge)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _bridge(self) -> str:
        return f"elastic{self._third}"

    def _namespace(self, host: str) -> str:
        return f"elastic{self._third}-{self._numbers[host]}"

    def _port(self, host: str) -> str:
        """The bridge's end of the host's cable."""
        return f"el{self._third}-{self._numbers[host]}"

    def _make_bridge(self) -> int:
        """Makes a bridge of a number that is free, and returns that."""
        for third in _NETWORKS:
            name = f"elastic{third}"
            try:
                _ip("link", "add", name, "type", "bridge")
            except NetworkError as error:
                if "File exists" in str(error):
                    continue
                raise
            _ip("address", "add", f"10.213.{third}.1/24", "dev", name)
            _ip("link", "set", name, "up")
            return third
        raise NetworkError("all networks are in use; remove old ones: `ip link del elastic64`, `ip netns list`")

    def _join(self, host: str) -> None:
        namespace, port = self._namespace(host), self._port(host)
        _ip("netns", "add", namespace)
        _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("link", "set", port, "master", self._bridge)
        _ip("link", "set", port, "up")
        inside = ("-n", namespace)
        _ip(*inside, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        _ip(*inside, "link", "set", "eth0", "up")
        _ip(*inside, "link", "set", "lo", "up")


def _numbers(hosts: Sequence[str]) -> dict[str, int]:
    """The last number of each host's address."""
    return {host: 2 + index for index, host in enumerate(hosts)}


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
