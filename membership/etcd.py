"""A client of etcd 3.4 or newer, and of the embedded server: keys, transactions, leases, watches.

Built for asyncio: made and used inside one event loop. It goes on through lost connections, restarts and changes of
etcd's leader; what it cannot know it says (`OutcomeUnknown`). Not for: what the keys mean, locks, elections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import grpc

from membership import transactions
from membership.address import PoolAddress
from membership.api import COMPACT, DELETE_RANGE, PUT, RANGE, STATUS, TXN
from membership.calls import Caller, NotServed, Timing
from membership.endpoints import Endpoint
from membership.errors import EtcdUnavailable, MembershipError
from membership.kv import KeyRange, KeyValue, Listing, encode
from membership.leases import Lease, Leases
from membership.listing import read_listing
from membership.proto import etcd_pb2 as pb
from membership.transactions import Compare, Operation, TxnResult
from membership.watches import Watch, Watches


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member of etcd, as it describes itself.

    Attributes:
        version: of the server, such as ``3.4.23``.
        member: its id.
        leader: the id of the member that it takes for the leader; 0 if it knows none.
        revision: of the store.
        term: of the leader's election.
        db_bytes: size of the store on disk.
    """

    version: str
    member: int
    leader: int
    revision: int
    term: int
    db_bytes: int

    @property
    def leads(self) -> bool:
        """It takes itself for the leader."""
        return self.leader == self.member


class Etcd:
    """One connection to a pool's etcd: ``async with Etcd(PoolAddress.parse("etcd://h1,h2,h3/pool")) as etcd: ...``.

    Every method that asks etcd may raise `EtcdUnavailable`, `RequestRefused` or `AuthError`; those that write may also
    raise `OutcomeUnknown`. Keys are text, values bytes.
    """

    def __init__(self, address: PoolAddress, timing: Timing | None = None) -> None:
        self.address = address
        self._caller = Caller(address, timing or Timing())
        self._leases = Leases(self._caller)
        self._watches = Watches(self._caller)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all watches and connections. Leases are renewed no longer, and end at their TTL."""
        await self._watches.close()
        await self._leases.close()
        await self._caller.endpoints.close()

    async def get(self, key: str) -> KeyValue | None:
        """What the key holds; None if it does not exist."""
        answer = await self._caller.call(RANGE, pb.RangeRequest(key=encode(key)), f"reading {key!r}")
        return KeyValue.from_wire(answer.kvs[0]) if answer.kvs else None

    async def list(self, prefix: str) -> Listing:
        """All keys that begin with ``prefix``, in order, as they were together at one revision."""
        listing, _ = await read_listing(self._caller, KeyRange.prefix(prefix))
        return listing

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        """Writes the key, and returns the revision. ``lease`` is the id of the lease it dies with, 0 for none."""
        request = pb.PutRequest(key=encode(key), value=value, lease=lease)
        return (await self._caller.call(PUT, request, f"writing {key!r}")).header.revision

    async def delete(self, key: str) -> bool:
        """Deletes the key; whether there was one."""
        return await self._delete(KeyRange.one(key)) > 0

    async def delete_prefix(self, prefix: str) -> int:
        """Deletes all keys that begin with ``prefix``; how many there were."""
        return await self._delete(KeyRange.prefix(prefix))

    async def _delete(self, keys: KeyRange) -> int:
        request = pb.DeleteRangeRequest(key=keys.first, range_end=keys.end)
        return (await self._caller.call(DELETE_RANGE, request, f"deleting {keys}")).deleted

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        """Does ``then`` if all compares hold, else ``otherwise``, at one revision."""
        keys = ", ".join(sorted({repr(compare.key) for compare in compares})) or "no condition"
        request = transactions.request(compares, then, otherwise)
        answer = await self._caller.call(TXN, request, f"a transaction on {keys}")
        return transactions.result(answer, then if answer.succeeded else otherwise)

    async def compact(self, revision: int) -> None:
        """Has etcd forget the history before ``revision``. Raises `Compacted` if it has already."""
        await self._caller.call(COMPACT, pb.CompactionRequest(revision=revision), f"compacting to {revision}")

    async def grant(self, ttl: int) -> Lease:
        """A lease that ends ``ttl`` seconds after its holder was last heard of, and is kept alive from now on.

        etcd grants whole seconds, and at least 1.5 times its election timeout.
        """
        return await self._leases.grant(ttl)

    def watch(self, key: str, revision: int | None = None, *, previous: bool = False) -> Watch:
        """What happens to the key from ``revision`` on; see `watch_prefix`."""
        return self._watches.add(KeyRange.one(key), revision, previous=previous)

    def watch_prefix(self, prefix: str, revision: int | None = None, *, previous: bool = False) -> Watch:
        """What happens to all keys that begin with ``prefix``, from ``revision`` (at least 1) on.

        Without ``revision`` the first event is a `Relisted` with the contents now, and all later ones follow on that.
        With ``previous``, events also tell what a key held before, as far as etcd still knows.
        """
        return self._watches.add(KeyRange.prefix(prefix), revision, previous=previous)

    async def status(self) -> dict[str, MemberStatus | MembershipError]:
        """{endpoint: what it says of itself, or why it could not be asked}. Raises nothing."""
        endpoints = self._caller.endpoints.all
        answers = await asyncio.gather(*(self._status(endpoint) for endpoint in endpoints))
        return {endpoint.name: answer for endpoint, answer in zip(endpoints, answers, strict=True)}

    async def _status(self, endpoint: Endpoint) -> MemberStatus | MembershipError:
        timing = self._caller.timing
        what = f"asking {endpoint.name} for its status"
        if not await endpoint.connect(timing.connect):
            return EtcdUnavailable(what, timing.connect, {endpoint.name: await endpoint.complaint()})
        try:
            metadata = [pair for pair in await self._caller.credentials(endpoint) if pair[0] != "hasleader"]
            status = await endpoint.invoke(STATUS, pb.StatusRequest(), timing.attempt, metadata)
        except NotServed as error:
            return EtcdUnavailable(what, timing.attempt, {endpoint.name: str(error)})
        except MembershipError as error:
            return error
        except grpc.aio.AioRpcError as error:
            return EtcdUnavailable(what, timing.attempt, {endpoint.name: error.details() or error.code().name})
        return MemberStatus(
            status.version,
            status.header.member_id,
            status.leader,
            status.header.revision,
            status.raftTerm,
            status.dbSize,
        )
