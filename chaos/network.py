"""Hosts in network namespaces of this machine, joined by a bridge: a network of which any way can be cut.

    with Network(["h1", "h2"]) as network:
        command = network.command("h1", ["elastic", "host", "--listen", f"{network.address('h1')}:0", ...])
        network.cut("h1")                                   # off all others
        network.heal("h1")
        network.sever([("h1", "h2"), ("h1", GATEWAY)])      # these hear nothing of h1, which hears them
        network.mend([("h1", "h2"), ("h1", GATEWAY)])
        network.delay("h1", 0.1)                            # what it sends and gets takes so many seconds longer
        network.hasten("h1")

Who is in no namespace, such as the controller, is at `network.gateway`. Nothing leaves the machine. Needs root and
iproute2; Linux only.

A way is cut by a neighbour entry of the sender that names a hardware address which nobody has: the bridge carries what
is sent there to everyone, and nobody takes it. That needs neither a packet filter nor a module of the kernel, and tells
the sender nothing, as a pulled cable does; a route of type blackhole would answer with an error.

A host is delayed by a bridge of its own, at which its cable then ends, and a line (`chaos.delay_line`) from there to
the bridge of all.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from chaos import delay_line

GATEWAY = "gateway"
"""Whoever is in no namespace, as the end of a way."""

Way = tuple[str, str]
"""From a sender to a receiver."""

_NAMESPACES = Path("/run/netns")
_NOBODY = "02:00:00:00:00:00"
"""A hardware address of the range for private use that no device of a network has."""
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


def cannot_delay() -> str | None:
    """Why no host of a network can be delayed here; None if one can."""
    try:
        os.close(delay_line.make_device(""))
    except OSError as error:
        return f"messages are delayed by devices that the kernel has for that (/dev/net/tun): {error.strerror}"
    return None


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
        self._severed: Counter[Way] = Counter()
        self._lines: dict[str, subprocess.Popen[str]] = {}
        """The delay lines of hosts."""
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
        network._severed, network._lines = Counter(), {}
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
        return self.gateway if host == GATEWAY else f"10.213.{self._third}.{self._numbers[host]}"

    def command(self, host: str, command: Sequence[str]) -> list[str]:
        """The command that runs a command on a host."""
        return ["ip", "netns", "exec", self._namespace(host), *command]

    def cut(self, host: str) -> None:
        """Cuts a host off: what is sent to it or by it is lost, and nobody is told."""
        self.sever(self._ways(host))

    def heal(self, host: str) -> None:
        self.mend(self._ways(host))

    def sever(self, ways: Iterable[Way]) -> None:
        """From now on what senders send to receivers is lost, and nobody is told. Raises `NetworkError`."""
        ways = list(ways)
        cut = [way for way in ways if not self._severed[way]]
        self._severed.update(ways)
        try:
            self._change(cut, f"neighbour replace {{address}} dev {{device}} lladdr {_NOBODY} nud permanent")
        except NetworkError:
            with contextlib.suppress(NetworkError):
                self.mend(ways)
            raise

    def mend(self, ways: Iterable[Way]) -> None:
        """Takes back one `sever` of these ways; one that was cut twice stays cut."""
        ways = list(ways)
        self._severed.subtract(ways)
        whole = [way for way in ways if not self._severed[way]]
        self._change(whole, "neighbour delete {address} dev {device}")

    def delay(self, host: str, seconds: float) -> None:
        """From now on all that a host sends or gets takes so many seconds longer.

        Raises `NetworkError`, and leaves all as it is, if the host is delayed already, or cannot be.
        """
        if host in self._lines:
            raise NetworkError(f"what {host} sends is delayed already")
        near, far, bridge = (self._name(end, host) for end in ("near", "far", "slow"))
        self._lines[host] = _delay_line(near, far, seconds)
        try:
            # It learns nothing, and passes all on: from a frame of the host's that has gone out by its old cable, and
            # comes back by the line, it would have learnt that the host is out there.
            _ip("link", "add", bridge, "type", "bridge", "ageing_time", "0")
            _ip("link", "set", near, "master", bridge, "up")
            _ip("link", "set", far, "master", self._bridge, "up")
            _ip("link", "set", bridge, "up")
            _ip("link", "set", self._port(host), "master", bridge)
        except BaseException:
            with contextlib.suppress(NetworkError):
                self.hasten(host)
            raise

    def hasten(self, host: str) -> None:
        """Takes `delay` back; what is under way is lost. Does nothing if the host is not delayed.

        Raises `NetworkError` if it cannot, or if the host had been without a cable.
        """
        line = self._lines.pop(host, None)
        if line is None:
            return
        try:
            _ip("link", "set", self._port(host), "master", self._bridge)
            _ip("link", "del", self._name("slow", host))
        finally:
            _, errors = line.communicate()
        if line.returncode:
            raise NetworkError(f"the delay line of {host} had failed, and cut it off: {_last(errors)}")

    def hasten_all(self) -> None:
        """Takes all delays back, as far as the network is still there."""
        for host in list(self._lines):
            with contextlib.suppress(NetworkError):
                self.hasten(host)

    def _ways(self, host: str) -> list[Way]:
        others = [other for other in (*self._numbers, GATEWAY) if other != host]
        return [way for other in others for way in ((host, other), (other, host))]

    def _change(self, ways: Sequence[Way], line: str) -> None:
        """Has each sender change its neighbour entry of the receiver."""
        for sender in dict.fromkeys(sender for sender, _ in ways):
            where, device = ((), self._bridge) if sender == GATEWAY else (("-n", self._namespace(sender)), "eth0")
            receivers = [self.address(receiver) for one, receiver in ways if one == sender]
            lines = [line.format(address=address, device=device) for address in receivers]
            _ip(*where, "-batch", "-", lines=lines)

    def close(self) -> None:
        self.hasten_all()
        for host in self._numbers:
            # The kernel removes a namespace later, and its cables with it: until then their names would be taken.
            for device in (self._port(host), self._name("slow", host)):
                with contextlib.suppress(NetworkError):
                    _ip("link", "del", device)
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
        return self._name("el", host)

    def _name(self, what: str, host: str) -> str:
        """Of a device of the host's that is in no namespace."""
        return f"{what}{self._third}-{self._numbers[host]}"

    def _make_bridge(self) -> int:
        """Makes a bridge of a number that is free, and returns that."""
        for third in _NETWORKS:
            name = f"elastic{third}"
            try:
                # With no address of its own, it has that of one of its ports, and changes it as these come and go.
                _ip("link", "add", name, "address", f"02:00:00:00:{third:02x}:01", "type", "bridge")
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


def _delay_line(one: str, other: str, seconds: float) -> subprocess.Popen[str]:
    """A process that ends when it can read no more; until then there are the two devices that it makes."""
    line = subprocess.Popen(
        [sys.executable, "-S", delay_line.__file__, one, other, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C must not take a host's cable while others still use it.
    )
    assert line.stdout is not None
    if line.stdout.readline() != "ready\n":
        _, errors = line.communicate()
        raise NetworkError(f"what a host sends cannot be delayed: {_last(errors)}")
    return line


def _last(errors: str) -> str:
    """What a process said last."""
    return next(reversed(errors.splitlines()), "it said nothing")


def _ip(*arguments: str, lines: Sequence[str] = ()) -> None:
    command, text = ["ip", *arguments], "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
