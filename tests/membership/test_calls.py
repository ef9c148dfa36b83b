"""What becomes of requests when endpoints fail: which are repeated, which are not, and what the caller learns."""

from __future__ import annotations

import asyncio

import pytest

from membership import Compare, Etcd, EtcdUnavailable, MemberStatus, OutcomeUnknown, PutKey, Timing
from tests.membership.network import network
from tests.membership.servers import RealEtcd, Server
from tests.membership.writing import write_surely

BRISK = Timing(call=2.0, attempt=0.5, connect=0.3)


async def test_a_put_whose_answer_is_late_is_not_repeated(server: Server, prefix: str) -> None:
    key = prefix + "a"
    async with (
        network(server.endpoints) as net,
        Etcd(server.address()) as direct,
        Etcd(server.address(net.endpoints), Timing(call=0.5)) as etcd,
    ):
        await etcd.put(prefix + "warm", b"")  # Connected.
        net.hold("answers")
        async with direct.watch(key, 1) as events:
            with pytest.raises(OutcomeUnknown) as caught:
                await etcd.put(key, b"v")
            await anext(events)  # It was applied, though nobody was told.
        net.heal()
        await etcd.put(prefix + "later", b"")
        kv = await direct.get(key)
    assert not caught.value.definite
    assert kv is not None
    assert kv.version == 1


async def test_a_transaction_with_compares_may_be_repeated_after_an_unknown_outcome(
    server: Server, prefix: str
) -> None:
    key = prefix + "a"
    async with (
        network(server.endpoints) as net,
        Etcd(server.address(net.endpoints), Timing(call=0.5)) as etcd,
    ):
        await etcd.put(prefix + "warm", b"")
        net.hold("answers")
        with pytest.raises(OutcomeUnknown):
            await etcd.txn([Compare.missing(key)], [PutKey(key, b"v")])
        net.heal()
        await etcd.txn([Compare.missing(key)], [PutKey(key, b"v")])
        kv = await etcd.get(key)
    assert kv is not None
    assert kv.version == 1


async def test_a_read_whose_answer_got_lost_is_repeated(server: Server, prefix: str) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        await etcd.put(prefix + "a", b"v")
        net.hold("answers")
        reading = asyncio.create_task(etcd.get(prefix + "a"))
        await net.held.wait()
        net.recycle()
        net.heal()
        kv = await reading
    assert kv is not None
    assert kv.value == b"v"


async def test_a_write_waits_for_a_server_and_is_then_sent_once(server: Server, prefix: str) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        net.cut()
        writing = asyncio.create_task(etcd.put(prefix + "a", b"v"))
        await net.refused.wait()
        assert not writing.done()
        net.heal()
        await writing
        kv = await etcd.get(prefix + "a")
    assert kv is not None
    assert kv.version == 1


async def test_when_no_endpoint_answers_the_error_names_each_of_them(server: Server, prefix: str) -> None:
    hasty = Timing(call=0.5, attempt=0.1, connect=0.1)
    async with network(server.endpoints) as net, Etcd(server.address(net.endpoints), hasty) as etcd:
        net.hold()
        with pytest.raises(EtcdUnavailable) as caught:
            await etcd.put(prefix + "a", b"")
    assert set(caught.value.tried) == set(net.endpoints)
    assert all(endpoint in str(caught.value) for endpoint in net.endpoints)
    assert "within 0.5 s" in str(caught.value)


async def test_calls_survive_recycled_connections(server: Server, prefix: str) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        for index in range(20):
            net.recycle()
            assert await etcd.get(prefix + "a") is None
            await etcd.txn([Compare.missing(prefix + str(index))], [PutKey(prefix + str(index), b"")])
        assert len((await etcd.list(prefix)).kvs) == 20


async def test_a_burst_of_requests_is_served_whole(server: Server, prefix: str) -> None:
    # gRPC's own servers cancel some at random when more than a thousand wait.
    count = 2_000
    async with Etcd(server.address(), Timing(call=30)) as etcd:
        await asyncio.gather(*(etcd.put(f"{prefix}{number}", b"") for number in range(count)))
        assert len((await etcd.list(prefix)).kvs) == count


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_one_dead_endpoint_of_three_is_passed_over(etcd3: RealEtcd, prefix: str, fault: str) -> None:
    # Many clients, so that some begin at the dead endpoint.
    clients = [Etcd(etcd3.address(), BRISK) for _ in range(6)]
    try:
        for index, etcd in enumerate(clients):
            await etcd.put(f"{prefix}{index}", b"before")
        status = await clients[0].status()
        follower = next(name for name, each in status.items() if isinstance(each, MemberStatus) and not each.leads)
        node = etcd3.node(follower)
        node.kill() if fault == "kill" else node.freeze()
        for index, etcd in enumerate(clients):
            assert await etcd.get(f"{prefix}{index}") is not None
            await etcd.put(f"{prefix}{index}", b"after")
        new = Etcd(etcd3.address(), BRISK)
        clients.append(new)
        assert {kv.value for kv in (await new.list(prefix)).kvs} == {b"after"}
    finally:
        for etcd in clients:
            await etcd.close()


async def test_a_member_without_a_leader_refuses_at_once_and_definitely(etcd3: RealEtcd, prefix: str) -> None:
    survivor, *others = etcd3.nodes
    async with Etcd(etcd3.address([survivor.endpoint]), BRISK) as etcd:
        await etcd.put(prefix + "a", b"")
        for node in others:
            node.kill()
        while True:
            (status,) = (await etcd.status()).values()
            assert isinstance(status, MemberStatus)
            if status.leader == 0:
                break
        with pytest.raises(EtcdUnavailable, match="no leader") as caught:
            await etcd.put(prefix + "a", b"")
        assert caught.value.definite
        for node in others:
            node.launch(etcd3.nodes)
        for node in others:
            assert node.wait_until_ready()
        await write_surely(etcd, prefix + "b", 1)
