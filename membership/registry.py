"""What stands in a pool's etcd: its hosts, which run has which of them, and each run's generation.

    /elastic/POOL/hosts/ID             a host, on its own lease: `HostRecord`
    /elastic/POOL/claims/ID            the run that has the host, on the run's lease
    /elastic/POOL/runs/RUN/about       the run, on its lease: `RunRecord`
    /elastic/POOL/runs/RUN/generation  the fence: a number that only grows, and only from the one its writer knows

A host is (id, incarnation): the incarnation is the revision at which etcd made its key, so whoever registers again is
another. There is no scheduler; runs claim hosts by transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from membership.cursor import Delete, Relisted
from membership.errors import AlreadyThere, Fenced, MembershipError, OutcomeUnknown
from membership.etcd import Etcd
from membership.kv import KeyValue
from membership.leases import Lease
from membership.transactions import Compare, DeleteKey, GetKey, Operation, PutKey

_log = logging.getLogger(__name__)

_RETRY_S = 0.5
"""Between two tries of something that needs etcd while etcd cannot be reached."""

_OVERDUE = 2 / 3
"""Of a lease's time, without an answer: a renewal was not answered that is sent after a third."""

_AT_ONCE = 60
"""Hosts that are claimed in one transaction; etcd takes 128 operations and as many compares, unless told otherwise."""

