"""Keys, listings and transactions, against each kind of server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default

from membership import (
    Compacted,
    Compare,
    DeleteKey,
    DeletePrefix,
    Etcd,
    GetKey,
    MemberStatus,
    PutKey,
    RequestRefused,
)
from membership import listing as listing_module
from tests.membership.servers import Server


async def test_what_is_put_is_read_back(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        assert await etcd.get(prefix + "a") is None
        first = await etcd.put(prefix + "a", b"one")
        second = await etcd.put(prefix + "a", b"\x00\xfftwo")
        kv = await etcd.get(prefix + "a")
    assert kv is not None
    assert (kv.key, kv.value, kv.lease) == (prefix + "a", b"\x00\xfftwo", 0)
    assert (kv.create_revision, kv.mod_revision, kv.version) == (first, second, 2)


async def test_a_key_that_is_no_utf8_survives(server: Server, prefix: str) -> None:
    key = prefix + b"\xff\xfe".decode("utf-8", "surrogateescape")
    async with Etcd(server.address()) as etcd:
        await etcd.put(key, b"v")
        assert [kv.key for kv in (await etcd.list(prefix)).kvs] == [key]


async def test_deleting_tells_what_there_was(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        for name in "abc":
            await etcd.put(prefix + name, b"")
        assert await etcd.delete(prefix + "a") is True
        assert await etcd.delete(prefix + "a") is False
        assert await etcd.delete_prefix(prefix) == 2
        assert (await etcd.list(prefix)).kvs == ()


async def test_a_listing_is_in_order_and_longer_than_a_page(server: Server, prefix: str) -> None:
    names = [f"{prefix}{index:05}" for index in range(2 * listing_module.PAGE + 1)]
    async with Etcd(server.address()) as etcd:
        for begin in range(0, len(names), 128):
            await etcd.txn([], [PutKey(name, b"v") for name in names[begin : begin + 128]])
        await etcd.put(prefix.removesuffix("/") + "0", b"beside the prefix")
        listing = await etcd.list(prefix)
    assert [kv.key for kv in listing.kvs] == names
    assert listing.revision >= max(kv.mod_revision for kv in listing.kvs)


async def test_the_pages_of_a_listing_show_one_revision(
    server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module, "PAGE", 3)
    names = [f"{prefix}{index}" for index in range(10)]
    async with Etcd(server.address()) as etcd, Etcd(server.address()) as writer:

        async def write_all(value: int) -> None:
            await writer.txn([], [PutKey(name, b"%d" % value) for name in names])

        await write_all(0)
        for round in range(1, 10):
            listing, _ = await asyncio.gather(etcd.list(prefix), write_all(round))
            assert len(listing.kvs) == len(names)
            assert len({kv.value for kv in listing.kvs}) == 1


async def test_a_listing_begins_again_if_its_revision_is_compacted_meanwhile(
    server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module, "PAGE", 2)
    async with Etcd(server.address()) as etcd:
        for name in "abc":
            await etcd.put(prefix + name, b"old")
        ask, asked = etcd._caller.call, 0

        async def compact_after_the_first_page(*arguments: Any) -> Any:
            nonlocal asked
            answer = await ask(*arguments)
            asked += 1
            if asked == 1:
                await etcd.compact(await etcd.put(prefix + "c", b"new"))
            return answer

        monkeypatch.setattr(etcd._caller, "call", compact_after_the_first_page)
        listing = await etcd.list(prefix)
    assert [kv.value for kv in listing.kvs] == [b"old", b"old", b"new"]


async def test_a_transaction_does_one_branch_at_one_revision(server: Server, prefix: str) -> None:
    a, b = prefix + "a", prefix + "b"
    async with Etcd(server.address()) as etcd:
        made = await etcd.txn([Compare.missing(a)], [PutKey(a, b"1"), PutKey(b, b"2")], [GetKey(a)])
        again = await etcd.txn([Compare.missing(a)], [PutKey(a, b"3")], [GetKey(a), GetKey(prefix + "c")])
        kvs = (await etcd.list(prefix)).kvs
    assert made.succeeded
    assert {kv.mod_revision for kv in kvs} == {made.revision}
    assert not again.succeeded
    assert again.read == {a: kvs[0], prefix + "c": None}


async def test_a_transaction_deletes_keys_and_prefixes(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        for name in ("a", "b/1", "b/2", "c"):
            await etcd.put(prefix + name, b"")
        await etcd.txn([], [DeleteKey(prefix + "a"), DeletePrefix(prefix + "b/"), DeleteKey(prefix + "none")])
        assert [kv.key for kv in (await etcd.list(prefix)).kvs] == [prefix + "c"]


async def test_each_compare_holds_exactly_when_it_says(server: Server, prefix: str) -> None:
    here, empty, gone = prefix + "here", prefix + "empty", prefix + "gone"
    async with Etcd(server.address()) as etcd:
        created = await etcd.put(here, b"old")
        written = await etcd.put(here, b"new")
        await etcd.put(empty, b"")

        async def holds(compare: Compare) -> bool:
            return (await etcd.txn([compare], [])).succeeded

        assert await holds(Compare.missing(gone))
        assert not await holds(Compare.missing(here))
        assert await holds(Compare.exists(here))
        assert not await holds(Compare.exists(gone))
        assert await holds(Compare.created(here, created))
        assert not await holds(Compare.created(here, written))
        assert await holds(Compare.unchanged(here, written))
        assert not await holds(Compare.unchanged(here, created))
        assert await holds(Compare.holds(here, b"new"))
        assert not await holds(Compare.holds(here, b"old"))
        assert await holds(Compare.holds(empty, b""))
        assert not await holds(Compare.holds(gone, b""))


async def test_a_refusal_is_definite_and_says_what_was_refused(server: Server, prefix: str) -> None:
    key = prefix + "a"
    async with Etcd(server.address()) as etcd:
        with pytest.raises(RequestRefused, match="requested lease not found") as caught:
            await etcd.put(key, b"", lease=12345)
        assert caught.value.definite
        assert repr(key) in str(caught.value)
        with pytest.raises(RequestRefused, match="duplicate key"):
            await etcd.txn([], [PutKey(key, b"1"), PutKey(key, b"2")])
        revision = await etcd.put(key, b"")
        with pytest.raises(RequestRefused, match="future revision"):
            await etcd.compact(revision + 1_000_000)
        await etcd.compact(revision)
        with pytest.raises(Compacted):
            await etcd.compact(revision)


async def test_every_endpoint_tells_its_status_and_one_leads(server: Server) -> None:
    async with Etcd(server.address()) as etcd:
        status = await etcd.status()
    assert list(status) == server.endpoints
    members = [member for member in status.values() if isinstance(member, MemberStatus)]
    assert len(members) == len(server.endpoints)
    assert len({member.leader for member in members}) == 1
    assert sum(member.leads for member in members) == 1
    assert all(member.version.startswith("3.") for member in members)


def register_another_clients_messages() -> None:
    """Puts messages under etcd's own names into protobuf's registry, as every other client does."""
    file = FileDescriptorProto(name="kv.proto", package="mvccpb", syntax="proto3")
    file.message_type.add(name="KeyValue").field.add(
        name="key", number=1, type=FieldDescriptorProto.TYPE_BYTES, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    Default().AddSerializedFile(file.SerializeToString())
    service = FileDescriptorProto(name="rpc.proto", package="etcdserverpb", syntax="proto3")
    service.message_type.add(name="RangeRequest")
    Default().AddSerializedFile(service.SerializeToString())


async def test_two_clients_live_in_one_process_beside_another_library_of_etcds_messages(
    server: Server, prefix: str
) -> None:
    register_another_clients_messages()
    async with Etcd(server.address()) as one:
        async with Etcd(server.address()) as two:
            await two.put(prefix + "a", b"from two")
        # The end of one client takes nothing from the other.
        kv = await one.get(prefix + "a")
    assert kv is not None
    assert kv.value == b"from two"
