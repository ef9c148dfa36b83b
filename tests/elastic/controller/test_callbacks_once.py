"""Callbacks run exactly once, however often a world that makes them has to be told again."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from elastic.controller.callbacks import CallbackSwitch
from elastic.status import Code
from tests.elastic.controller.played_link import PlayedLink


@pytest.fixture
def switch():
    return CallbackSwitch()


@pytest.fixture
def client(switch):
    link = PlayedLink()
    switch.serve_client({"role": "callbacks"}, link)
    return link


@pytest.fixture
def executor():
    return PlayedLink()


def call(switch, executor, number, function=3, arguments=b"", snapshot=0):
    switch.called(executor, [number, function, [["int8", [len(arguments)]]], None, snapshot], arguments)


def calls_of(client):
    """The numbers of the calls that the client got."""
    return [message[0] for message, _ in client.heard()]


def answer(client, number, result, payload=b""):
    client.receive([number, 0, result], payload)


def test_a_call_that_was_answered_is_answered_again_without_the_client(switch, client, executor):
    call(switch, executor, 5, arguments=b"x")
    (number,) = calls_of(client)
    answer(client, number, ["result"], b"bytes")
    switch.repeat(0)
    another = PlayedLink()
    call(switch, another, 9, arguments=b"x")
    assert another.heard() == [([9, 0, ["result"]], b"bytes")]
    assert client.heard() == []


def test_an_execution_for_comparison_gets_the_answers_between_its_snapshots_and_the_client_hears_nothing(
    switch, client, executor
):
    for number, snapshot in enumerate((1, 2, 3, 4)):
        call(switch, executor, number, arguments=b"x", snapshot=snapshot)
    for order, number in enumerate(calls_of(client), 1):
        answer(client, number, order)
    for _ in range(2):  # As often as it is executed.
        account, another = switch.account(2, 4), PlayedLink()
        for number in (7, 8, 9):
            account.called(another, [number, 3, [["int8", [1]]], None, 0], b"x")
        *answered, unknown = (message for message, _ in another.heard())
        assert answered == [[7, 0, 2], [8, 0, 3]]
        assert unknown[:2] == [9, int(Code.INTERNAL)]
    assert client.heard() == []


def test_an_error_is_repeated_as_an_error(switch, client, executor):
    call(switch, executor, 5)
    (number,) = calls_of(client)
    client.receive([number, int(Code.INTERNAL), "Traceback"], b"")
    switch.repeat(0)
    call(switch, executor, 6)
    assert executor.heard()[-1] == ([6, int(Code.INTERNAL), "Traceback"], b"")


def test_equal_calls_are_answered_in_the_order_in_which_they_were_first_made(switch, client, executor):
    for number in (1, 2, 3):
        call(switch, executor, number)
    first, second, third = calls_of(client)
    for number, result in ((second, "second"), (third, "third"), (first, "first")):
        answer(client, number, result)
    switch.repeat(0)
    another = PlayedLink()
    for number in (11, 12, 13, 14):
        call(switch, another, number)
    assert [message for message, _ in another.heard()] == [[11, 0, "first"], [12, 0, "second"], [13, 0, "third"]]
    assert len(calls_of(client)) == 1  # The fourth is a new one.


@pytest.mark.parametrize("other", [{"function": 4}, {"arguments": b"y"}, {"arguments": b"xx"}], ids=repr)
def test_another_function_or_other_arguments_are_another_call(switch, client, executor, other):
    call(switch, executor, 1, arguments=b"x")
    answer(client, *calls_of(client), "x")
    switch.repeat(0)
    call(switch, executor, 2, **{"arguments": b"x", **other})
    assert len(calls_of(client)) == 1


def test_the_shape_of_arguments_counts_too(switch, client, executor):
    for number, shape in enumerate(([2, 3], [3, 2])):
        switch.called(executor, [number, 3, [["int8", shape]], None, 0], b"123456")
        switch.repeat(0)
    assert len(calls_of(client)) == 2


def test_a_call_that_runs_when_its_world_dies_answers_who_makes_it_again(switch, client, executor):
    call(switch, executor, 5)
    (number,) = calls_of(client)
    switch.repeat(0)
    another = PlayedLink()
    call(switch, another, 7)
    assert (client.heard(), another.heard()) == ([], [])
    answer(client, number, "late")
    assert another.heard() == [([7, 0, "late"], b"")]
    assert executor.heard() == []  # It is dead; a number of its own may be another's now.


def test_a_call_that_ends_between_two_worlds_answers_who_makes_it_again(switch, client, executor):
    call(switch, executor, 5)
    (number,) = calls_of(client)
    switch.repeat(0)
    answer(client, number, "meanwhile")
    assert executor.heard() == []
    call(switch, executor, 6)
    assert executor.heard() == [([6, 0, "meanwhile"], b"")]


def test_a_second_loss_repeats_what_the_first_had_repeated(switch, client, executor):
    for number, arguments in ((1, b"a"), (2, b"b"), (3, b"c")):
        call(switch, executor, number, arguments=arguments)
        answer(client, *calls_of(client), arguments.decode())
    switch.repeat(0)
    call(switch, executor, 4, arguments=b"a")
    switch.repeat(0)
    executor.heard()
    for number, arguments in ((5, b"a"), (6, b"b"), (7, b"c")):
        call(switch, executor, number, arguments=arguments)
    assert [message[2] for message, _ in executor.heard()] == ["a", "b", "c"]
    assert client.heard() == []


def test_what_lies_before_a_snapshot_is_no_repetition(switch, client, executor):
    call(switch, executor, 1, snapshot=0)
    call(switch, executor, 2, snapshot=1)
    first, second = calls_of(client)
    answer(client, first, "before")
    answer(client, second, "behind")
    switch.committed(1)
    switch.repeat(0)
    executor.heard()
    call(switch, executor, 3, snapshot=1)
    call(switch, executor, 4, snapshot=1)
    assert executor.heard() == [([3, 0, "behind"], b"")]
    assert len(calls_of(client)) == 1


def test_a_snapshot_does_not_forget_what_is_still_to_be_repeated(switch, client, executor):
    call(switch, executor, 1, arguments=b"a")
    answer(client, *calls_of(client), "a")
    call(switch, executor, 2, arguments=b"b")
    answer(client, *calls_of(client), "b")
    switch.repeat(0)
    call(switch, executor, 3, arguments=b"a")
    switch.committed(1)  # Of the new world, taken between the two.
    executor.heard()
    call(switch, executor, 4, arguments=b"b", snapshot=1)
    assert executor.heard() == [([4, 0, "b"], b"")]
    assert client.heard() == []


def test_calls_that_no_world_will_repeat_are_made_anew_if_they_come_again(switch, client, executor):
    for number, function in ((5, 3), (6, 4)):
        call(switch, executor, number, function=function)
    for number in calls_of(client):
        answer(client, number, ["result"])
    switch.repeat(0)
    switch.not_again({3})
    call(switch, executor, 7, function=4)
    assert calls_of(client) == []
    call(switch, executor, 8, function=3)
    assert len(calls_of(client)) == 1
    switch.repeat(0)
    call(switch, executor, 9, function=4)
    assert calls_of(client) == []


def test_when_the_client_has_left_calls_are_made_anew(switch, client, executor):
    call(switch, executor, 1)
    answer(client, *calls_of(client), "of the first client")
    client.leave()
    switch.clear()
    switch.repeat(0)
    another = PlayedLink()
    switch.serve_client({"role": "callbacks"}, another)
    call(switch, executor, 2)
    assert len(calls_of(another)) == 1


def test_a_call_whose_client_died_is_unavailable_each_time(switch, client, executor):
    call(switch, executor, 1)
    client.leave()
    switch.repeat(0)
    call(switch, executor, 2)
    assert [message[:2] for message, _ in executor.heard()] == [[number, int(Code.UNAVAILABLE)] for number in (1, 2)]


class EachCallRunsOnce(RuleBasedStateMachine):
    """A program of calls, worlds that make them and die, and a client that answers in any order."""

    def __init__(self):
        super().__init__()
        self.switch = CallbackSwitch()
        self.client = PlayedLink()
        self.switch.serve_client({"role": "callbacks"}, self.client)
        self.program = []
        """What each call is called with; many are equal."""
        self.position = 0
        """How many calls of the program the world that there is has made."""
        self.snapshot = (0, 0)
        """(number, position) of the snapshot that counts."""
        self.latest = 0
        """The number of the last snapshot, whether it counts or not."""
        self.waiting = {}
        """Place in the program -> the executor that waits."""
        self.results = {}
        """Place in the program -> its first result."""
        self.running = []
        self.ran = 0

    @rule(arguments=st.sampled_from([b"a", b"b"]))
    def make_the_next_call(self, arguments):
        if self.position == len(self.program):
            self.program.append(arguments)
        place = self.position
        self.position += 1
        executor = self.waiting[place] = PlayedLink()
        call(self.switch, executor, place, arguments=self.program[place], snapshot=self.latest)
        self.running += [message[0] for message, _ in self.client.heard()]
        self.take_answers()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def the_client_answers(self, data):
        number = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.ran += 1
        answer(self.client, number, self.ran)
        self.take_answers()

    def take_answers(self):
        for place, executor in list(self.waiting.items()):
            for (number, code, result), _ in executor.heard():
                assert (number, code) == (place, 0)
                assert self.results.setdefault(place, result) == result, "a call gets what it got the first time"
                del self.waiting[place]

    @precondition(lambda self: not self.waiting)
    @rule(counts=st.booleans())
    def take_a_snapshot(self, counts):
        """Executors wait for all calls before they save; the snapshot may fail then."""
        self.latest += 1
        if counts:
            self.snapshot = (self.latest, self.position)
            self.switch.committed(self.latest)

    @rule()
    def the_world_dies(self):
        self.waiting.clear()
        self.switch.repeat(0)
        self.latest, self.position = self.snapshot

    @invariant()
    def no_call_was_made_twice(self):
        assert self.ran + len(self.running) == len(self.program)
        assert len(set(self.results.values())) == len(self.results)


EachCallRunsOnce.TestCase.settings = settings(deadline=None, max_examples=100, stateful_step_count=30)
TestEachCallRunsOnce = EachCallRunsOnce.TestCase
