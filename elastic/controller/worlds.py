"""The hosts of a run, and its worlds one after the other: formed of hosts that live, watched, and ended.

Why a world is formed, and what it is told, is not decided here (`recovery`, `line`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from elastic.controller import history
from elastic.controller.callbacks import CallbackSwitch, Callee
from elastic.controller.host_book import HostBook
from elastic.controller.hosts import Host
from elastic.controller.placement import Candidate, Placement, Policy, Refused, Waiting, place, place_on
from elastic.controller.status_report import HostFacts
from elastic.controller.watch import Watch
from elastic.controller.world import World
from elastic.errors import HostLostError, PoolError

log = logging.getLogger(__name__)

AGENT_CLOSED = "the controller: its agent's connection closed"
"""How most losses are noticed."""

BY_PROBES = "the hosts, which tried to reach each other"
"""How is noticed who is cut off from other hosts, and who is not any more."""


class NoPlacementError(PoolError):
    """There are too few hosts to place the virtual devices on; others may come."""


class NoSpareError(NoPlacementError):
    """There are too few hosts to place the virtual devices on, and the policy is not to wait for others."""


@dataclass(frozen=True)
class Move:
    """A reason to go on with other hosts, though none was lost."""

    host: str
    reason: str
    detected_by: str


class Worlds:
    """The worlds of a run, of which one at a time is in use, and the hosts that they are formed of."""

    def __init__(
        self,
        secret: bytes,
        callbacks: CallbackSwitch,
        requests: itertools.count[int],
        policy: Policy,
        *,
        fence: Callable[[int], Awaitable[None]],
        released: Callable[[str], None],
        failed: Callable[[HostLostError], None],
    ) -> None:
        """`policy` says what is done when there are too few devices.

        `fence(generation)` is awaited before a world is formed, `released(host)` called when a host that drained holds
        nothing any more, or is of no use, and `failed(error)` once for each world that breaks.
        """
        self.hosts: dict[str, Host] = {}
        self.cut_off: dict[str, Host] = {}
        """Those that the run does without because others do not reach them; they are heard, and watched."""
        self._silent: set[str] = set()
        """Hosts that were given up since nothing was heard of them."""
        self.indispensable: Mapping[str, str] = {}
        """Those that others do not reach and that cannot be done without, and why."""
        self.moves: list[Move] = []
        """What calls for other hosts, until a world is formed for it."""
        self.news = asyncio.Event()
        """Set when a host has come, and when there is nothing any more that a recovery would have to bring back."""
        self.on_lost: Callable[[str], None] = lambda _: None
        """Called with each host that is gone, with all that it held."""
        self.generation = 0
        self.placement: Placement | None = None
        """The newest."""
        self.fenced = 0.0
        """When the newest fence was up, on the monotonic clock."""
        self.fence = fence
        self.policy = policy
        self._secret = secret
        self._callbacks = callbacks
        self._requests = requests
        self._released = released
        self._failed = failed
        self._watch = Watch()
        self._book = HostBook(self._watch)
        self._worlds: list[World] = []
        """The one in use, the one that is being formed, and one that executes something again."""
        self._aside = itertools.count(1)
        self._barred: dict[str, str] = {}
        """Hosts that computed wrongly and are about to be given up, and why nothing more is placed on them."""
        self._cut: dict[str, tuple[str, float]] = {}
        """From whom each host that was cut off last is so, and since when that may be, on the monotonic clock."""
        self._executors: dict[tuple[str, int], tuple[str, int]] = {}
        """(host, pid) -> what the watch knows it by."""

    # Hosts

    def join(self, host: Host) -> None:
        """A host more, which takes part from the next world on."""
        self.hosts[host.id] = host
        self._barred.pop(host.id, None)
        self._silent.discard(host.id)
        self._book.joined(host, time.monotonic())
        self._watch.begin(host.id, host.incarnation, lambda reason: self._host_silent(host, reason))
        host.on_beat = lambda moved: self._heard(host, moved)
        host.on_wrong_result = lambda check: self._watch.wrong_result(host.id, host.incarnation, check)
        self._take(host, "it joined", "its registration in the pool")

    def _take(self, host: Host, reason: str, detected_by: str) -> None:
        history.tell("joined", host=host.id, incarnation=host.incarnation, pid=host.pid)
        self.moves.append(Move(host.id, reason, detected_by))
        self.news.set()

    def drain(self, id: str, reason: str) -> None:
        """A host is about to go."""
        host = self.hosts.get(id)
        if id in self.cut_off:
            self._let_go(self.cut_off.pop(id))
        elif host is not None and not host.draining:
            host.draining = True
            self.moves.append(Move(id, reason, "the host itself, which announced it"))

    def quarantine(self, id: str, reason: str) -> None:
        """Nothing more is placed on a host; its agent has it stay away, as after a failed health check."""
        host = self.hosts.get(id)
        if host is not None:
            self._barred[id] = f"quarantined: {reason}"
            host.quarantine(reason)

    def lose(self, id: str, reason: str, detected_by: str) -> None:
        """A host's agent is gone, and with it all that ran there."""
        host = self.hosts.pop(id, None) or self.cut_off.pop(id, None)
        if host is not None:
            self._cut.pop(id, None)
            history.tell("gone", host=id, reason=reason)
            self._book.lost(id, reason)
            self._watch.end(id, host.incarnation)
        self._lost(id, reason, detected_by)

    def _lost(self, id: str, reason: str, detected_by: str) -> None:
        self.on_lost(id)
        for world in self._worlds:
            if id in world.placement.hosts:
                world.lost(id, reason, detected_by)

    def cut(self, id: str, words: str, since: float) -> None:
        """Does without a host that others do not reach, such as "cut off from h0, h2", for as long as that is so.

        Nothing may have been answered since a time of the monotonic clock.
        """
        host = self.cut_off[id] = self.hosts.pop(id)
        self._cut[id] = words, since
        reason = f"it is {words}"
        history.tell("gone", host=id, reason=reason)
        self._book.cut(id, reason)
        host.give_up_orders(reason)
        self._lost(id, reason, BY_PROBES)

    def reached(self, host: Host) -> None:
        """A host that was cut off takes part again from the next world on."""
        self.hosts[host.id] = self.cut_off.pop(host.id)
        self._cut.pop(host.id)
        self._book.reached(host.id)
        self._take(host, "the other hosts reach it again", BY_PROBES)

    def cannot_do_without(self, reasons: Mapping[str, str]) -> None:
        """Which hosts are `indispensable`; the run stands still until they are reached."""
        for id in self.indispensable.keys() - reasons.keys():
            if id in self.hosts:
                self._book.reached(id)
        for id, reason in reasons.items():
            if id not in self.indispensable:
                log.warning("host %s is %s", id, reason)
            self._book.cut(id, reason)
        self.indispensable = reasons

    def ranked(self) -> list[Host]:
        """The hosts, those of the newest world first, by their ranks."""
        placed = self.placement.hosts if self.placement else ()
        ids = dict.fromkeys([*(id for id in placed if id in self.hosts), *self.hosts])
        return [self.hosts[id] for id in ids]

    def asked_since(self) -> float | None:
        """When the oldest question or order was sent that is not done, on the monotonic clock; None if all are."""
        asked = [*(world.asked_since for world in self._worlds), *(host.asked_since for host in self.hosts.values())]
        return min((since for since in asked if since is not None), default=None)

    def lose_useless(self) -> None:
        """Does without the hosts that cannot have executors any more."""
        for id in [id for id, host in self.hosts.items() if host.failure is not None]:
            self.lose(id, "it cannot have executors any more", AGENT_CLOSED)
            self._released(id)

    @property
    def left(self) -> list[str]:
        """Hosts that are about to go and have no virtual device any more."""
        used = self.placement.hosts if self.placement else ()
        return [id for id, host in self.hosts.items() if host.draining and id not in used]

    def release(self) -> None:
        """Lets go of hosts that drained, now that all they held is elsewhere."""
        for id in self.left:
            self._let_go(self.hosts.pop(id))

    def _let_go(self, host: Host) -> None:
        self._watch.end(host.id, host.incarnation)
        history.tell("left", host=host.id)
        self._book.left(host.id)
        self.on_lost(host.id)
        self._released(host.id)

    def silence(self, host: str, now: float) -> float:
        """Seconds since the last sign of life of a host or of its executor, whichever was silent for longer; or since
        it may be cut off."""
        if host in self._cut:
            return now - self._cut[host][1]
        executors = [name for (owner, _), (name, _) in self._executors.items() if owner == host]
        return max(filter(None, (self._watch.silence(name, now) for name in (host, *executors))), default=0.0)

    def facts(self, world: World | None, now: float) -> list[HostFacts]:
        """The hosts as they are shown, at a time of the monotonic clock, while a world is in use."""
        executors = {} if world is None else {host: pid for pid, host in world.executors.items()}
        known = {host: (pid, self._executors.get((host, pid), ("", 0))[0]) for host, pid in executors.items()}
        placed = self.placement.by_host() if self.placement and world is not None else {}
        return self._book.facts(self.hosts, placed, known, now)

    def _heard(self, host: Host, executors: Sequence[int]) -> None:
        self._watch.heard(host.id, host.incarnation)
        for pid in executors:
            if (host.id, pid) in self._executors:
                self._watch.heard(*self._executors[host.id, pid])

    def _host_silent(self, host: Host, reason: str) -> None:
        silent = host.failure is None
        host.close()
        heard = "the failure detector: its agent's heartbeats stopped" if silent else "its agent, by a health check"
        self.lose(host.id, reason, heard)
        if silent:
            self._silent.add(host.id)

    @property
    def may_return(self) -> list[str]:
        """Hosts that were given up, and may live, with all that they held: of which nothing is heard, or cut off."""
        return sorted(self._silent | self.cut_off.keys())

    # Worlds

    async def form(self, virtual_devices: int) -> World:
        """The next generation's world. Raises `NoPlacementError`, `PoolError` or `HostLostError` if there is none."""
        await self.fence(self.generation + 1)
        self.fenced = time.monotonic()
        self.generation += 1
        # Not sooner: while the fence went up, hosts may have come and gone.
        placement = self._place(virtual_devices)
        if not isinstance(placement, Placement) or placement.lost:
            placement = self._place(virtual_devices, also_leaving=True)
        if isinstance(placement, Refused):
            raise NoSpareError(placement.reason)
        if not isinstance(placement, Placement):
            raise NoPlacementError(placement.reason)
        self.placement = placement
        # Who came while there was no world, and takes part in this one, is no reason for another.
        self.moves = [move for move in self.moves if move.host not in placement.hosts]
        return await self._form(placement, self.hosts, self._callbacks, self._failed)

    async def _form(
        self,
        placement: Placement,
        hosts: Mapping[str, Host],
        callbacks: Callee,
        failed: Callable[[HostLostError], None],
    ) -> World:
        made: list[World] = []

        def enlisted(world: World) -> None:
            made.append(world)
            self._enlisted(world)

        try:
            return await World.form(placement, hosts, self._secret, callbacks, self._requests, failed, enlisted)
        except BaseException:
            for world in made:
                self.end(world)
            raise

    @property
    def usable(self) -> dict[str, int]:
        """The hosts that something can be executed on, and how many physical devices each has."""
        found = (host for id, host in self.hosts.items() if id not in self._barred)
        return {host.id: host.devices for host in found if host.devices and not host.draining and not host.failure}

    async def form_aside(self, hosts: Sequence[str], callbacks: Callee) -> World:
        """A world beside the one in use, with these hosts for the virtual devices; its loss concerns nobody else.

        Its generation is a negative number: no fence is for it, and it is never taken for one that is in use. Raises
        `PoolError` or `HostLostError` if it cannot be formed.
        """
        placement = place_on(-next(self._aside), hosts, "to execute again")
        members = {id: self.hosts[id] for id in placement.hosts if id in self.hosts}
        if len(members) < len(placement.hosts):
            raise PoolError("a host has gone meanwhile")
        return await self._form(placement, members, callbacks, lambda _: None)

    def may_move(self, virtual_devices: int) -> bool:
        """Whether the run can do without the hosts that are about to go, and lose nothing."""
        before, after = self.placement, self._place(virtual_devices)
        return isinstance(after, Placement) and set(after.lost) <= set(before.lost if before else ())

    def _place(self, virtual_devices: int, *, also_leaving: bool = False) -> Placement | Waiting | Refused:
        candidates = [
            Candidate(host.id, host.devices, barred=self._barred.get(host.id) or _leaving(host, also_leaving))
            for host in self.hosts.values()
        ]
        candidates += [Candidate(host.id, host.devices, barred=self._cut[host.id][0]) for host in self.cut_off.values()]
        return place(self.generation, candidates, virtual_devices, self.placement, self.policy)

    def end(self, world: World) -> None:
        """Kills a world's executors."""
        for pid, host in world.executors.items():
            name = self._executors.pop((host, pid), None)
            if name is not None:
                self._watch.end(*name)
        if world in self._worlds:
            self._worlds.remove(world)
        world.close()

    def close_worlds(self) -> None:
        """Kills all executors."""
        for world in list(self._worlds):
            self.end(world)

    def close(self) -> None:
        """Kills all executors, and watches nobody any more."""
        self._watch.close()
        self.close_worlds()

    def _enlisted(self, world: World) -> None:
        """A world has executors: from now on it can lose them."""
        self._worlds.append(world)
        placement, generation = world.placement, world.placement.generation
        aside = generation < 0
        if not aside:
            owners = [placement.host_of(device) for device in range(len(placement.owners))]
            executors = {host: pid for pid, host in world.executors.items()}
            history.tell("generation", generation=generation, owners=owners, executors=executors)
        for pid, host in world.executors.items():
            name = f"{'second ' if aside else ''}executor of {host}", abs(generation)
            self._executors[host, pid] = name
            self._watch.begin(*name, partial(self._frozen, world, host))

    def _frozen(self, world: World, host: str, reason: str) -> None:
        detected_by = "the failure detector: its executor's heartbeats stopped"
        world.lost(host, f"its executor is frozen: {reason}", detected_by)


def _leaving(host: Host, may: bool) -> str:
    return "about to go" if host.draining and not may else ""
