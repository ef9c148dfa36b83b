"""A world at work, and what becomes of it when a host is lost."""

import asyncio

import pytest

from elastic import wire
from elastic.commands import Command
from elastic.controller.hosts import Exit
from elastic.controller.world import WorldLost
from elastic.status import Code, StatusError
from tests.elastic.controller.stage import Answers, on_a_stage


def test_a_command_goes_to_the_owners_of_its_devices_in_order():
    async def play(stage, world, first, second):
        world.send((0, 3), Command.FREE, [[1]])
        world.send((1,), Command.FREE, [[2]])
        world.send((2, 3), Command.PUT, [0, 7], b"bytes")
        world.send((1, 0), Command.FREE, [[3]])
        assert [await first.got.get() for _ in range(3)] == [(Command.FREE, [n], b"") for n in (1, 2, 3)]
        assert await second.got.get() == (Command.FREE, [1], b"")
        assert await second.got.get() == (Command.PUT, 0, 7, b"bytes")
        await stage.until_idle()
        assert first.got.empty()
        assert second.got.empty()

    on_a_stage(play)


def test_a_request_to_one_host_gets_its_answer():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((2,), Command.READ, ["what"], answers.to("read"), b"with")
        command, request, *rest = await second.got.get()
        assert (command, rest) == (Command.READ, ["what", b"with"])
        second.answer(request, "result", b"payload")
        assert await answers.next() == ("read", None, "result", b"payload")
        assert first.got.empty()

    on_a_stage(play)


def test_a_request_to_several_hosts_is_answered_once_when_all_have_answered():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0, 3), Command.WAIT, [[1]], answers.to("all"))
        (_, request, *_), (_, same, *_) = await first.got.get(), await second.got.get()
        assert request == same
        second.answer(request)
        await stage.until_idle()
        assert answers.all == []
        first.answer(request)
        assert await answers.next() == ("all", None, None, b"")
        await stage.until_idle()
        assert answers.all == []

    on_a_stage(play)


def test_of_several_errors_the_first_is_the_answer_and_it_is_given_once():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0, 2), Command.WAIT, [[1]], answers.to("all"))
        (_, request, *_), _ = await first.got.get(), await second.got.get()
        second.answer(request, "it broke here", code=13)
        await stage.until_idle()
        assert answers.all == []  # The other host has not answered.
        first.answer(request, "and there", code=3)
        _, error, *_ = await answers.next()
        assert (error.code, error.message) == (Code.INTERNAL, "it broke here")
        await stage.until_idle()
        assert answers.all == []

    on_a_stage(play)


def test_one_error_among_results_is_the_answer():
    async def play(stage, world, first, second):
        call = asyncio.create_task(world.call((0, 1, 2, 3), Command.TEXT, [7]))
        (_, request, *_), _ = await first.got.get(), await second.got.get()
        first.answer(request, "text")
        second.answer(request, "no such program", code=5)
        with pytest.raises(StatusError, match="no such program") as raised:
            await call
        assert raised.value.code is Code.NOT_FOUND

    on_a_stage(play)


def test_requests_are_told_apart_whatever_the_order_of_their_answers():
    async def play(stage, world, first, second):
        calls = [asyncio.create_task(world.call((device,), Command.READ, [device])) for device in (0, 1, 0)]
        requests = [(await first.got.get())[1] for _ in calls]
        assert len(set(requests)) == 3
        for number in (2, 0, 1):
            first.answer(requests[number], number, bytes([number]))
        assert [(result, bytes(payload)) for result, payload in await asyncio.gather(*calls)] == [
            (0, b"\0"),
            (1, b"\1"),
            (2, b"\2"),
        ]

    on_a_stage(play)


def test_a_request_that_concerns_nobody_is_answered_at_once():
    async def play(stage, world, *_):
        answers = Answers()
        world.ask((), Command.WAIT, [[]], answers.to("nobody"))
        assert answers.all == [("nobody", None, None, b"")]

    on_a_stage(play)


@pytest.mark.parametrize("device", [4, 99, -1])
def test_a_device_that_does_not_exist_is_an_invalid_argument(device):
    async def play(stage, world, *_):
        for work in (
            lambda: world.send((0, device), Command.FREE, [[1]]),
            lambda: world.ask((0, device), Command.WAIT, [[1]], lambda *_: None),
            lambda: world.one_per_host((0, device)),
        ):
            with pytest.raises(StatusError) as raised:
                work()
            assert raised.value.code is Code.INVALID_ARGUMENT

    on_a_stage(play)


