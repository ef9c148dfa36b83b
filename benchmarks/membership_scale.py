"""How many hosts one etcd keeps track of, and how soon all of them know that one is gone.

    python benchmarks/membership_scale.py [--hosts 1000] [--server etcd|embedded] [--out numbers.json]

Simulated hosts register on leases of their own, renew them, and each watches all the others. Then hosts die, one at a
time: the lease is revoked, as on suspicion, and the time is taken until each watcher has been told. The hosts live in
this one process, on a few connections, so its CPU and memory are those of all hosts together. Takes about a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import machine
import psutil

from membership import Compare, Delete, Etcd, Lease, PoolAddress, Put, PutKey, Watch

VALUE = b"x" * 300  # About what a host says of itself.


class Witness:
    """Takes the time when each watcher learns of the one change that matters now."""

    def __init__(self, watchers: int) -> None:
        self._watchers = watchers
        self._awaited: tuple[type, str] | None = None
        self._times: list[float] = []
        self._all = asyncio.Event()

    def expect(self, change: type, key: str) -> None:
        self._awaited, self._times = (change, key), []
        self._all.clear()

    async def follow(self, events: Watch) -> None:
        async for event in events:
            if isinstance(event, Put | Delete) and (type(event), event.key) == self._awaited:
                self._times.append(time.perf_counter())
                if len(self._times) == self._watchers:
                    self._all.set()

    async def times(self) -> list[float]:
        """When each of the watchers was told, once all were."""
        await self._all.wait()
        return self._times


@contextlib.contextmanager
def server(kind: str) -> Iterator[tuple[str, psutil.Process]]:
    """A server for this benchmark alone: its address and its process."""
    with tempfile.TemporaryDirectory() as directory:
        if kind == "embedded":
            command = [sys.executable, "-m", "membership.server", "--unix", f"{directory}/etcd.sock"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
        else:
            if shutil.which("etcd") is None:
                sys.exit("this needs etcd: apt-get install etcd-server")
            client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
            process = subprocess.Popen(
                [
                    *("etcd", "--data-dir", directory, "--initial-cluster", f"default={peer}"),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--heartbeat-interval", "10", "--election-timeout", "100"),
                ],
                stderr=subprocess.DEVNULL,
            )
            address = client.replace("http", "etcd")
        try:
            yield address, psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


class Load:
    """CPU and memory of a process between two moments."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._cpu, self._began = self._seconds(), time.perf_counter()

    def _seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system

    def __call__(self) -> dict[str, float]:
        cores = (self._seconds() - self._cpu) / (time.perf_counter() - self._began)
        return {"cores": round(cores, 3), "mib": round(self._process.memory_info().rss / 2**20, 1)}


def spread(seconds: list[float]) -> dict[str, float]:
    """Median and worst, in milliseconds."""
    return {"median_ms": round(1000 * statistics.median(seconds), 1), "worst_ms": round(1000 * max(seconds), 1)}


async def measure(address: str, process: psutil.Process, arguments: argparse.Namespace) -> dict[str, object]:
    pool = PoolAddress.parse(address, {})
    hosts, prefix = arguments.hosts, pool.prefix + "hosts/"
    names = [f"{prefix}h{index}" for index in range(hosts)]
    ours = psutil.Process()
    result: dict[str, object] = {}
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Etcd(pool)) for _ in range(arguments.connections)]

        async def register(index: int) -> Lease:
            etcd = clients[index % len(clients)]
            lease = await etcd.grant(arguments.ttl)
            await etcd.txn([Compare.missing(names[index])], [PutKey(names[index], VALUE, lease=lease.id)])
            return lease

        began = time.perf_counter()
        leases = await asyncio.gather(*(register(index) for index in range(hosts)))
        result["register_all_s"] = round(time.perf_counter() - began, 2)

        witness = Witness(hosts)
        revision = (await clients[0].list(prefix)).revision
        witness.expect(Put, prefix + "ready")
        began = time.perf_counter()
        for index in range(hosts):
            events = clients[index % len(clients)].watch_prefix(prefix, revision + 1)
            follower = asyncio.create_task(witness.follow(events))
            stack.callback(follower.cancel)
        await clients[0].put(prefix + "ready", b"")
        await witness.times()
        result["watch_all_s"] = round(time.perf_counter() - began, 2)

        loads = {"server": Load(process), "all_hosts": Load(ours)}
        await asyncio.sleep(arguments.steady)
        result["steady"] = {name: load() for name, load in loads.items()}
        result["renewals_per_s"] = round(3 * hosts / arguments.ttl, 1)

        told: list[float] = []
        last: list[float] = []
        loads = {"server": Load(process), "all_hosts": Load(ours)}
        for flap in range(arguments.deaths):
            index = flap * 7919 % hosts
            witness.expect(Delete, names[index])
            began = time.perf_counter()
            await leases[index].revoke()
            times = [each - began for each in await witness.times()]
            told += times
            last.append(max(times))
            witness.expect(Put, names[index])
            leases[index] = await register(index)
            await witness.times()
        result["flapping"] = {name: load() for name, load in loads.items()}
        result["death_to_a_watcher"] = spread(told)
        result["death_to_every_watcher"] = spread(last)
        result["leases_lost"] = sum(lease.lost.is_set() for lease in leases)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=20, help="that the hosts share")
    parser.add_argument("--ttl", type=int, default=10, help="of each lease, in seconds")
    parser.add_argument("--steady", type=float, default=15.0, help="seconds to look at renewals alone")
    parser.add_argument("--deaths", type=int, default=30)
    parser.add_argument("--server", choices=["etcd", "embedded"], default="etcd")
    parser.add_argument("--out", type=Path, help="write the numbers here as JSON")
    arguments = parser.parse_args()
    facts = machine.facts()
    print(json.dumps(facts))
    with server(arguments.server) as (address, process):
        result = asyncio.run(measure(address, process, arguments))
    for name, value in result.items():
        print(f"{name:24} {value}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"machine": facts, "server": arguments.server, **result}, indent=1))
    return 1 if result["leases_lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
