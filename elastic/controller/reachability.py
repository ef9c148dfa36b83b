"""Which hosts a run does without when hosts do not reach each other, as pure functions.

What is known are probes: each host said which of the others it does not reach. A pair is cut if either side does not
reach the other, since whatever hosts compute together needs both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

Pairs = frozenset[frozenset[str]]
"""Pairs of hosts that do not reach each other."""


def cut_pairs(unreached: Mapping[str, Collection[str]]) -> Pairs:
    """The pairs that are cut, by what each host that answered said.

    A host that did not answer is not judged: it may be frozen, which whoever hears its heartbeats notices.
    """
    return frozenset(
        frozenset((host, other)) for host, others in unreached.items() for other in others if other in unreached
    )


def to_leave(hosts: Sequence[str], cut: Pairs) -> tuple[str, ...]:
    """Those of `hosts` to do without, so that all that stay reach each other.

    The fewest, if the network has fallen apart into parts, in each of which all reach each other; else not one in vain
    (the fewest would be a minimum vertex cover, which takes too long to find). Of equals the later in `hosts` goes.
    """
    peers = {host: _peers(host, cut).intersection(hosts) for host in hosts}
    left: list[str] = []
    while any(peers.values()):
        worst = max(reversed(hosts), key=lambda host: len(peers.get(host, ())))
        left.append(worst)
        for peer in peers.pop(worst):
            peers[peer].discard(worst)
    for host in reversed(left):
        if not _peers(host, cut) & peers.keys():
            peers[host] = set()
    return tuple(host for host in left if host not in peers)


def decide(
    hosts: Sequence[str], cut: Pairs, may_lose: Callable[[Collection[str]], bool]
) -> tuple[tuple[str, ...], bool]:
    """The hosts to do without, and whether that is possible: whether the others hold all that has to be kept.

    Of two equal parts the one with the first of `hosts` stays, unless only the other one holds everything.
    """
    wanted = to_leave(hosts, cut)
    for left in (wanted, to_leave(hosts[::-1], cut)):
        if may_lose(left):
            return left, True
    return wanted, False


def words(host: str, others: Iterable[str], cut: Pairs) -> str:
    """From whom a host is cut off; at most three are named, since a pool may have thousands."""
    peers = sorted(_peers(host, cut).intersection(others))
    more = f" and {len(peers) - 3} more" if len(peers) > 3 else ""
    return f"cut off from {', '.join(peers[:3])}{more}"


def _peers(host: str, cut: Pairs) -> set[str]:
    return {peer for pair in cut if host in pair for peer in pair if peer != host}
