"""What a run does when no free device takes over what a lost host had: it waits, or it ends."""

import time

import pytest

from elastic.controller.placement import Policy
from elastic.controller.status_report import About
from elastic.errors import PoolError
from elastic.status import Code, StatusError
from tests.elastic.connections import run
from tests.elastic.controller.played import PlayedPool, made_by, with_hosts


def health(pool):
    now = time.monotonic()
    return pool.run.report(About("r", 1, 3, now), now)


def test_to_wait_is_to_go_on_when_a_host_comes_as_if_nothing_had_been():
    async def play(pool):
        program = await pool.load()
        array = pool.put(b"kept")
        await pool.snapshot()
        made = pool.execute(program, array)
        pool.hosts["h1"].die()
        await pool.until(lambda: pool.waits)
        reading = pool.read(pool.execute(program, made), device=2)
        lack = "2 of 6 virtual devices have no physical device left; h1 is gone"
        assert pool.waits == [("h1", "its agent is gone", lack)]
        report = health(pool)
        assert (report["status"], report["run"]["state"], report["run"]["on_loss"]) == ("degraded", "waiting", "wait")
        assert report["run"]["reason"] == f"host h1: its agent is gone; {lack}"
        assert not reading.done()
        await pool.join("h3")
        assert await reading == made_by(program, made_by(program, b"kept"))
        assert (await pool.recovered.get()).plan == "6 virtual devices over 3 hosts; 2 devices to h3; h1 is gone"
        assert pool.run.placement.by_host() == {"h0": [0, 1], "h2": [4, 5], "h3": [2, 3]}
        assert len(pool.waits) == 1
        assert pool.run._worlds.moves == []  # The host that came takes part already.
        assert health(pool)["run"]["state"] == "running"

    with_hosts(play, policy=Policy.WAIT)


def test_a_run_that_waits_says_so_again_only_if_it_waits_for_something_else():
    async def play(pool):
        pool.put(b"kept")
        await pool.snapshot()
        pool.hosts["h1"].die()
        await pool.until(lambda: pool.waits)
        await pool.join("h3", devices=1)
        await pool.until(lambda: len(pool.waits) == 2)
        assert pool.waits[1][2].startswith("1 of 6 virtual devices have no")
        await pool.join("h4", devices=1)
        assert (await pool.recovered.get()).kind == "lost"

    with_hosts(play, policy=Policy.WAIT)


@pytest.mark.parametrize("policy", [Policy.SPARE, Policy.WAIT, Policy.SURFACE])
def test_a_spare_takes_over_at_once(policy):
    async def play(pool):
        await pool.join("h3")
        array = pool.put(b"kept")
        await pool.snapshot()
        pool.hosts["h1"].die()
        assert await pool.read(array, device=2) == b"kept"
        assert (await pool.recovered.get()).plan == "6 virtual devices over 3 hosts; 2 devices to h3; h1 is gone"
        assert pool.waits == []

    with_hosts(play, policy=policy)


def test_only_to_spare_is_to_end_with_an_error_that_says_what_is_missing():
    async def play(pool):
        array = pool.put(b"kept")
        await pool.snapshot()
        pool.hosts["h1"].die()
        reading = pool.read(array)
        await pool.until(lambda: pool.failures)
        [failure] = pool.failures
        assert (failure.host, failure.reason) == ("h1", "its agent is gone")
        assert failure.why_not == (
            "2 of 6 virtual devices have no physical device left; h1 is gone, and there is no spare "
            "(--spares N keeps N of them, --on-loss wait waits for one)"
        )
        with pytest.raises(StatusError, match="there is no spare") as raised:
            await reading
        assert raised.value.code is Code.UNAVAILABLE
        assert health(pool)["status"] == "down"

    with_hosts(play, policy=Policy.SPARE)


@pytest.mark.parametrize("policy", Policy)
def test_an_executor_that_dies_is_replaced_on_its_own_host(policy):
    async def play(pool):
        array = pool.put(b"kept")
        pool.hosts["h1"].end_executor()
        assert await pool.read(array, device=2) == b"kept"
        assert (await pool.recovered.get()).plan == "6 virtual devices over 3 hosts; nothing moves"

    with_hosts(play, policy=policy)


@pytest.mark.parametrize("policy", [Policy.SPARE, Policy.WAIT, Policy.SURFACE])
def test_a_host_that_drains_is_used_until_another_can_take_its_place(policy):
    async def play(pool):
        array = pool.put(b"kept")
        pool.hosts["h1"].draining = False
        pool.run.host_drains("h1", "maintenance")
        await pool.until(lambda: pool.run._snapshots.committed.records)
        assert await pool.read(array, device=2) == b"kept"
        assert "h1" in pool.run.placement.hosts
        assert pool.let_go == []
        pool.hosts["h1"].end_executor()
        assert await pool.read(array, device=2) == b"kept"
        assert (await pool.recovered.get()).kind == "lost"
        assert "h1" in pool.run.placement.hosts
        await pool.join("h3")
        assert (await pool.recovered.get()).kind == "moved"
        assert "h1" not in pool.run.placement.hosts
        await pool.until(lambda: pool.let_go == ["h1"])

    with_hosts(play, policy=policy, pause_s=0.01)


def test_a_run_does_not_begin_without_a_device_for_each_virtual_one():
    async def main():
        pool = PlayedPool(6, Policy.WAIT)
        async with pool._stack:
            await pool.join("h0")
            with pytest.raises(PoolError, match=r"cannot begin: 4 of 6 virtual devices have no .*--on-loss stack"):
                await pool.run.start(1)
            pool.run.close()
            pool.all_hosts[0].close_for_good()

    run(main())
