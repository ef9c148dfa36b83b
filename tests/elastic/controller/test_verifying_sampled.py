"""Runs of which only one in three intervals is executed again: what that finds, and what it leaves out."""

from elastic.commands import Command
from tests.elastic.controller.played import made_by, told, with_hosts
from tests.elastic.controller.verified import facts, held_up


def sampled(play, **how):
    with_hosts(play, verify_every=3, **how)


def test_only_the_last_of_so_many_intervals_is_executed_again():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        await pool.snapshot()
        y = pool.execute(step, y)
        await pool.snapshot()
        z = pool.execute(step, y)
        assert len(pool.hosts["h0"].executors) == 1
        await pool.verify()
        assert told(pool.hosts["h0"].executors[1]) == [(Command.EXECUTE, step, [y], [z], [], 0)]
        pool.execute(step, z)
        await pool.snapshot()
        assert len(pool.hosts["h0"].executors) == 2
        assert (facts(pool).verified, pool.findings) == (1, [])

    sampled(play)


def test_where_it_begins_is_kept_until_it_was_executed_again():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.snapshot()
        await pool.snapshot()
        y = pool.execute(step, x)
        pool.free(x)
        verifying = await held_up(pool, Command.JOIN)
        pool.put(b"more")
        await pool.snapshot()
        pool.release(Command.JOIN)
        await verifying
        assert (facts(pool).verified, pool.findings) == (1, [])
        await pool.snapshot()
        assert all(b"x" not in host.memory.values() for host in pool.hosts.values())
        assert await pool.read(y) == made_by(step, b"x")

    sampled(play)


def test_a_single_error_in_an_interval_that_is_left_out_stays():
    """It was so before, for all executions of what follows: this is what less work costs."""

    async def play(pool):
        step = await pool.load()
        pool.hosts["h1"].flips = 1
        y = pool.execute(step, pool.put(b"x"))
        await pool.snapshot()
        await pool.snapshot()
        pool.execute(step, y)
        await pool.verify()
        assert (facts(pool).verified, pool.findings) == (1, [])
        assert await pool.read(y, 2) != made_by(step, b"x")

    sampled(play)


def test_what_a_host_that_is_wrong_over_and_over_did_in_intervals_that_were_left_out_is_computed_again():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        for _ in range(2):
            await pool.snapshot()
        await pool.verify()
        suspect = pool.hosts["h1"]
        suspect.flips = 1000
        y = pool.execute(step, x)
        seen = await pool.read(y, 2)
        await pool.snapshot()
        await pool.snapshot()
        z = pool.execute(step, y)
        await pool.verify()
        assert suspect.quarantined
        assert seen != await pool.read(y, 2) == made_by(step, b"x")
        assert await pool.read(z, 2) == made_by(step, made_by(step, b"x"))
        (finding,) = pool.findings
        assert (finding.host, finding.wrong_reads) == ("h1", 1)

    sampled(play)