_AGAIN_S = 0.1
"""Between two looks whether a host's name is free."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A host as it registers itself.

    Attributes:
        id: its name in the pool.
        address: HOST:PORT of its agent.
        devices: how many it contributes.
        pid: of its agent.
        machine: equal for hosts that can hand each other files of shared memory.
        platform: of its devices, such as ``cpu``.
        version: of elastic-jax.
        draining: why it is about to leave; empty while it is not.
        quarantined: why no run is to take it for now, though it lives; empty while any may.
        incarnation: etcd's revision of its registration; 0 before that.
        ttl: how long etcd remembers it without hearing of it, in seconds; 0 before its registration.
    """

    id: str
    address: str
    devices: int
    pid: int
    machine: str
    platform: str = "cpu"
    version: str = ""
    draining: str = ""
    quarantined: str = ""
    incarnation: int = 0
    ttl: int = 0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as its controller registers it.

    Attributes:
        id: its name in the pool.
        address: where the controller answers questions about the run; with `pid` it tells this controller from another
            of the same run.
        pid: of the controller.
        virtual_devices: how many the client sees; 0 while that is not known.
    """

    id: str
    address: str
    pid: int
    virtual_devices: int


class Keys:
    """The keys of one pool; `prefix` ends with a slash."""

    def __init__(self, prefix: str) -> None:
        self.hosts = f"{prefix}hosts/"
        self.claims = f"{prefix}claims/"
        self.runs = f"{prefix}runs/"

    def host(self, id: str) -> str:
        return f"{self.hosts}{id}"

    def claim(self, id: str) -> str:
        return f"{self.claims}{id}"

    def run(self, run: str) -> str:
        return f"{self.runs}{run}/about"

    def generation(self, run: str) -> str:
        return f"{self.runs}{run}/generation"


def host_of(kv: KeyValue) -> HostRecord | None:
    """The host of a key, or None if what it holds is not one, as from another version."""
    found: HostRecord | None = _record(HostRecord, kv)
    if found is None or not kv.key.endswith(f"/{found.id}"):
        return None
    return replace(found, incarnation=kv.create_revision)


def run_of(kv: KeyValue) -> RunRecord | None:
    """The run of a key, or None if what it holds is not one."""
    found: RunRecord | None = _record(RunRecord, kv)
    return found


class Registration:
    """A host's entry, kept for as long as the host lives.

    If its lease is lost, or somebody took it for dead and removed its entry, it registers again, as a new incarnation.
    """

    def __init__(self, etcd: Etcd, record: HostRecord, ttl: int, changed: Callable[[HostRecord], None]) -> None:
        """`ttl` of the lease in seconds; `changed(record)` is called with each new incarnation."""
        self.record = record
        self._etcd = etcd
        self._key = Keys(etcd.address.prefix).host(record.id)
        self._ttl = ttl
        self._changed = changed
        self._lease: Lease | None = None

    async def start(self) -> None:
        """Registers; waits for an earlier host of this name to expire.

        Raises `AlreadyThere` if that one lives, else as `Etcd.txn` does.
        """
        give_up = time.monotonic() + 2 * self._ttl
        while True:
            try:
                return await self._register()
            except AlreadyThere:
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(_AGAIN_S)

    async def _register(self) -> None:
        lease = await self._etcd.grant(self._ttl)
        self.record = replace(self.record, ttl=lease.ttl)
        try:
            incarnation = await self._make(lease)
        except MembershipError:
            await _end(lease)  # Else an entry that was made after all would stand in the way of the next try.
            raise
        self._lease = lease
        self.record = replace(self.record, incarnation=incarnation)
        self._changed(self.record)

    async def _make(self, lease: Lease) -> int:
        """Makes the entry; its incarnation."""
        try:
            made = await self._etcd.txn(
                [Compare.missing(self._key)], [PutKey(self._key, self._value(), lease.id)], [GetKey(self._key)]
            )
        except OutcomeUnknown:
            found = await self._etcd.get(self._key)
            if found is None or found.lease != lease.id:
                raise
            return found.create_revision
        if not made.succeeded:
            raise AlreadyThere(f"a host named {self.record.id} is in this pool already: {_told(made.read[self._key])}")
        return made.revision

    async def keep(self) -> None:
        """Registers again whenever the entry is gone; ends only by being cancelled."""
        while True:
            before = self.record.incarnation
            _log.warning("host %s: %s; registering again", self.record.id, await self._gone())
            while self.record.incarnation == before:
                try:
                    await self.start()
                except MembershipError as error:
                    _log.warning("host %s cannot register: %s", self.record.id, error)
                    await asyncio.sleep(_RETRY_S)

    async def _gone(self) -> str:
        """Waits until the entry is gone; says why."""
        assert self._lease is not None
        waits = [asyncio.ensure_future(self._lease.lost.wait()), asyncio.ensure_future(self._removed())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._lease.lost.is_set():
            return self._lease.reason
        await _end(self._lease)
        return "its entry was removed, as that of a dead host"

    async def _removed(self) -> None:
        async with self._etcd.watch(self._key, self.record.incarnation + 1) as watch:
            async for event in watch:
                if isinstance(event, Delete):
                    return
                if isinstance(event, Relisted):
                    created = [kv.create_revision for kv in event.listing.kvs]
                    if created != [self.record.incarnation]:
                        return

    async def drain(self, reason: str) -> None:
        """Says that the host is about to leave. Raises as `Etcd.txn` does."""
        await self._say(replace(self.record, draining=reason))

    async def quarantine(self, reason: str) -> None:
        """Says why no run is to take the host for now, or without a reason that one may. Raises as `Etcd.txn` does.

        An entry that is made anew meanwhile says it in any case.
        """
        await self._say(replace(self.record, quarantined=reason))

    async def _say(self, record: HostRecord) -> None:
        self.record = record
        if self._lease is not None:
            mine = Compare.created(self._key, self.record.incarnation)
            await self._etcd.txn([mine], [PutKey(self._key, self._value(), self._lease.id)])

    async def leave(self) -> None:
        """Takes the entry back. Raises `EtcdUnavailable`; it then ends with its lease."""
        if self._lease is not None:
            await self._lease.revoke()

    def _value(self) -> bytes:
        return _value(replace(self.record, incarnation=0))


class Claims:
    """What one run has in the pool: hosts, and its generation. All on one lease, which is renewed when it is lost."""

    def __init__(self, etcd: Etcd, record: RunRecord, ttl: int, taken: Callable[[str], None]) -> None:
        """`taken(host)` is called for a host that another run got while etcd had lost this run's lease."""
        self.run = record.id
        self._etcd = etcd
        self._keys = Keys(etcd.address.prefix)
        self._record = record
        self._name = record.id.encode()
        self._own = {self._name, _value(record)}
        """What its entries hold, or held before."""
        self._ttl = ttl
        self._taken = taken
        self._lease: Lease
        self._incomplete = False
        """Whether there is a new lease on which not everything is again."""
        self._hosts: dict[str, int] = {}
        """The incarnation of each host that it has."""
        self._generation = 0
        self._lock = asyncio.Lock()
        """Held by whoever changes anything, so that what is late undoes nothing of what came after."""

    async def start(self) -> Self:
        """Registers the run. Raises `AlreadyThere` if there is one of this name, else as `Etcd.txn` does."""
        self._lease = await self._etcd.grant(self._ttl)
        try:
            if not await self._put_own([self._about()]):
                raise AlreadyThere(f"there is a run named {self.run} in this pool already")
        except MembershipError:
            await _end(self._lease)
            raise
        return self

    @property
    def unheard_s(self) -> float | None:
        """For how many seconds at least etcd has not answered; None if no answer is overdue."""
        silence = self._lease.ttl - self._lease.remaining
        return silence if silence > _OVERDUE * self._lease.ttl else None

    async def claim(self, *hosts: HostRecord) -> bool:
        """Takes hosts, all or none: if these incarnations are there, and no other run has one. Raises as `Etcd.txn`.

        More than etcd takes in a transaction are claimed in several ones; if one of them fails, so do all.
        """
        async with self._lock:
            await self._held()
            for start in range(0, len(hosts), _AT_ONCE):
                some = hosts[start : start + _AT_ONCE]
                there = [Compare.created(self._keys.host(host.id), host.incarnation) for host in some]
                registered = all(host.incarnation for host in some)
                if not registered or not await self._put_own([self._claim(host.id) for host in some], given=there):
                    for host in hosts[:start]:
                        await self._release(host.id)
                    return False
                self._hosts.update((host.id, host.incarnation) for host in some)
            return True

    async def describe(self, virtual_devices: int) -> None:
        """Says how many virtual devices the run has, which may not be known before it has hosts.

        Raises `Fenced` if another controller has taken over the run, else as `Etcd.txn` does.
        """
        async with self._lock:
            await self._held()
            self._record = replace(self._record, virtual_devices=virtual_devices)
            self._own.add(_value(self._record))
            await self._put_about()

    async def bury(self, host: HostRecord) -> None:
        """Takes a dead incarnation out of the pool, so that its name and its devices are free at once.

        Not if another run has it: that one knows better. Raises as `Etcd.txn` does.
        """
        async with self._lock:
            if self._hosts.get(host.id, 0) <= host.incarnation:
                self._hosts.pop(host.id, None)
            key, claim = self._keys.host(host.id), self._keys.claim(host.id)
            there, mine = Compare.created(key, host.incarnation), Compare.holds(claim, self._name)
            done = await self._etcd.txn([there, mine], [DeleteKey(key), DeleteKey(claim)], [GetKey(claim)])
            if done.succeeded:
                return
            if done.read[claim] is None:
                await self._etcd.txn([there, Compare.missing(claim)], [DeleteKey(key)])
            elif host.id not in self._hosts:  # Its entry went before.
                await self._etcd.txn([mine], [DeleteKey(claim)])

    async def release(self, host: str) -> None:
        """Gives a host back. Raises as `Etcd.txn` does."""
        async with self._lock:
            await self._release(host)

    async def _release(self, host: str) -> None:
        self._hosts.pop(host, None)
        key = self._keys.claim(host)
        await self._etcd.txn([Compare.holds(key, self._name)], [DeleteKey(key)])

    async def advance(self, generation: int) -> None:
        """Raises the run's generation to this one.

        Raises `Fenced` if it is not what this controller last made it, else as `Etcd.txn` does.
        """
        async with self._lock:
            found = await self._advance(generation)
            if found is None and self._generation:
                # It went with the lease, of whose end nobody has told us yet.
                await _end(self._lease)
                found = await self._advance(generation)
            if found is None or found.value != _number(generation) or found.lease != self._lease.id:
                raise Fenced(f"the generation of run {self.run} is {_told(found)}, not {self._generation}")
            self._generation = generation

    async def _advance(self, generation: int) -> KeyValue | None:
        """Raises the generation if it is as expected; what it is now."""
        await self._held()
        key = self._keys.generation(self.run)
        before = Compare.holds(key, _number(self._generation)) if self._generation else Compare.missing(key)
        get = GetKey(key)
        try:
            done = await self._etcd.txn([before], [PutKey(key, _number(generation), self._lease.id), get], [get])
        except OutcomeUnknown:
            found = await self._etcd.get(key)
            if (found.value if found else b"0") == _number(self._generation):
                raise  # It was not applied, or will be yet; either can be told at the next try.
            return found
        return done.read[key]

    async def keep(self) -> None:
        """Claims everything again whenever the lease is lost. Ends by being cancelled, or raises `Fenced`."""
        while True:
            if not self._incomplete:
                lease = self._lease
                await lease.lost.wait()
                _log.warning("run %s: %s; claiming its hosts again", self.run, lease.reason)
            try:
                async with self._lock:
                    await self._held()
            except Fenced:
                raise
            except MembershipError as error:
                _log.warning("run %s: %s", self.run, error)
                await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        """Gives everything back. Raises `EtcdUnavailable`; it then ends with its lease."""
        await self._lease.revoke()

    async def _held(self) -> None:
        """Sees to it that there is a lease, with everything on it. Raises `Fenced`, else as `Etcd.txn` does."""
        if not self._lease.remaining:
            self._lease = await self._etcd.grant(self._ttl)
            self._incomplete = True
        if self._incomplete:
            await self._again()
            self._incomplete = False

    async def _again(self) -> None:
        key = self._keys.generation(self.run)
        generation = [PutKey(key, _number(self._generation), self._lease.id)] if self._generation else []
        await self._put_about(*generation)
        for host in sorted(self._hosts):
            # Not only if this incarnation is there: while etcd was away hosts lost their entries, too.
            if not await self._put_own([self._claim(host)]):
                del self._hosts[host]
                self._taken(host)

    async def _put_about(self, *more: Operation) -> None:
        if not await self._put_own([self._about()], *more):
            raise Fenced(f"another controller has taken over run {self.run}")

    def _about(self) -> PutKey:
        return PutKey(self._keys.run(self.run), _value(self._record), self._lease.id)

    def _claim(self, host: str) -> PutKey:
        return PutKey(self._keys.claim(host), self._name, self._lease.id)

    async def _put_own(self, puts: Sequence[PutKey], *more: Operation, given: Sequence[Compare] = ()) -> bool:
        """Puts keys, and more, if nobody else has any of them; this run may, as from a try before."""
        unknown: OutcomeUnknown | None = None
        missing = [Compare.missing(put.key) for put in puts]
        try:
            done = await self._etcd.txn([*given, *missing], [*puts, *more], [GetKey(put.key) for put in puts])
            if done.succeeded:
                return True
            found = {key: kv.value for key, kv in done.read.items() if kv is not None}
            if not found or not self._own.issuperset(found.values()):
                return False
        except OutcomeUnknown as error:
            unknown, found = error, {put.key: put.value for put in puts}
        as_found = [
            Compare.holds(put.key, found[put.key]) if put.key in found else Compare.missing(put.key) for put in puts
        ]
        done = await self._etcd.txn([*given, *as_found], [*puts, *more])
        if unknown is not None and not done.succeeded:
            raise unknown
        return done.succeeded


async def _end(lease: Lease) -> None:
    """Ends a lease, at the latest when its time is up."""
    with contextlib.suppress(MembershipError):
        await lease.revoke()


def _record(kind: type[Any], kv: KeyValue) -> Any:
    try:
        read = json.loads(kv.value)
        values = {field.name: read[field.name] for field in fields(kind) if field.name in read}
        if all(type(values[field.name]).__name__ == field.type for field in fields(kind) if field.name in values):
            return kind(**values)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    _log.warning("%s holds something that is no %s", kv.key, kind.__name__)
    return None


def _value(record: HostRecord | RunRecord) -> bytes:
    return json.dumps(asdict(record)).encode()


def _number(number: int) -> bytes:
    return str(number).encode()


def _told(kv: KeyValue | None) -> str:
    return "not there" if kv is None else kv.value.decode(errors="replace")
