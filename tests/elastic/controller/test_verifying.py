"""Runs whose results are executed again elsewhere: who is found out, what follows, and to whom nothing happens."""

import asyncio

import pytest

from elastic.commands import Command
from elastic.controller import verifying
from tests.elastic.controller.played import made_by, told, with_hosts
from tests.elastic.controller.verified import facts, held_up, journal, verified

# When all is well


def test_what_was_computed_is_computed_again_by_other_hosts():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        y = pool.execute(step, x)
        await pool.verify()
        own, again = pool.hosts["h0"].executors
        assert told(again) == told(own) == [(Command.PUT, *told(own)[0][1:]), (Command.EXECUTE, step, [x], [y], [], 0)]
        assert own._owns.isdisjoint(again._owns)
        assert (facts(pool).verified, pool.findings, facts(pool).problem) == (1, [], "")

    verified(play)


def test_the_run_is_not_fenced_and_goes_on_meanwhile():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        verifying = await held_up(pool, Command.DIGEST)
        assert await pool.read(pool.execute(step, y)) == made_by(step, made_by(step, b"x"))
        pool.release(Command.DIGEST)
        await verifying
        assert (pool.fences, pool.run.generation, pool.recovered.empty()) == ([1], 1, True)

    verified(play)


def test_the_executors_of_the_second_world_are_killed_when_it_is_over():
    async def play(pool):
        pool.put(b"x")
        await pool.verify()
        assert [[executor.killed for executor in host.executors] for host in pool.hosts.values()] == [[False, True]] * 3

    verified(play)


def test_a_snapshot_that_comes_while_another_is_being_verified_leaves_nothing_out():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        verifying = await held_up(pool, Command.DIGEST)
        y = pool.execute(step, x)
        await pool.snapshot()
        z = pool.execute(step, y)
        pool.release(Command.DIGEST)
        await verifying
        await pool.verify()
        assert told(pool.hosts["h1"].executor) == [
            (Command.EXECUTE, step, [x], [y], [], 0),
            (Command.EXECUTE, step, [y], [z], [], 0),
        ]

    verified(play)


def test_a_snapshot_that_was_passed_over_is_made_up_for_though_nothing_more_is_computed():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        verifying = await held_up(pool, Command.DIGEST)
        pool.hosts["h1"].flips = 1
        y = pool.execute(step, x)
        await pool.snapshot()
        assert not pool.run._saving._wants_snapshot()
        pool.release(Command.DIGEST)
        await verifying
        assert pool.run._saving._wants_snapshot()
        await pool.verify()
        assert [finding.host for finding in pool.findings] == ["h1"]
        assert await pool.read(y, 2) == made_by(step, b"x")
        await pool.verify()
        assert not pool.run._saving._wants_snapshot()

    verified(play)


def test_the_journal_is_kept_until_what_it_holds_is_verified():
    async def play(pool):
        pool.put(b"x")
        pool.hold(Command.DIGEST)
        verifying = asyncio.create_task(pool.verify())
        await pool.until_held(Command.DIGEST)
        assert (len(journal(pool).entries), journal(pool).to_replay()) == (1, [])
        pool.release(Command.DIGEST)
        await verifying
        assert len(journal(pool).entries) == 0

    verified(play)


def test_the_next_execution_begins_with_what_was_verified():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.verify()
        y = pool.execute(step, x)
        await pool.verify()
        assert told(pool.hosts["h1"].executor) == [(Command.EXECUTE, step, [x], [y], [], 0)]
        assert (facts(pool).verified, pool.findings) == (2, [])

    verified(play)


# When somebody was wrong


def test_who_was_wrong_is_named_and_quarantined_and_the_numbers_end_up_right():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.verify()
        pool.hosts["h1"].flips = 1
        suspect = pool.hosts["h1"]
        y = pool.execute(step, x)
        await pool.verify()
        change = await pool.recovered.get()
        assert (change.kind, change.host) == ("corrected", "h1")
        assert suspect.quarantined
        assert "h1" not in pool.run.placement.hosts
        assert [await pool.read(y, device) for device in pool.everywhere] == [made_by(step, b"x")] * 6
        (finding,) = pool.findings
        assert (finding.host, finding.goes_back, finding.executions) == ("h1", True, 3)
        assert f"array {y} on virtual device 2 of host h1" in finding.what
        await pool.verify()
        assert (facts(pool).verified, len(pool.findings), pool.failures) == (2, 1, [])

    verified(play)


def test_the_client_waits_from_a_difference_until_it_is_known_who_was_wrong():
    async def play(pool):
        step = await pool.load()
        pool.hosts["h1"].flips = 1
        pool.execute(step, pool.put(b"x"))
        verifying = await held_up(pool, Command.DIGEST)
        assert not pool.run.congested
        pool.hold(Command.JOIN)
        pool.release(Command.DIGEST)
        await pool.until_held(Command.JOIN, 3)
        assert pool.run.congested
        pool.release(Command.JOIN)
        await verifying
        assert not pool.run.congested

    verified(play)


