"""Who computed wrongly: executions of the same operations on different hosts, compared shard by shard. Pure.

Results do not depend on where virtual devices are, so all executions that go well give the same. Two that agree are
believed if no virtual device was on the same host in both: a broken device would have had to do the same damage twice,
to different shards. Which host spoiled an execution is harder to say, since one collective spreads its error to all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Shard(NamedTuple):
    """What is compared: a shard as it is at the end, or, with its number, as a read gave it to the client."""

    array: int
    device: int
    read: int = 0

    def __str__(self) -> str:
        what = f"array {self.array} on virtual device {self.device}"
        return f"{what} as the client read it" if self.read else what


@dataclass(frozen=True)
class Execution:
    """One execution.

    Attributes:
        hosts: of each virtual device, at the end.
        digests: of each shard; empty for one that could not be read.
        before: device -> other hosts that it was on at first.
    """

    hosts: tuple[str, ...]
    digests: Mapping[Shard, bytes]
    before: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @property
    def alone(self) -> str:
        """The host that did it all; empty if there were several."""
        return self.hosts[0] if len(set(self.hosts)) == 1 else ""

    def independent_of(self, other: Execution) -> bool:
        """Whether each virtual device was on another host."""
        return all(here != there for here, there in zip(self.hosts, other.hosts, strict=True))

    def differing(self, right: Execution) -> list[Shard]:
        """The shards that are not as in another execution."""
        return sorted(shard for shard, digest in self.digests.items() if right.digests.get(shard) != digest)


@dataclass(frozen=True)
class Verdict:
    """What came of comparing.

    Attributes:
        right: one that is right; None if that cannot be told.
        culprit: the host that was wrong; empty if none was, or that cannot be told.
    """

    right: Execution | None
    culprit: str = ""


def judge(executions: Sequence[Execution]) -> Verdict:
    """By majority; the first execution is the run's own."""
    right = _right(executions)
    if right is None:
        return Verdict(None)
    suspects = [_suspects(one, right) for one in executions if one.digests != right.digests]
    # One bad host is far more likely than two at the same time, so it has to explain all that went wrong.
    common = frozenset.intersection(*suspects) if suspects else frozenset()
    return Verdict(right, min(common) if len(common) == 1 else "")


def next_hosts(executions: Sequence[Execution], sizes: Mapping[str, int]) -> tuple[str, ...] | None:
    """Where to execute once more, a host for each virtual device; None if there is no more to be learned.

    `sizes` are the hosts that can be used, with their physical devices. First each device goes to hosts that have not
    had it. If that does not settle it, every execution may have been spoiled by the same host: then one host after the
    other does it all alone, where no other can spoil it.
    """
    if len(executions) == 1:
        return elsewhere(executions, sizes)
    verdict = judge(executions)
    wrong = sum(verdict.right is not None and one.digests != verdict.right.digests for one in executions)
    if verdict.right is not None and (wrong < 2 or verdict.culprit):
        return None
    third = elsewhere(executions, sizes) if len(executions) == 2 else None
    if third is not None:
        return third
    tried = {one.alone for one in executions}
    host = next((host for host in sizes if host not in tried), None)
    return None if host is None else (host,) * len(executions[0].hosts)


def elsewhere(executions: Sequence[Execution], sizes: Mapping[str, int]) -> tuple[str, ...] | None:
    """A host for each virtual device that has not had it yet, evenly; None if there is none for one of them."""
    load = dict.fromkeys(sizes, 0)
    order = {host: index for index, host in enumerate(sizes)}
    placed: list[str] = []
    for device in range(len(executions[0].hosts)):
        had = {one.hosts[device] for one in executions}
        free = [host for host in sizes if host not in had]
        if not free:
            return None
        here = order.get(executions[-1].hosts[device], 0)
        choices = (((load[host] + 1) / sizes[host], (order[host] - here) % len(order), host) for host in free)
        least = min(choices)[-1]
        load[least] += 1
        placed.append(least)
    return tuple(placed)


def _right(executions: Sequence[Execution]) -> Execution | None:
    for index, one in enumerate(executions):
        for other in executions[index + 1 :]:
            if one.digests == other.digests and one.independent_of(other):
                return one
    return None


def _suspects(wrong: Execution, right: Execution) -> frozenset[str]:
    """The hosts that may have spoiled an execution."""
    shards = wrong.differing(right)
    devices = _dissenters(wrong, right, shards) or {shard.device for shard in shards}
    here = frozenset(wrong.hosts[device] for device in devices)
    return here.union(*(wrong.before.get(device, frozenset()) for device in devices))


def _dissenters(wrong: Execution, right: Execution, shards: Iterable[Shard]) -> set[int]:
    """Devices whose copy of something is not that of most others, where all copies should be equal.

    An error that came over a collective is the same everywhere; the device that it came from has its own besides.
    """
    found: set[int] = set()
    for array, read in {(shard.array, shard.read) for shard in shards}:
        copies = {s.device: digest for s, digest in wrong.digests.items() if (s.array, s.read) == (array, read)}
        if len({right.digests.get(Shard(array, device, read)) for device in copies}) > 1:
            continue  # Its shards differ in any case.
        common, count = Counter(copies.values()).most_common(1)[0]
        if 2 * count > len(copies):
            found.update(device for device, digest in copies.items() if digest != common)
    return found
