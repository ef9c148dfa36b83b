"""Hosts of which nothing is heard: they may stand still or be cut off, and come back with all that they held."""

from elastic.controller import recovery
from elastic.host_memory import digest_of
from tests.elastic.controller.played import with_hosts


async def lost_with(pool):
    """An array of which all copies are on hosts that fall silent at once; the array, and the hosts."""
    array = pool.put(b"kept", devices=(0,))
    await pool.snapshot()
    holders = pool.run._snapshots.committed.homes[digest_of(b"kept")]
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
        attempts = len(pool.fences)
        await pool.join("h9")  # It has nothing, so the wait goes on.
        await pool.until(lambda: len(pool.fences) > attempts)
        assert pool.run.awaited == [first.id, second.id]
        assert pool.failures == []
        await pool.join(second.id, memory=second.memory)
        assert await reading == b"kept"
        assert (pool.failures, len(pool.waits), pool.run.awaited) == ([], 1, ())

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


def test_one_that_is_cut_off_from_others_is_waited_for_too():
    async def play(pool):
        array, [first, second] = await lost_with(pool)
        worlds = pool.run._worlds
        worlds.cut(first.id, "cut off from h2", 0.0)
        second.die()
        reading = pool.read(array)
        await pool.until(lambda: pool.waits)
        assert pool.waits[-1][2].endswith(f"; {first.id} may come back with them")
        pool.run._snapshots.host_holds(first.id, list(first.memory))
        worlds.reached(first)
        assert await reading == b"kept"

    with_hosts(play)


def test_a_client_that_leaves_ends_the_wait():
    async def play(pool):
        _, [first, second] = await lost_with(pool)
        first.fall_silent()
        second.fall_silent()
        await pool.until(lambda: pool.waits)
        pool.leave()
        assert (await pool.recovered.get()).kind == "lost"

    with_hosts(play)


def test_while_they_are_waited_for_what_others_have_is_protected():
    async def play(pool):
        other = pool.put(b"other", devices=(4,))
        _, [first, second] = await lost_with(pool)
        first.fall_silent()
        second.fall_silent()
        await pool.join("h3")
        homes = pool.run._snapshots.committed.homes
        await pool.until(lambda: len({id for id in homes[digest_of(b"other")] if id in pool.hosts}) == 2)
        assert not pool.read(other).done()

    with_hosts(play)
