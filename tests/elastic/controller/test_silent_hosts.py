"""Hosts of which nothing is heard: they may stand still or be cut off, and come back with all that they held."""

import pytest

from elastic.controller import recovery
from tests.elastic.controller.played import with_hosts


async def lost_with(pool):
    """An array of which all copies are on hosts that fall silent at once; the array, and the hosts."""
    array = pool.put(b"kept", devices=(0,))
    await pool.snapshot()
    [holders] = pool.run._snapshots.committed.homes.values()
    assert len(holders) == 2
    return array, [pool.hosts[id] for id in sorted(holders)]


def test_they_are_waited_for_if_nobody_else_has_what_they_hold():
    async def play(pool):
        array, [first, second] = await lost_with(pool)
        first.fall_silent()
        second.fall_silent()
        reading = pool.read(array)
        await pool.until(lambda: pool.waits)
        why = f"every copy of arrays {array} is lost: too many hosts died at once"
        assert pool.waits[0][2] == f"{why}; {first.id} and {second.id} may come back with them"
        assert not reading.done()
        await pool.join("h9")  # It has nothing, so the wait goes on.
        await pool.join(second.id, memory=second.memory)
        assert await reading == b"kept"
        assert pool.failures == []

    with_hosts(play)


def test_who_died_is_not_waited_for_if_another_suffices():
    async def play(pool):
        array, [first, second] = await lost_with(pool)
        first.die()
        second.fall_silent()
        reading = pool.read(array)
        await pool.until(lambda: pool.waits)
        assert pool.waits[-1][2].endswith(f"; {second.id} may come back with them")
        await pool.join(second.id, memory=second.memory)
        assert await reading == b"kept"

    with_hosts(play)


def test_the_run_ends_when_they_have_come_back_with_nothing():
    async def play(pool):
        _, [first, second] = await lost_with(pool)
        first.fall_silent()
        second.fall_silent()
        await pool.until(lambda: pool.waits)
        await pool.join(first.id)
        await pool.join(second.id)
        await pool.until(lambda: pool.failures)
        assert pool.failures[0].why_not.endswith("too many hosts died at once")

    with_hosts(play)


def test_the_run_ends_when_they_stay_away(monkeypatch):
    async def play(pool):
        _, [first, second] = await lost_with(pool)
        first.fall_silent()
        second.fall_silent()
        await pool.until(lambda: pool.failures)
        assert len(pool.waits) == 1
        assert pool.failures[0].why_not.endswith("too many hosts died at once")

    monkeypatch.setattr(recovery, "_RETURN_S", 0.2)
    with_hosts(play)


def test_they_are_not_waited_for_if_others_have_it_all():
    async def play(pool):
        array, [first, _] = await lost_with(pool)
        first.fall_silent()
        assert await pool.read(array) == b"kept"
        assert pool.waits == []

    with_hosts(play)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_that_comes_back_at_once_is_not_missed(order):
    """It has come while a world was formed in vain without it."""

    async def play(pool):
        array, holders = await lost_with(pool)
        for host in holders:
            host.fall_silent()
        back = holders[order[0]]
        await pool.join(back.id, memory=back.memory)
        assert await pool.read(array) == b"kept"

    with_hosts(play)
