"""Whoever is wrong or dies, in any order: at the end what was verified is right, and nobody innocent was accused."""

import asyncio
import contextlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic.controller.snapshots import SnapshotError
from elastic.controller.world import WorldLost
from tests.elastic.controller.played import with_hosts
from tests.elastic.controller.test_run_any_order import Client

STEPS = st.one_of(
    st.tuples(st.just("put"), st.binary(max_size=2)),
    st.tuples(st.just("execute"), st.lists(st.integers(0, 9), min_size=1, max_size=2)),
    st.tuples(st.just("free"), st.integers(0, 9)),
    st.tuples(st.just("snapshot"), st.none()),
    st.tuples(st.just("turn"), st.integers(1, 60)),
    st.tuples(st.just("flip"), st.integers(0, 9)),
    st.tuples(st.just("end_executor"), st.integers(1, 9)),
    st.tuples(st.just("lose_host"), st.integers(0, 9)),
    st.tuples(st.just("join"), st.none()),
)


class Watched(Client):
    """A client of a run some of whose hosts are wrong now and then."""

    def __init__(self, pool, program):
        super().__init__(pool, program)
        self.wrong = set()

    def flip(self, number):
        if len(self.wrong) < 2:  # What is wrong behind one snapshot again and again is given up.
            hosts = sorted(self.pool.hosts)
            self.wrong.add(hosts[number % len(hosts)])
            self.pool.hosts[hosts[number % len(hosts)]].flips = 1
            self.put(b"seed")
            self.execute([number])

    def snapshot(self, how):
        if not self.pool.run._snapshots.exposed:  # Who is quarantined is one more host that is lost.
            super().snapshot(how)

    def lose_host(self, number):
        if len(self.pool.hosts) > 2 and not self.pool.run._verifying.facts(0.0).verifying:
            super().lose_host(number)

    async def settle(self):
        """From now on nobody is wrong any more; returns when all has been verified."""
        if self.values:
            await self.pool.wait(max(self.values))
        for host in self.pool.all_hosts:
            host.flips = 0
        verifying = self.pool.run._verifying
        await asyncio.gather(*self.tasks)
        while len(self.pool.hosts) < 3:
            await self.pool.join(f"h{len(self.pool.all_hosts)}")
        before = verifying.facts(0.0).verified
        while verifying.facts(0.0).verified < before + 2:  # The first may have begun long ago.
            with contextlib.suppress(WorldLost, SnapshotError):
                await self.pool.run._snapshots.protect()
                await self.pool.snapshot()
            if verifying.going_on is not None:
                await verifying.going_on
            await self.pool.run.world()


async def played_to_its_end(pool, steps):
    client = Watched(pool, await pool.load())
    for what, how in steps:
        await client.step(what, how)
    await client.settle()
    assert {finding.host for finding in pool.findings} <= client.wrong | {""}
    assert pool.failures == []
    return client


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_what_was_verified_is_right_and_only_who_was_wrong_is_accused(steps):
    async def play(pool):
        client = await played_to_its_end(pool, steps)
        for array, data in client.values.items():
            assert [await pool.read(array, device) for device in pool.everywhere] == [data] * 6

    with_hosts(play, hosts=4, verify_every=1)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_only_who_was_wrong_is_accused_if_most_is_not_looked_at(steps):
    with_hosts(lambda pool: played_to_its_end(pool, steps), hosts=4, verify_every=3)
