"""Our messages against those of a real etcd: it fills every field that we declare, and none that we do not know."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from membership import api
from membership.proto import etcd_pb2 as pb
from tests.membership.raw import Raw, raw
from tests.membership.servers import Server

UNREAD = {
    # Of newer versions, or of no use to us; a member that reports them is still understood.
    "StatusResponse": {7, 8, 9, 10, 11, 12, 13},
    "WatchResponse": {7},
}
ELSEWHERE = {
    "AuthenticateResponse": "tests/membership/test_auth.py: needs a server with users",
}

KEY = b"/numbers/"


def filled(message: Message) -> Iterator[str]:
    """The fields that are set in a message and in those within, as Message.field."""
    for field, value in message.ListFields():
        yield f"{message.DESCRIPTOR.name}.{field.name}"
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from filled(inner)


def unknown(message: Message) -> Iterator[str]:
    """The fields that came and that we do not declare."""
    name = message.DESCRIPTOR.name
    for field in UnknownFieldSet(message):
        if field.field_number not in UNREAD.get(name, ()):
            yield f"{name}: field {field.field_number}"
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from unknown(inner)


async def conversation(ask: Raw) -> list[Message]:
    """Answers of etcd that together have every field."""
    answers: list[Message] = []

    async def call(method: api.Method, request: Message) -> Message:
        answer = await ask(method, request)
        assert isinstance(answer, Message), answer
        answers.append(answer)
        return answer

    end = KEY[:-1] + b"0"
    await call(api.LEASE_GRANT, pb.LeaseGrantRequest(TTL=60, ID=77))
    put = pb.PutRequest(key=KEY + b"a", value=b"v", lease=77, prev_kv=True)
    await call(api.PUT, put)
    await call(api.PUT, put)
    await call(api.PUT, pb.PutRequest(key=KEY + b"b"))
    await call(api.RANGE, pb.RangeRequest(key=KEY, range_end=end, limit=1))
    await call(api.LEASE_TIME_TO_LIVE, pb.LeaseTimeToLiveRequest(ID=77, keys=True))
    operations = [
        pb.RequestOp(request_range=pb.RangeRequest(key=KEY + b"a")),
        pb.RequestOp(request_put=put),
        pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=KEY + b"b", prev_kv=True)),
    ]
    txn = await call(api.TXN, pb.TxnRequest(success=operations))
    assert isinstance(txn, pb.TxnResponse)
    await call(api.COMPACT, pb.CompactionRequest(revision=txn.header.revision, physical=True))
    await call(api.STATUS, pb.StatusRequest())

    def watch(watch_id: int, start: int) -> pb.WatchRequest:
        create = pb.WatchCreateRequest(key=KEY, range_end=end, start_revision=start, watch_id=watch_id, prev_kv=True)
        return pb.WatchRequest(create_request=create)

    await call(api.PUT, put)
    await call(api.LEASE_REVOKE, pb.LeaseRevokeRequest(ID=77))
    # One that follows, one with an id that is taken, one that comes too late.
    requests = [watch(5, txn.header.revision + 1), watch(5, txn.header.revision + 1), watch(6, 1)]
    events = compacted = 0
    async for answer in ask.stream(api.WATCH, *requests):
        answers.append(answer)
        events += len(answer.events)
        compacted = compacted or answer.compact_revision
        if events == 2 and compacted:
            break
    async for answer in ask.stream(api.LEASE_KEEP_ALIVE, pb.LeaseKeepAliveRequest(ID=77)):
        assert answer.ID == 77
        assert answer.TTL == 0
        break
    await call(api.LEASE_GRANT, pb.LeaseGrantRequest(TTL=60, ID=78))
    async for answer in ask.stream(api.LEASE_KEEP_ALIVE, pb.LeaseKeepAliveRequest(ID=78)):
        answers.append(answer)
        break
    return answers


def answer_fields() -> set[str]:
    """All fields that an answer of etcd can have, as we declare them."""
    messages = [
        message
        for name, message in pb.DESCRIPTOR.message_types_by_name.items()
        if name.endswith(("Response", "ResponseOp", "Header", "KeyValue", "Event")) and name not in ELSEWHERE
    ]
    return {f"{message.name}.{field.name}" for message in messages for field in message.fields}


async def test_etcd_fills_every_field_that_we_declare_and_no_other(etcd: Server) -> None:
    async with raw(etcd.endpoints[0]) as ask:
        answers = await conversation(ask)
    assert [found for answer in answers for found in unknown(answer)] == []
    assert answer_fields() - {found for answer in answers for found in filled(answer)} == set()


def test_our_package_collides_with_no_other_clients() -> None:
    assert pb.DESCRIPTOR.package == "elastic.etcd"
    assert pb.DESCRIPTOR.name == "membership/proto/etcd.proto"
    assert all(each.full_name.startswith("elastic.etcd.") for each in pb.DESCRIPTOR.message_types_by_name.values())
