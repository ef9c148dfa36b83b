"""A run over several worlds: what is told again, what is not, and what its client sees of that."""

import asyncio
import itertools
import logging
import time
from types import SimpleNamespace

import pytest

from elastic.commands import Command
from elastic.controller import recovery
from elastic.controller.programs import Source
from elastic.controller.requests.programs import _load as load_for_a_session
from elastic.controller.snapshots import SnapshotError
from elastic.controller.status_report import About
from elastic.errors import PoolError
from elastic.status import Code, StatusError
from tests.elastic.controller.played import ABORTED, PlayedExecutor, made_by, told, with_hosts

QUESTIONS = (Command.READ, Command.WAIT)


# A loss


@pytest.mark.parametrize("agent", [False, True], ids=["executor", "host"])
def test_the_next_world_is_told_everything_in_order(agent):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"bytes")
        y = pool.execute(step, x)
        z = pool.execute(step, y)
        pool.free(x, y)
        assert await pool.read(z) == made_by(step, made_by(step, b"bytes"))
        survivor = pool.hosts["h0"]
        before = told(survivor.executor)
        pool.hosts["h1"].die() if agent else pool.hosts["h1"].end_executor()
        assert (await pool.recovered.get()).host == "h1"
        last = pool.execute(step, z)
        assert await pool.read(last) == made_by(step, made_by(step, made_by(step, b"bytes")))
        again = told(survivor.executors[1])
        assert survivor.executors[0].killed
        assert [what for what in again if what[0] not in QUESTIONS][:-1] == [w for w in before if w[0] not in QUESTIONS]
        assert [executor.generation for executor in survivor.executors] == pool.fences == [1, 2]

    with_hosts(play)


def test_a_host_whose_devices_compute_wrongly_is_done_without_and_shown_in_quarantine():
    async def play(pool):
        step = await pool.load()
        x = pool.execute(step, pool.put(b"bytes"))
        bad = pool.hosts["h1"]
        bad.failure = "a health check of its devices failed: device 1 computed wrongly"
        bad.on_wrong_result("device 1 computed wrongly")
        change = await pool.recovered.get()
        assert (change.host, change.reason, change.detected_by) == ("h1", bad.failure, "its agent, by a health check")
        assert await pool.read(pool.execute(step, x)) == made_by(step, made_by(step, b"bytes"))
        assert "h1" not in pool.run.placement.hosts
        report = pool.run.report(About("r1", 77, 2, 0.0), time.monotonic())
        [shown] = [host for host in report["hosts"] if host["id"] == "h1"]
        assert (shown["state"], shown["reason"], shown["checked_age_s"]) == ("quarantined", bad.failure, None)

    with_hosts(play)


def test_a_loss_is_told_with_what_was_done_about_it():
    async def play(pool):
        for data in (b"1", b"2", b"3"):
            pool.put(data)
        pool.hosts["h1"].end_executor()
        change = await pool.recovered.get()
        assert (change.kind, change.host, change.operations_replayed) == ("lost", "h1", 3)
        assert "was killed by SIGKILL" in change.reason
        assert change.plan == pool.run.placement.reason
        assert set(change.phases) >= {"fence", "world", "restore", "replay"}
        assert pool.failures == []

    with_hosts(play)


def test_the_devices_of_a_lost_host_go_to_the_others():
    async def play(pool):
        pool.hosts["h1"].die()
        await pool.recovered.get()
        assert set(pool.run.placement.hosts) == {"h0", "h2"}
        array = pool.put(b"x")
        assert [await pool.read(array, device) for device in pool.everywhere] == [b"x"] * 6

    with_hosts(play)


def test_an_unanswered_question_is_asked_again_and_answered_once():
    async def play(pool):
        array = pool.put(b"x", (2, 3))
        pool.hold(Command.READ)
        reading = pool.read(array, 2)
        (executor,) = await pool.until_held(Command.READ)
        assert executor.host.id == "h1"
        pool.hosts["h1"].end_executor()
        await pool.until(lambda: len(pool.waiting) == 2)  # The next world was asked.
        assert not reading.done()
        pool.release(Command.READ)
        assert await reading == b"x"
        await pool.recovered.get()

    with_hosts(play)