@pytest.mark.parametrize("every", [1, 2])
def test_the_client_waits_for_an_execution_that_falls_behind_if_nothing_is_to_be_left_out(every, monkeypatch):
    monkeypatch.setattr(verifying, "_AHEAD_S", 0.0)

    async def play(pool):
        step, waits = await pool.load(), asyncio.Event()
        for _ in range(every - 1):
            pool.execute(step, pool.put(b"x"))
            await pool.snapshot()
        pool.run.on_congestion = lambda: waits.set() if pool.run.congested else None
        pool.hold(Command.DIGEST)
        pool.execute(step, pool.put(b"y"))
        again = asyncio.create_task(pool.verify())
        await pool.until_held(Command.DIGEST, 3)
        if every == 1:
            await waits.wait()
        pool.release(Command.DIGEST)
        await again
        assert (pool.run.congested, waits.is_set()) == (False, every == 1)

    with_hosts(play, verify_every=every)


def test_what_was_computed_of_wrong_arrays_meanwhile_is_computed_again():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        pool.hosts["h1"].flips = 1
        y = pool.execute(step, x)
        verifying = await held_up(pool, Command.DIGEST)
        z = pool.execute(step, y)
        await pool.snapshot()  # Of what is wrong already.
        pool.release(Command.DIGEST)
        await verifying
        assert await pool.read(z, 2) == made_by(step, made_by(step, b"x"))

    verified(play)


def test_wrong_values_that_the_client_has_read_are_counted():
    async def play(pool):
        step = await pool.load()
        pool.hosts["h1"].flips = 1
        y = pool.execute(step, pool.put(b"x"))
        assert await pool.read(y, 2) != made_by(step, b"x")
        verifying = await held_up(pool, Command.DIGEST)
        assert await pool.read(y, 2) != made_by(step, b"x")  # Behind the snapshot.
        assert await pool.read(y, 3) == made_by(step, b"x")
        pool.release(Command.DIGEST)
        await verifying
        assert await pool.read(y, 2) == made_by(step, b"x")
        (finding,) = pool.findings
        assert "the client had read 1 wrong value" in finding.what
        assert finding.wrong_reads == 2
        await pool.verify()
        assert len(pool.findings) == 1  # Each is told once.

    verified(play)


def test_a_value_that_was_wrong_when_it_was_read_is_found_though_its_array_is_gone():
    async def play(pool):
        step = await pool.load()
        pool.hosts["h2"].flips = 1
        y = pool.execute(step, pool.put(b"x"))
        await pool.read(y, 4)
        pool.free(y)
        await pool.verify()
        (finding,) = pool.findings
        assert (finding.host, finding.goes_back, finding.wrong_reads) == ("h2", False, 1)
        assert "as the client read it" in finding.what

    verified(play)


def test_a_host_that_is_wrong_in_the_second_execution_only_is_quarantined_and_the_run_does_not_go_back():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        await pool.wait(y)
        suspect = pool.hosts["h2"]
        suspect.flips = 1
        await pool.verify()
        (finding,) = pool.findings
        assert (finding.host, finding.goes_back) == ("h2", False)
        assert "while the run was right" in finding.what
        change = await pool.recovered.get()
        assert (change.kind, change.host, change.operations_replayed) == ("lost", "h2", 0)
        assert suspect.quarantined
        assert facts(pool).verified == 1
        assert await pool.read(y, 4) == made_by(step, b"x")

    verified(play)


def test_a_host_that_is_always_wrong_is_found_by_having_each_do_it_alone():
    async def play(pool):
        step = await pool.load()
        pool.hosts["h1"].flips = 1000
        y = pool.execute(step, pool.put(b"x"))
        await pool.verify()
        (finding,) = pool.findings
        assert finding.host == "h1"
        assert [await pool.read(y, device) for device in pool.everywhere] == [made_by(step, b"x")] * 6

    verified(play)


def test_of_two_hosts_one_that_was_wrong_once_is_found():
    async def play(pool):
        step = await pool.load()
        pool.hosts["h1"].flips = 1
        y = pool.execute(step, pool.put(b"x"))
        await pool.verify()
        assert [finding.host for finding in pool.findings] == ["h1"]
        assert await pool.read(y, 2) == made_by(step, b"x")

    verified(play, hosts=2, devices=4)


def test_a_program_that_gives_something_else_each_time_is_told_as_such_and_accuses_no_host():
    async def play(pool):
        pool.unsteady = True
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        await pool.verify()
        (finding,) = pool.findings
        assert (finding.host, finding.goes_back) == ("", False)
        assert "it is the program which does not give the same each time" in finding.what
        assert len(pool.hosts) == 3
        assert pool.recovered.empty()
        before = facts(pool).executions
        pool.execute(step, y)
        await pool.snapshot()  # It would be of no use to go on.
        assert (facts(pool).executions, facts(pool).problem) == (before, finding.what)
        assert len(journal(pool).entries) == 0

    verified(play)


def test_an_error_that_is_everywhere_accuses_nobody_and_is_computed_again():
    async def play(pool):
        pool.spoiled = True
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        await pool.wait(y)
        pool.spoiled = False
        await pool.verify()
        (finding,) = pool.findings
        assert (finding.host, finding.goes_back) == ("", True)
        assert finding.what.startswith("nobody can say which host computed wrongly between operations 0 and 3: ")
        change = await pool.recovered.get()
        assert (change.kind, change.host, len(pool.hosts)) == ("corrected", "", 3)
        assert await pool.read(y) == made_by(step, b"x")

    verified(play)


def test_a_run_that_is_wrong_again_and_again_without_a_culprit_is_given_up():
    async def play(pool):
        pool.spoiled = True
        step = await pool.load()
        pool.execute(step, pool.put(b"x"))
        for _ in range(4):
            assert pool.failures == []
            await pool.verify()
        (failure,) = pool.failures
        assert "nobody can say which host computed wrongly" in str(failure)

    verified(play)
