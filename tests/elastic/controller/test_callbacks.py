"""The way of callbacks between executors and the client."""

import asyncio
import os
import socket
import threading

import numpy as np
import pytest

from elastic import wire
from elastic.callbacks import CallbackClient
from elastic.controller.callbacks import CallbackSwitch
from elastic.door import Door
from elastic.executor.callbacks import Callbacks
from elastic.status import Code, StatusError
from tests.elastic.connections import PATIENCE, SECRET, run
from tests.elastic.controller.played_link import PlayedLink
from tests.elastic.daemon_threads import start

HELLO = {"role": "callbacks"}


@pytest.fixture
def switch():
    return CallbackSwitch()


@pytest.fixture
def executor():
    return PlayedLink()


def connected(switch):
    link = PlayedLink()
    switch.serve_client(HELLO, link)
    return link


@pytest.fixture
def client(switch):
    return connected(switch)


def call_of(client):
    """The number of the only call that the client got."""
    (((call, *_), _),) = client.heard()
    return call


def unavailable(call):
    return ([call, int(Code.UNAVAILABLE), "the client that holds this callback is gone"], b"")


def test_a_call_reaches_the_client_as_it_is_except_for_its_number(switch, client, executor):
    switch.called(executor, [5, 3, [["int8", [4]], None], [False, True], 0], b"1234")
    (((call, *rest), payload),) = client.heard()
    assert call > 0
    assert (rest, payload) == ([3, [["int8", [4]], None], [False, True]], b"1234")
    assert executor.heard() == []


@pytest.mark.parametrize(
    ("code", "result", "payload"), [(0, [["int8", [2]]], b"12"), (int(Code.INTERNAL), "Traceback", b"")]
)
def test_an_answer_reaches_the_caller_under_its_own_number(switch, client, executor, code, result, payload):
    switch.called(executor, [5, 3, [], None, 0], b"")
    client.receive([call_of(client), code, result], payload)
    assert executor.heard() == [([5, code, result], payload)]


def test_executors_may_use_the_same_numbers_and_be_answered_in_any_order(switch, client):
    executors = [PlayedLink() for _ in range(3)]
    for executor in executors:
        for call in (1, 2):
            switch.called(executor, [call, 9, [], None, 0], b"")
    calls = [message[0] for message, _ in client.heard()]
    assert len(set(calls)) == 6
    for place, call in reversed(list(enumerate(calls))):
        client.receive([call, 0, f"answer {place}"], b"")
    for place, executor in enumerate(executors):
        assert executor.heard() == [([2, 0, f"answer {2 * place + 1}"], b""), ([1, 0, f"answer {2 * place}"], b"")]


def test_an_answer_is_taken_once(switch, client, executor):
    switch.called(executor, [5, 3, [], None, 0], b"")
    call = call_of(client)
    client.receive([call, 0, []], b"")
    client.receive([call, 0, []], b"")
    client.receive([call + 1000, 0, []], b"")
    assert executor.heard() == [([5, 0, []], b"")]


def test_without_a_client_a_call_is_answered_with_unavailable(switch, executor):
    switch.called(executor, [5, 3, [], None, 0], b"")
    assert executor.heard() == [unavailable(5)]


def test_a_client_that_leaves_answers_all_that_wait_for_it(switch, client):
    executors = [PlayedLink(), PlayedLink()]
    for executor in executors:
        for call in (1, 2):
            switch.called(executor, [call, 9, [], None, 0], b"")
    answered, *_ = [message[0] for message, _ in client.heard()]
    client.receive([answered, 0, []], b"")
    client.leave()
    assert executors[0].heard() == [([1, 0, []], b""), unavailable(2)]
    assert executors[1].heard() == [unavailable(1), unavailable(2)]
    switch.called(executors[0], [3, 9, [], None, 0], b"")
    assert executors[0].heard() == [unavailable(3)]
    assert client.heard() == []


def test_a_new_client_replaces_the_old(switch, client, executor):
    switch.called(executor, [1, 9, [], None, 0], b"")
    old_call = call_of(client)
    new = connected(switch)
    assert executor.heard() == [unavailable(1)]
    switch.called(executor, [2, 9, [], None, 0], b"")
    assert client.heard() == []
    new_call = call_of(new)
    client.receive([old_call, 0, ["late"]], b"")
    assert executor.heard() == []
    new.receive([new_call, 0, []], b"")
    assert executor.heard() == [([2, 0, []], b"")]


