"""Runs that verify their results and store snapshots: only what was verified is stored, and can be gone back to."""

import checkpoint
from elastic.commands import Command
from tests.elastic.controller.played import made_by, told
from tests.elastic.controller.verified import held_up, journal, verified


def verified_and_stored(play, directory, **how):
    verified(play, checkpoint=directory, **how)


async def store(pool):
    """Takes a snapshot now, has it verified and then stored."""
    pool.run._durable._began = None  # One is due.
    await pool.verify()
    await pool.run._saving.storing


def steps_in(directory):
    return [step.number for step in checkpoint.steps(directory) if step.finished]


def test_a_snapshot_is_stored_when_it_has_been_verified(tmp_path):
    async def play(pool):
        pool.put(b"x")
        verifying = await held_up(pool, Command.DIGEST)
        assert pool.run._saving.storing is None
        pool.release(Command.DIGEST)
        await verifying
        await pool.run._saving.storing
        assert steps_in(tmp_path) == [1]
        assert len(journal(pool).entries) == 0

    verified_and_stored(play, tmp_path)


def test_a_snapshot_of_what_is_wrong_is_never_stored(tmp_path):
    async def play(pool):
        step = await pool.load()
        pool.hosts["h1"].flips = 1
        y = pool.execute(step, pool.put(b"x"))
        await pool.verify()
        assert (await pool.recovered.get()).kind == "corrected"
        assert steps_in(tmp_path) == []
        await store(pool)
        await pool.lose_all()
        await until_gone_back(pool)
        assert await pool.read(y, 2) == made_by(step, b"x")
        assert pool.failures == []

    verified_and_stored(play, tmp_path)


def test_what_is_verified_and_not_stored_stays_in_the_journal(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await store(pool)
        pool.execute(step, x)
        await pool.verify()  # None is due.
        assert [len(journal(pool).entries), journal(pool).to_replay()] == [1, []]
        await store(pool)
        assert len(journal(pool).entries) == 0

    verified_and_stored(play, tmp_path)


def test_a_run_that_was_wrong_goes_back_to_what_is_verified_and_not_behind_it(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await store(pool)
        y = pool.execute(step, x)
        await pool.verify()
        pool.hosts["h1"].flips = 1
        z = pool.execute(step, y)
        await pool.verify()
        change = await pool.recovered.get()
        assert (change.kind, change.operations_replayed) == ("corrected", 1)
        assert await pool.read(z, 2) == made_by(step, made_by(step, b"x"))

    verified_and_stored(play, tmp_path)


def test_after_all_hosts_have_died_what_is_stored_counts_as_the_verified_one(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await store(pool)
        y = pool.execute(step, x)
        await pool.verify()
        await pool.lose_all()
        await until_gone_back(pool)
        pool.hosts["h1"].flips = 1
        z = pool.execute(step, y)
        await pool.verify()
        assert [finding.host for finding in pool.findings] == ["h1"]
        assert await pool.read(z, 2) == made_by(step, made_by(step, b"x"))

    verified_and_stored(play, tmp_path)


def test_what_was_being_verified_when_the_run_went_back_behind_it_does_not_count(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await store(pool)
        y = pool.execute(step, x)
        verifying = await held_up(pool, Command.DIGEST)
        await pool.lose_all()
        pool.release(Command.DIGEST)
        await verifying
        await until_gone_back(pool)
        await pool.verify()
        assert told(pool.hosts["h1"].executor) == [(Command.EXECUTE, step, [x], [y], [], 0)]
        assert pool.findings == []

    verified_and_stored(play, tmp_path)


async def until_gone_back(pool):
    """The run goes on, on the hosts that there are now."""
    while (await pool.recovered.get()).kind != "lost":
        pass
    await pool.run.world()
