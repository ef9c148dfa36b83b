"""Runs whose results are executed again while hosts die, clients leave, or there is too little to do it with."""

import asyncio

import pytest

from elastic.commands import Command
from elastic.controller import line
from tests.elastic.controller.played import made_by, with_hosts
from tests.elastic.controller.verified import facts, held_up, journal, verified


@pytest.mark.parametrize("phase", [Command.JOIN, Command.RESTORE, Command.DIGEST])
def test_a_host_that_dies_meanwhile_leaves_it_to_the_next_snapshot(phase):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.verify()
        y = pool.execute(step, x)
        await pool.wait(y)
        pool.hold(phase)
        verifying = asyncio.create_task(pool.verify())
        await pool.until(lambda: [one for one in pool.waiting if one[0].generation < 0])
        pool.hosts["h1"].die()
        pool.release(phase)
        await verifying
        await pool.recovered.get()
        assert facts(pool).problem
        assert len(journal(pool).entries) == 2
        z = pool.execute(step, y)
        await pool.verify()
        assert (facts(pool).verified, facts(pool).problem, pool.findings) == (2, "", [])
        assert await pool.read(z, 2) == made_by(step, made_by(step, b"x"))

    verified(play)


def test_an_executor_of_the_second_world_that_dies_concerns_nobody_else():
    async def play(pool):
        pool.put(b"x")
        pool.hold(Command.DIGEST)
        verifying = asyncio.create_task(pool.verify())
        (first, *_) = await pool.until(lambda: [one[0] for one in pool.waiting if one[0].generation < 0])
        first.host.end_executor()
        await verifying
        pool.release(Command.DIGEST)
        assert "was killed by SIGKILL" in facts(pool).problem
        assert (pool.recovered.empty(), pool.run.generation) == (True, 1)
        pool.put(b"y")
        await pool.verify()
        assert (facts(pool).verified, facts(pool).problem) == (1, "")

    verified(play)


def test_when_the_world_in_use_is_lost_the_comparison_goes_on():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        await pool.wait(y)
        pool.hosts["h0"].flips = 1  # By the second execution.
        verifying = await held_up(pool, Command.DIGEST)
        own = pool.hosts["h1"].executors[0]
        own.connection.drop()
        await pool.recovered.get()
        pool.release(Command.DIGEST)
        await verifying
        assert [finding.host for finding in pool.findings] == ["h0"]

    verified(play)


def test_a_wrong_run_that_is_just_recovering_goes_back_all_the_same():
    async def play(pool):
        step = await pool.load()
        pool.hosts["h2"].flips = 1
        y = pool.execute(step, pool.put(b"x"))
        await pool.wait(y)
        verifying = await held_up(pool, Command.DIGEST)
        pool.hold(Command.JOIN)
        pool.hosts["h1"].executors[0].connection.drop()
        await pool.until(lambda: [one for one in pool.waiting if one[1] is Command.JOIN and one[0].generation > 0])
        pool.release(Command.JOIN)
        pool.release(Command.DIGEST)
        await verifying
        assert await pool.read(y, 4) == made_by(step, b"x")
        assert pool.failures == []

    verified(play)


def test_a_client_that_leaves_meanwhile_ends_it_and_the_next_begins_anew():
    async def play(pool):
        step = await pool.load()
        pool.hosts["h1"].flips = 1
        pool.execute(step, pool.put(b"x"))
        verifying = await held_up(pool, Command.DIGEST)
        pool.leave()
        pool.release(Command.DIGEST)
        await verifying
        assert (pool.findings, facts(pool).problem, pool.recovered.empty()) == ([], "", True)
        step = await pool.load(b"another step")
        y = pool.execute(step, pool.put(b"y"))
        await pool.verify()
        assert (facts(pool).verified, pool.findings) == (1, [])
        assert await pool.read(y, 2) == made_by(step, b"y")

    verified(play)


def test_what_hosts_hold_of_the_verified_snapshot_stays_until_the_next_is_verified():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.verify()
        pool.hosts["h1"].flips = 1
        y = pool.execute(step, x)
        pool.free(x)
        verifying = await held_up(pool, Command.DIGEST)
        pool.put(b"more")
        await pool.snapshot()
        pool.release(Command.DIGEST)
        await verifying
        assert await pool.read(y, 2) == made_by(step, b"x")
        await pool.verify()
        await pool.snapshot()
        assert all(b"x" not in host.memory.values() for host in pool.hosts.values())

    verified(play)


def test_the_verified_snapshot_gets_second_homes_again_when_a_host_dies():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x", (0, 1))
        await pool.verify()
        pool.free(x)
        pool.hosts["h2"].flips = 1
        y = pool.execute(step, pool.put(b"y"))
        await pool.snapshot()
        homes = {id for id, host in pool.hosts.items() if b"x" in host.memory.values()}
        victim = (homes - {"h2", "h0"} or homes - {"h2"}).pop()
        pool.hosts[victim].die()
        await pool.until(lambda: sum(b"x" in host.memory.values() for host in pool.hosts.values()) == 2)
        await pool.verify()
        assert await pool.read(y, 4) == made_by(step, b"y")
        assert pool.failures == []

    with_hosts(play, verify_every=1, hosts=4, devices=8)


def test_with_one_host_nothing_is_verified_and_health_says_so():
    async def play(pool):
        pool.put(b"x")
        await pool.snapshot()
        assert "it takes a second host" in facts(pool).problem
        assert len(journal(pool).entries) == 0
        await pool.join("h1")
        pool.put(b"y")
        await pool.verify()
        assert (facts(pool).verified, facts(pool).problem) == (1, "")

    verified(play, hosts=1, devices=2)


def test_a_journal_that_has_grown_large_calls_for_a_snapshot_that_is_verified(monkeypatch):
    async def play(pool):
        pool.put(bytes(900))
        await pool.snapshot()
        assert (len(journal(pool).entries), pool.run._saving._wants_snapshot()) == (1, False)
        monkeypatch.setattr(line, "_LARGE", 1000)
        assert pool.run._saving._wants_snapshot()
        await pool.verify()
        assert len(journal(pool).entries) == 0

    with_hosts(play, verify_every=100)
