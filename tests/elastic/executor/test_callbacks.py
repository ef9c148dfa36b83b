"""Stubs in place of the client's functions, against a client that a test plays at the other end of a socket."""

import contextlib
import socket

import jax
import numpy as np
import pytest
from jax.experimental.buffer_callback import buffer_callback

from elastic import wire
from elastic.callback_values import pack, unpack
from elastic.executor.callbacks import Callbacks
from elastic.status import Code, StatusError
from tests.elastic.connections import PATIENCE
from tests.elastic.daemon_threads import start


class Client:
    """The other end: reads calls, and answers when the test says so."""

    def __init__(self, sock):
        sock.settimeout(PATIENCE)
        self._channel = wire.Channel(sock)
        self.snapshot = None
        """That the last call named."""

    def call(self):
        """The next (call, number, arguments, which may be written or None)."""
        (call, number, description, writeable, self.snapshot), payload = self._channel.receive()
        return call, number, unpack(description, payload), writeable

    def answer(self, call, *results):
        description, payload = pack(results)
        self._channel.send([call, 0, description], payload)

    def refuse(self, call, code, text):
        self._channel.send([call, int(code), text])

    def close(self):
        self._channel.close()


@pytest.fixture
def callbacks():
    return Callbacks()


@pytest.fixture
def connect(callbacks):
    """Connects the executor's callbacks with a client, which it returns."""
    with contextlib.ExitStack() as stack:

        def connect():
            ours, theirs = socket.socketpair()
            serving = start(callbacks.serve, wire.Channel(ours))
            client = Client(theirs)
            stack.callback(serving.result, PATIENCE)
            stack.callback(client.close)
            return client

        yield connect


@pytest.fixture
def client(connect):
    return connect()


def test_a_stub_sends_its_arguments_and_returns_what_the_client_answers(callbacks, client):
    calling = start(callbacks.stub(3), np.arange(3), np.array(True), None)
    call, number, (values, flag, token), writeable = client.call()
    assert (number, values.tolist(), flag.tolist(), token, writeable) == (3, [0, 1, 2], True, None, None)
    client.answer(call, np.float32([1.5, 2.5]), None)
    result, token = calling.result(PATIENCE)
    assert (result.dtype, result.tolist(), token) == (np.float32, [1.5, 2.5], None)


def test_a_call_says_which_snapshot_was_the_last_before_it(callbacks, client):
    for snapshot in (0, 5):
        callbacks.snapshot = snapshot
        calling = start(callbacks.stub(3))
        call, *_ = client.call()
        assert client.snapshot == snapshot
        client.answer(call)
        calling.result(PATIENCE)


def test_a_stub_may_take_and_return_nothing(callbacks, client):
    calling = start(callbacks.stub(3))
    call, number, arguments, writeable = client.call()
    assert (number, arguments, writeable) == (3, (), None)
    client.answer(call)
    assert calling.result(PATIENCE) == ()


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (1 << 18,)], ids=str)
def test_empty_and_large_arrays_go_both_ways(callbacks, client, shape):
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    calling = start(callbacks.stub(3), values)
    call, _, (got,), _ = client.call()
    assert np.array_equal(got, values)
    client.answer(call, got)
    (result,) = calling.result(PATIENCE)
    assert (result.dtype, result.shape) == (values.dtype, values.shape)
    assert np.array_equal(result, values)


@pytest.mark.parametrize("turn", [1, -1], ids=["in-order", "backwards"])
def test_calls_are_answered_in_any_order(callbacks, client, turn):
    calling = {number: start(callbacks.stub(number), number) for number in range(8)}
    calls = [client.call() for _ in calling]
    assert len({call for call, *_ in calls}) == len(calls)
    for call, number, (value,), _ in calls[::turn]:
        client.answer(call, value * 10 + number)
    assert {number: int(future.result(PATIENCE)[0]) for number, future in calling.items()} == {
        number: 11 * number for number in range(8)
    }


def test_one_stub_may_be_called_many_times_at_once(callbacks, client):
    stub = callbacks.stub(3)
    calling = [start(stub, value) for value in range(8)]
    for call, number, (value,), _ in [client.call() for _ in calling]:
        assert number == 3
        client.answer(call, value + 100)
    assert [int(future.result(PATIENCE)[0]) for future in calling] == list(range(100, 108))


