"""The embedded server's store, step by step beside its twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from membership.proto import etcd_pb2 as pb
from membership.server.refusals import Refusal
from membership.server.store import MAX_OPERATIONS, Store
from tests.membership.server.twin import Happened, Kv, Twin, covers

KEYS = [b"a", b"ab", b"b", b"ba", b"\xff"]
keys = st.sampled_from(KEYS)
ends = st.sampled_from([b"", b"\0", b"b", b"c"])
values = st.sampled_from([b"", b"x", b"y"])
lease_ids = st.sampled_from([1, 2, 3])
leases = st.one_of(st.just(0), lease_ids)
operations = st.tuples(st.sampled_from(["get", "put", "delete"]), keys, ends, values, leases)
compares = st.tuples(
    st.sampled_from(pb.Compare.CompareResult.values()),
    st.sampled_from(["version", "create_revision", "mod_revision", "value", "lease"]),
    keys,
    ends,
    st.integers(0, 12),
    values,
)
TARGETS = {"version": 0, "create_revision": 1, "mod_revision": 2, "value": 3, "lease": 4}


def wire(key: bytes, kv: Kv) -> pb.KeyValue:
    return pb.KeyValue(
        key=key, value=kv.value, create_revision=kv.create, mod_revision=kv.mod, version=kv.version, lease=kv.lease
    )


def request_op(operation: tuple[str, bytes, bytes, bytes, int]) -> pb.RequestOp:
    kind, key, end, value, lease = operation
    if kind == "get":
        return pb.RequestOp(request_range=pb.RangeRequest(key=key, range_end=end))
    if kind == "put":
        return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease, prev_kv=True))
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key, range_end=end, prev_kv=True))


class Beside(RuleBasedStateMachine):
    """The same requests to the store and to its twin."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(identity=1000)
        self.twin = Twin()
        self.now = 0.0

    def refused(self, call: Any, *arguments: Any) -> str:
        before = self.store.history.revision
        with pytest.raises(Refusal) as caught:
            call(*arguments)
        assert self.store.history.revision == before
        return caught.value.text

    @rule(key=keys, value=values, lease=leases)
    def put(self, key: bytes, value: bytes, lease: int) -> None:
        request = pb.PutRequest(key=key, value=value, lease=lease, prev_kv=True)
        if lease and lease not in self.twin.leases:
            assert "lease not found" in self.refused(self.store.put, request)
            return
        ((*before,),) = self.twin.apply([("put", key, b"", value, lease)])
        answer = self.store.put(request)
        assert answer.header.revision == self.twin.revision
        found = [answer.prev_kv] if answer.HasField("prev_kv") else []
        assert found == [wire(*each) for each in before]

    @rule(key=keys, end=ends)
    def delete(self, key: bytes, end: bytes) -> None:
        (gone,) = self.twin.apply([("delete", key, end, b"", 0)])
        answer = self.store.delete_range(pb.DeleteRangeRequest(key=key, range_end=end, prev_kv=True))
        assert answer.header.revision == self.twin.revision
        assert (answer.deleted, list(answer.prev_kvs)) == (len(gone), [wire(*each) for each in gone])

    @rule(
        key=keys,
        end=ends,
        back=st.integers(-1, 8),
        limit=st.integers(0, 2),
        flags=st.sampled_from(["", "keys", "count"]),
    )
    def range(self, key: bytes, end: bytes, back: int, limit: int, flags: str) -> None:
        revision = max(self.twin.revision - back, 1)
        request = pb.RangeRequest(
            key=key,
            range_end=end,
            revision=revision,
            limit=limit,
            keys_only=flags == "keys",
            count_only=flags == "count",
        )
        if revision > self.twin.revision:
            assert "future revision" in self.refused(self.store.range, request)
        elif revision < self.twin.compacted:
            assert "compacted" in self.refused(self.store.range, request)
        else:
            found = [wire(*each) for each in self.twin.range(key, end, revision)]
            answer = self.store.range(request)
            assert answer.count == len(found)
            if flags == "keys":
                for kv in found:
                    kv.ClearField("value")
            if flags == "count":
                assert not answer.kvs
            else:
                assert list(answer.kvs) == found[: limit or None]
                assert answer.more == (0 < limit < len(found))

    @rule(
        conditions=st.lists(compares, max_size=2),
        then=st.lists(operations, max_size=3),
        other=st.lists(operations, max_size=2),
    )
    def txn(self, conditions: list[Any], then: list[Any], other: list[Any]) -> None:
        request = pb.TxnRequest(
            success=[request_op(each) for each in then], failure=[request_op(each) for each in other]
        )
        for result, target, key, end, number, value in conditions:
            compare = request.compare.add(result=result, target=TARGETS[target], key=key, range_end=end)
            setattr(compare, target, value if target == "value" else number)
        if any(self.changes_twice(branch) for branch in (then, other)):
            assert "duplicate key" in self.refused(self.store.txn, request)
            return
        succeeded = all(self.holds(*condition) for condition in conditions)
        chosen = then if succeeded else other
        if any(kind == "put" and lease and lease not in self.twin.leases for kind, _, _, _, lease in chosen):
            assert "lease not found" in self.refused(self.store.txn, request)
            return
        found = self.twin.apply([(kind, key, b"" if kind == "put" else end, *rest) for kind, key, end, *rest in chosen])
        answer = self.store.txn(request)
        assert (answer.succeeded, answer.header.revision) == (succeeded, self.twin.revision)
        for each, hits in zip(answer.responses, found, strict=True):
            kvs = [wire(*hit) for hit in hits]
            if each.HasField("response_range"):
                assert list(each.response_range.kvs) == kvs
            elif each.HasField("response_put"):
                assert ([each.response_put.prev_kv] if each.response_put.HasField("prev_kv") else []) == kvs
            else:
                assert list(each.response_delete_range.prev_kvs) == kvs

    @staticmethod
    def changes_twice(branch: list[tuple[str, bytes, bytes, bytes, int]]) -> bool:
        puts = [key for kind, key, *_ in branch if kind == "put"]
        deleted = [
            key for kind, first, end, *_ in branch if kind == "delete" for key in KEYS if covers(key, first, end)
        ]
        return len(set(puts)) < len(puts) or not set(puts).isdisjoint(deleted)

    def holds(self, result: int, target: str, key: bytes, end: bytes, number: int, value: bytes) -> bool:
        found: list[Kv | None] = [kv for _, kv in self.twin.range(key, end, self.twin.revision)] or [None]
        attribute = {"create_revision": "create", "mod_revision": "mod"}.get(target, target)
        wanted: Any = value if target == "value" else number
        for kv in found:
            if kv is None and target == "value":
                return False
            actual: Any = getattr(kv, attribute) if kv else 0
            if not {0: actual == wanted, 1: actual > wanted, 2: actual < wanted, 3: actual != wanted}[result]:
                return False
        return True

    @rule(back=st.integers(-1, 6))
    def compact(self, back: int) -> None:
        revision = self.twin.revision - back
        request = pb.CompactionRequest(revision=revision)
        if revision > self.twin.revision:
            assert "future revision" in self.refused(self.store.compact, request)
        elif revision <= self.twin.compacted:
            assert "compacted" in self.refused(self.store.compact, request)
        else:
            self.store.compact(request)
            self.twin.compacted = revision

    @rule(lease=lease_ids, ttl=st.integers(-1, 5))
    def grant(self, lease: int, ttl: int) -> None:
        request = pb.LeaseGrantRequest(ID=lease, TTL=ttl)
        if lease in self.twin.leases:
            assert "lease already exists" in self.refused(self.store.grant, request, self.now)
            return
        ttl = max(ttl, 1)
        self.twin.leases[lease] = (ttl, self.now + ttl)
        answer = self.store.grant(request, self.now)
        assert ttl == answer.TTL

    @rule(lease=lease_ids)
    def keep_alive(self, lease: int) -> None:
        ttl, _ = self.twin.leases.get(lease, (0, 0))
        if ttl:
            self.twin.leases[lease] = (ttl, self.now + ttl)
        answer = self.store.keep_alive(pb.LeaseKeepAliveRequest(ID=lease), self.now)
        assert ttl == answer.TTL

    @rule(lease=lease_ids)
    def revoke(self, lease: int) -> None:
        request = pb.LeaseRevokeRequest(ID=lease)
        if lease not in self.twin.leases:
            assert "lease not found" in self.refused(self.store.revoke, request)
            return
        self.twin.end_lease(lease)
        assert self.store.revoke(request).header.revision == self.twin.revision

    @rule(lease=lease_ids)
    def time_to_live(self, lease: int) -> None:
        answer = self.store.time_to_live(pb.LeaseTimeToLiveRequest(ID=lease, keys=True), self.now)
        if lease not in self.twin.leases:
            assert answer.TTL == -1
            return
        ttl, deadline = self.twin.leases[lease]
        assert (answer.grantedTTL, answer.TTL) == (ttl, int(deadline - self.now))
        assert list(answer.keys) == sorted(key for key, kv in self.twin.contents[-1].items() if kv.lease == lease)

    @precondition(lambda self: self.twin.leases)
    @rule(seconds=st.integers(1, 3))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        # In the order in which they were granted, as each end takes a revision of its own.
        for lease in [lease for lease, (_, deadline) in self.twin.leases.items() if deadline <= self.now]:
            self.twin.end_lease(lease)
        self.store.expire(self.now)

    @rule(key=keys, end=ends, back=st.integers(0, 8), batch=st.integers(1, 4))
    def read_events(self, key: bytes, end: bytes, back: int, batch: int) -> None:
        start = max(self.twin.revision - back, self.twin.compacted, 1)
        seen: list[Happened] = []
        at = start
        while at <= self.twin.revision:
            events, after = self.store.history.events(key, end, at, batch)
            assert at < after <= at + batch
            at = after
            seen += [self.happened(event) for event in events]
        assert seen == self.twin.events_from(key, end, start)

    @staticmethod
    def happened(event: pb.Event) -> Happened:
        def plain(kv: pb.KeyValue) -> Kv:
            return Kv(kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease)

        return Happened(
            event.kv.mod_revision,
            event.kv.key,
            plain(event.kv) if event.type == pb.Event.PUT else None,
            plain(event.prev_kv) if event.HasField("prev_kv") else None,
        )

    @invariant()
    def the_revision_and_the_next_deadline_are_the_twins(self) -> None:
        assert self.store.history.revision == self.twin.revision
        deadlines = [deadline for _, deadline in self.twin.leases.values()]
        assert self.store.next_deadline() == (min(deadlines) if deadlines else None)


