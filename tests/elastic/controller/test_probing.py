"""A run whose hosts do not all reach each other, though the controller hears them all."""

import time

import pytest

from elastic.commands import Command
from elastic.controller import probing
from elastic.controller.placement import Policy
from elastic.controller.status_report import About
from elastic.controller.worlds import BY_PROBES
from tests.elastic.controller.played import made_by, with_hosts

OFTEN_S = 0.01


@pytest.fixture
def hasty(monkeypatch):
    """Looks without delay."""
    monkeypatch.setattr(probing, "_LOOK_S", 0.005)
    monkeypatch.setattr(probing, "_OVERDUE_S", 0.02)
    monkeypatch.setattr(probing, "_EVERY_S", 0.01)


def cut(pool, id):
    """From now on the host does not reach the others, nor they it."""
    for other in pool.hosts.values():
        if other.id != id:
            other.cut_off_from.add(id)
            pool.hosts[id].cut_off_from.add(other.id)


def heal(pool, id):
    pool.hosts[id].cut_off_from.clear()
    for other in pool.hosts.values():
        other.cut_off_from.discard(id)


def shown(pool, id):
    """(state, reason) of a host, as health tells it."""
    report = pool.run.report(About("r1", 77, len(pool.hosts), 0.0), time.monotonic())
    return next((host["state"], host["reason"]) for host in report["hosts"] if host["id"] == id)


async def stand_still(pool, array):
    """Has something asked of all hosts that nobody answers; the question."""
    pool.hold(Command.WAIT)
    question = pool.wait(array)
    await pool.until_held(Command.WAIT, len(pool.run.placement.hosts))
    return question


@pytest.mark.usefixtures("hasty")
def test_a_host_that_the_others_do_not_reach_is_done_without():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"bytes")
        question = await stand_still(pool, x)
        cut(pool, "h1")
        change = await pool.recovered.get()
        assert (change.kind, change.host, change.reason) == ("lost", "h1", "it is cut off from h0, h2")
        assert change.detected_by == BY_PROBES
        assert change.detect > 0
        assert set(pool.run.placement.hosts) == {"h0", "h2"}
        assert "h1 is cut off from h0, h2" in change.plan
        assert pool.hosts["h1"].executor.killed
        assert shown(pool, "h1") == ("unreachable", "it is cut off from h0, h2")
        pool.release(Command.WAIT)
        await question
        assert await pool.read(pool.execute(step, x)) == made_by(step, b"bytes")

    with_hosts(play)


@pytest.mark.usefixtures("hasty")
def test_one_way_that_is_lost_is_enough():
    async def play(pool):
        await stand_still(pool, pool.put(b"bytes"))
        pool.hosts["h0"].cut_off_from = {"h2"}
        assert (await pool.recovered.get()).reason == "it is cut off from h0"
        assert set(pool.run.placement.hosts) == {"h0", "h1"}

    with_hosts(play)


@pytest.mark.usefixtures("hasty")
def test_a_program_that_takes_its_time_is_left_alone():
    async def play(pool):
        question = await stand_still(pool, pool.put(b"bytes"))
        await pool.until(lambda: pool.probes >= 9)
        pool.release(Command.WAIT)
        await question
        assert pool.fences == [1]
        assert pool.recovered.empty()

    with_hosts(play)


def test_hosts_are_not_asked_while_questions_are_answered():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"bytes")
        for _ in range(20):
            x = pool.execute(step, x)
            await pool.read(x)
        assert pool.probes == 0

    with_hosts(play)


@pytest.mark.usefixtures("hasty")
def test_a_host_that_does_not_say_whom_it_reaches_is_not_judged():
    async def play(pool):
        await stand_still(pool, pool.put(b"bytes"))
        pool.hosts["h1"].silent = True
        cut(pool, "h1")
        before = pool.probes
        await pool.until(lambda: pool.probes >= before + 9)
        assert pool.fences == [1]
        pool.hosts["h1"].silent = False
        assert (await pool.recovered.get()).host == "h1"

    with_hosts(play)


