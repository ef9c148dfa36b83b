"""How far a client may be ahead of hosts that take their time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic.controller.pace import Pace

ANSWERS_S = 0.001
STEP, SHORT = 1, 2


class Hosts:
    """They compute one execution after the other, and answer a mark a moment after all before it is over."""

    def __init__(self):
        self.pace = Pace()
        self.now = 0.0
        self.free_at = 0.0
        self.idle_s = 0.0
        """For how long they had nothing to do, though the client would have sent more."""
        self.ahead = []
        """Of each execution, seconds of work that were before it when it was sent."""
        self._answer_at = None

    def send(self, seconds, program=STEP):
        """The client sends an execution as soon as it may."""
        self._pass(self.now)
        wanted = self.now
        while self.pace.held:
            assert self._answer_at is not None, "nobody will let the client go on"
            self._pass(self._answer_at)
        self.idle_s += max(0.0, self.now - max(self.free_at, wanted))
        self.ahead.append(max(0.0, self.free_at - self.now))
        self.free_at = max(self.free_at, self.now) + seconds
        self.pace.sent(program, self.now)
        self._mark()

    def think(self, seconds):
        """The client sends nothing for so long."""
        self._pass(self.now + seconds)

    def wait(self):
        """The client waits until all is over."""
        self.think(max(0.0, self.free_at - self.now))

    def _pass(self, until):
        while self._answer_at is not None and self._answer_at <= until:
            self.now, self._answer_at = max(self.now, self._answer_at), None
            self.pace.answered(self._number, self.now)
            self._mark()
        self.now = max(self.now, until)

    def _mark(self):
        if self.pace.wants_mark:
            self._answer_at = max(self.free_at, self.now) + ANSWERS_S
            self._number = self.pace.mark(self.now)


@pytest.fixture
def hosts():
    return Hosts()


@pytest.mark.parametrize("seconds", [0.0001, 0.01, 0.1, 0.4])
def test_a_client_that_sends_all_at_once_is_a_second_ahead_at_most_and_the_hosts_never_wait(hosts, seconds):
    for _ in range(200 + round(10 / seconds)):
        hosts.send(seconds)
    assert max(hosts.ahead[100:]) <= 1.0 + seconds
    assert hosts.idle_s <= 0.003 * hosts.now


def test_of_long_ones_the_next_is_always_there_and_no_other(hosts):
    for _ in range(200):
        hosts.send(5.0)
    assert max(hosts.ahead[100:]) <= 10.0
    assert hosts.idle_s <= 0.003 * hosts.now


@pytest.mark.parametrize("short", [0.00001, 0.001])
@pytest.mark.parametrize("long", [0.1, 1.0])
def test_long_steps_after_many_short_programs_are_known_for_what_they_are(hosts, short, long):
    for _ in range(5000):
        hosts.send(short, SHORT)
    for _ in range(300):
        hosts.send(long)
    assert max(hosts.ahead[5000 + 100 :]) <= 1.0 + 2 * long


@pytest.mark.parametrize("many", [1, 15, 100])
@pytest.mark.parametrize("long", [0.1, 0.3, 1.0, 3.0])
def test_short_programs_around_long_steps_hold_nobody_up(hosts, many, long):
    for _ in range(100):
        hosts.send(long)
        for _ in range(many):
            hosts.send(0.0001, SHORT)
    assert max(hosts.ahead[-20 * (many + 1) :]) <= 1.0 + 2 * long
    assert hosts.idle_s <= 0.005 * hosts.now


def test_a_few_short_programs_between_long_steps_change_nothing(hosts):
    for _ in range(5):
        for _ in range(60):
            hosts.send(0.1)
        hosts.wait()
        for _ in range(3):
            hosts.send(0.001, SHORT)
            hosts.wait()
    assert max(hosts.ahead[100:]) <= 1.1


@pytest.mark.parametrize(("thinks", "computes"), [(0.6, 2.0), (0.6, 10.0), (0.05, 0.2), (2.0, 2.1)])
def test_a_client_that_thinks_is_not_let_further_ahead(hosts, thinks, computes):
    for _ in range(300):
        hosts.send(computes)
        hosts.think(thinks)
    assert max(hosts.ahead[100:]) <= 1.0 + 2 * computes


def test_a_client_that_waits_for_each_is_never_held_and_not_let_run_far_ahead_later(hosts):
    for _ in range(1000):
        assert not hosts.pace.held
        hosts.send(0.005)
        hosts.wait()
        hosts.think(0.05)
    for _ in range(1000):
        hosts.send(0.005)
    assert max(hosts.ahead) <= 1.0
    assert hosts.idle_s <= 0.05


def test_a_program_that_takes_longer_than_it_did_is_found_out(hosts):
    for _ in range(5000):
        hosts.send(0.001)
    for _ in range(1000):
        hosts.send(0.1)
    assert max(hosts.ahead[5000 + 600 :]) <= 1.2


def test_a_mark_that_a_lost_world_was_to_answer_is_sent_to_the_next(hosts):
    pace = hosts.pace
    while not pace.held:
        pace.sent(STEP, 0.0)
    first = pace.mark(0.0)
    assert not pace.wants_mark
    pace.moved(10.0)
    assert (pace.held, pace.wants_mark) == (True, True)
    second = pace.mark(10.0)
    pace.answered(first, 10.5)
    assert pace.held
    pace.answered(second, 12.0)
    assert not pace.held


def test_what_another_world_had_computed_and_is_over_at_once_hardly_counts(hosts):
    for _ in range(100):
        hosts.send(0.1)
    hosts.pace.moved(hosts.now)
    hosts.pace.answered(hosts.pace.mark(hosts.now), hosts.now)
    hosts.ahead.clear()
    hosts.free_at, hosts._answer_at = hosts.now, None
    for _ in range(100):
        hosts.send(0.1)
    assert max(hosts.ahead) <= 1.5


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.floats(1e-5, 2.0), st.integers(1, 150), st.sampled_from([STEP, SHORT])),
            st.tuples(st.just("think"), st.floats(0.0, 3.0), st.just(1), st.just(0)),
            st.tuples(st.just("wait"), st.just(0.0), st.just(1), st.just(0)),
        ),
        max_size=20,
    )
)
def test_whatever_the_client_does_it_may_go_on_sooner_or_later(story):
    hosts = Hosts()
    for what, seconds, times, program in story:
        for _ in range(times):
            if what == "send":
                hosts.send(seconds, program)
            elif what == "think":
                hosts.think(seconds)
            else:
                hosts.wait()
    hosts.think(1e6)
    assert not hosts.pace.held
