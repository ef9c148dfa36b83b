"""Re-materialization: from which copy each host gets each shard that it needs after a change of the world.

A shard is taken from the best kind of copy there is: the host's own memory, then the memory of another host, then what
parity can rebuild, then durable storage. Among hosts with an equally good copy the least busy one sends. The plan says
what nobody holds, and how long it will take. Pure data in and out; nothing is moved here.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


class Kind(enum.StrEnum):
    """What a copy is."""

    MEMORY = "memory"
    """In the host's memory, since one of its devices had the shard."""
    REPLICA = "replica"
    """The same, on one of several hosts that had it because the sharding replicates it."""
    PEER = "peer copy"
    """In the host's memory, on behalf of another host."""
    PARITY = "parity"
    """Not there as such: the host can rebuild it from what others have."""
    DURABLE = "durable storage"
    """In a checkpoint; the host that needs it reads it itself."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a shard; `host` is empty for durable storage."""

    kind: Kind
    host: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """A host that must get a shard of an array. Sizes in bytes."""

    array: int
    shard: int
    bytes: int
    host: str


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per second, for each way to get a shard. Raises `ValueError` if one is not positive."""

    own: float = 4e9
    """Out of the host's own memory."""
    network: float = 1e9
    """From the memory of another host; as fast in both directions at once."""
    parity: float = 3e8
    durable: float = 1e8
    factors: Mapping[str, float] = field(default_factory=dict)
    """Hosts that are known to be faster or slower, by how much."""

    def __post_init__(self) -> None:
        if min(self.own, self.network, self.parity, self.durable, *self.factors.values()) <= 0:
            raise ValueError(f"bandwidths must be positive: {self}")

    def of(self, tier: Tier, host: str) -> float:
        """What a host can send or take in a second."""
        return (self.own, self.network, self.parity, self.durable)[tier] * self.factors.get(host, 1.0)


class Tier(enum.IntEnum):
    """How good a copy is for one who needs it; less is better."""

    OWN = 0
    NETWORK = 1
    PARITY = 2
    DURABLE = 3


@dataclass(frozen=True, slots=True)
class Transfer:
    """One shard on its way. `choices` is the number of hosts with an equally good copy."""

    need: Need
    source: Copy
    choices: int

    @property
    def reason(self) -> str:
        """Why from there, in words."""
        if self.source.kind is Kind.PARITY and self.source.host == self.need.host:
            return f"{self.need.host} rebuilds it from what others have"
        if self.source.host == self.need.host:
            return f"{self.need.host} holds it itself ({self.source.kind})"
        if self.source.kind is Kind.DURABLE:
            return "no memory of the pool holds it: durable storage"
        if self.choices == 1:
            return f"{self.source.host} is the only host that can give it ({self.source.kind})"
        return f"{self.source.host} is the least busy of {self.choices} hosts that can give it ({self.source.kind})"


@dataclass(frozen=True)
class Plan:
    """What to move, what is lost, and how long it takes."""

    transfers: tuple[Transfer, ...]
    """In the order of the needs, less those that are lost."""
    lost: Mapping[int, tuple[int, ...]]
    """array -> its shards that somebody needs and nobody holds, ascending"""
    seconds: float
    """The busiest host's time, in one direction. Latencies are not in it."""
    reason: str


Copies = Mapping[tuple[int, int], Sequence[Copy]]
"""(array, shard) -> its copies on hosts that live, all of the same point of the journal."""


def plan(needs: Sequence[Need], copies: Copies, bandwidth: Bandwidth | None = None) -> Plan:
    """Chooses a source for each need.

    What a single host can give comes first, then the largest, each from the host that will have sent it first. Among
    equally fast hosts that takes at most 1 + log2(hosts) times as long, rounded up, as the best plan of the same tiers
    (Azar, Naor and Rom, "The competitiveness of on-line assignments", 1995). In a search among pools of four it was
    never more than twice, and three times where one host is four times as fast as another.
    """
    bandwidth = bandwidth or Bandwidth()
    sends: dict[str, float] = defaultdict(float)
    takes: dict[str, float] = defaultdict(float)
    chosen: dict[int, Transfer] = {}
    lost: dict[int, set[int]] = defaultdict(set)
    offers = [_best(need.host, copies.get((need.array, need.shard), ())) for need in needs]
    for number in sorted(range(len(needs)), key=lambda number: (len(offers[number][1]) > 1, -needs[number].bytes)):
        need, (tier, choices) = needs[number], offers[number]
        if not choices:
            lost[need.array].add(need.shard)
            continue
        takes[need.host] += need.bytes / bandwidth.of(tier, need.host)
        if tier is Tier.OWN or tier is Tier.DURABLE:
            chosen[number] = Transfer(need, choices[0], 1)
            continue
        source, busy = choices[0], float("inf")
        for copy in choices:
            until = sends[copy.host] + need.bytes / bandwidth.of(tier, copy.host)
            if until < busy:
                source, busy = copy, until
        sends[source.host] = busy
        chosen[number] = Transfer(need, source, len(choices))
    transfers = tuple(chosen[number] for number in sorted(chosen))
    gone = {array: tuple(sorted(shards)) for array, shards in sorted(lost.items())}
    seconds = max([*sends.values(), *takes.values()], default=0.0)
    return Plan(transfers, gone, seconds, _reason(transfers, gone, seconds))


def _best(host: str, copies: Iterable[Copy]) -> tuple[Tier, list[Copy]]:
    """The best tier that anybody offers, and all copies of it."""
    best, choices = Tier.DURABLE, []
    for copy in copies:
        tier = _tier(host, copy)
        if tier < best:
            best, choices = tier, [copy]
        elif tier is best:
            choices.append(copy)
    return best, choices


def _tier(host: str, copy: Copy) -> Tier:
    if copy.kind is Kind.DURABLE:
        return Tier.DURABLE
    if copy.kind is Kind.PARITY:
        return Tier.PARITY
    return Tier.OWN if copy.host == host else Tier.NETWORK


def _reason(transfers: Sequence[Transfer], lost: Mapping[int, Sequence[int]], seconds: float) -> str:
    amounts: dict[str, tuple[int, int]] = {}
    for transfer in transfers:
        own = transfer.source.host == transfer.need.host and transfer.source.kind is not Kind.PARITY
        where = "own memory" if own else str(transfer.source.kind)
        count, size = amounts.get(where, (0, 0))
        amounts[where] = count + 1, size + transfer.need.bytes
    parts = [f"{count} shards ({size / 1e6:.1f} MB) from {where}" for where, (count, size) in sorted(amounts.items())]
    if lost:
        parts.append(f"{sum(map(len, lost.values()))} shards of {len(lost)} arrays are lost, nobody holds them")
    return f"{', '.join(parts) or 'nothing is needed'}; about {seconds:.2g} s"
