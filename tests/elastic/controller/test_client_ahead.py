"""Clients that send far more than hosts have computed: when they are held, and when they go on."""

import pytest

from elastic.commands import Command
from elastic.errors import HostLostError
from elastic.status import StatusError
from tests.elastic.controller.played import made_by, with_hosts
from tests.elastic.controller.played_link import PlayedLink


async def far_ahead(pool):
    """Has the client send what hosts do not tell to be over, until it is held; (program, what it gave last)."""
    step = await pool.load()
    x = pool.put(b"x")
    pool.hold(Command.FINISHED)
    while not pool.run.congested:
        y = pool.execute(step, x)
    return step, y


def test_no_more_is_taken_from_a_client_that_is_far_ahead_of_the_hosts_until_they_have_come_nearer():
    async def play(pool):
        pool.run.on_congestion = pool.happened
        step, y = await far_ahead(pool)
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        await pool.until_held(Command.FINISHED, 3)
        assert pool.run.congested
        pool.release(Command.FINISHED)
        await pool.until(lambda: not pool.run.congested)
        assert await pool.read(y) == made_by(step, b"x")

    with_hosts(play)


def test_programs_on_some_devices_do_not_wait_for_those_on_others():
    async def play(pool):
        pool.run.on_congestion = pool.happened
        step = await pool.load(devices=(0,)), await pool.load(devices=(1,))
        x = pool.put(b"x", (0,)), pool.put(b"x", (1,))
        pool.hold(Command.FINISHED)
        alone = 0
        while not pool.run.congested:
            pool.execute(step[0], x[0], devices=(0,))
            alone += 1
        pool.release(Command.FINISHED)
        await pool.until(lambda: not pool.run.congested)
        pool.hold(Command.FINISHED)
        for _ in range(alone - 1):
            pool.execute(step[1], x[1], devices=(1,))
        assert not pool.run.congested
        pool.execute(step[1], x[1], devices=(1,))
        assert pool.run.congested

    with_hosts(play)


def test_a_run_that_has_failed_holds_nobody():
    async def play(pool):
        _, y = await far_ahead(pool)
        pool.run._line.fail(HostLostError("h1", "its agent is gone"))
        assert not pool.run.congested
        with pytest.raises(StatusError, match="its agent is gone"):
            await pool.read(y)

    with_hosts(play)


def test_a_client_that_a_program_calls_is_listened_to_however_far_ahead_it_is():
    async def play(pool):
        client = PlayedLink()
        pool.run.callbacks.serve_client({"role": "callbacks"}, client)
        await far_ahead(pool)
        heard = []
        pool.run.on_congestion = lambda: heard.append(pool.run.congested)
        pool.run.callbacks.called(PlayedLink(), [1, 7, [], None, 0], b"")
        assert heard == [False]
        ((call, *_), _) = client.heard()[0]
        client.receive([call, 0, []], b"")
        assert heard == [False, True]

    with_hosts(play)


def test_the_next_client_does_not_wait_for_what_another_had_sent():
    async def play(pool):
        await far_ahead(pool)
        pool.leave()
        assert not pool.run.congested

    with_hosts(play)
