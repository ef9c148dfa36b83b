"""What the embedded server holds and how each request changes it: etcd's semantics, in memory. Pure; without I/O.

Requests and answers are etcd's own messages; time is passed in, in monotonic seconds. A request that is refused raises
`Refusal` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from membership.proto import etcd_pb2 as pb
from membership.server import refusals
from membership.server.history import History, in_range

MAX_OPERATIONS = 128
MAX_BYTES = 3 << 19  # 1.5 MiB, as etcd.


@dataclass(slots=True)
class _Lease:
    ttl: int
    deadline: float
    keys: set[bytes] = field(default_factory=set)


class Store:
    """An etcd of one member.

    Attributes:
        history: the keys and their past. Read it; only requests change it.
    """

    def __init__(self, identity: int, keep_revisions: int = 10_000) -> None:
        """A new, empty store.

        Args:
            identity: tells this store from every other; leases count from it, so that none is taken for another's.
            keep_revisions: how much of the past is kept at least; up to twice as much is.
        """
        self.history = History()
        self._identity = identity
        self._keep_revisions = keep_revisions
        self._leases: dict[int, _Lease] = {}
        self._next_lease = identity

    def header(self) -> pb.ResponseHeader:
        return pb.ResponseHeader(cluster_id=self._identity, member_id=1, raft_term=1, revision=self.history.latest)

    # --- Keys -----------------------------------------------------------------------------------------------------

    def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        self._check_range(request)
        return self._range(request, self.history.revision)

    def put(self, request: pb.PutRequest) -> pb.PutResponse:
        self._check_put(request)
        answer = self._put(request, self.history.revision + 1)
        self._commit()
        return answer

    def delete_range(self, request: pb.DeleteRangeRequest) -> pb.DeleteRangeResponse:
        self._check_delete(request)
        answer = self._delete(request, self.history.revision + 1)
        self._commit()
        return answer

    def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        if max(len(request.compare), len(request.success), len(request.failure)) > MAX_OPERATIONS:
            raise refusals.too_many_operations()
        for compare in request.compare:
            if not compare.key:
                raise refusals.no_key()
        for branch in (request.success, request.failure):
            self._check_branch(branch)
        succeeded = all(self._holds(compare) for compare in request.compare)
        chosen = request.success if succeeded else request.failure
        self._check_chosen(chosen)
        answers = [self._do(operation, self.history.revision + 1) for operation in chosen]
        self._commit()
        return pb.TxnResponse(header=self.header(), succeeded=succeeded, responses=answers)

    def compact(self, request: pb.CompactionRequest) -> pb.CompactionResponse:
        if request.revision <= self.history.compacted:
            raise refusals.compacted()
        if request.revision > self.history.revision:
            raise refusals.future_revision()
        self.history.compact(request.revision)
        return pb.CompactionResponse(header=self.header())

    # --- Leases ---------------------------------------------------------------------------------------------------

    def grant(self, request: pb.LeaseGrantRequest, now: float) -> pb.LeaseGrantResponse:
        if request.ID in self._leases:
            raise refusals.lease_exists()
        if not request.ID:
            self._next_lease += 1
        lease, ttl = request.ID or self._next_lease, max(request.TTL, 1)
        self._leases[lease] = _Lease(ttl, now + ttl)
        return pb.LeaseGrantResponse(header=self.header(), ID=lease, TTL=ttl)

    def keep_alive(self, request: pb.LeaseKeepAliveRequest, now: float) -> pb.LeaseKeepAliveResponse:
        lease = self._leases.get(request.ID)
        if lease is not None:
            lease.deadline = now + lease.ttl
        return pb.LeaseKeepAliveResponse(header=self.header(), ID=request.ID, TTL=lease.ttl if lease else 0)

    def revoke(self, request: pb.LeaseRevokeRequest) -> pb.LeaseRevokeResponse:
        if request.ID not in self._leases:
            raise refusals.no_lease()
        self._end(request.ID)
        return pb.LeaseRevokeResponse(header=self.header())

    def time_to_live(self, request: pb.LeaseTimeToLiveRequest, now: float) -> pb.LeaseTimeToLiveResponse:
        lease = self._leases.get(request.ID)
        if lease is None:
            return pb.LeaseTimeToLiveResponse(header=self.header(), ID=request.ID, TTL=-1)
        return pb.LeaseTimeToLiveResponse(
            header=self.header(),
            ID=request.ID,
            TTL=int(lease.deadline - now),
            grantedTTL=lease.ttl,
            keys=sorted(lease.keys) if request.keys else (),
        )

    def expire(self, now: float) -> None:
        """Ends the leases whose time is up."""
        for lease in [lease for lease, state in self._leases.items() if state.deadline <= now]:
            self._end(lease)

    def next_deadline(self) -> float | None:
        """When `expire` has something to do at the earliest; None if there are no leases."""
        return min((lease.deadline for lease in self._leases.values()), default=None)

    def _end(self, lease: int) -> None:
        """Removes the lease, and all its keys at one revision."""
        revision = self.history.revision + 1
        for key in sorted(self._leases[lease].keys):
            self._delete_key(key, revision)
        del self._leases[lease]
        self._commit()

    # --- Checks, before anything is changed -----------------------------------------------------------------------

    def _check_range(self, request: pb.RangeRequest) -> None:
        if not request.key:
            raise refusals.no_key()
        if request.revision > self.history.revision:
            raise refusals.future_revision()
        if 0 < request.revision < self.history.compacted:
            raise refusals.compacted()

    def _check_put(self, request: pb.PutRequest) -> None:
        if not request.key:
            raise refusals.no_key()
        if request.lease and request.lease not in self._leases:
            raise refusals.no_lease()

    def _check_delete(self, request: pb.DeleteRangeRequest) -> None:
        if not request.key:
            raise refusals.no_key()

    def _check_branch(self, operations: Sequence[pb.RequestOp]) -> None:
        """What is wrong whichever branch is taken: no key, or a key that is changed twice."""
        puts: set[bytes] = set()
        for operation in operations:
            kind = operation.WhichOneof("request")
            if kind is None:
                raise refusals.unsupported("this operation in a transaction")
            if not getattr(operation, kind).key:
                raise refusals.no_key()
            if kind == "request_put":
                if operation.request_put.key in puts:
                    raise refusals.duplicate_key()
                puts.add(operation.request_put.key)
        for operation in operations:
            if operation.HasField("request_delete_range"):
                deleted = operation.request_delete_range
                if any(in_range(key, deleted.key, deleted.range_end) for key in puts):
                    raise refusals.duplicate_key()

    def _check_chosen(self, operations: Sequence[pb.RequestOp]) -> None:
        """What is wrong with operations in the store as it is; with puts first, as etcd."""
        for operation in operations:
            if operation.HasField("request_put"):
                self._check_put(operation.request_put)
        for operation in operations:
            if operation.HasField("request_range"):
                self._check_range(operation.request_range)

    def _holds(self, compare: pb.Compare) -> bool:
        kvs = list(self.history.range(compare.key, compare.range_end, self.history.revision))
        if not kvs:
            # A key that does not exist has revisions and a version of 0, but no value, not even an empty one.
            return compare.target != pb.Compare.VALUE and _matches(compare, pb.KeyValue())
        return all(_matches(compare, kv) for kv in kvs)

    # --- Changes, after the checks --------------------------------------------------------------------------------

    def _do(self, operation: pb.RequestOp, revision: int) -> pb.ResponseOp:
        if operation.HasField("request_range"):
            return pb.ResponseOp(response_range=self._range(operation.request_range, revision))
        if operation.HasField("request_put"):
            return pb.ResponseOp(response_put=self._put(operation.request_put, revision))
        return pb.ResponseOp(response_delete_range=self._delete(operation.request_delete_range, revision))

    def _range(self, request: pb.RangeRequest, newest: int) -> pb.RangeResponse:
        revision = request.revision if request.revision > 0 else newest
        kvs = list(self.history.range(request.key, request.range_end, revision))
        answer = pb.RangeResponse(header=self.header(), count=len(kvs))
        if not request.count_only:
            answer.more = 0 < request.limit < len(kvs)
            answer.kvs.extend(kvs[: request.limit or None])
        if request.keys_only:
            for kv in answer.kvs:
                kv.ClearField("value")
        return answer

    def _put(self, request: pb.PutRequest, revision: int) -> pb.PutResponse:
        before = self.history.get(request.key)
        self._detach(before)
        self.history.put(request.key, request.value, request.lease, revision)
        if request.lease:
            self._leases[request.lease].keys.add(request.key)
        return pb.PutResponse(header=self.header(), prev_kv=before if request.prev_kv else None)

    def _delete(self, request: pb.DeleteRangeRequest, revision: int) -> pb.DeleteRangeResponse:
        kvs = list(self.history.range(request.key, request.range_end, revision))
        for kv in kvs:
            self._delete_key(kv.key, revision)
        gone = kvs if request.prev_kv else ()
        return pb.DeleteRangeResponse(header=self.header(), deleted=len(kvs), prev_kvs=gone)

    def _delete_key(self, key: bytes, revision: int) -> None:
        self._detach(self.history.get(key))
        self.history.delete(key, revision)

    def _detach(self, kv: pb.KeyValue | None) -> None:
        if kv is not None and kv.lease:
            self._leases[kv.lease].keys.discard(kv.key)

    def _commit(self) -> None:
        self.history.commit()
        if self.history.revision - self.history.compacted > 2 * self._keep_revisions:
            self.history.compact(self.history.revision - self._keep_revisions)


def _matches(compare: pb.Compare, kv: pb.KeyValue) -> bool:
    pairs: dict[int, tuple[int | bytes, int | bytes]] = {
        pb.Compare.VERSION: (kv.version, compare.version),
        pb.Compare.CREATE: (kv.create_revision, compare.create_revision),
        pb.Compare.MOD: (kv.mod_revision, compare.mod_revision),
        pb.Compare.VALUE: (kv.value, compare.value),
        pb.Compare.LEASE: (kv.lease, compare.lease),
    }
    actual, wanted = pairs[compare.target]
    order = (actual > wanted) - (actual < wanted)  # type: ignore[operator]
    return {
        pb.Compare.EQUAL: order == 0,
        pb.Compare.NOT_EQUAL: order != 0,
        pb.Compare.GREATER: order > 0,
        pb.Compare.LESS: order < 0,
    }[compare.result]
