"""Claims of runs on hosts, against each kind of server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from membership import Etcd
from membership.registry import Claims, HostRecord, Keys, Registration, RunRecord, run_of
from tests.membership.servers import Server

TTL = 5


@asynccontextmanager
async def pool(server: Server, prefix: str) -> AsyncIterator[Etcd]:
    """A client in a pool that no other test uses."""
    address = replace(server.address(), pool=prefix.strip("/").replace("/", "-"))
    async with Etcd(address) as etcd:
        yield etcd


async def hosts(etcd: Etcd, count: int) -> list[HostRecord]:
    records: list[HostRecord] = []
    for index in range(count):
        record = HostRecord(f"h{index}", "127.0.0.1:1", 2, 1, "m")
        await Registration(etcd, record, TTL, records.append).start()
    return records


async def run(etcd: Etcd, name: str) -> Claims:
    return await Claims(etcd, RunRecord(name, "unix:/x", 1, 0), TTL, lambda _: None).start()


async def holders(etcd: Etcd) -> dict[str, str]:
    listing = await etcd.list(Keys(etcd.address.prefix).claims)
    return {kv.key.rpartition("/")[2]: kv.value.decode() for kv in listing.kvs}


async def test_a_registered_host_says_how_long_it_is_remembered(server: Server, prefix: str) -> None:
    async with pool(server, prefix) as etcd:
        [host] = await hosts(etcd, 1)
        assert host.ttl >= TTL


async def test_runs_that_want_the_same_hosts_get_all_or_none(server: Server, prefix: str) -> None:
    async with pool(server, prefix) as etcd:
        records = await hosts(etcd, 5)
        runs = [await run(etcd, f"r{index}") for index in range(4)]
        # Each wants three of five, so only one can have them.
        outcomes = await asyncio.gather(
            *(one.claim(*[*records[index:], *records[:index]][:3]) for index, one in enumerate(runs))
        )
        assert sum(outcomes) == 1
        winner = runs[outcomes.index(True)].run
        assert list((await holders(etcd)).values()) == [winner] * 3


async def test_a_host_that_came_back_is_not_claimed_under_its_old_incarnation(server: Server, prefix: str) -> None:
    async with pool(server, prefix) as etcd:
        first, second = await hosts(etcd, 2)
        one = await run(etcd, "r")
        assert not await one.claim(first, replace(second, incarnation=second.incarnation - 1))
        assert await holders(etcd) == {}
        assert await one.claim(first, second)


async def test_more_hosts_than_one_transaction_takes(server: Server, prefix: str) -> None:
    async with pool(server, prefix) as etcd:
        records = await hosts(etcd, 62)
        one, two = await run(etcd, "one"), await run(etcd, "two")
        assert await two.claim(*records[61:])
        assert not await one.claim(*records)
        assert await holders(etcd) == {"h61": "two"}
        await two.close()
        assert await one.claim(*records)
        assert set((await holders(etcd)).values()) == {"one"}


async def test_a_run_says_later_how_many_virtual_devices_it_has(server: Server, prefix: str) -> None:
    async with pool(server, prefix) as etcd:
        one = await run(etcd, "r")
        await one.describe(8)
        kv = await etcd.get(Keys(etcd.address.prefix).run("r"))
        assert kv is not None
        about = run_of(kv)
        assert about is not None
        assert about.virtual_devices == 8
        await one.close()
        assert await etcd.get(Keys(etcd.address.prefix).run("r")) is None
