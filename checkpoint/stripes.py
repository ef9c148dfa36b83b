"""Stripes: which shards of a snapshot share parity blocks, and which hosts keep these.

A stripe is up to k shards on k different hosts and m parity blocks on m others, each in a failure domain of its own, so
that any k of its blocks give the rest back, and any m hosts may be lost. What the sharding replicates on more than m
hosts needs nothing, and what an earlier snapshot's stripe still protects is not encoded again. Where a shard has no
partners - the pool is too small, no other host has shards left, or it is so small that parity would save nothing - it
gets full copies. Pure data in and out; what is computed is `parity`'s matter.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from checkpoint.protection import Protection

SMALL = 16 << 10
"""Bytes; a shard below this is copied: to read it from one more host costs more than to keep it once more."""

Homes = Mapping[bytes, Collection[str]]
"""The name of a content -> the hosts that hold it; those that do not live count for nothing."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a stripe, on the host where it counts. Its name is its content's; empty if it has to be made."""

    name: bytes
    size: int
    host: str


@dataclass(frozen=True, slots=True)
class Stripe:
    """At least two shards, and their parity blocks, which are as long as the longest of them."""

    data: tuple[Block, ...]
    parity: tuple[Block, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """In the order of their numbers."""
        return self.data + self.parity


@dataclass(frozen=True)
class Stripes:
    """What protects the shards of a snapshot."""

    kept: tuple[Stripe, ...]
    """Earlier ones that are whole."""
    new: tuple[Stripe, ...]
    """Those whose parity has to be made."""
    copies: Mapping[bytes, tuple[str, ...]]
    """Shard -> the hosts that are to get a full copy."""
    copied: tuple[bytes, ...]
    """Shards that full copies protect, new ones or some from before."""
    exposed: tuple[bytes, ...]
    """Shards that do not survive the loss of any m hosts even then, for want of hosts."""
    load: Mapping[str, int]
    """host -> bytes of parity, old and new, and of new copies."""
    reason: str


def stripes(
    sizes: Mapping[bytes, int],
    homes: Homes,
    kept_by: Homes,
    before: Sequence[Stripe],
    domains: Mapping[str, str],
    protection: Protection,
    small: int = SMALL,
) -> Stripes:
    """Chooses stripes for shards, given by the names of their contents and their sizes in bytes.

    Shards that change together should follow each other, so that their stripes go together. `homes` are the hosts that
    have shards in any case, or parity from before; `kept_by` those that keep copies, which go where parity will do.
    `domains` gives each living host its failure domain; where there are too few of these for m losses, hosts have to
    do. Raises `ValueError` for a shard that is on no living host.
    """
    apart = domains if len(set(domains.values())) > protection.m else {host: host for host in domains}
    count = len(set(apart.values()))
    m = min(protection.m, count - 1)
    k = min(protection.k, count - m)
    where = {name: _by_domain(homes[name], apart) for name in sizes}
    if lost := [name for name, there in where.items() if not there]:
        raise ValueError(f"the shard {lost[0].hex()} is on no living host; it cannot be protected")
    kept, covered = _kept(sizes, homes, before, apart, m)
    loads = _Loads(apart)
    for stripe in kept:
        for block in stripe.parity:
            loads.add(block.host, block.size)
    needy = [name for name in sizes if name not in covered and len(where[name]) <= m]
    big = [name for name in needy if k > 1 and sizes[name] >= small]
    new, alone = _formed(big, sizes, where, k, m, loads)
    copies: dict[bytes, tuple[str, ...]] = {}
    taken = set(big)
    copied = sorted([*alone, *(name for name in needy if name not in taken)], key=lambda name: -sizes[name])
    for name in copied:
        there = where[name].keys() | _by_domain(kept_by.get(name, ()), apart)
        if to := loads.give(there, sizes[name], m + 1 - len(there)):
            copies[name] = to
    exposed = tuple(sizes) if len(set(domains.values())) <= protection.m else ()
    idle = len(sizes) - len(needy) + len(copied) - len(copies)
    reason = f"{idle} of {len(sizes)} shards need nothing new"
    if count == 1:
        reason += ": the pool has one host, which alone holds them"
    else:
        parity = f"{len(needy) - len(copied)} get parity in {len(new)} stripes of up to {k}+{m}"
        reason += f", {parity}, {len(copies)} get copies"
        if exposed:
            reason += (
                f"; with less than {protection.m + 1} failure domains not every loss of {protection.m} is survived"
            )
    return Stripes(tuple(kept), tuple(new), copies, tuple(copied), exposed, loads.load, reason)


def rebuildable(found: Sequence[Stripe], homes: Homes, living: Collection[str]) -> dict[bytes, Stripe]:
    """The contents that can be made of other blocks on living hosts, with the stripe that has them."""
    made: dict[bytes, Stripe] = {}
    for stripe in found:
        there = [block.name for block in stripe.blocks if any(host in living for host in homes.get(block.name, ()))]
        for block in stripe.blocks:
            if len(there) - there.count(block.name) >= len(stripe.data):
                made[block.name] = stripe
    return made


def _by_domain(hosts: Collection[str], apart: Mapping[str, str]) -> dict[str, str]:
    """domain -> one of the hosts in it"""
    return {apart[host]: host for host in sorted(hosts, reverse=True) if host in apart}


def _kept(
    sizes: Mapping[bytes, int], homes: Homes, before: Sequence[Stripe], apart: Mapping[str, str], m: int
) -> tuple[list[Stripe], set[bytes]]:
    """(stripes that protect as much as new ones would, the shards in them)"""
    kept: list[Stripe] = []
    covered: set[bytes] = set()
    for stripe in before:
        names = {block.name for block in stripe.data}
        if names <= sizes.keys() and not names & covered and len(stripe.parity) >= m:
            whole = _whole(stripe, homes, apart)
            if whole is not None:
                kept.append(whole)
                covered |= names
    return kept, covered


def _whole(stripe: Stripe, homes: Homes, apart: Mapping[str, str]) -> Stripe | None:
    """The stripe, each block counted where it is, if all are there in domains of their own.

    A block that moved counts at its new home, if that is no other block's.
    """
    used: dict[int, str] = {}
    moved: list[int] = []
    for number, block in enumerate(stripe.blocks):
        if block.host in apart and block.host in homes.get(block.name, ()):
            used[number] = block.host
        else:
            moved.append(number)
    if len({apart[host] for host in used.values()}) < len(used):
        return None
    for number in moved:
        taken = {apart[host] for host in used.values()}
        there = _by_domain(homes.get(stripe.blocks[number].name, ()), apart)
        free = sorted(there.keys() - taken)
        if not free:
            return None
        used[number] = there[free[0]]
    if not moved:
        return stripe
    blocks = [replace(block, host=used[number]) for number, block in enumerate(stripe.blocks)]
    return Stripe(tuple(blocks[: len(stripe.data)]), tuple(blocks[len(stripe.data) :]))


def _formed(
    names: Sequence[bytes],
    sizes: Mapping[bytes, int],
    where: Mapping[bytes, Mapping[str, str]],
    k: int,
    m: int,
    loads: _Loads,
) -> tuple[list[Stripe], list[bytes]]:
    """(new stripes, shards that found no partner)

    Each takes the largest shards of the k domains that have most left: so all come to their end together.
    """
    shares: dict[str, list[bytes]] = defaultdict(list)
    left: Counter[str] = Counter()
    for name in sorted(names, key=lambda name: (len(where[name]), -sizes[name])):
        domain = min(where[name], key=lambda domain: (left[domain], domain))
        shares[domain].append(name)
        left[domain] += sizes[name]
    queues = {domain: deque(sorted(share, key=lambda name: -sizes[name])) for domain, share in shares.items()}
    heap = [(-left[domain], domain) for domain in queues]
    heapq.heapify(heap)
    formed: list[Stripe] = []
    while len(heap) > 1:
        chosen = [heapq.heappop(heap) for _ in range(min(k, len(heap)))]
        data = []
        for minus, domain in chosen:
            name = queues[domain].popleft()
            data.append(Block(name, sizes[name], where[name][domain]))
            if queues[domain]:
                heapq.heappush(heap, (minus + sizes[name], domain))
        size = max(block.size for block in data)
        hosts = loads.give({domain for _, domain in chosen}, size, m)
        formed.append(Stripe(tuple(data), tuple(Block(b"", size, host) for host in hosts)))
    return formed, [name for queue in queues.values() for name in queue]


class _Loads:
    """Bytes that hosts keep for others; finds the lightest hosts of other domains."""

    def __init__(self, apart: Mapping[str, str]) -> None:
        self.load = dict.fromkeys(apart, 0)
        self._apart = apart
        self._heap = [(0, host) for host in sorted(apart)]

    def add(self, host: str, bytes: int) -> None:
        self.load[host] += bytes
        heapq.heappush(self._heap, (self.load[host], host))

    def give(self, avoid: Collection[str], bytes: int, count: int) -> tuple[str, ...]:
        """Gives bytes to the lightest hosts of `count` domains besides those to avoid; fewer if there are fewer."""
        used, found = set(avoid), list[str]()
        passed: list[tuple[int, str]] = []
        while self._heap and len(found) < count:
            load, host = heapq.heappop(self._heap)
            if load != self.load[host]:
                continue  # What it was before something was added.
            if self._apart[host] in used:
                passed.append((load, host))
            else:
                used.add(self._apart[host])
                found.append(host)
        for entry in passed:
            heapq.heappush(self._heap, entry)
        for host in found:
            self.add(host, bytes)
        return tuple(found)
