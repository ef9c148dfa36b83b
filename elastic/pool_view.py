"""What a pool's etcd says of the pool at one moment: hosts, claims, runs. Reads, and decides nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from membership import Etcd, HostRecord, Keys, PoolAddress, RunRecord, Timing, host_of, run_of

QUICK = Timing(call=2.0, attempt=1.0, connect=1.0)
"""For those who wait for the answer."""


@dataclass(frozen=True)
class PoolView:
    """A pool at one revision of its etcd.

    Attributes:
        hosts: by id.
        claims: host -> run.
        runs: by id.
        generations: run -> its generation.
    """

    hosts: dict[str, HostRecord] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    runs: dict[str, RunRecord] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)


async def read(pool: PoolAddress, timing: Timing = QUICK) -> PoolView:
    """Raises `MembershipError`, which says which endpoints were tried."""
    async with Etcd(pool, timing) as etcd:
        listing = await etcd.list(pool.prefix)
    keys, view = Keys(pool.prefix), PoolView()
    for kv in listing.kvs:
        if kv.key.startswith(keys.hosts):
            host = host_of(kv)
            if host is not None:
                view.hosts[host.id] = host
        elif kv.key.startswith(keys.claims):
            view.claims[kv.key.removeprefix(keys.claims)] = kv.value.decode(errors="replace")
        elif kv.key.startswith(keys.runs):
            name, _, what = kv.key.removeprefix(keys.runs).rpartition("/")
            if what == "about" and (run := run_of(kv)) is not None:
                view.runs[run.id] = run
            elif what == "generation" and kv.value.isdigit():
                view.generations[name] = int(kv.value)
    return view