@pytest.mark.usefixtures("hasty")
def test_it_takes_part_again_when_the_others_reach_it():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"bytes")
        await stand_still(pool, x)
        cut(pool, "h1")
        await pool.recovered.get()
        pool.release(Command.WAIT)
        before = pool.probes
        await pool.until(lambda: pool.probes >= before + 9)
        assert shown(pool, "h1")[0] == "unreachable"
        heal(pool, "h1")
        change = await pool.recovered.get()
        assert (change.kind, change.host) == ("moved", "h1")
        assert (change.reason, change.detected_by) == ("the other hosts reach it again", BY_PROBES)
        assert set(pool.run.placement.hosts) == {"h0", "h1", "h2"}
        assert shown(pool, "h1")[0] == "healthy"
        assert await pool.read(pool.execute(step, x), 3) == made_by(step, b"bytes")

    with_hosts(play, pause_s=OFTEN_S)


@pytest.mark.usefixtures("hasty")
def test_of_two_hosts_one_goes_on_and_the_other_is_used_when_that_one_dies():
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"bytes")
        await pool.snapshot()
        await stand_still(pool, x)
        cut(pool, "h1")
        assert (await pool.recovered.get()).host == "h1"
        pool.release(Command.WAIT)
        pool.hosts["h0"].die()
        assert (await pool.recovered.get()).host == "h0"
        assert pool.run.placement.hosts == ("h1",)
        assert await pool.read(pool.execute(step, x)) == made_by(step, b"bytes")
        assert pool.failures == []

    with_hosts(play, hosts=2, devices=4)


@pytest.mark.usefixtures("hasty")
def test_a_host_that_alone_holds_something_is_waited_for():
    async def play(pool):
        question = await stand_still(pool, pool.put(b"bytes"))
        pool.run._snapshots.survives = lambda without: "h1" not in without
        cut(pool, "h1")
        await pool.until(lambda: shown(pool, "h1")[0] == "unreachable")
        assert shown(pool, "h1")[1].startswith("cut off from h0, h2; the run stands still until it is reached again")
        heal(pool, "h1")
        await pool.until(lambda: shown(pool, "h1")[0] == "healthy")
        pool.release(Command.WAIT)
        await question
        assert pool.fences == [1]

    with_hosts(play)


@pytest.mark.usefixtures("hasty")
def test_a_world_that_cannot_be_formed_for_a_cut_is_formed_without():
    async def play(pool):
        x = pool.put(b"bytes")
        pool.hold(Command.JOIN)
        pool.hosts["h0"].end_executor()
        await pool.until_held(Command.JOIN, 3)
        cut(pool, "h2")
        await pool.until(lambda: shown(pool, "h2")[0] == "unreachable")
        pool.release(Command.JOIN)
        assert (await pool.recovered.get()).host == "h2"
        assert set(pool.run.placement.hosts) == {"h0", "h1"}
        assert await pool.read(x) == b"bytes"

    with_hosts(play)


@pytest.mark.usefixtures("hasty")
def test_a_run_that_may_not_share_devices_waits_until_the_host_is_reached_again():
    async def play(pool):
        x = pool.put(b"bytes")
        question = await stand_still(pool, x)
        cut(pool, "h1")
        await pool.until(lambda: pool.waits)
        assert "h1 is cut off from h0, h2" in pool.waits[0][2]
        heal(pool, "h1")
        await pool.recovered.get()
        pool.release(Command.WAIT)
        await question

    with_hosts(play, policy=Policy.WAIT)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("how", ["dies", "leaves"])
def test_a_host_that_goes_while_it_is_cut_off_disturbs_nobody(how):
    async def play(pool):
        x = pool.put(b"bytes")
        question = await stand_still(pool, x)
        cut(pool, "h1")
        await pool.recovered.get()
        if how == "dies":
            pool.hosts["h1"].die()
            assert shown(pool, "h1")[0] == "dead"
        else:
            pool.run.host_drains("h1", "it was told to leave")
            assert pool.let_go == ["h1"]
        pool.release(Command.WAIT)
        await question
        assert pool.fences == [1, 2]

    with_hosts(play)
