"""Placement: which host owns which virtual device, as a pure function.

What is wanted, in this order: the most loaded physical device carries as few virtual devices as can be, since all wait
for it in each step; as few virtual devices as can be change their host, since their arrays have to follow; and no more
hosts are used than are needed. The hosts left over are spares: they hold nothing until they are needed.

This decides where, not when: a lost host calls for it at once, a host that returns at the next snapshot.
"""

from __future__ import annotations

import enum
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

NOWHERE = (-1, -1)
"""The owner of a virtual device that is lost."""


@dataclass(frozen=True)
class Placement:
    """virtual device -> (rank, local index) in one generation; `hosts` names the ranks.

    On a host, devices that came later have higher local indices. Those in `lost` have no place, and `NOWHERE` as owner.
    """

    generation: int
    hosts: tuple[str, ...]
    owners: tuple[tuple[int, int], ...]
    reason: str
    lost: tuple[int, ...] = ()

    def ranks(self, devices: Sequence[int]) -> tuple[int, ...]:
        """The ranks that own any of the virtual devices, ascending."""
        return tuple(sorted({rank for rank, _ in map(self.owners.__getitem__, devices) if rank >= 0}))

    def host_of(self, device: int) -> str:
        """The host that owns a virtual device; empty if it is lost."""
        rank, _ = self.owners[device]
        return self.hosts[rank] if rank >= 0 else ""

    def local_devices(self, rank: int) -> tuple[int, ...]:
        """The virtual devices of one rank, in the order of their local indices."""
        local = ((index, device) for device, (owner, index) in enumerate(self.owners) if owner == rank)
        return tuple(device for _, device in sorted(local))

    def by_host(self) -> dict[str, list[int]]:
        """host -> its virtual devices, in the order of their local indices."""
        held: dict[str, list[int]] = {host: [] for host in self.hosts}
        for _, rank, device in sorted((index, rank, device) for device, (rank, index) in enumerate(self.owners)):
            if rank >= 0:
                held[self.hosts[rank]].append(device)
        return held


class Policy(enum.StrEnum):
    """What is done when hosts are lost and free physical devices, such as those of spares, do not suffice.

    Only `STACK` has several virtual devices share a physical one; where chips cannot be shared it is no choice.
    """

    STACK = "stack"
    """Several virtual devices share a physical one."""
    SPARE = "spare"
    """The run ends with an error."""
    WAIT = "wait"
    """The run waits for hosts."""
    SURFACE = "surface"
    """The client is told what it lost."""


@dataclass(frozen=True)
class Candidate:
    """A host of the pool as placement sees it."""

    id: str
    devices: int
    """Its physical devices. A host with none is not used."""
    barred: str = ""
    """Why nothing may be placed on it, such as "quarantined: failed 3 times in 10 min"; empty if it may be used."""


@dataclass(frozen=True)
class Waiting:
    """No placement for now: so many physical devices are missing. To be asked again when a host comes."""

    missing: int
    reason: str


@dataclass(frozen=True)
class Refused:
    """No placement, and none is waited for: so many physical devices are missing."""

    missing: int
    reason: str


def place(
    generation: int,
    hosts: Sequence[Candidate],
    devices: int,
    previous: Placement | None = None,
    policy: Policy = Policy.STACK,
) -> Placement | Waiting | Refused:
    """Where the virtual devices 0..`devices`-1 go, given where they were before.

    With `SURFACE` the last of those that have to move are lost if there are too few physical devices; a run does not
    begin that way, and nothing is lost to no host at all.

    Spares are taken into use in the order of `hosts`. Devices that stay keep their order on their host, and a host that
    must give some up gives the last that came. Without a previous placement hosts get contiguous blocks: neighbours in
    a mesh are mostly neighbours in number. Raises `ValueError` if there is nothing to place, if a host is named twice,
    or if the previous placement has another number of devices.
    """
    if devices < 1:
        raise ValueError(f"{devices} virtual devices cannot be placed; at least one is needed")
    if len({host.id for host in hosts}) < len(hosts):
        raise ValueError("a host is named twice among those to place on")
    if previous is not None and len(previous.owners) != devices:
        raise ValueError(f"{devices} virtual devices cannot follow a placement of {len(previous.owners)}")
    before = previous.by_host() if previous else {}
    sizes = {host.id: host.devices for host in hosts if not host.barred and host.devices > 0}
    limits = sizes
    used = _needed(limits, before, devices)
    missing = devices - sum(limits[host] for host in used)
    load = Fraction(1)
    if missing > 0 and policy is Policy.STACK and used:
        load, missing = _least_load([sizes[host] for host in used], devices), 0
        limits = {host: int(load * sizes[host]) for host in used}

    held = {host: before.get(host, [])[: limits[host]] for host in used}
    staying = {device for kept in held.values() for device in kept}
    moving = [device for device in range(devices) if device not in staying]
    why = _why(hosts, used, before)
    lost: tuple[int, ...] = ()
    if missing > 0:
        lack = f"{missing} of {devices} virtual devices have no physical device left"
        if policy is Policy.SPARE:
            return Refused(missing, f"{lack}{why}, and there is no spare")
        if policy is Policy.WAIT or previous is None or missing == devices:
            return Waiting(missing, f"{lack}{why}")
        lost, why = tuple(moving[-missing:]), f"; {lack}, which the client is told{why}"
        moving = moving[:-missing]
    new = _shares({host: len(kept) for host, kept in held.items()}, sizes, limits, len(moving))
    rest = iter(moving)
    for host, count in new.items():
        held[host].extend(next(rest) for _ in range(count))
    receivers = [host for host in new if new[host]] if previous else None
    reason = _reason(devices - len(lost), held, load, receivers, len(moving)) + why
    return _placement(generation, devices, {host: kept for host, kept in held.items() if kept}, reason, lost)


