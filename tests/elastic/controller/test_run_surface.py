"""A run that tells its client what it lost: what becomes an error, what stays, and what is so when hosts come back."""

import asyncio
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic.commands import Command
from elastic.controller.placement import Policy
from elastic.controller.programs import Source
from elastic.status import Code, StatusError
from tests.elastic.controller.played import made_by, told, with_hosts
from tests.elastic.controller.test_run_policies import health

HEALTHY, LOST = (0, 1), (2, 3)
"""Devices of h0 and h1."""


def surfacing(play, **how):
    with_hosts(play, policy=Policy.SURFACE, **how)


async def lose(pool, host="h1"):
    pool.hosts[host].die()
    return await pool.recovered.get()


async def come_back(pool, host="h1"):
    await pool.join(host)
    await pool.run._saving._move(await pool.run.world())
    return await pool.recovered.get()


async def is_lost(pool, array, device):
    with pytest.raises(StatusError, match="without a physical device since host") as raised:
        await pool.read(array, device)
    return raised.value.code is Code.DATA_LOSS


@pytest.mark.parametrize("saved", [True, False], ids=["saved", "not saved"])
def test_arrays_with_a_shard_on_a_lost_host_are_errors_and_others_stay(saved):
    async def play(pool):
        array, there, everywhere = pool.put(b"here", HEALTHY), pool.put(b"there", LOST), pool.put(b"all")
        if saved:
            await pool.snapshot()
        change = await lose(pool)
        assert change.plan.startswith("4 virtual devices over 2 hosts; nothing moves; 2 of 6 virtual devices have no")
        assert await pool.read(array, 1) == b"here"
        assert await is_lost(pool, there, 2)
        assert await is_lost(pool, everywhere, 2)
        assert await is_lost(pool, everywhere, 0)
        assert pool.failures == pool.waits == []

    surfacing(play)


def test_a_question_that_waits_for_what_is_lost_is_answered_with_the_loss():
    async def play(pool):
        everywhere = pool.put(b"all")
        pool.hold(Command.READ)
        reading, elsewhere = pool.read(everywhere, 2), pool.read(everywhere, 0)
        waiting = pool.wait(everywhere)
        await lose(pool)
        pool.release(Command.READ)
        for question in (reading, elsewhere, waiting):
            with pytest.raises(StatusError, match="virtual devices 2, 3 without a physical device since host h1 was"):
                await question

    surfacing(play)


def test_programs_run_where_devices_are_and_make_errors_where_they_are_not():
    async def play(pool):
        here, there = await pool.load(devices=HEALTHY), await pool.load(devices=LOST)
        x, y = pool.put(b"x", HEALTHY), pool.put(b"x", LOST)
        await lose(pool)
        made = pool.execute(here, x, devices=HEALTHY)
        assert await pool.read(made, 1) == made_by(here, b"x")
        assert await is_lost(pool, pool.execute(there, y, devices=LOST), 2)
        assert await is_lost(pool, pool.put(b"new", LOST), 3)
        assert {call[1] for call in told(pool.hosts["h0"].executor, Command.LOAD)} == {here}
        assert pool.hosts["h0"].executor.programs == {here: list(HEALTHY)}

    surfacing(play)


def test_when_the_host_is_back_new_arrays_live_and_lost_ones_stay_lost():
    async def play(pool):
        program = await pool.load(devices=LOST)
        old = pool.put(b"old", LOST)
        await pool.snapshot()
        recent = pool.put(b"recent", LOST)
        await lose(pool)
        meanwhile, everywhere = pool.put(b"meanwhile", LOST), pool.put(b"everywhere")
        kept = pool.put(b"kept", HEALTHY)
        await pool.snapshot()
        change = await come_back(pool)
        assert (change.kind, change.plan) == ("moved", "6 virtual devices over 3 hosts; 2 devices to h1")
        for array, device in ((old, 2), (recent, 3), (meanwhile, 2), (everywhere, 2), (everywhere, 0)):
            assert await is_lost(pool, array, device)
        assert await pool.read(kept) == b"kept"
        new = pool.put(b"new", LOST)
        assert await pool.read(pool.execute(program, new, devices=LOST), 2) == made_by(program, b"new")
        await pool.snapshot()
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert await pool.read(new, 2) == b"new"
        assert await is_lost(pool, old, 2)

    surfacing(play)


