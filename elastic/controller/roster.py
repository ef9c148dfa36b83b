"""The roster: which hosts of the pool this run has, kept from what etcd says.

It claims hosts that are free, connects to their agents and hands them to the run. Whether a host lives is not decided
here: while its agent is heard, a lost lease is etcd's trouble, not the host's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from elastic.controller.hosts import Host
from elastic.errors import PoolError
from elastic.machine import machine_id
from membership import (
    Added,
    BackOff,
    Changed,
    Claims,
    Conduct,
    Etcd,
    EtcdUnavailable,
    HostRecord,
    Keys,
    MembershipError,
    OutcomeUnknown,
    Removed,
    View,
    host_of,
)

log = logging.getLogger(__name__)

_AGAIN_S = 0.5
"""Until something that needs etcd is tried again."""

_BACK_OFF = BackOff(first=_AGAIN_S, cap=30.0)
"""How long a host that is free and cannot be used is left alone."""

_CONNECT_S = 5.0
"""How long an agent may take to answer who takes its host."""


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
        awaited: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """
        The run takes hosts as soon as there are `least` free ones, all in one transaction, so that two runs which wait
        for the same hosts cannot each hold what the other one lacks. Later it takes what comes, up to `most`, and those
        that are `awaited` beyond that.

        `joined(host)` is called for each host that is claimed and has an executor that stands by; of these,
        `lost(id, reason)` when the host is gone, and `drains(id, reason)` when it says that it is about to leave.
        """
        self._etcd = etcd
        self._claims = claims
        self._secret = secret
        self._least = least
        self._most = most
        self._machine = machine_id()
        self._begun = False
        """Whether it has claimed its first hosts."""
        self._joined = joined
        self._lost = lost
        self._drains = drains
        self._awaited = awaited
        self._hosts: dict[str, tuple[Host, HostRecord]] = {}
        self._ready: set[str] = set()
        """Those that were handed to the run."""
        self._known: dict[str, HostRecord] = {}
        self._claimed: dict[str, str] = {}
        """Which run has each host that has been claimed, this one's own among them."""
        self._hosts_known = self._claims_known = False
        """Whether etcd has said which there are."""
        self._taking: set[str] = set()
        """Those that are being claimed and connected."""
        self._unusable: dict[str, str] = {}
        """Why a host could not be had, of those that are to be tried again in a moment."""
        self._conduct: dict[str, Conduct] = {}
        """Of those that could not be used."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `waits_for` may say something else."""
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def follow(self) -> None:
        """Follows the pool; ends only by being cancelled."""
        await asyncio.gather(self._follow_hosts(), self._follow_claims(), self._take_hosts())

    def waits_for(self) -> str:
        """What is missing to begin, in words; empty if nothing is."""
        have = len(self._ready) if self._begun else len(self._free()) + len(self._taking)
        if have >= self._least:
            return ""
        mine = {*self._hosts, *self._taking}
        starting = [f"{id} starts" for id in sorted(mine - self._ready)]
        others = [why for id, record in self._known.items() if id not in mine and (why := self._not_free(record))]
        return f"{have} of {self._least} ({', '.join([*starting, *others]) or 'others have to be started'})"

    @property
    def lacks_hosts(self) -> bool:
        """Whether it has fewer than it needs to begin, those included that only have to start.

        False while the pool is only known in part.
        """
        known = self._hosts_known and self._claims_known
        return known and len(self._hosts) + len(self._taking) < self._least

    def _free(self) -> list[HostRecord]:
        """Hosts that this run may take."""
        return [
            record
            for id, record in self._known.items()
            if id not in self._hosts and id not in self._taking and not self._not_free(record)
        ]

    def _not_free(self, record: HostRecord) -> str:
        """Why a host cannot be taken, in words; empty if it can."""
        if record.draining:
            return f"{record.id} drains"
        if record.quarantined:
            return f"{record.id} is quarantined: {record.quarantined}"
        if self._claimed.get(record.id, self._claims.run) != self._claims.run:
            return f"{record.id} is claimed by run {self._claimed[record.id]}"
        return self._unusable.get(record.id, "")

    def give_back(self, id: str) -> None:
        """The run does not need a host any more."""
        self._part(id)

        def taken_again() -> bool:
            return id in self._hosts or id in self._taking

        self._start(self._surely(partial(self._claims.release, id), f"the claim on host {id} stays", taken_again))

    def _gone(self, id: str, reason: str) -> None:
        """The connection to an agent ended; that of the host that the run has, or an earlier one."""
        if id in self._hosts and self._hosts[id][0].failure is not None:
            self._dead(id, reason)

    def _dead(self, id: str, reason: str) -> None:
        record = self._part(id, reason)
        if record is not None:
            if self._known.get(id, record).incarnation == record.incarnation:
                self._known.pop(id, None)
            self._start(self._surely(partial(self._claims.bury, record), f"host {id} stays in the pool"))

    def taken(self, id: str) -> None:
        """Another run got a host of this one, which lives."""
        self._part(id, "another run has it now")

    def _part(self, id: str, lost: str = "") -> HostRecord | None:
        """Has nothing to do with a host any more; its record. The run is told if it has lost the host."""
        if id not in self._hosts:
            return None
        host, record = self._hosts.pop(id)
        host.close()
        if id in self._ready:
            self._ready.discard(id)
            if lost:
                self._lost(id, lost)
        self._changed.set()
        self._tell_change()
        return record

    async def _surely(
        self, work: Callable[[], Awaitable[None]], otherwise: str, moot: Callable[[], bool] = lambda: False
    ) -> None:
        """Does something as soon as etcd can be reached, unless that is moot by then."""
        while not moot():
            try:
                return await work()
            except (EtcdUnavailable, OutcomeUnknown) as error:
                log.warning("%s until etcd can be reached: %s", otherwise, error)
                await asyncio.sleep(_AGAIN_S)
            except MembershipError as error:
                log.warning("%s until its lease ends: %s", otherwise, error)
                return

    def _tell_change(self) -> None:
        if self._hosts_known and self._claims_known:
            self.on_change()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_hosts(self) -> None:
        view = View()
        async with self._etcd.watch_prefix(Keys(self._etcd.address.prefix).hosts) as watch:
            async for event in watch:
                self._hosts_known = True
                for change in view.apply(event):
                    match change:
                        case Added(kv) | Changed(kv):
                            record = host_of(kv)
                            if record is not None:
                                self._heard_of(record)
                        case Removed(kv):
                            self._left(kv.key.rpartition("/")[2])
                self._hosts_known = True
                self._tell_change()

    async def _follow_claims(self) -> None:
        """A claim that ends may be the chance to get a host."""
        view = View()
        async with self._etcd.watch_prefix(Keys(self._etcd.address.prefix).claims) as watch:
            async for event in watch:
                view.apply(event)
                self._claimed = {
                    kv.key.rpartition("/")[2]: kv.value.decode(errors="replace") for kv in view.contents.values()
                }
                self._claims_known = True
                self._changed.set()
                self._tell_change()

    def _heard_of(self, record: HostRecord) -> None:
        if record.incarnation != self._known.get(record.id, record).incarnation:
            self._unusable.pop(record.id, None)
        self._known[record.id] = record
        if record.id in self._hosts:
            host, before = self._hosts[record.id]
            if (record.address, record.pid, record.machine) == (before.address, before.pid, before.machine):
                # Under a new incarnation, if it has lost its lease.
                host.record = replace(record, draining=before.draining)
                self._hosts[record.id] = host, host.record
            if record.draining:
                self._drain(host, record.draining)
        self._changed.set()

    def _left(self, id: str) -> None:
        """An entry is gone. A host that the run has may still be there; one that still starts is given up."""
        self._known.pop(id, None)
        if id in self._hosts and id not in self._ready:
            self._dead(id, "its registration ended")

    def _drain(self, host: Host, reason: str) -> None:
        """A host is about to leave, as it says itself, or as its entry does, or both."""
        if not self._has(host) or self._hosts[host.id][1].draining:
            return
        record = self._hosts[host.id][1]
        self._hosts[host.id] = host, replace(record, draining=reason)
        if host.id in self._known:
            self._known[host.id] = replace(self._known[host.id], draining=reason)
        if host.id in self._ready:
            self._drains(host.id, reason)
        else:
            self.give_back(host.id)

    async def _take_hosts(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._claims_known:
                continue
            free = self._free()
            if self._begun:
                awaited = self._awaited()
                for record in sorted(free, key=lambda record: record.id not in awaited):
                    if record.id in awaited or len(self._hosts) + len(self._taking) < self._most:
                        self._take([record])
            elif not self._taking and len(free) >= self._least:
                # First those that it has already, if the answer to an earlier claim got lost.
                self._take(sorted(free, key=lambda record: record.id not in self._claimed)[: self._least])

    def _take(self, records: list[HostRecord]) -> None:
        """Begins to take hosts, all or none."""
        self._taking.update(record.id for record in records)
        self._start(self._claim(records))

    async def _claim(self, records: list[HostRecord]) -> None:
        try:
            claimed = await self._claims.claim(*records)
        except MembershipError as error:
            log.warning("no claim on %s: %s", ", ".join(record.id for record in records), error)
            claimed = False
        if claimed:
            self._begun = True
            for record in records:
                self._start(self._bring(record))
            self._changed.set()
        else:
            for record in records:
                self._taking.discard(record.id)
                self._not_now(record.id, f"{record.id} could not be claimed", _AGAIN_S)
        self._tell_change()

    async def _bring(self, record: HostRecord) -> None:
        """Connects to a host, and hands it to the run as soon as the run need not wait for it."""
        host = await self._connect(record)
        self._taking.discard(record.id)
        if host is not None:
            host.record, host.far = record, record.machine != self._machine
            self._hosts[host.id] = host, record
        self._changed.set()
        self._tell_change()
        if host is None:
            return
        host.on_drain = lambda reason: self._drain(host, reason)
        # It may have said something meanwhile.
        if record.id in self._known:
            self._heard_of(self._known[record.id])
        if host.notice:
            self._drain(host, host.notice)
        try:
            await host.stand_by()
        except PoolError as error:
            if self._has(host):
                self._cannot_use(host.id, str(error))
                self.give_back(host.id)
            return
        if self._has(host):
            self._conduct.pop(host.id, None)
            self._ready.add(host.id)
            self._joined(host)
            self._tell_change()

    def _has(self, host: Host) -> bool:
        return host.id in self._hosts and self._hosts[host.id][0] is host

    async def _connect(self, record: HostRecord) -> Host | None:
        """Connects to a host that is claimed; None, and not claimed any more, if it cannot be had now."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await Host.connect(
                    record.id, record.address, self._secret, self._gone, self._claims.run, self._etcd.address.pool
                )
        except PoolError as error:
            self._cannot_use(record.id, str(error))
        except TimeoutError:
            self._cannot_use(record.id, f"its agent at {record.address} did not answer within {_CONNECT_S:g} s")
        self.give_back(record.id)
        return None

    def _cannot_use(self, id: str, why: str) -> None:
        """The longer the more often that happens."""
        now = time.monotonic()
        conduct = self._conduct[id] = self._conduct.get(id, Conduct()).failed(_BACK_OFF, now)
        log.warning("host %s cannot be used: %s; %s", id, why, conduct.words(_BACK_OFF, now))
        self._not_now(id, f"{id} cannot be used: {why}", conduct.until - now)

    def _not_now(self, id: str, why: str, seconds: float) -> None:
        """A host is left alone for a while, in which others may be had."""
        self._unusable[id] = why
        asyncio.get_running_loop().call_later(seconds, self._try_again, id)

    def _try_again(self, id: str) -> None:
        self._unusable.pop(id, None)
        self._changed.set()