def test_a_question_to_all_hosts_is_asked_again_of_all_though_some_had_answered():
    async def play(pool):
        array = pool.put(b"x")
        pool.hold(Command.WAIT)
        waiting = pool.wait(array)
        await pool.until_held(Command.WAIT, 3)
        pool.hosts["h2"].die()
        await pool.until_held(Command.WAIT, 2)
        assert not waiting.done()
        pool.release(Command.WAIT)
        await waiting

    with_hosts(play)


def test_an_answered_question_is_not_asked_again_but_compared():
    async def play(pool):
        array = pool.put(b"x")
        assert await pool.read(array) == b"x"
        await pool.wait(array)
        pool.hosts["h0"].end_executor()
        await pool.recovered.get()
        await pool.until(lambda: told(pool.hosts["h0"].executor, Command.DIGEST))
        for host in pool.hosts.values():
            assert told(host.executor, *QUESTIONS) == []
        await pool.wait(array)
        assert (pool.run.verification.equal, pool.run.verification.different) == (1, [])

    with_hosts(play)


def test_a_replay_that_gives_something_else_than_the_client_has_seen_is_reported(caplog):
    async def play(pool):
        array = pool.put(b"x")
        assert await pool.read(array) == b"x"
        pool.hold(Command.DIGEST)
        pool.hosts["h1"].end_executor()
        (executor,) = await pool.until_held(Command.DIGEST)
        executor.arrays[array][0] = b"y"
        pool.release(Command.DIGEST)
        await pool.wait(array)
        assert (pool.run.verification.equal, len(pool.run.verification.different)) == (0, 1)
        assert f"array {array} on virtual device 0 of host h0" in pool.run.verification.different[0]

    with_hosts(play)
    assert "the replay differs" in caplog.text


def test_what_is_sent_while_there_is_no_world_comes_behind_what_was_sent_before():
    async def play(pool):
        first = pool.put(b"1", (0,))
        pool.hold(Command.JOIN)
        pool.hosts["h1"].end_executor()
        await pool.until_held(Command.JOIN, 3)
        second = pool.put(b"2", (0,))
        reading = pool.read(second)
        third = pool.put(b"3", (0,))
        pool.release(Command.JOIN)
        assert await reading == b"2"
        await pool.wait(third)
        puts = [what[1] for what in told(pool.hosts["h0"].executor, Command.PUT)]
        assert puts == [first, second, third]

    with_hosts(play)


@pytest.mark.parametrize("phase", [Command.COORDINATE, Command.JOIN, Command.LOAD, Command.RESTORE, Command.PUT])
@pytest.mark.parametrize("agent", [False, True], ids=["executor", "host"])
def test_a_second_loss_may_come_at_any_time(phase, agent):
    async def play(pool):
        step = await pool.load()
        kept = pool.put(b"kept")
        await pool.snapshot()
        x = pool.put(b"x")
        y = pool.execute(step, kept, x)
        await pool.wait(y)
        pool.hold(phase)
        pool.hosts["h1"].end_executor()
        held = await pool.until_held(phase)
        victim = pool.hosts[held[-1].host.id]
        victim.die() if agent else victim.end_executor()
        await pool.until(lambda: len(pool.fences) == 3)
        pool.release(phase)
        change = await pool.recovered.get()
        if phase in (Command.LOAD, Command.PUT) and change.host == "h1":  # The first recovery had come to its end.
            change = await pool.recovered.get()
        assert change.host == victim.id
        assert await pool.read(y) == made_by(step, b"kept", b"x")
        assert await pool.read(pool.execute(step, y), 5) == made_by(step, made_by(step, b"kept", b"x"))
        assert pool.failures == []

    with_hosts(play)


def test_hosts_that_die_while_the_fence_goes_up_are_not_counted_on():
    async def play(pool):
        array = pool.put(b"x")
        fence = pool.run._worlds.fence

        async def slow_fence(generation):
            await fence(generation)
            if generation == 2:
                pool.hosts["h2"].die()

        pool.run._worlds.fence = slow_fence
        pool.hosts["h1"].die()
        await pool.recovered.get()
        assert pool.run.placement.hosts == ("h0",)
        assert await pool.read(array, 5) == b"x"

    with_hosts(play)