def test_what_a_client_tries_in_vain_and_frees_leaves_nothing_behind():
    async def play(pool):
        old = pool.put(b"old", LOST)
        await pool.snapshot()
        await lose(pool)
        for _ in range(10):
            array = pool.put(b"tried", LOST)
            assert await is_lost(pool, array, 2)
            pool.free(array, devices=LOST)
        assert len(pool.run._line.losses) == 11
        await pool.snapshot()
        assert len(pool.run._line.losses) == 1
        pool.free(old, devices=LOST)
        await pool.snapshot()
        assert len(pool.run._line.losses) == 0
        assert len(pool.run._line.journal.entries) == 0

    surfacing(play)


def test_a_client_that_leaves_takes_its_losses_along():
    async def play(pool):
        pool.put(b"old", LOST)
        await lose(pool)
        pool.leave()
        assert len(pool.run._line.losses) == 0

    surfacing(play)


def test_a_program_for_lost_devices_is_compiled_on_others_and_loaded_when_they_are_back():
    async def play(pool):
        await lose(pool)
        program = await pool.load(b"late", devices=LOST)
        [compiled] = told(pool.hosts["h0"].executor, Command.COMPILE)
        assert compiled[3] == list(HEALTHY)
        await pool.until(lambda: pool.hosts["h0"].executor.programs == {})
        await come_back(pool)
        x = pool.put(b"x", LOST)
        assert await pool.read(pool.execute(program, x, devices=LOST), 2) == made_by(program, b"x")

    surfacing(play)


def test_a_program_for_more_devices_than_there_are_cannot_be_compiled_meanwhile():
    async def play(pool):
        await lose(pool)
        with pytest.raises(StatusError, match="for 6 devices cannot be compiled while only 4 are there") as raised:
            await pool.load(b"late")
        assert raised.value.code is Code.DATA_LOSS

    surfacing(play)


def test_losses_add_up_and_hosts_may_come_back_one_by_one():
    async def play(pool):
        third = pool.put(b"third", (4, 5))
        await pool.snapshot()
        await lose(pool, "h1")
        assert await pool.read(third, 4) == b"third"
        change = await lose(pool, "h2")
        assert change.plan.startswith("2 virtual devices over 1 host; nothing moves; 4 of 6 virtual devices have no")
        assert health(pool)["run"]["lost_devices"] == [2, 3, 4, 5]
        assert "virtual devices 2, 3, 4, 5 have no physical device" in "; ".join(health(pool)["reasons"])
        assert await is_lost(pool, third, 4)
        await come_back(pool, "h2")
        assert health(pool)["run"]["lost_devices"] == [4, 5]  # The first that lack one get it, wherever it is.
        await come_back(pool, "h1")
        assert health(pool)["run"]["lost_devices"] == []
        assert await pool.read(pool.put(b"new", (4, 5)), 4) == b"new"

    surfacing(play)


def test_without_any_host_the_run_waits_and_then_tells_what_is_lost():
    async def play(pool):
        array = pool.put(b"x", HEALTHY)
        await pool.snapshot()
        for host in ("h0", "h1", "h2"):
            pool.hosts[host].die()
        reading = pool.read(array)
        await pool.until(lambda: pool.waits)
        await pool.join("h3")
        with pytest.raises(StatusError) as raised:
            await reading
        assert raised.value.code is Code.DATA_LOSS
        assert await pool.read(pool.put(b"new", (0, 1))) == b"new"
        assert pool.failures == []

    surfacing(play)


