"""The client's side of host callbacks, against a controller that a test plays over a real socket."""

import contextlib
import os
import socket
import threading

import numpy as np
import pytest

from elastic.callback_values import pack, unpack
from elastic.callbacks import CallbackClient
from elastic.door import accept
from elastic.handshake import HandshakeError
from elastic.status import Code
from tests.elastic.connections import PATIENCE, SECRET, beside


class Controller:
    """A listener on a Unix socket, and the connection of the one client that comes."""

    def __init__(self, path):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(path))
        self._listener.listen()
        self._listener.settimeout(PATIENCE)
        self.hellos = []
        self.channel = None

    def accept(self):
        sock, _ = self._listener.accept()
        hello, self.channel = accept(sock, SECRET)
        sock.settimeout(PATIENCE)
        self.hellos.append(hello)

    def call(self, call, number, *values, writeable=None):
        description, payload = pack(values)
        self.channel.send([call, number, description, writeable], payload)

    def forget(self, *numbers):
        self.channel.send([0, 0, list(numbers), None])

    def answer(self):
        """The next (call, code, results or the text of the error)."""
        (call, code, result), payload = self.channel.receive()
        return call, code, result if code else [array.tolist() for array in unpack(result, payload)]

    def close(self):
        self._listener.close()
        if self.channel is not None:
            self.channel.close()


@pytest.fixture
def controller(short_directory):
    with contextlib.closing(Controller(short_directory / "s")) as made:
        yield made


@pytest.fixture
def client(short_directory):
    return CallbackClient(f"unix:{short_directory / 's'}", SECRET)


@pytest.fixture
def add(controller, client):
    """Adds functions to the client; the controller accepts its connection at the first."""

    def add(*functions):
        if controller.channel is not None:
            return client.add(functions)
        with beside(controller.accept):
            return client.add(functions)

    return add


def doubled(x):
    return [2 * x]


def test_a_call_runs_the_function_and_its_results_come_back(add, controller):
    (number,) = add(lambda x, y: [x + y, x * y])
    controller.call(7, number, np.array([1, 2]), np.array([3, 4]))
    assert controller.answer() == (7, 0, [[4, 6], [3, 8]])
    assert controller.hellos == [{"role": "callbacks"}]


def test_a_function_may_take_and_return_nothing(add, controller):
    called = threading.Event()

    def note():
        called.set()
        return ()

    (number,) = add(note)
    controller.call(1, number)
    assert controller.answer() == (1, 0, [])
    assert called.is_set()


def test_megabytes_go_both_ways(add, controller):
    (number,) = add(doubled)
    values = np.arange(1 << 18, dtype=np.float32)
    controller.call(1, number, values)
    (call, code, description), payload = controller.channel.receive()
    assert (call, code) == (1, 0)
    (got,) = unpack(description, payload)
    assert np.array_equal(got, 2 * values)


def test_functions_added_later_are_called_over_the_same_connection(add, controller):
    numbers = [*add(doubled, lambda x: [x + 1]), *add(lambda x: [x - 1])]
    assert len(set(numbers)) == 3
    assert 0 not in numbers
    got = []
    for call, number in enumerate(numbers, 1):
        controller.call(call, number, 10)
        got.append(controller.answer())
    assert got == [(1, 0, [20]), (2, 0, [11]), (3, 0, [9])]
    assert len(controller.hellos) == 1


def test_one_function_added_twice_has_two_numbers(add, controller):
    first, second = add(doubled, doubled)
    controller.forget(first)
    controller.call(1, second, 4)
    assert controller.answer() == (1, 0, [8])


def raises(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by a test"), SystemExit("by a test"), KeyboardInterrupt("by a test")], ids=repr
)
def test_an_error_is_answered_with_its_traceback_and_the_client_lives_on(add, controller, error):
    failing, working = add(raises(error), doubled)
    controller.call(1, failing)
    call, code, text = controller.answer()
    assert (call, code) == (1, Code.INTERNAL)
    assert text.startswith("Traceback (most recent call last)")
    assert "in fail" in text
    assert text.rstrip().endswith(f"{type(error).__name__}: by a test")
    controller.call(2, working, 3)
    assert controller.answer() == (2, 0, [6])


def test_a_function_that_returns_no_sequence_is_an_error(add, controller):
    (number,) = add(lambda: None)
    controller.call(1, number)
    call, code, text = controller.answer()
    assert (call, code) == (1, Code.INTERNAL)
    assert "TypeError" in text


def test_arguments_that_cannot_be_read_are_an_error_and_the_client_lives_on(add, controller):
    (number,) = add(doubled)
    controller.channel.send([1, number, [["float32", [3]]], None], b"1234")
    call, code, _ = controller.answer()
    assert (call, code) == (1, Code.INTERNAL)
    controller.call(2, number, 3)
    assert controller.answer() == (2, 0, [6])


def test_a_number_that_was_never_given_is_an_error_and_the_client_lives_on(add, controller):
    (number,) = add(doubled)
    controller.call(1, number + 1000, 3)
    call, code, text = controller.answer()
    assert (call, code) == (1, Code.INTERNAL)
    assert str(number + 1000) in text
    controller.call(2, number, 3)
    assert controller.answer() == (2, 0, [6])