def test_one_device_stands_for_each_host_in_the_order_asked():
    async def play(stage, world, *_):
        assert world.one_per_host((5, 4, 0, 1)) == [5, 0]
        assert world.one_per_host((2,)) == [2]
        assert world.one_per_host(()) == []

    on_a_stage(play, hosts=3)


# The loss of a host


def test_a_lost_host_answers_everything_that_waits_with_its_name():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0,), Command.READ, [1], answers.to("read"))
        world.ask((0, 2), Command.WAIT, [[1]], answers.to("wait"))
        await first.got.get()
        _, request, *_ = await first.got.get()
        first.answer(request, "a neighbour's collective failed", code=13)
        await stage.until_idle()
        world.lost("h1", "its agent is gone")
        assert [name for name, *_ in answers.all] == ["read", "wait"]
        for _, error, *_ in answers.all:
            assert error.code is Code.UNAVAILABLE
            assert "h1" in error.message
            assert "its agent is gone" in error.message
        assert [(failure.host, failure.reason) for failure in stage.failures] == [("h1", "its agent is gone")]
        assert world.failure is stage.failures[0]

    on_a_stage(play)


def test_answers_that_come_after_the_loss_are_ignored():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0,), Command.READ, [1], answers.to("read"))
        _, request, *_ = await first.got.get()
        world.lost("h1", "gone")
        assert len(answers.all) == 1
        first.answer(request, "late")
        first.answer(request + 1000, "never asked")
        first.connection.drop()
        await asyncio.wait_for(first.task, None)
        assert len(answers.all) == 1
        assert len(stage.failures) == 1

    on_a_stage(play)


def test_whatever_is_asked_after_the_loss_is_answered_at_once_and_nothing_is_sent():
    async def play(stage, world, first, second):
        answers = Answers()
        world.lost("h1", "gone")
        world.send((0, 1), Command.FREE, [[1]])
        world.ask((0,), Command.READ, [1], answers.to("read"))
        for _ in range(3):  # What was sent would leave now.
            await asyncio.sleep(0)
        (_, error, *_) = answers.all[0]
        assert (error.code, "h1" in error.message) == (Code.UNAVAILABLE, True)
        with pytest.raises(StatusError, match="h1"):
            await world.call((0,), Command.READ, [1])
        world.close()
        assert await first.got.get() is None  # The end of the stream; no command came before it.

    on_a_stage(play)


def test_only_the_first_loss_counts():
    async def play(stage, world, *_):
        world.lost("h1", "gone")
        world.lost("h0", "gone too")
        assert [failure.host for failure in stage.failures] == ["h1"]

    on_a_stage(play)


def test_an_executor_whose_stream_ends_is_a_lost_host_and_its_agent_says_why():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0,), Command.READ, [1], answers.to("read"))
        second.connection.drop()
        stage.hosts["h1"].exit.set_result(Exit("was killed by SIGKILL", by_itself=False))
        _, error, *_ = await answers.next()
        assert error.code is Code.UNAVAILABLE
        assert "h1" in error.message
        assert "101" in error.message
        assert "was killed by SIGKILL" in error.message
        assert len(stage.failures) == 1

    on_a_stage(play)


def test_an_executor_whose_agent_says_nothing_is_lost_all_the_same():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0,), Command.READ, [1], answers.to("read"))
        second.connection.drop()
        _, error, *_ = await answers.next()
        assert (error.code, "h1" in error.message) == (Code.UNAVAILABLE, True)

    on_a_stage(play)


def test_an_executor_that_sends_something_else_than_frames_is_a_lost_host():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0,), Command.READ, [1], answers.to("read"))
        second.connection.write_raw(b"\xff" * 100)
        _, error, *_ = await answers.next()
        assert "h1" in error.message

    on_a_stage(play)


