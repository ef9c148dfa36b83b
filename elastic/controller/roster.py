"""The roster: which hosts of the pool this run has, kept from what etcd says.

It claims hosts that are free, connects to their agents and hands them to the run. Whether a host lives is not decided
here: while its agent is heard, a lost lease is etcd's trouble, not the host's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from elastic.controller.hosts import Host
from elastic.errors import PoolError
from elastic.machine import machine_id
from membership import Added, Changed, Etcd, MembershipError, Removed, View
from membership.registry import Claims, HostRecord, Keys, host_of

log = logging.getLogger(__name__)

_RETRY_S = 0.5
"""Until hosts are claimed again after etcd could not be reached."""


class Roster:
    """The hosts of one run by id."""

    def __init__(
        self,
        etcd: Etcd,
        claims: Claims,
        secret: bytes,
        least: int,
        most: int,
        *,
        joined: Callable[[Host], None],
        lost: Callable[[str, str], None],
        drains: Callable[[str, str], None],
    ) -> None:
        """
        The run takes hosts as soon as there are `least` free ones, all in one transaction, so that two runs which wait
        for the same hosts cannot each hold what the other one lacks. Later it takes what comes, up to `most`.

        `joined(host)` is called for each host that is claimed and connected, `lost(id, reason)` when its agent is gone,
        `drains(id, reason)` when it says that it is about to leave.
        """
        self._etcd = etcd
        self._claims = claims
        self._secret = secret
        self._least = least
        self._most = most
        self._machine = machine_id()
        self._begun = False
        self._claims_known = False
        self._joined = joined
        self._lost = lost
        self._drains = drains
        self._hosts: dict[str, tuple[Host, HostRecord]] = {}
        self._ready: set[str] = set()
        """Those that were handed to the run."""
        self._known: dict[str, HostRecord] = {}
        self._claimed: dict[str, str] = {}
        """Which run has each host that has been claimed, this one's own among them."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `waits_for` may say something else."""
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def follow(self) -> None:
        """Follows the pool; ends only by being cancelled."""
        await asyncio.gather(self._follow_hosts(), self._follow_claims(), self._take_hosts())

    def waits_for(self) -> str:
        """What is missing to begin, in words; empty if nothing is."""
        if len(self._ready) >= self._least:
            return ""
        if self._begun:
            starting = ", ".join(f"{id} starts" for id in sorted(self._mine() - self._ready))
            return f"{len(self._ready)} of {self._least} ({starting or 'others have to be started'})"
        free = self._free()
        if len(free) >= self._least:
            return ""
        others = [
            f"{record.id} drains" if record.draining else f"{record.id} is claimed by run {self._claimed[record.id]}"
            for record in self._known.values()
            if record not in free
        ]
        return f"{len(free)} of {self._least} ({', '.join(others) or 'others have to be started'})"

    @property
    def lacks_hosts(self) -> bool:
        """Whether it has fewer than it needs to begin, those included that only have to start."""
        return len(self._mine()) < self._least

    def _mine(self) -> set[str]:
        return {*self._hosts, *(id for id, run in self._claimed.items() if run == self._claims.run)}

    def _free(self) -> list[HostRecord]:
        """Hosts that this run may take."""
        return [
            record
            for record in self._known.values()
            if record.id not in self._hosts
            and not record.draining
            and self._claimed.get(record.id, self._claims.run) == self._claims.run
        ]

    async def give_back(self, id: str) -> None:
        """The run does not need a host any more."""
        if id in self._hosts:
            self._hosts.pop(id)[0].close()
        self._ready.discard(id)
        try:
            await self._claims.release(id)
        except MembershipError as error:
            log.warning("the claim on host %s stays until it expires: %s", id, error)

    def gone(self, id: str, reason: str) -> None:
        """The connection to a host's agent ended."""
        if id not in self._hosts:
            return
        host, record = self._hosts.pop(id)
        self._ready.discard(id)
        host.close()
        self._lost(id, reason)
        self._known.pop(id, None)
        self._start(self._bury(record))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bury(self, record: HostRecord) -> None:
        try:
            await self._claims.bury(record)
        except MembershipError as error:
            log.warning("host %s stays in the pool until its lease expires: %s", record.id, error)

    async def _follow_hosts(self) -> None:
        view = View()
        async with self._etcd.watch_prefix(Keys(self._etcd.address.prefix).hosts) as watch:
            async for event in watch:
                for change in view.apply(event):
                    match change:
                        case Added(kv) | Changed(kv):
                            record = host_of(kv)
                            if record is not None:
                                self._heard_of(record)
                        case Removed(kv):
                            self._known.pop(kv.key.rpartition("/")[2], None)
                self.on_change()

    async def _follow_claims(self) -> None:
        """A claim that ends may be the chance to get a host."""
        view = View()
        async with self._etcd.watch_prefix(Keys(self._etcd.address.prefix).claims) as watch:
            async for event in watch:
                view.apply(event)
                self._claims_known = True
                self._claimed = {
                    kv.key.rpartition("/")[2]: kv.value.decode(errors="replace") for kv in view.contents.values()
                }
                self._changed.set()
                self.on_change()

    def _heard_of(self, record: HostRecord) -> None:
        self._known[record.id] = record
        if record.draining and record.id in self._hosts:
            self._drains(record.id, record.draining)
        self._changed.set()

    async def _take_hosts(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._claims_known and not self._begun:
                await self._begin()
            if self._begun:
                for record in self._free():
                    if len(self._hosts) < self._most:
                        await self._take(record)

    async def _begin(self) -> None:
        """Takes the hosts that the run needs, if there are so many."""
        free = self._free()[: self._least]
        if len(free) < self._least:
            return
        try:
            self._begun = await self._claims.claim_together(free)
        except MembershipError as error:
            log.warning("no hosts can be claimed: %s", error)
            asyncio.get_running_loop().call_later(_RETRY_S, self._changed.set)

    async def _take(self, record: HostRecord) -> None:
        try:
            if not await self._claims.claim(record):
                return
            host = await Host.connect(record.id, record.address, self._secret, self.gone, self._claims.run)
        except (MembershipError, PoolError) as error:
            log.warning("host %s cannot be used: %s", record.id, error)
            return
        host.on_drain = lambda reason: self._drains(record.id, reason)
        host.record, host.far = record, record.machine != self._machine
        self._hosts[record.id] = host, record
        self._start(self._bring(host))

    async def _bring(self, host: Host) -> None:
        """Hands a host to the run as soon as the run need not wait for it."""
        try:
            await host.stand_by()
        except PoolError as error:
            log.warning("host %s cannot be used: %s", host.id, error)
            await self.give_back(host.id)
            return
        if host.id in self._hosts:
            self._ready.add(host.id)
            self._joined(host)
            self.on_change()
