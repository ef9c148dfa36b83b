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
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from membership.cursor import Delete, Relisted
from membership.errors import MembershipError, OutcomeUnknown
from membership.etcd import Etcd
from membership.kv import KeyValue
from membership.leases import Lease
from membership.transactions import Compare, DeleteKey, GetKey, PutKey

_log = logging.getLogger(__name__)

_RETRY_S = 0.5
"""Between two tries of something that needs etcd while etcd cannot be reached."""

_AT_ONCE = 60
"""Hosts that are claimed in one transaction; etcd takes 128 operations and as many compares, unless told otherwise."""

_AGAIN_S = 0.1
"""Between two looks whether a host's name is free."""


class Fenced(MembershipError):
    """Another controller has raised the generation of this run: nothing that this one does counts any more."""


class AlreadyThere(MembershipError):
    """Another process holds this name in the pool and lives."""


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
    incarnation: int = 0
    ttl: int = 0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as its controller registers it.

    Attributes:
        id: its name in the pool.
        address: where the controller answers questions about the run.
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
    found = _record(HostRecord, kv)
    return None if found is None else replace(found, incarnation=kv.create_revision)


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
            made = await self._etcd.txn(
                [Compare.missing(self._key)], [PutKey(self._key, self._value(), lease.id)], [GetKey(self._key)]
            )
        except OutcomeUnknown:
            found = await self._etcd.get(self._key)
            if found is None or found.lease != lease.id:
                raise
            self._registered(lease, found.create_revision)
            return
        if not made.succeeded:
            await lease.revoke()
            raise AlreadyThere(f"a host named {self.record.id} is in this pool already: {_told(made.read[self._key])}")
        self._registered(lease, made.revision)

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
        await self._lease.revoke()
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
        """Says that the host is about to leave. Raises as `Etcd.put` does."""
        self.record = replace(self.record, draining=reason)
        if self._lease is not None:
            await self._etcd.put(self._key, self._value(), lease=self._lease.id)

    async def leave(self) -> None:
        """Takes the entry back. Raises `EtcdUnavailable`; it then ends with its lease."""
        if self._lease is not None:
            await self._lease.revoke()

    def _registered(self, lease: Lease, revision: int) -> None:
        self._lease = lease
        self.record = replace(self.record, incarnation=revision)
        self._changed(self.record)

    def _value(self) -> bytes:
        return _value(replace(self.record, incarnation=0))