def test_arrays_whose_every_copy_is_gone_are_lost_though_a_spare_takes_over():
    async def play(pool):
        await pool.join("h3")
        await pool.join("h4")
        there = pool.put(b"there", LOST)
        await pool.snapshot()
        homes = [host for host in pool.hosts.values() if b"there" in host.memory.values()]
        assert len(homes) == 2
        for host in homes:
            host.die()
        with pytest.raises(StatusError, match=f"every copy of arrays {there} is lost") as raised:
            await pool.read(there, 2)
        assert raised.value.code is Code.DATA_LOSS
        assert await pool.read(pool.put(b"new", LOST), 2) == b"new"
        assert pool.failures == []

    surfacing(play)


def test_a_replay_is_not_compared_with_what_is_lost(caplog):
    async def play(pool):
        program = await pool.load()
        everywhere, there = pool.put(b"all"), pool.put(b"there", LOST)
        made = pool.execute(program, everywhere)
        for array, device in ((everywhere, 0), (there, 2), (made, 5)):
            await pool.read(array, device)
        await lose(pool)
        assert await is_lost(pool, made, 0)
        assert pool.run.verification.different == []

    with caplog.at_level(logging.ERROR):
        surfacing(play)
    assert "differs" not in caplog.text


def test_calls_of_programs_that_are_not_run_again_are_not_waited_for():
    async def play(pool):
        source = Source(b"calls", b"options", LOST, 1, callbacks=(3,))
        await pool.run.programs.load(await pool.run.world(), next(pool.numbers), source)
        forgotten = []
        pool.run.callbacks.not_again = forgotten.append
        await lose(pool)
        assert forgotten == [{3}]

    surfacing(play)


STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 3)),
    st.tuples(st.just("execute"), st.integers(0, 9)),
    st.tuples(st.just("read"), st.integers(0, 9)),
    st.tuples(st.just("snapshot"), st.none()),
    st.tuples(st.just("lose"), st.integers(0, 2)),
    st.tuples(st.just("come back"), st.integers(0, 2)),
)
GROUPS = ((0, 1), (2, 3), (4, 5), (0, 1, 2, 3, 4, 5))


class Twin:
    """What a client should see: an array is lost if one of its devices lacked a host at any time in its life."""

    def __init__(self, pool, programs):
        self.pool = pool
        self.programs = programs
        self.arrays = {}
        """array -> (its devices, its value or None if it is lost)"""

    @property
    def gone(self):
        return set(self.pool.run.placement.lost)

    def add(self, array, devices, value):
        self.arrays[array] = devices, None if self.gone & set(devices) else value

    def pick(self, number):
        return sorted(self.arrays)[number % len(self.arrays)]

    async def check(self, array):
        devices, value = self.arrays[array]
        for device in devices:
            if value is None:
                assert await is_lost(self.pool, array, device)
            else:
                assert await self.pool.read(array, device) == value

    async def step(self, what, how):
        match what:
            case "put":
                data = b"%d" % len(self.arrays)
                self.add(self.pool.put(data, GROUPS[how]), GROUPS[how], data)
            case "execute" if self.arrays:
                devices, value = self.arrays[source := self.pick(how)]
                program = self.programs[devices]
                made = self.pool.execute(program, source, devices=devices)
                self.add(made, devices, value and made_by(program, value))
            case "read" if self.arrays:
                await self.check(self.pick(how))
            case "snapshot":
                await self.pool.snapshot()
            case "lose" if f"h{how}" in self.pool.hosts and len(self.pool.hosts) > 1:
                await lose(self.pool, f"h{how}")
                lost = self.gone
                self.arrays = {a: (d, None if lost & set(d) else value) for a, (d, value) in self.arrays.items()}
            case "come back" if f"h{how}" not in self.pool.hosts:
                await come_back(self.pool, f"h{how}")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=5, max_size=30))
def test_a_client_sees_what_it_would_see_if_a_device_took_its_arrays_with_it_and_nothing_else(steps):
    async def play(pool):
        twin = Twin(pool, {devices: await pool.load(devices=devices) for devices in GROUPS})
        for what, how in steps:
            await twin.step(what, how)
        await asyncio.gather(*map(twin.check, list(twin.arrays)))
        assert pool.failures == []
        assert pool.run.verification.different == []

    surfacing(play)
