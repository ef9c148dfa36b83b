"""Snapshots of a run, and hosts that come and go."""

import asyncio

import pytest

from elastic.commands import Command
from elastic.controller import line
from elastic.controller.snapshots import SnapshotError
from elastic.controller.world import WorldLost
from elastic.status import StatusError
from tests.elastic.controller.played import made_by, told, with_hosts

# Snapshots


def test_after_a_snapshot_less_is_told_again():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        await pool.snapshot()
        z = pool.execute(step, y)
        pool.hosts["h1"].end_executor()
        assert (await pool.recovered.get()).operations_replayed == 1
        assert await pool.read(z, 3) == made_by(step, made_by(step, b"x"))
        assert told(pool.hosts["h0"].executor) == [(Command.EXECUTE, step, [y], [z], [], 0)]

    with_hosts(play)


def test_a_snapshot_is_taken_when_there_is_something_new_and_only_then():
    async def play(pool):
        def taken():
            return len(told(pool.hosts["h0"].executor, Command.SNAPSHOT))

        pool.put(b"x")
        await pool.until(lambda: pool.hosts["h0"].kept)
        before = taken()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert taken() == before
        pool.put(b"y")
        await pool.until(lambda: taken() > before)

    with_hosts(play, pause_s=0.001)


def test_a_snapshot_is_due_at_once_when_the_journal_is_large(monkeypatch):
    async def play(pool):
        pool.saving_s = 1e6  # By the budget the next one would be due in a year.
        pool.put(b"x")
        await pool.until(lambda: pool.hosts["h0"].kept)
        large = pool.put(bytes(1000))
        await pool.until(lambda: len(pool.hosts["h0"].kept) == 2)
        assert pool.run._line.journal.nbytes < 1000
        assert len(await pool.read(large)) == 1000

    monkeypatch.setattr(line, "_LARGE", 1000)
    with_hosts(play, pause_s=0.001)


def test_no_more_is_taken_from_the_client_while_the_journal_is_full(monkeypatch):
    async def play(pool):
        heard = []
        pool.run.on_congestion = lambda: heard.append(pool.run.congested)
        pool.put(bytes(500))
        assert (heard, pool.run.congested) == ([], False)
        pool.put(bytes(1000))
        assert heard == [True]
        pool.hold(Command.JOIN)
        pool.hosts["h1"].end_executor()
        await pool.until_held(Command.JOIN, 3)
        assert pool.run.congested  # It would grow without bounds while there is no world.
        pool.release(Command.JOIN)
        await pool.recovered.get()
        await pool.snapshot()
        assert (heard[-1], pool.run.congested) == (False, False)

    monkeypatch.setattr(line, "_FULL", 1000)
    with_hosts(play)


@pytest.mark.parametrize("who", ["that-saves", "that-gets-a-copy"])
def test_a_snapshot_that_fails_leaves_the_one_before_and_the_journal(who):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x", (0, 1))
        y = pool.put(b"y", (0, 1))
        await pool.snapshot()
        x2 = pool.put(b"x2", (0, 1))
        pool.free(x)
        for id, host in pool.hosts.items():
            host.full = (id == "h0") == (who == "that-saves")
        with pytest.raises(SnapshotError):
            await pool.snapshot()
        for host in pool.hosts.values():
            host.full = False
        pool.hosts["h0"].die()
        await pool.recovered.get()
        assert [await pool.read(array) for array in (y, x2)] == [b"y", b"x2"]
        with pytest.raises(StatusError, match=f"array {x} is not"):
            await pool.read(x)
        await pool.snapshot()
        assert step

    with_hosts(play)


def test_health_says_why_there_is_no_newer_snapshot_until_there_is_one():
    async def play(pool):
        pool.put(b"x")
        pool.hosts["h0"].full = True
        with pytest.raises(SnapshotError):
            await pool.snapshot()
        problem = pool.run._snapshots.facts(0.0).problem
        assert problem.startswith("the arrays could not be saved: host h0 could not save its arrays")
        pool.hosts["h0"].full = False
        await pool.snapshot()
        assert pool.run._snapshots.facts(0.0).problem == ""

    with_hosts(play)


def test_a_failed_snapshot_takes_no_memory_from_the_next():
    async def play(pool):
        x = pool.put(b"x", (0, 1))
        pool.hosts["h1"].full = pool.hosts["h2"].full = True
        with pytest.raises(SnapshotError):
            await pool.snapshot()
        assert all(host.memory == {} for host in pool.hosts.values())
        pool.hosts["h1"].full = pool.hosts["h2"].full = False
        await pool.snapshot()
        pool.hosts["h0"].die()
        assert await pool.read(x) == b"x"

    with_hosts(play)


def test_what_is_tidied_meanwhile_takes_nothing_from_a_snapshot_that_is_being_taken():
    async def play(pool):
        x = pool.put(b"x", (0, 1))
        pool.hosts["h0"].sends.clear()
        taking = asyncio.create_task(pool.snapshot())
        await pool.until(lambda: pool.copied)
        await pool.run._snapshots.tidy()
        pool.hosts["h0"].sends.set()
        await taking
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert await pool.read(x) == b"x"
        assert b"x" in pool.hosts["h0"].memory.values()

    with_hosts(play)


def test_a_snapshot_waits_for_the_answers_to_what_was_asked_before():
    """Else nobody would ask again."""

    async def play(pool):
        x = pool.put(b"x")
        pool.hold(Command.READ)
        reading = pool.read(x)
        (executor,) = await pool.until_held(Command.READ)
        taking = asyncio.create_task(pool.snapshot())
        await pool.until(lambda: told(pool.hosts["h1"].executor, Command.SNAPSHOT))
        executor.host.end_executor()
        with pytest.raises(WorldLost):
            await taking
        pool.release(Command.READ)
        assert await reading == b"x"

    with_hosts(play)