def test_an_error_is_held_back_until_every_host_has_shown_that_it_lives():
    """A host that dies breaks the collectives of its neighbours, whose errors may come first."""

    async def play(stage, world, first, second):
        answers = Answers()
        second.answers_pings = False
        world.ask((0,), Command.WAIT, [[1]], answers.to("wait"))
        _, request, *_ = await first.got.get()
        first.answer(request, "Gloo all-reduce failed: Connection closed by peer", code=13)
        assert (await second.got.get())[0] == Command.PING
        assert answers.all == []
        second.connection.drop()
        _, error, *_ = await answers.next()
        assert (error.code, "h1" in error.message) == (Code.UNAVAILABLE, True)

    on_a_stage(play)


def test_a_closed_world_kills_its_executors_and_calls_it_no_failure():
    async def play(stage, world, first, second):
        answers = Answers()
        world.close()
        assert [host.killed for host in stage.hosts.values()] == [[100], [101]]
        assert await first.got.get() is None
        assert await second.got.get() is None
        world.ask((0,), Command.READ, [1], answers.to("read"))
        assert answers.all[0][1].code is Code.UNAVAILABLE
        assert stage.failures == []

    on_a_stage(play)


def test_hosts_of_other_machines_get_another_form_of_a_command():
    async def play(stage, world, first, second):
        stage.hosts["h1"].far = True
        header = wire.frame_header((Command.FREE, [1]), 0)
        asked = []

        def far():
            asked.append(True)
            return wire.frame_header((Command.FREE, [2]), 3), b"abc"

        world.post((0, 1, 2, 3), header, far=far)
        assert await first.got.get() == (Command.FREE, [1], b"")
        assert await second.got.get() == (Command.FREE, [2], b"abc")
        world.post((0, 1), header, far=far)
        assert await first.got.get() == (Command.FREE, [1], b"")
        assert asked == [True]

    on_a_stage(play)


def test_a_closed_world_answers_everything_that_waits():
    async def play(stage, world, first, second):
        answers = Answers()
        world.ask((0,), Command.READ, [1], answers.to("read"))
        calling = asyncio.create_task(world.call((1,), Command.COMPILE, [7]))
        asking = asyncio.create_task(world.call_each(Command.SNAPSHOT, lambda _: [1]))
        await first.got.get()
        await until_idle(3)
        world.close()
        assert isinstance(answers.all[0][1], WorldLost)
        for task in (calling, asking):
            with pytest.raises(WorldLost, match="closed"):
                await task
        assert stage.failures == []

    on_a_stage(play)


def test_every_host_is_asked_at_once_with_arguments_of_its_own():
    async def play(stage, world, first, second):
        asking = asyncio.create_task(world.call_each(Command.RESTORE, lambda host: [1, host]))
        (_, one, *rest), (_, two, *others) = await first.got.get(), await second.got.get()
        assert (rest[:2], others[:2]) == ([1, "h0"], [1, "h1"])
        second.answer(two, "no memory", code=8)
        first.answer(one, ["bad"])
        answers = await asking
        assert answers["h0"] == ["bad"]
        assert (answers["h1"].code, answers["h1"].message) == (Code.RESOURCE_EXHAUSTED, "no memory")

    on_a_stage(play)


def test_a_world_that_is_lost_answers_no_host_in_particular():
    async def play(stage, world, first, second):
        asking = asyncio.create_task(world.call_each(Command.SNAPSHOT, lambda _: [1]))
        (_, request, *_) = await first.got.get()
        first.answer(request, {"records": []})
        await second.got.get()
        world.lost("h1", "gone")
        with pytest.raises(WorldLost, match="h1"):
            await asking
        with pytest.raises(WorldLost, match="h1"):
            await world.call_each(Command.SNAPSHOT, lambda _: [1])

    on_a_stage(play)


def test_what_an_executor_still_calls_when_its_world_is_lost_reaches_nobody():
    """The next world makes the same call."""

    async def play(stage, world, first, second):
        called, heard = [], asyncio.Event()
        world.callbacks.called = lambda *call: (called.append(call), heard.set())
        callbacks = stage.callbacks[0]
        callbacks.write([1, 3, [], None, 0])
        await heard.wait()
        for _ in range(2):
            callbacks.write([2, 3, [], None, 0])
        world.lost("h1", "gone")
        await stage.until_idle()
        world.close()
        assert await callbacks.until_gone() == []
        assert [message[0] for _, message, _ in called] == [1]

    on_a_stage(play)


async def until_idle(turns):
    for _ in range(turns):
        await asyncio.sleep(0)