def spread(generation: int, hosts: Sequence[str], devices: int) -> Placement:
    """Contiguous blocks of virtual devices, as equal as they can be, over the hosts in their order.

    Raises `ValueError` if there is no host, or a host would own nothing.
    """
    if not hosts or devices < len(hosts):
        raise ValueError(f"{devices} virtual devices cannot be spread over {len(hosts)} hosts")
    # With one physical device each, no host can be spared.
    placement = place(generation, [Candidate(host, 1) for host in hosts], devices)
    assert isinstance(placement, Placement)
    reason = f"{devices} virtual devices spread evenly over {_count(len(hosts), 'host')}"
    return Placement(generation, placement.hosts, placement.owners, reason)


def place_on(generation: int, hosts: Sequence[str], reason: str) -> Placement:
    """The placement with these hosts for the virtual devices, in their order."""
    held: dict[str, list[int]] = {}
    for device, host in enumerate(hosts):
        held.setdefault(host, []).append(device)
    return _placement(generation, len(hosts), held, reason, ())


def _needed(limits: Mapping[str, int], before: Iterable[str], devices: int) -> list[str]:
    """The hosts to use: all that hold something already, and spares until every device has a place."""
    used = [host for host in before if host in limits]
    room = sum(limits[host] for host in used)
    for host, limit in limits.items():
        if room >= devices:
            break
        if host not in before:
            used.append(host)
            room += limit
    return used


def _least_load(sizes: Sequence[int], devices: int) -> Fraction:
    """The least load from 1 on, in virtual devices a physical one, with which all find room."""
    room = sum(sizes)
    # Hosts of one size fill up together, so there is one entry for each size: (load with one device more, size).
    alike = Counter(sizes)
    steps = [(Fraction(size + 1, size), size) for size in alike]
    heapq.heapify(steps)
    load = Fraction(1)
    while room < devices:
        load, size = steps[0]
        room += alike[size]
        heapq.heapreplace(steps, (load + Fraction(1, size), size))
    return load


def _shares(
    held: Mapping[str, int], sizes: Mapping[str, int], limits: Mapping[str, int], devices: int
) -> dict[str, int]:
    """How many of the devices that move each host gets: always the one with the least load, up to its limit."""
    new = dict.fromkeys(held, 0)
    loads = [
        (count / sizes[host], order, host) for order, (host, count) in enumerate(held.items()) if count < limits[host]
    ]
    heapq.heapify(loads)
    for _ in range(devices):
        _, order, host = loads[0]
        new[host] += 1
        count = held[host] + new[host]
        if count < limits[host]:
            heapq.heapreplace(loads, (count / sizes[host], order, host))
        else:
            heapq.heappop(loads)
    return new


def _placement(
    generation: int, devices: int, held: Mapping[str, Sequence[int]], reason: str, lost: tuple[int, ...]
) -> Placement:
    owners = {device: (rank, index) for rank, kept in enumerate(held.values()) for index, device in enumerate(kept)}
    return Placement(
        generation, tuple(held), tuple(owners.get(device, NOWHERE) for device in range(devices)), reason, lost
    )


# Words


def _reason(
    devices: int, held: Mapping[str, Sequence[int]], load: Fraction, receivers: Sequence[str] | None, moving: int
) -> str:
    over = f"{_count(devices, 'virtual device')} over {_count(sum(map(bool, held.values())), 'host')}"
    if load > 1:
        over += f", stacked up to {float(load):.3g} on a physical device"
    if receivers is None:
        return over
    return f"{over}; {_count(moving, 'device')} to {_names(receivers)}" if moving else f"{over}; nothing moves"


def _why(hosts: Sequence[Candidate], used: Sequence[str], before: Iterable[str]) -> str:
    """Which hosts are gone or may not be used."""
    known, kept = {host.id for host in hosts}, set(used)
    gone = [host for host in before if host not in kept and host not in known]
    barred = [f"{host.id} is {host.barred}" for host in hosts if host.barred]
    text = f"; {_names(gone)} {'is' if len(gone) == 1 else 'are'} gone" if gone else ""
    return text + (f"; {_names(barred)}" if barred else "")


def _names(names: Sequence[str]) -> str:
    """At most three of them, since a pool may have thousands."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