def test_all_executors_may_die_at_once():
    async def play(pool):
        x = pool.put(b"x")
        await pool.snapshot()
        y = pool.put(b"y")
        for host in pool.hosts.values():
            host.end_executor()
        await pool.recovered.get()
        assert [await pool.read(x, 5), await pool.read(y, 1)] == [b"x", b"y"]

    with_hosts(play)


def test_answers_of_a_lost_world_do_not_reach_the_client():
    async def play(pool):
        array = pool.put(b"x", (0, 2))
        pool.hold(Command.READ)
        reading = pool.read(array, 0)
        (old,) = await pool.until_held(Command.READ)
        request = pool.waiting[0][2][0]
        pool.hosts["h1"].die()
        old.answer(request, b"", b"from the dead")
        await pool.until_held(Command.READ)
        pool.release(Command.READ)
        assert await reading == b"x"

    with_hosts(play)


# The end of the account


def test_without_hosts_a_run_waits_for_one():
    async def play(pool):
        array = pool.put(b"x")
        for host in list(pool.hosts.values()):
            host.die()
        reading = pool.read(array)
        await pool.join("h7")
        assert await reading == b"x"
        assert pool.run.placement.hosts == ("h7",)
        assert pool.failures == []

    with_hosts(play)


def test_a_run_whose_arrays_are_gone_fails_with_the_arrays_and_the_host(caplog, tmp_path):
    async def play(pool):
        lost, other = pool.put(b"x", (0, 1)), pool.put(b"y", (4, 5))
        await pool.snapshot()
        path = tmp_path / "upload"
        path.touch()
        pool.put(b"z", file=str(path), file_bytes=1)
        pool.hold(Command.READ)
        reading = pool.read(lost)
        await pool.until_held(Command.READ)
        homes = [id for id, host in pool.hosts.items() if b"x" in host.memory.values()]
        assert len(homes) == 2
        for id in homes:
            pool.hosts[id].die()
        with pytest.raises(StatusError) as raised:
            await reading
        assert raised.value.code is Code.UNAVAILABLE
        assert "every copy of arrays" in raised.value.message
        assert str(lost) in raised.value.message
        (failure,) = pool.failures
        assert failure.host in homes
        assert not path.exists()
        # Nothing hangs, and nothing piles up.
        with pytest.raises(StatusError, match="every copy"):
            await pool.read(other)
        with pytest.raises(StatusError, match="every copy"):
            await pool.run.world()
        path.touch()
        pool.put(b"z", file=str(path), file_bytes=1)
        assert not path.exists()
        assert (len(pool.run._line.journal.entries), pool.run.congested) == (0, False)

    with_hosts(play, pause_s=0.001)
    assert [record for record in caplog.records if record.levelno >= logging.CRITICAL] == []


def test_hosts_get_more_and_more_time_to_have_memory_again():
    at = []

    async def play(pool):
        array, restore = pool.put(b"x"), pool.run._snapshots.restore

        async def restore_later(world):
            at.append(time.monotonic())
            if len(at) <= 3:
                raise SnapshotError("host h0 has no space for copies")
            await restore(world)

        pool.run._snapshots.restore = restore_later
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert await pool.read(array, 2) == b"x"

    with_hosts(play)
    pauses = [after - before for before, after in itertools.pairwise(at)]
    # On a busy machine each may take longer.
    assert all(pause > 0.99 * recovery._FIRST_PAUSE_S * 2**i for i, pause in enumerate(pauses))
    assert len(pauses) == 3


def test_a_world_that_cannot_be_formed_over_and_over_is_given_up(monkeypatch):
    monkeypatch.setattr(recovery, "_LONGEST_PAUSE_S", 0.001)

    async def play(pool):
        async def take_standby():
            raise PoolError("host h0: it has none")

        pool.hosts["h0"].take_standby = take_standby
        array = pool.put(b"x")
        pool.hosts["h1"].end_executor()
        with pytest.raises(StatusError, match="host h1 was lost"):
            await pool.read(array, 2)
        assert len(pool.failures) == 1

    with_hosts(play)


def test_a_host_that_can_have_no_executors_any_more_is_done_without():
    async def play(pool):
        array = pool.put(b"x")
        pool.hosts["h2"].failure = "executors cannot start here"
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert pool.run.placement.hosts == ("h0", "h1")
        assert await pool.read(array, 4) == b"x"

    with_hosts(play)


