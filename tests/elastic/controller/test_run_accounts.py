"""What a run tells of its time: the events by which its accounts are kept."""

import asyncio
import time

import pytest

from elastic.commands import Command
from elastic.controller import history
from elastic.controller.ledger import KINDS, Ledger
from tests.elastic.controller.played import with_hosts


@pytest.fixture
def told():
    """All events of the ledger that are told while a test runs."""
    events = []
    stop = history.listen(events.append, KINDS)
    yield events
    stop()


def kinds(events, *wanted):
    return [event.kind for event in events if event.kind in wanted]


def test_a_run_knows_since_when_its_client_asks_for_nothing(told):
    async def play(pool):
        x = pool.put(b"x")
        assert pool.run.waiting_since is None
        await pool.read(x)
        assert pool.run.waiting_since is not None
        pool.put(b"y")
        assert pool.run.waiting_since is None

    with_hosts(play)


def test_a_snapshot_is_told_with_what_it_holds_and_how_long_it_held_the_run_up(told):
    async def play(pool):
        pool.saving_s = 0.25
        pool.put(b"four", (0, 1))
        await pool.snapshot()

    with_hosts(play)
    [saved] = [event for event in told if event.kind == "saved"]
    assert saved["bytes"] == 4
    assert saved["seconds"] > 0


def test_a_compilation_is_told_when_it_begins_and_when_it_ends(told):
    async def play(pool):
        await pool.load()

    with_hosts(play)
    assert kinds(told, "compiling", "compiled") == ["compiling", "compiled"]


def test_a_death_in_the_snapshot_with_which_a_move_begins_is_told_as_a_loss(told):
    async def play(pool):
        pool.put(b"x")
        pool.hosts["h1"].die()
        await pool.recovered.get()
        await pool.join("h3")
        pool.hold(Command.SNAPSHOT)
        moving = asyncio.create_task(pool.run._saving._move(await pool.run.world()))
        await pool.until_held(Command.SNAPSHOT)
        pool.hosts["h2"].die()
        await moving

    with_hosts(play)
    assert [(event.kind, event["host"]) for event in told if event.kind in ("lost", "moving")] == [
        ("lost", "h1"),
        ("moving", "h3"),
        ("lost", "h2"),
    ]


def test_the_time_of_a_loss_is_booked_as_its_recovery_says(told):
    began = time.monotonic()
    changes = []

    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.read(x)
        pool.hosts["h1"].die()
        changes.append(await pool.recovered.get())
        # The launcher's word of it is the history's, too.
        history.tell("recovered", kind="lost", phases=changes[0].phases, operations_replayed=1)
        await pool.read(pool.execute(step, x))

    with_hosts(play)
    ended = time.monotonic()
    ledger = Ledger(began)
    for event in told:
        ledger.feed(event)
    seconds = ledger.seconds(ended)
    assert sum(seconds.values()) == pytest.approx(ended - began, abs=1e-5)
    assert seconds["restore"] == pytest.approx(changes[0].phases["restore"], abs=1e-3)
    assert seconds["world"] + seconds["fence"] > 0
