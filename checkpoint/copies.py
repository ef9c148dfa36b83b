"""Second homes: which host keeps a copy of each shard of a snapshot, besides those that have it anyway.

A shard is safe when two failure domains hold it (racks, power supplies, zones; each host is its own where nothing else
is said). What the sharding replicates elsewhere is safe already, and a copy that an earlier snapshot made is not made
again: so a change of the pool moves only what it makes unsafe. What is left goes to the host that keeps the fewest
bytes for others. Pure data in and out.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard of a live array. `bytes` is its size."""

    array: int
    shard: int
    bytes: int
    holders: tuple[str, ...]
    """Hosts whose devices have it."""
    kept_by: tuple[str, ...] = ()
    """Hosts that keep a copy of it for others, from an earlier snapshot."""


@dataclass(frozen=True)
class Copies:
    """What to copy where."""

    peers: Mapping[tuple[int, int], str]
    """(array, shard) -> the host that is to get a copy; only shards that need one."""
    exposed: tuple[tuple[int, int], ...]
    """Shards that a single failure domain holds even then, for want of another."""
    kept: Mapping[str, int]
    """host -> bytes that it keeps for others then."""
    reason: str


def second_homes(shards: Sequence[Shard], domains: Mapping[str, str]) -> Copies:
    """Chooses a second home for each shard that has none; `domains` gives each living host its failure domain.

    Holders and keepers that are not among these hosts count for nothing. Where all hosts are of one domain, two hosts
    have to do. Shards with the fewest hosts to choose from come first, then the largest. In a search among pools of
    four the fullest host never kept more than twice what it would in the best choice. Raises `ValueError` for a shard
    that is on no living host.
    """
    apart = domains if len(set(domains.values())) > 1 else {host: host for host in domains}
    kept = dict.fromkeys(domains, 0)
    unsafe: list[tuple[Shard, str]] = []
    exposed: list[tuple[int, int]] = []
    for shard in shards:
        homes = [host for host in (*shard.holders, *shard.kept_by) if host in domains]
        if not homes:
            raise ValueError(f"shard {shard.shard} of array {shard.array} is on no living host; it cannot be copied")
        for host in shard.kept_by:
            if host in domains:
                kept[host] += shard.bytes
        if len({apart[host] for host in homes}) == 1:
            unsafe.append((shard, apart[homes[0]]))
        if apart is not domains:
            exposed.append((shard.array, shard.shard))
    loads = _Loads(kept, apart)
    peers: dict[tuple[int, int], str] = {}
    sizes = Counter(apart.values())
    for shard, domain in sorted(unsafe, key=lambda pair: (-sizes[pair[1]], -pair[0].bytes)):
        peer = loads.give(domain, shard.bytes)
        if peer is not None:
            peers[shard.array, shard.shard] = peer
    size = sum(shard.bytes for shard, _ in unsafe) if peers else 0
    return Copies(peers, tuple(exposed), loads.kept, _reason(len(shards), len(peers), size, len(exposed), len(domains)))


class _Loads:
    """Bytes that hosts keep for others; finds the lightest host outside a domain in O(log hosts)."""

    def __init__(self, kept: dict[str, int], domains: Mapping[str, str]) -> None:
        self.kept = kept
        self._hosts: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for host, domain in domains.items():
            self._hosts[domain].append((kept[host], host))
        for hosts in self._hosts.values():
            heapq.heapify(hosts)
        # The lightest host of each domain.
        self._domains = [(*hosts[0], domain) for domain, hosts in self._hosts.items()]
        heapq.heapify(self._domains)

    def give(self, domain: str, bytes: int) -> str | None:
        """Gives bytes to the lightest host of any other domain; None if there is no other."""
        own = heapq.heappop(self._domains) if self._domains[0][2] == domain else None
        host = None
        if self._domains:
            _, host, there = self._domains[0]
            self.kept[host] += bytes
            heapq.heapreplace(self._hosts[there], (self.kept[host], host))
            heapq.heapreplace(self._domains, (*self._hosts[there][0], there))
        if own is not None:
            heapq.heappush(self._domains, own)
        return host


def _reason(shards: int, copied: int, bytes: int, exposed: int, hosts: int) -> str:
    safe = f"{shards - copied} of {shards} shards need no new copy"
    text = f"{safe}, {copied} ({bytes / 1e6:.1f} MB) get one"
    if hosts == 1:
        return f"{safe}: the pool has one host, which alone holds them"
    return f"{text}; all hosts are in one failure domain" if exposed else text