def test_what_a_client_had_is_not_told_again_when_it_has_left():
    async def play(pool):
        step = await pool.load()
        array = pool.put(b"x")
        await pool.snapshot()
        pool.execute(step, array)
        pool.leave()
        await pool.snapshot()
        assert all(host.memory == {} for host in pool.hosts.values())
        pool.hosts["h1"].die()
        await pool.recovered.get()
        assert told(pool.hosts["h0"].executor) == told(pool.hosts["h0"].executor, Command.LOAD) == []
        assert await pool.read(pool.put(b"y"), 3) == b"y"

    with_hosts(play)


def test_a_client_that_leaves_while_a_world_is_given_its_arrays_leaves_nothing_there():
    async def play(pool):
        pool.put(b"x")
        await pool.snapshot()
        pool.hold(Command.RESTORE)
        pool.hosts["h1"].die()
        await pool.until_held(Command.RESTORE, 2)
        pool.leave()
        pool.release(Command.RESTORE)
        await pool.recovered.get()
        assert [host.executor.arrays for host in pool.hosts.values()] == [{}, {}]

    with_hosts(play)


def test_a_snapshot_of_a_client_that_left_meanwhile_does_not_count():
    async def play(pool):
        pool.put(b"x")
        pool.hold(Command.SNAPSHOT)
        taking = asyncio.create_task(pool.snapshot())
        await pool.until_held(Command.SNAPSHOT, 3)
        pool.leave()
        pool.release(Command.SNAPSHOT)
        await taking
        assert pool.run._snapshots.committed.records == {}

    with_hosts(play)


# Programs


def test_programs_are_loaded_again_and_compiled_once():
    async def play(pool):
        first, second = await pool.load(b"first"), await pool.load(b"second")
        x = pool.put(b"x")
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert await pool.read(pool.execute(second, pool.execute(first, x))) == made_by(second, made_by(first, b"x"))
        for host in pool.hosts.values():
            assert set(host.executor.programs) == {first, second}
            assert told(host.executor, Command.COMPILE) == []

    with_hosts(play)


def test_a_program_that_was_given_back_is_loaded_for_as_long_as_it_is_replayed():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        pool.unload(step)
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert await pool.read(y) == made_by(step, b"x")
        assert told(pool.hosts["h0"].executor, Command.LOAD) != []
        await pool.snapshot()
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert await pool.read(y) == made_by(step, b"x")
        assert told(pool.hosts["h0"].executor, Command.LOAD) == []

    with_hosts(play)


@pytest.mark.parametrize("phase", [Command.COMPILE, Command.LOAD])
@pytest.mark.parametrize("change", ["loss", "move"])
def test_a_program_that_is_being_compiled_when_its_world_goes_is_compiled_by_the_next(phase, change):
    async def play(pool):
        source = Source(b"step", b"options", pool.everywhere, 1)
        session = SimpleNamespace(run=pool.run, new_number=lambda: next(pool.numbers))
        pool.hold(phase)
        compiling = asyncio.create_task(load_for_a_session(session, source))
        await pool.until_held(phase)
        if change == "loss":
            pool.hosts["h0"].end_executor()
        else:
            await pool.join("h3")
        await pool.until(lambda: len(pool.fences) == 2)
        pool.release(phase)
        program = await compiling
        assert await pool.read(pool.execute(program.number, pool.put(b"x"))) == made_by(program.number, b"x")

    with_hosts(play, pause_s=0.001)


def test_a_program_that_ends_worlds_by_itself_becomes_an_error_of_its_results():
    async def play(pool):
        step, fatal = await pool.load(b"step"), await pool.load(b"fatal")
        x = pool.put(b"x")
        y = pool.execute(step, x)
        execute = PlayedExecutor._execute

        def execute_or_die(executor, program, *rest):
            if program == fatal and executor.host.id == "h0":
                executor.host.end_executor(ABORTED)
            else:
                execute(executor, program, *rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PlayedExecutor, "_execute", execute_or_die)
            bad = pool.execute(fatal, x)
            with pytest.raises(StatusError) as raised:
                await pool.read(bad)
        assert raised.value.code is Code.INTERNAL
        assert "SIGABRT" in raised.value.message
        assert await pool.read(y) == made_by(step, b"x")
        assert pool.failures == []

    with_hosts(play)