def test_a_forgotten_number_is_as_one_that_was_never_given(add, controller):
    first, kept, last = add(doubled, doubled, doubled)
    controller.forget(first, last)
    codes = []
    for call, number in enumerate((first, kept, last), 1):
        controller.call(call, number, 3)
        codes.append(controller.answer()[:2])
    assert codes == [(1, Code.INTERNAL), (2, 0), (3, Code.INTERNAL)]


def test_an_unknown_number_may_be_forgotten(add, controller):
    (number,) = add(doubled)
    controller.forget(number + 1000)
    controller.call(1, number, 3)
    assert controller.answer() == (1, 0, [6])


@pytest.mark.parametrize("parties", [2, 16])
def test_calls_that_wait_for_one_another_all_end(add, controller, parties):
    together = threading.Barrier(parties, timeout=PATIENCE)

    def meet(x):
        together.wait()
        return [x]

    (number,) = add(meet)
    for call in range(1, parties + 1):
        controller.call(call, number, call)
    answers = sorted(controller.answer() for _ in range(parties))
    assert answers == [(call, 0, [call]) for call in range(1, parties + 1)]


def test_a_call_that_waits_holds_up_no_other(add, controller):
    release = threading.Event()

    def slow():
        assert release.wait(PATIENCE)
        return ["slow" == "slow"]

    waiting, quick = add(slow, doubled)
    controller.call(1, waiting)
    controller.call(2, quick, 3)
    assert controller.answer() == (2, 0, [6])
    release.set()
    assert controller.answer() == (1, 0, [True])


def test_a_running_function_may_be_forgotten_and_still_answers(add, controller):
    running, release = threading.Event(), threading.Event()

    def slow():
        running.set()
        assert release.wait(PATIENCE)
        return [1]

    slow_number, quick = add(slow, doubled)
    controller.call(1, slow_number)
    assert running.wait(PATIENCE)
    controller.forget(slow_number)
    controller.call(2, quick, 3)
    assert controller.answer() == (2, 0, [6])
    release.set()
    assert controller.answer() == (1, 0, [1])


def test_a_buffer_callback_writes_results_instead_of_returning_them(add, controller):
    seen = []

    def fill(context, x, out, count):
        seen.extend((x.writeable, out.writeable, count.writeable))
        np.asarray(out)[...] = 2 * np.asarray(x)
        np.asarray(count)[...] += 1

    (number,) = add(fill)
    controller.call(1, number, np.arange(3), np.zeros(3, int), np.array(41), writeable=[False, True, True])
    assert controller.answer() == (1, 0, [[0, 2, 4], 42])
    assert seen == [False, True, True]


def test_a_buffer_callback_that_writes_its_argument_is_an_error(add, controller):
    def fill(context, x, out):
        np.asarray(x)[...] = 0

    (number,) = add(fill)
    controller.call(1, number, np.arange(3), np.arange(3), writeable=[False, True])
    call, code, text = controller.answer()
    assert (call, code) == (1, Code.INTERNAL)
    assert "read-only" in text


def test_a_client_without_functions_connects_to_nobody(short_directory):
    CallbackClient(f"unix:{short_directory / 'nobody'}", SECRET)


def test_without_a_controller_adding_is_an_os_error_and_may_be_tried_again(short_directory, client):
    with pytest.raises(OSError, match="No such file"):
        client.add([doubled])
    with contextlib.closing(Controller(short_directory / "s")) as controller:
        with beside(controller.accept):
            (number,) = client.add([doubled])
        controller.call(1, number, 3)
        assert controller.answer() == (1, 0, [6])


def test_a_controller_with_another_secret_is_refused(short_directory, controller):
    client = CallbackClient(f"unix:{short_directory / 's'}", b"another")

    def accept():
        with pytest.raises((HandshakeError, EOFError)):
            controller.accept()

    with beside(accept), pytest.raises(HandshakeError, match="secret"):
        client.add([doubled])


def test_a_function_that_ends_after_the_controller_is_gone_disturbs_nobody(add, controller):
    running, release, ended = threading.Event(), threading.Event(), threading.Event()

    def slow():
        running.set()
        assert release.wait(PATIENCE)
        ended.set()
        return []

    (number,) = add(slow)
    controller.call(1, number)
    assert running.wait(PATIENCE)
    controller.close()
    release.set()
    assert ended.wait(PATIENCE)


def test_a_text_that_is_no_unicode_is_still_an_answer(add, controller):
    (number,) = add(raises(ValueError("file \udcff")))
    controller.call(1, number)
    call, code, text = controller.answer()
    assert (call, code) == (1, Code.INTERNAL)
    assert "ValueError: file" in text


def test_two_clients_never_give_the_same_number(short_directory):
    numbers = []
    for name in "ab":
        with contextlib.closing(Controller(short_directory / name)) as controller, beside(controller.accept):
            numbers += CallbackClient(f"unix:{short_directory / name}", SECRET).add([doubled, doubled])
    assert len(set(numbers)) == 4