def test_an_error_is_raised_with_its_code_and_text_and_concerns_one_call(callbacks, client):
    failing = start(callbacks.stub(1))
    call, *_ = client.call()
    working = start(callbacks.stub(2))
    other, *_ = client.call()
    client.refuse(call, Code.INTERNAL, "Traceback: by a test")
    error = failing.exception(PATIENCE)
    assert isinstance(error, StatusError)
    assert (error.code, error.message) == (Code.INTERNAL, "Traceback: by a test")
    assert not working.done()
    client.answer(other, 1)
    assert int(working.result(PATIENCE)[0]) == 1


def test_a_call_before_there_is_a_connection_waits_for_it(callbacks, connect):
    calling = start(callbacks.stub(3), 5)
    client = connect()
    call, number, (value,), _ = client.call()
    client.answer(call, value)
    assert (number, int(calling.result(PATIENCE)[0])) == (3, 5)


def test_serving_ends_with_the_connection(callbacks):
    ours, theirs = socket.socketpair()
    theirs.close()
    callbacks.serve(wire.Channel(ours))
    assert ours.fileno() == -1


def test_serving_ends_with_garbage(callbacks):
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b"\xff" * 100)
        with pytest.raises(wire.FrameError):
            callbacks.serve(wire.Channel(ours))
    assert ours.fileno() == -1


def through_xla(stub, x, *outs):
    """Has XLA call a stub as the function of a buffer callback; (results of that call, results of the program)."""
    returned = []

    def function(context, results, argument):
        returned.append(stub(context, argument, *results))

    shapes = tuple(jax.ShapeDtypeStruct(out.shape, out.dtype) for out in outs)
    program = jax.jit(buffer_callback(function, shapes))
    with jax.default_device(jax.devices("cpu")[0]):
        results = [np.asarray(result) for result in program(x)]
    return returned, results


def test_what_a_buffer_callback_wrote_is_put_into_the_buffers_of_xla(callbacks, client):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    running = start(through_xla, callbacks.stub(3), x, np.zeros((2, 3), np.float32), np.zeros(4, np.int32))
    call, number, arguments, writeable = client.call()
    assert (number, writeable) == (3, [False, True, True])
    assert np.array_equal(arguments[0], x)
    assert [(array.dtype, array.shape) for array in arguments[1:]] == [(np.float32, (2, 3)), (np.int32, (4,))]
    client.answer(call, x * 2, np.int32([5, 6, 7, 8]))
    returned, (first, second) = running.result(PATIENCE)
    assert returned == [()]
    assert np.array_equal(first, x * 2)
    assert second.tolist() == [5, 6, 7, 8]


def test_an_error_of_a_buffer_callback_is_an_error_of_the_program(callbacks, client):
    running = start(through_xla, callbacks.stub(3), np.ones(2, np.float32), np.zeros(2, np.float32))
    call, *_ = client.call()
    client.refuse(call, Code.INTERNAL, "by a test")
    with pytest.raises(jax.errors.JaxRuntimeError, match="by a test"):
        running.result(PATIENCE)


def test_a_call_that_waits_when_the_connection_ends_is_unavailable(callbacks, client):
    calling = start(callbacks.stub(3))
    client.call()
    client.close()
    error = calling.exception(PATIENCE)
    assert isinstance(error, StatusError)
    assert error.code is Code.UNAVAILABLE


def test_a_call_after_the_end_of_the_connection_is_unavailable(callbacks):
    ours, theirs = socket.socketpair()
    theirs.close()
    callbacks.serve(wire.Channel(ours))
    error = start(callbacks.stub(3)).exception(PATIENCE)
    assert isinstance(error, StatusError)
    assert error.code is Code.UNAVAILABLE


def test_an_answer_that_nobody_waits_for_disturbs_no_other(callbacks, client):
    calling = start(callbacks.stub(3))
    call, *_ = client.call()
    client.answer(call + 1000)
    client.answer(call, 5)
    assert int(calling.result(PATIENCE)[0]) == 5
