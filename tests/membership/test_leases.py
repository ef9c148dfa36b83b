"""Leases against each kind of server: kept while the holder lives, and known to be lost in time."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from membership import Delete, Etcd, EtcdUnavailable, LeaseLost, MemberStatus, OutcomeUnknown, Timing
from membership.api import LEASE_GRANT, LEASE_REVOKE
from membership.proto import etcd_pb2 as pb
from tests.membership.network import network
from tests.membership.servers import Embedded, RealEtcd, Server

TTL = 2


async def unrenewed_key(etcd: Etcd, key: str) -> None:
    """Makes a key on a lease that nobody renews."""
    answer = await etcd._caller.call(LEASE_GRANT, pb.LeaseGrantRequest(TTL=TTL), "granting")
    await etcd.put(key, b"", lease=answer.ID)


async def until_deleted(etcd: Etcd, key: str) -> None:
    async with etcd.watch(key, 1) as events:
        while not isinstance(await anext(events), Delete):
            pass


async def test_leases_are_kept_while_one_that_nobody_renews_ends(server: Server, prefix: str) -> None:
    async with network(server.endpoints[:1]) as net, Etcd(server.address(net.endpoints)) as etcd:
        leases = await asyncio.gather(*(etcd.grant(TTL) for _ in range(20)))
        for lease in leases:
            await etcd.put(f"{prefix}kept/{lease.id}", b"", lease=lease.id)
        await unrenewed_key(etcd, prefix + "left")
        await until_deleted(etcd, prefix + "left")
        assert not any(lease.lost.is_set() for lease in leases)
        assert {kv.lease for kv in (await etcd.list(prefix + "kept/")).kvs} == {lease.id for lease in leases}
        assert net.connections == 1
        for lease in leases:
            lease.check()
            assert 0 < lease.remaining <= lease.ttl


async def test_revoking_deletes_the_keys_and_loses_the_lease_at_once(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        lease = await etcd.grant(60)
        await etcd.put(prefix + "a", b"", lease=lease.id)
        revoking = asyncio.create_task(lease.revoke())
        await asyncio.sleep(0)
        assert lease.lost.is_set()
        assert lease.remaining == 0
        await revoking
        assert await etcd.get(prefix + "a") is None
        await lease.revoke()  # There is nothing left to do, which is no error.
        with pytest.raises(LeaseLost, match="revoked here") as caught:
            lease.check()
    assert caught.value.lease == lease.id


async def test_a_lease_that_someone_else_revoked_is_lost_at_the_next_renewal(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd, Etcd(server.address()) as other:
        lease = await etcd.grant(TTL)
        await other._caller.call(LEASE_REVOKE, pb.LeaseRevokeRequest(ID=lease.id), "revoking")
        await lease.lost.wait()
    assert "etcd says that it is gone" in lease.reason


async def test_in_a_partition_a_lease_is_lost_at_its_own_deadline_before_etcd_deletes_its_keys(
    server: Server, prefix: str
) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address()) as direct,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        lease = await etcd.grant(TTL)
        await etcd.put(prefix + "a", b"", lease=lease.id)
        deleted = asyncio.create_task(until_deleted(direct, prefix + "a"))
        net.hold()
        began = time.monotonic()
        await lease.lost.wait()
        assert not deleted.done()
        assert time.monotonic() - began < lease.ttl + 0.5
        assert "deadline" in lease.reason
        with pytest.raises(LeaseLost):
            lease.check()
        await deleted
        net.heal()


async def test_a_lease_survives_a_cut_that_is_shorter_than_its_ttl(server: Server, prefix: str) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address()) as direct,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        lease = await etcd.grant(TTL)
        await etcd.put(prefix + "kept", b"", lease=lease.id)
        for _ in range(2):
            net.cut()
            await net.refused.wait()
            net.heal()
            await unrenewed_key(direct, prefix + "left")
            await until_deleted(direct, prefix + "left")
            await direct.delete(prefix + "left")
        assert not lease.lost.is_set()
        assert await direct.get(prefix + "kept") is not None


async def test_a_clock_that_jumped_over_the_deadline_is_noticed_when_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a pause of the whole process, when no timer has fired yet."""
    async with Etcd(server.address()) as etcd:
        lease = await etcd.grant(60)
        lease.check()
        now = time.monotonic()
        monkeypatch.setattr("membership.leases.time", SimpleNamespace(monotonic=lambda: now + 61))
        with pytest.raises(LeaseLost, match="deadline"):
            lease.check()


async def test_closing_the_client_loses_its_leases(server: Server) -> None:
    async with Etcd(server.address()) as etcd:
        lease = await etcd.grant(60)
    assert lease.lost.is_set()
    assert "closed" in lease.reason


async def test_a_lease_outlives_the_leader(etcd3: RealEtcd, prefix: str) -> None:
    async with Etcd(etcd3.address(), Timing(attempt=0.5, connect=0.3)) as etcd:
        lease = await etcd.grant(3 * TTL)
        await etcd.put(prefix + "kept", b"", lease=lease.id)
        leader = next(
            name for name, status in (await etcd.status()).items() if isinstance(status, MemberStatus) and status.leads
        )
        etcd3.node(leader).kill()
        while True:
            try:
                await unrenewed_key(etcd, prefix + "left")
                break
            except (EtcdUnavailable, OutcomeUnknown):
                continue
        await until_deleted(etcd, prefix + "left")
        assert not lease.lost.is_set()
        assert await etcd.get(prefix + "kept") is not None


async def test_a_lease_of_a_store_that_is_gone_is_lost(own_embedded: Embedded) -> None:
    async with Etcd(own_embedded.address()) as etcd:
        lease = await etcd.grant(6)
        own_embedded.kill()
        own_embedded.start()
        await lease.lost.wait()
    assert "etcd says that it is gone" in lease.reason
