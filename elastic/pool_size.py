"""How large a local pool may be, and whether this machine can hold it: checked before anything is started.

Not for pools of real machines, where every host has its own memory.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from elastic.errors import PoolError, UsageError

MAX_HOSTS = 64
MAX_DEVICES = 512
# An agent plus an executor with jax imported and a CPU client, resident, before the program's own arrays.
HOST_BYTES = 250_000_000


def check_size(hosts: int, devices_per_host: int, memory_bytes: int) -> None:
    """Refuses a pool that cannot make sense on one machine.

    Args:
        hosts: how many hosts to simulate on this machine.
        devices_per_host: devices of each.
        memory_bytes: what this machine (or container) has.

    Raises:
        UsageError: with the reason and the largest value that would do.
    """
    if hosts < 1:
        raise UsageError(f"a pool of {hosts} hosts cannot run anything; ask for at least 1")
    if devices_per_host < 1:
        raise UsageError(f"hosts with {devices_per_host} devices cannot run anything; ask for at least 1 each")
    room = max(1, min(MAX_HOSTS, memory_bytes // HOST_BYTES))
    if hosts > MAX_HOSTS or (hosts > 1 and hosts * HOST_BYTES > memory_bytes):
        raise UsageError(
            f"{hosts:,} hosts make no sense on this one machine: each is a set of processes of about "
            f"{HOST_BYTES // 1_000_000} MB, {_gigabytes(hosts * HOST_BYTES)} in all, and it has "
            f"{_gigabytes(memory_bytes)}; ask for at most {room}"
        )
    if hosts * devices_per_host > MAX_DEVICES:
        raise UsageError(
            f"{hosts} hosts x {devices_per_host:,} devices are {hosts * devices_per_host:,} devices, and one machine "
            f"simulates at most {MAX_DEVICES}; ask for at most {MAX_DEVICES // hosts} a host"
        )


def check_python() -> None:
    """Refuses a Python without jax, by name, instead of the traceback of a child.

    Raises:
        PoolError: jax or jaxlib is not installed.
    """
    for module in ("jax", "jaxlib"):
        if importlib.util.find_spec(module) is None:
            raise PoolError(f"{sys.executable} has no {module}; install it with `{sys.executable} -m pip install jax`")


def check_certificates(environment: Mapping[str, str] = os.environ) -> None:
    """Raises `UsageError` for certificates with which the pool's processes could not speak TLS (see `elastic.tls`)."""
    if any(name.startswith("ELASTIC_TLS_") for name in environment):
        from elastic import tls  # Nobody else waits for its import.

        tls.ours(environment)


def check_metrics(address: str) -> None:
    """Raises `UsageError` if metrics cannot be served at an address, as that of `check_listen`; port 0 is any."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("metrics need the package prometheus-client: pip install 'elastic-jax[metrics]'")
    if not address.endswith(":0"):
        check_listen(address)


def check_listen(listen: str) -> None:
    """Refuses an address that cannot be listened on.

    Args:
        listen: ``HOST:PORT`` or ``[IPV6]:PORT``.

    Raises:
        UsageError: it is no such address, or someone listens there already.
    """
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{listen!r} is no address to listen on; give HOST:PORT, such as 127.0.0.1:7777")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            # Connections of an earlier run may linger in TIME_WAIT; only a listener makes the port taken.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} of {host} is in use by another program; choose another") from error
        raise UsageError(f"cannot listen on {listen}: {error.strerror}; give an address of this machine") from error


def machine_memory() -> int:
    """Bytes of memory that this machine has, or that its container may use."""
    total = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) << 10
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            total = min(total, int(text))
    return total


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 10e9 else f"{size / 1e9:.1f} GB"