class Claims:
    """What one run has in the pool: hosts, and its generation. All on one lease, which is renewed when it is lost."""

    def __init__(self, etcd: Etcd, record: RunRecord, ttl: int, taken: Callable[[str], None]) -> None:
        """`taken(host)` is called for a host that another run got while etcd had lost this run's lease."""
        self._etcd = etcd
        self._keys = Keys(etcd.address.prefix)
        self._record = record
        self._ttl = ttl
        self._taken = taken
        self._lease: Lease
        self._hosts: set[str] = set()
        self._generation = 0

    @property
    def run(self) -> str:
        """The run's id."""
        return self._record.id

    async def start(self) -> Self:
        """Registers the run. Raises `AlreadyThere` if there is one of this name, else as `Etcd.txn` does."""
        self._lease = await self._etcd.grant(self._ttl)
        key = self._keys.run(self._record.id)
        made = await self._etcd.txn([Compare.missing(key)], [PutKey(key, _value(self._record), self._lease.id)])
        if not made.succeeded:
            raise AlreadyThere(f"there is a run named {self._record.id} in this pool already")
        return self

    async def claim(self, host: HostRecord) -> bool:
        """Takes a host, if this incarnation of it is there and no run has it. Raises as `Etcd.txn` does."""
        key = self._keys.claim(host.id)
        mine = PutKey(key, self._record.id.encode(), self._lease.id)
        compares = [Compare.missing(key), Compare.created(self._keys.host(host.id), host.incarnation)]
        try:
            done = await self._etcd.txn(compares, [mine], [GetKey(key)])
        except OutcomeUnknown:
            found = await self._etcd.get(key)
            if found is None or found.lease != self._lease.id:
                raise
            self._hosts.add(host.id)
            return True
        found = done.read.get(key)
        if done.succeeded or (found is not None and found.lease == self._lease.id):
            self._hosts.add(host.id)
            return True
        return False

    async def claim_together(self, hosts: Sequence[HostRecord]) -> bool:
        """Takes all of these hosts, or none. Raises as `Etcd.txn` does.

        More than etcd takes in a transaction are claimed in several ones; if one of them fails, so do all.
        """
        for start in range(0, len(hosts), _AT_ONCE):
            some = hosts[start : start + _AT_ONCE]
            compares = [
                compare
                for host in some
                for compare in (
                    Compare.missing(self._keys.claim(host.id)),
                    Compare.created(self._keys.host(host.id), host.incarnation),
                )
            ]
            mine = [PutKey(self._keys.claim(host.id), self.run.encode(), self._lease.id) for host in some]
            try:
                succeeded = (await self._etcd.txn(compares, mine)).succeeded
            except OutcomeUnknown:
                found = await self._etcd.get(self._keys.claim(some[0].id))
                succeeded = found is not None and found.lease == self._lease.id
            if not succeeded:
                for host in hosts[:start]:
                    await self.release(host.id)
                return False
            self._hosts.update(host.id for host in some)
        return True

    async def describe(self, virtual_devices: int) -> None:
        """Says how many virtual devices the run has, which may not be known before it has hosts. Raises as `Etcd.put`
        does."""
        self._record = replace(self._record, virtual_devices=virtual_devices)
        await self._etcd.put(self._keys.run(self.run), _value(self._record), lease=self._lease.id)

    async def bury(self, host: HostRecord) -> None:
        """Takes a dead incarnation out of the pool, so that its name and its devices are free at once.

        Raises as `Etcd.txn` does.
        """
        self._hosts.discard(host.id)
        key = self._keys.host(host.id)
        deletes = [DeleteKey(key), DeleteKey(self._keys.claim(host.id))]
        await self._etcd.txn([Compare.created(key, host.incarnation)], deletes)

    async def release(self, host: str) -> None:
        """Gives a host back. Raises as `Etcd.txn` does."""
        self._hosts.discard(host)
        key = self._keys.claim(host)
        await self._etcd.txn([Compare.holds(key, self._record.id.encode())], [DeleteKey(key)])

    async def advance(self, generation: int) -> None:
        """Raises the run's generation to this one.

        Raises `Fenced` if it is not what this controller last made it, else as `Etcd.txn` does.
        """
        key = self._keys.generation(self._record.id)
        before = Compare.holds(key, _number(self._generation)) if self._generation else Compare.missing(key)
        put = PutKey(key, _number(generation), self._lease.id)
        try:
            done = await self._etcd.txn([before], [put], [GetKey(key)])
            found = done.read.get(key)
        except OutcomeUnknown:
            found = await self._etcd.get(key)
            done = None
        if (done is not None and done.succeeded) or (found is not None and found.value == _number(generation)):
            self._generation = generation
            return
        raise Fenced(f"the generation of run {self._record.id} is {_told(found)}, not {self._generation}")

    async def keep(self) -> None:
        """Claims everything again whenever the lease is lost; ends only by being cancelled."""
        while True:
            await self._lease.lost.wait()
            _log.warning("run %s: %s; claiming its hosts again", self._record.id, self._lease.reason)
            try:
                await self._again()
            except MembershipError as error:
                _log.warning("run %s: %s", self._record.id, error)
                await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        """Gives everything back. Raises `EtcdUnavailable`; it then ends with its lease."""
        await self._lease.revoke()

    async def _again(self) -> None:
        lease = await self._etcd.grant(self._ttl)
        about, generation = self._keys.run(self._record.id), self._keys.generation(self._record.id)
        puts = [PutKey(about, _value(self._record), lease.id)]
        if self._generation:
            puts.append(PutKey(generation, _number(self._generation), lease.id))
        await self._etcd.txn([], puts)
        name = self._record.id.encode()
        for host in sorted(self._hosts):
            key = self._keys.claim(host)
            mine = PutKey(key, name, lease.id)
            done = await self._etcd.txn([Compare.missing(key)], [mine], [GetKey(key)])
            if not done.succeeded:
                done = await self._etcd.txn([Compare.holds(key, name)], [mine])
            if not done.succeeded:
                self._hosts.discard(host)
                self._taken(host)
        self._lease = lease

    def check(self) -> None:
        """Raises `LeaseLost` if etcd may have given this run's hosts to others."""
        self._lease.check()


def _record(kind: type[Any], kv: KeyValue) -> Any:
    try:
        values = json.loads(kv.value)
        return kind(**{field.name: values[field.name] for field in fields(kind) if field.name in values})
    except (ValueError, TypeError, KeyError):
        _log.warning("%s holds something that is no %s", kv.key, kind.__name__)
        return None


def _value(record: HostRecord | RunRecord) -> bytes:
    return json.dumps(asdict(record)).encode()


def _number(number: int) -> bytes:
    return str(number).encode()


def _told(kv: KeyValue | None) -> str:
    return "not there" if kv is None else kv.value.decode(errors="replace")
