"""Watches against each kind of server: nothing is lost and nothing comes twice, whatever breaks."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from membership import Delete, Etcd, EtcdUnavailable, MemberStatus, OutcomeUnknown, Put, Relisted, Timing, View
from tests.membership.network import network
from tests.membership.servers import Embedded, RealEtcd, Server
from tests.membership.writing import read_numbers, write_many, write_surely

ALERT = Timing(call=5.0, attempt=0.5, connect=0.3, quiet=0.3)
BACKLOG = 2_500
"""Events to catch up with: more than two of the batches of 1,000 in which etcd sends old ones."""


async def test_events_come_in_order_with_all_that_is_known_of_them(server: Server, prefix: str) -> None:
    key = prefix + "a"
    async with Etcd(server.address()) as etcd:
        first = await etcd.put(key, b"1")
        async with etcd.watch_prefix(prefix, first, previous=True) as events:
            second = await etcd.put(key, b"2")
            await etcd.delete(key)
            seen = [await anext(events) for _ in range(3)]
    assert isinstance(seen[0], Put)
    assert isinstance(seen[1], Put)
    assert (seen[0].kv.value, seen[0].kv.mod_revision, seen[0].kv.version, seen[0].previous) == (b"1", first, 1, None)
    assert (seen[1].kv.value, seen[1].kv.create_revision, seen[1].kv.version) == (b"2", first, 2)
    assert seen[1].previous == seen[0].kv
    assert seen[2] == Delete(key, second + 1, previous=seen[1].kv)


async def test_without_a_revision_a_watch_begins_with_what_is_there(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        await etcd.put(prefix + "a", b"1")
        async with etcd.watch_prefix(prefix) as events:
            beginning = await anext(events)
            await etcd.put(prefix + "b", b"2")
            after = await anext(events)
    assert isinstance(beginning, Relisted)
    assert [kv.value for kv in beginning.listing.kvs] == [b"1"]
    assert isinstance(after, Put)
    assert after.kv.key == prefix + "b"


async def test_a_watch_of_one_key_sees_no_other(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        revision = await etcd.put(prefix + "ab", b"other")
        async with etcd.watch(prefix + "a", revision) as events:
            await etcd.put(prefix + "ab", b"other")
            await etcd.put(prefix + "a", b"this")
            event = await anext(events)
    assert isinstance(event, Put)
    assert event.kv.value == b"this"


async def test_many_watches_share_one_connection(server: Server, prefix: str) -> None:
    async with network(server.endpoints[:1]) as net, Etcd(server.address(net.endpoints)) as etcd:
        revision = await etcd.put(prefix, b"")
        watches = [etcd.watch(f"{prefix}{index}", revision) for index in range(50)]
        for index in range(50):
            await etcd.put(f"{prefix}{index}", b"%d" % index)
        for index, events in enumerate(watches):
            assert await read_numbers(events, index) == [index]
        assert net.connections == 1


async def test_closing_a_watch_ends_it_and_no_other(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        revision = await etcd.put(prefix + "a", b"0")
        closed, other = etcd.watch(prefix + "a", revision), etcd.watch(prefix + "a", revision)
        assert await read_numbers(closed, 0) == [0]
        closed.close()
        await etcd.put(prefix + "a", b"1")
        assert await read_numbers(other, 1) == [0, 1]
        assert [event async for event in closed] == []


async def test_closing_the_client_ends_its_watches(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        events = etcd.watch_prefix(prefix)
        await anext(events)
        waiting = asyncio.create_task(anext(events, None))
        await asyncio.sleep(0)  # It waits now.
    assert await waiting is None


async def test_a_backlog_after_a_lost_connection_comes_whole_and_once(server: Server, prefix: str) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address()) as direct,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        await write_many(direct, prefix, 0, 1)
        async with etcd.watch_prefix(prefix, (await direct.list(prefix)).revision) as events:
            assert await read_numbers(events, 0) == [0]
            net.cut()
            written = await write_many(direct, prefix, 1, BACKLOG)
            net.heal()
            assert await read_numbers(events, BACKLOG) == written


async def test_a_backlog_comes_whole_and_once_though_connections_break_while_it_comes(
    server: Server, prefix: str
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    # The batches are some 100 kB each: most connections break inside one, before or after a whole one.
    limits = [rng.randrange(300_000) for _ in range(8)]
    async with (
        network(server.endpoints) as net,
        Etcd(server.address()) as direct,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        revision = await direct.put(prefix, b"0")
        written = await write_many(direct, prefix, 1, BACKLOG)
        net.break_after(iter(limits))
        async with etcd.watch_prefix(prefix, revision + 1) as events:
            assert await read_numbers(events, BACKLOG) == written


async def test_a_backlog_after_a_restart_of_the_server_comes_whole_and_once(own_etcd: RealEtcd, prefix: str) -> None:
    async with network(own_etcd.endpoints) as net, Etcd(own_etcd.address(net.endpoints)) as etcd:
        async with Etcd(own_etcd.address()) as direct:
            revision = await direct.put(prefix, b"0")
            events = etcd.watch_prefix(prefix, revision)
            assert await read_numbers(events, 0) == [0]
            net.cut()
            written = await write_many(direct, prefix, 1, BACKLOG)
        own_etcd.kill()
        own_etcd.start()
        net.heal()
        assert await read_numbers(events, BACKLOG) == written


async def test_when_another_store_answers_the_keys_are_listed_again(own_embedded: Embedded, prefix: str) -> None:
    view = View()
    async with Etcd(own_embedded.address()) as etcd, etcd.watch_prefix(prefix) as events:
        for name in "abc":
            await etcd.put(prefix + name, b"")
        while len(view.contents) < 3:
            view.apply(await anext(events))
        own_embedded.kill()
        own_embedded.start()
        relisted = await anext(events)
        assert isinstance(relisted, Relisted)
        assert "another store" in relisted.reason
        view.apply(relisted)
        assert view.contents == {}
        await etcd.put(prefix + "d", b"")
        view.apply(await anext(events))
        assert list(view.contents) == [prefix + "d"]


async def test_a_watch_that_missed_a_compaction_lists_again_and_goes_on(server: Server, prefix: str) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address()) as direct,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        revision = await direct.put(prefix + "a", b"0")
        async with etcd.watch_prefix(prefix, revision) as events:
            assert await read_numbers(events, 0) == [0]
            net.cut()
            await direct.delete(prefix + "a")
            await direct.put(prefix + "b", b"1")
            await direct.compact(await direct.put(prefix + "b", b"2"))
            net.heal()
            relisted = await anext(events)
            await direct.put(prefix + "b", b"3")
            assert await read_numbers(events, 3) == [3]
    assert isinstance(relisted, Relisted)
    assert [(kv.key, kv.value) for kv in relisted.listing.kvs] == [(prefix + "b", b"2")]
    assert "etcd keeps only" in relisted.reason


async def test_a_watch_from_a_compacted_revision_begins_with_a_listing(server: Server, prefix: str) -> None:
    async with Etcd(server.address()) as etcd:
        revision = await etcd.put(prefix + "a", b"0")
        await etcd.put(prefix + "a", b"1")
        await etcd.compact(await etcd.put(prefix + "a", b"2"))
        async with etcd.watch_prefix(prefix, revision) as events:
            relisted = await anext(events)
    assert isinstance(relisted, Relisted)
    assert [kv.value for kv in relisted.listing.kvs] == [b"2"]


async def test_an_endpoint_that_falls_silent_is_left_for_another(etcd3: RealEtcd, prefix: str) -> None:
    async with (
        network(etcd3.endpoints) as net,
        Etcd(etcd3.address()) as direct,
        Etcd(etcd3.address(net.endpoints), ALERT) as etcd,
    ):
        revision = await direct.put(prefix + "a", b"0")
        async with etcd.watch_prefix(prefix, revision) as events:
            assert await read_numbers(events, 0) == [0]
            net.hold_open_connections()
            await direct.put(prefix + "a", b"1")
            assert await read_numbers(events, 1) == [1]


async def test_watches_survive_recycled_connections(server: Server, prefix: str) -> None:
    async with (
        network(server.endpoints) as net,
        Etcd(server.address()) as direct,
        Etcd(server.address(net.endpoints)) as etcd,
    ):
        revision = await direct.put(prefix, b"0")
        async with etcd.watch_prefix(prefix, revision) as events:
            for number in range(1, 10):
                net.recycle()
                await direct.put(prefix, b"%d" % number)
                assert (await read_numbers(events, number))[-1] == number


@contextlib.asynccontextmanager
async def clients(server: Server, count: int):
    """Clients that begin at random endpoints."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Etcd(server.address(), ALERT)) for _ in range(count)]


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_watches_and_writes_go_on_when_the_leader_dies(etcd3: RealEtcd, prefix: str, fault: str) -> None:
    numbers = 200
    async with clients(etcd3, 4) as (writer, *watchers):
        revision = await writer.put(prefix + "a", b"0")
        watches = [etcd.watch(prefix + "a", revision) for etcd in watchers]
        reading = [asyncio.create_task(read_numbers(events, numbers)) for events in watches]
        for number in range(1, numbers + 1):
            if number == numbers // 2:
                leader = etcd3.node(await leader_of(writer))
                leader.kill() if fault == "kill" else leader.freeze()
            await write_surely(writer, prefix + "a", number)
        for seen in await asyncio.gather(*reading):
            assert seen == list(range(numbers + 1))


async def leader_of(etcd: Etcd) -> str:
    while True:
        for endpoint, status in (await etcd.status()).items():
            if isinstance(status, MemberStatus) and status.leads:
                return endpoint


async def test_watches_go_on_when_all_nodes_were_down(etcd3: RealEtcd, prefix: str) -> None:
    async with clients(etcd3, 2) as watchers, Etcd(etcd3.address(), Timing(call=1.0)) as writer:
        revision = await writer.put(prefix + "a", b"0")
        watches = [etcd.watch(prefix + "a", revision) for etcd in watchers]
        for events in watches:
            assert await read_numbers(events, 0) == [0]
        etcd3.kill()
        # Of the connection that broke just now it cannot be known whether it took the request along.
        with pytest.raises((EtcdUnavailable, OutcomeUnknown)):
            await writer.put(prefix + "never", b"")
        etcd3.start()
        await write_surely(writer, prefix + "a", 1)
        for events in watches:
            assert await read_numbers(events, 1) == [1]