TestBeside = Beside.TestCase
TestBeside.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_history_is_bounded() -> None:
    store = Store(identity=1, keep_revisions=100)
    for number in range(1000):
        store.put(pb.PutRequest(key=b"%d" % (number % 7), value=b"v"))
        first = max(store.history.compacted, 1)
        assert store.history.revision - first <= 200
    events, _ = store.history.events(b"\0", b"\0", store.history.revision - 99, 1000)
    assert len(events) == 100
    with pytest.raises(Refusal, match="compacted"):
        store.range(pb.RangeRequest(key=b"1", revision=2))


def test_leases_of_two_stores_never_share_an_id() -> None:
    one, other = Store(identity=1 << 40), Store(identity=1 << 41)
    granted = [store.grant(pb.LeaseGrantRequest(TTL=5), 0.0).ID for store in (one, other, one)]
    assert len(set(granted)) == 3


def test_a_transaction_has_a_limit() -> None:
    many = [pb.RequestOp(request_range=pb.RangeRequest(key=b"a"))] * (MAX_OPERATIONS + 1)
    with pytest.raises(Refusal, match="too many operations"):
        Store(identity=1).txn(pb.TxnRequest(failure=many))


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.range(pb.RangeRequest()),
        lambda store: store.put(pb.PutRequest()),
        lambda store: store.delete_range(pb.DeleteRangeRequest()),
        lambda store: store.txn(pb.TxnRequest(compare=[pb.Compare()])),
        lambda store: store.txn(pb.TxnRequest(success=[pb.RequestOp(request_put=pb.PutRequest())])),
    ],
)
def test_there_is_no_empty_key(call: Any) -> None:
    with pytest.raises(Refusal, match="key is not provided"):
        call(Store(identity=1))