def test_the_end_of_a_replaced_client_does_not_concern_the_new_one(switch, client, executor):
    new = connected(switch)
    switch.called(executor, [1, 9, [], None, 0], b"")
    client.leave()
    assert executor.heard() == []
    new.receive([call_of(new), 0, []], b"")
    assert executor.heard() == [([1, 0, []], b"")]


@pytest.mark.parametrize("hello", [{}, {"role": "peer"}, {"role": None}], ids=str)
def test_who_is_no_client_of_callbacks_is_turned_away_and_replaces_nobody(switch, client, executor, hello):
    stranger = PlayedLink()
    switch.serve_client(hello, stranger)
    assert stranger.closed
    switch.called(executor, [1, 9, [], None, 0], b"")
    assert stranger.heard() == []
    assert len(client.heard()) == 1


def test_the_client_is_told_what_to_forget_as_call_0(switch, client):
    switch.forget((3, 4))
    assert client.heard() == [([0, 0, [3, 4], None], b"")]


def test_without_a_client_there_is_nobody_to_forget(switch, client):
    client.leave()
    switch.forget([3, 4])
    assert client.heard() == []


def in_thread(work, *arguments):
    return asyncio.wrap_future(start(work, *arguments))


class Pool:
    """A switch that listens for clients, and executors that are linked to it, over real sockets."""

    def __init__(self, path):
        self.switch = CallbackSwitch()
        self.client = CallbackClient(f"unix:{path}", SECRET)
        self._path = path
        self._links = []

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(Door(SECRET, self.switch.serve_client), self._path)
        return self

    async def executor(self):
        """The callbacks of an executor whose link leads to the switch."""
        ours, theirs = socket.socketpair()
        callbacks = Callbacks()
        start(callbacks.serve, wire.Channel(theirs))
        ours.setblocking(False)
        link = wire.Link(lambda message, payload: self.switch.called(link, message, payload), lambda reason: None)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
        self._links.append(link)
        return callbacks

    async def add(self, *functions):
        return await in_thread(self.client.add, functions)

    async def __aexit__(self, *_):
        self._server.close()
        for link in self._links:
            link.close()


@pytest.fixture
def path(short_directory):
    return os.fspath(short_directory / "s")


def test_executors_call_functions_of_the_client_over_real_connections(path):
    async def main():
        async with Pool(path) as pool:
            executors = [await pool.executor() for _ in range(2)]
            plus, fail = await pool.add(lambda x, y: [x + y], lambda: 1 / 0)
            values = np.arange(1 << 15)
            results = await asyncio.gather(
                *(in_thread(executor.stub(plus), values, place) for place, executor in enumerate(executors))
            )
            for place, (result,) in enumerate(results):
                assert np.array_equal(result, values + place)
            for executor in executors:
                with pytest.raises(StatusError, match="ZeroDivisionError") as raised:
                    await in_thread(executor.stub(fail))
                assert raised.value.code is Code.INTERNAL

    run(main())


def test_calls_of_two_executors_that_wait_for_each_other_both_end(path):
    async def main():
        together = threading.Barrier(2, timeout=PATIENCE)

        def meet(x):
            together.wait()
            return [x]

        async with Pool(path) as pool:
            executors = [await pool.executor() for _ in range(2)]
            (number,) = await pool.add(meet)
            results = await asyncio.gather(
                *(in_thread(executor.stub(number), place) for place, executor in enumerate(executors))
            )
            assert [int(result) for (result,) in results] == [0, 1]

    run(main())


def test_a_client_that_dies_in_a_call_is_an_error_to_the_executor(path):
    async def main():
        async with Pool(path) as pool:
            executor = await pool.executor()
            called = asyncio.Event()
            pool.switch.serve_client(HELLO, client := PlayedLink())
            send = client.send
            client.send = lambda data: (send(data), called.set())
            calling = in_thread(executor.stub(1), 3)
            await called.wait()
            client.leave()
            with pytest.raises(StatusError, match="is gone") as raised:
                await calling
            assert raised.value.code is Code.UNAVAILABLE

    run(main())