def test_a_snapshot_that_is_copied_while_its_world_is_lost_does_not_count():
    """The next world is made of the one before, and told what came behind that."""

    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.snapshot()
        y = pool.execute(step, x)
        w = pool.put(b"w", (0, 1))
        pool.hosts["h0"].sends.clear()
        taking = asyncio.create_task(pool.snapshot())
        await pool.until(lambda: ("h0", "h1", 1) in pool.copied or ("h0", "h2", 1) in pool.copied)
        pool.hold(Command.RESTORE)
        pool.hosts["h1"].end_executor()
        await pool.until_held(Command.RESTORE, 3)
        pool.hosts["h0"].sends.set()
        with pytest.raises(WorldLost):
            await taking
        pool.release(Command.RESTORE)
        assert (await pool.recovered.get()).operations_replayed == 2
        assert await pool.read(y, 4) == made_by(step, b"x")
        assert await pool.read(w) == b"w"

    with_hosts(play)


def test_what_a_loss_left_with_one_home_gets_another_though_the_client_does_nothing():
    async def play(pool):
        x = pool.put(b"x", (0, 1))
        await pool.snapshot()
        (second,) = [id for id, host in pool.hosts.items() if host.memory and id != "h0"]
        pool.hosts[second].die()
        await pool.recovered.get()
        (third,) = set(pool.hosts) - {"h0"}
        await pool.until(lambda: pool.hosts[third].memory)
        pool.hosts["h0"].die()
        assert await pool.read(x) == b"x"

    with_hosts(play)


def test_what_a_spare_held_gets_another_home_when_it_is_gone():
    """Its loss is no loss to the world."""

    async def play(pool):
        x = pool.put(b"x", (0, 1))
        pool.run._worlds.moves.clear()
        await pool.snapshot()
        assert "h1" not in pool.run.placement.hosts
        assert pool.hosts["h1"].memory
        pool.hosts["h1"].die()
        # In the snapshot that counts: another may be on its way.
        await pool.until(lambda: all("h2" in homes for homes in pool.run._snapshots.committed.homes.values()))
        pool.hosts["h0"].die()
        assert await pool.read(x) == b"x"

    with_hosts(play, devices=2, pause_s=0.001)


# Hosts that come and go


def test_a_run_spreads_out_to_a_host_that_joins_and_replays_nothing():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        pool.hosts["h1"].die()
        await pool.recovered.get()
        await pool.join("h3")
        change = await pool.recovered.get()
        assert (change.kind, change.host, change.reason) == ("moved", "h3", "it joined")
        assert change.operations_replayed == 0
        assert set(pool.run.placement.hosts) == {"h0", "h2", "h3"}
        assert await pool.read(pool.execute(step, y), 2) == made_by(step, made_by(step, b"x"))
        assert pool.failures == []

    with_hosts(play, pause_s=0.001)


def test_a_death_while_hosts_change_is_told_as_one():
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        pool.hosts["h1"].die()
        await pool.recovered.get()
        pool.hold(Command.RESTORE)
        await pool.join("h3")
        await pool.until(lambda: any(command is Command.RESTORE for _, command, *_ in pool.waiting))
        pool.hosts["h2"].die()
        pool.release(Command.RESTORE)
        change = await pool.recovered.get()
        assert (change.kind, change.host) == ("lost", "h2")
        assert await pool.read(pool.execute(step, y), 2) == made_by(step, made_by(step, b"x"))
        assert pool.failures == []

    with_hosts(play, pause_s=0.001)


def test_a_host_that_drains_is_let_go_when_it_holds_nothing_any_more():
    async def play(pool):
        x = pool.put(b"x", (2, 3))
        pool.run.host_drains("h1", "it was told to leave")
        pool.run.host_drains("h1", "it was told to leave")
        change = await pool.recovered.get()
        assert (change.kind, change.host, change.reason) == ("moved", "h1", "it was told to leave")
        await pool.until(lambda: pool.let_go)
        assert pool.let_go == ["h1"]
        assert "h1" not in pool.run.placement.hosts
        assert sum(b"x" in host.memory.values() for id, host in pool.hosts.items() if id != "h1") == 2
        pool.hosts["h1"].die()
        assert await pool.read(x, 3) == b"x"
        assert pool.recovered.empty()

    with_hosts(play, pause_s=0.001)


@pytest.mark.parametrize("phase", [Command.SNAPSHOT, Command.JOIN, Command.RESTORE])
@pytest.mark.parametrize("victim", ["h0", "h3"])
def test_a_loss_during_a_move_is_a_loss_like_any_other(phase, victim):
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        await pool.wait(y)
        pool.hold(phase)
        await pool.join("h3")
        await pool.until_held(phase)
        pool.hosts[victim].die()
        z = pool.execute(step, y)
        reading = pool.read(z, 5)
        pool.release(phase)
        await pool.recovered.get()
        assert await reading == made_by(step, made_by(step, b"x"))
        assert victim not in pool.run.placement.hosts
        assert pool.failures == []

    with_hosts(play, devices=8, pause_s=0.001)


def test_the_last_question_before_a_move_is_answered_by_the_world_that_was_asked():
    async def play(pool):
        x = pool.put(b"x")
        pool.hold(Command.READ)
        reading = pool.read(x)
        await pool.until_held(Command.READ)
        await pool.join("h3")
        pool.release(Command.READ)
        assert await reading == b"x"
        await pool.recovered.get()
        assert told(pool.hosts["h0"].executor, Command.READ) == []

    with_hosts(play, devices=8, pause_s=0.001)
