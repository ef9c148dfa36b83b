"""Finds hosts that the controller hears and other hosts do not reach: a run with such a host stands still.

While something that was asked of hosts is overdue, they are asked to reach each other, which costs a connection for
each pair; a program that computes for minutes is overdue as well, and nothing follows from that. Who is cut off is done
without (`reachability` says who that is), and asked again now and then until it can be used again. Not for: hosts that
the controller does not hear (`watch`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Sequence

from elastic.controller.hosts import CopyError, Host
from elastic.controller.reachability import Pairs, cut_pairs, decide, words
from elastic.controller.snapshots import Snapshots
from elastic.controller.worlds import Worlds

log = logging.getLogger(__name__)

_LOOK_S = 0.25
"""How often somebody looks whether something is overdue."""

_OVERDUE_S = 1.0
"""Seconds without an answer, or since all reached each other, after which hosts are asked; no more than that."""

_EVERY_S = 2.0
"""Between two rounds of probes."""

_ANSWER_S = 3.0
"""How long a host may take to say whom it reaches; longer than `elastic.agent.reach` waits for a connection."""


class Probing:
    """Has the hosts of a run reach each other when there is reason to."""

    def __init__(self, worlds: Worlds, snapshots: Snapshots) -> None:
        self._worlds = worlds
        self._snapshots = snapshots
        self._reached = 0.0
        """When the last round began in which all reached each other, on the monotonic clock."""

    async def keep(self) -> None:
        """Goes on until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._worlds.cut_off or self._overdue_since() is not None:
                await self.probe()
                await asyncio.sleep(_EVERY_S - _LOOK_S)

    async def probe(self) -> None:
        """Has all hosts reach each other, and does what follows from that."""
        began = time.monotonic()
        hosts = [*self._worlds.ranked(), *self._worlds.cut_off.values()]
        answers = await asyncio.gather(*(_unreached(host, hosts) for host in hosts))
        # Others may have come or gone meanwhile.
        there = {*self._worlds.hosts.values(), *self._worlds.cut_off.values()}
        known = {host.id: said for host, said in zip(hosts, answers, strict=True) if said is not None and host in there}
        cut = cut_pairs(known)
        self._judge([id for id in known if id in self._worlds.hosts], cut, began)
        self._take_back(known, cut)

    def _judge(self, members: Sequence[str], cut: Pairs, began: float) -> None:
        left, possible = decide(members, cut, self._snapshots.survives)
        self._worlds.cannot_do_without(
            {host: f"{words(host, members, cut)}; {_ALONE}" for host in left if not possible}
        )
        if not left:
            self._reached = began
        elif possible and (since := self._overdue_since()) is not None:
            stay = [host for host in members if host not in left]
            for host in left:
                self._worlds.hosts[host].holds = self._snapshots.held_by(host)
                self._worlds.cut(host, words(host, stay, cut), since)

    def _take_back(self, known: Collection[str], cut: Pairs) -> None:
        """Takes hosts back that all others reach; who comes first is another to those that come with it."""
        for id in [id for id in self._worlds.cut_off if id in known]:
            if all(member in known and frozenset((id, member)) not in cut for member in self._worlds.hosts):
                host = self._worlds.cut_off[id]
                self._worlds.reached(host)
                self._snapshots.host_holds(id, host.holds)

    def _overdue_since(self) -> float | None:
        """Since when nothing that was asked is answered, or hosts were not seen to reach each other; None if all is as
        it should be."""
        asked = self._worlds.asked_since()
        since = None if asked is None else max(asked, self._reached)
        return since if since is not None and time.monotonic() - since > _OVERDUE_S else None


_ALONE = "the run stands still until it is reached again, since nobody else holds all of the snapshot"


async def _unreached(host: Host, hosts: Sequence[Host]) -> set[str] | None:
    """The ids of those hosts that this one does not reach; None if it does not say."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await host.unreached([other for other in hosts if other is not host])
    except (CopyError, TimeoutError):
        return None
