"""How far a client may be ahead of hosts that take their time."""

import heapq
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic.controller.pace import Pace


class Hosts:
    """They compute one execution after the other, and answer a mark a moment after all before it is over."""

    ANSWERS_S = 0.001

    def __init__(self):
        self.pace = Pace()
        self.now = 0.0
        self.free_at = 0.0
        self.idle_s = 0.0
        """For how long they had nothing to do, though the client would have sent more."""
        self.ends = []
        """When each execution is over."""
        self.ahead = []
        """Of each execution, seconds of work that were before it when it was sent."""
        self._answers = []

    def send(self, seconds):
        """The client sends an execution as soon as it may."""
        wanted = self.now
        while self.pace.held:
            self._answer()
        self.idle_s += max(0.0, self.now - max(self.free_at, wanted))
        self.ahead.append(max(0.0, self.free_at - self.now))
        self.free_at = max(self.free_at, self.now) + seconds
        self.ends.append(self.free_at)
        self.pace.sent(self.now)
        self._mark()

    def think(self, seconds):
        """The client sends nothing for so long."""
        until = self.now + seconds
        while self._answers and self._answers[0][0] <= until:
            self._answer()
        self.now = until

    def wait(self):
        """The client waits until all is over."""
        self.think(max(0.0, self.free_at - self.now))

    def _mark(self):
        if self.pace.wants_mark:
            heapq.heappush(self._answers, (max(self.free_at, self.now) + self.ANSWERS_S, self.pace.mark()))

    def _answer(self):
        assert self._answers, "nobody will let the client go on"
        at, mark = heapq.heappop(self._answers)
        self.now = max(self.now, at)
        self.pace.answered(mark, self.now)
        self._mark()


@pytest.fixture
def hosts():
    return Hosts()


@pytest.mark.parametrize("seconds", [0.0001, 0.01, 0.1, 0.4])
def test_a_client_that_sends_all_at_once_is_a_second_ahead_at_most_and_the_hosts_never_wait(hosts, seconds):
    for _ in range(200 + round(10 / seconds)):
        hosts.send(seconds)
    assert max(hosts.ahead[100:]) <= 1.0 + seconds
    assert hosts.idle_s <= 1.1 * Hosts.ANSWERS_S, "but for once, when it is known how long they take"


def test_a_few_short_programs_between_long_steps_change_nothing(hosts):
    for _ in range(5):
        for _ in range(60):
            hosts.send(0.1)
        hosts.wait()
        for _ in range(3):
            hosts.send(0.001)
            hosts.wait()
    assert max(hosts.ahead[100:]) <= 1.1


def test_of_long_ones_the_next_is_always_there(hosts):
    for _ in range(200):
        hosts.send(5.0)
    assert max(hosts.ahead[100:]) <= 10.0
    assert hosts.idle_s <= 1.1 * Hosts.ANSWERS_S


def test_nothing_holds_a_client_that_waits_for_each(hosts):
    for _ in range(1000):
        assert not hosts.pace.held
        hosts.send(0.005)
        hosts.wait()
        hosts.think(0.05)
    assert hosts.pace.allowed < 64, "it is not let run far ahead when it suddenly sends much, either"


def test_a_mark_that_a_lost_world_was_to_answer_is_sent_to_the_next(hosts):
    pace = hosts.pace
    for _ in range(64):
        pace.sent(0.0)
    first = pace.mark()
    assert pace.held
    assert not pace.wants_mark
    pace.moved(10.0)
    assert pace.held
    assert pace.wants_mark
    pace.answered(first, 10.5)
    assert pace.held
    pace.answered(pace.mark(), 12.0)
    assert (pace.held, pace.allowed) == (False, 16)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.floats(1e-5, 2.0), st.integers(1, 150)),
            st.tuples(st.just("think"), st.floats(0.0, 3.0), st.just(1)),
            st.tuples(st.just("wait"), st.just(0.0), st.just(1)),
        ),
        max_size=20,
    )
)
def test_whatever_the_client_does_it_may_go_on_sooner_or_later(story):
    hosts = Hosts()
    for what, seconds, times in story:
        for _ in range(times):
            hosts.send(seconds) if what == "send" else hosts.think(seconds) if what == "think" else hosts.wait()
    hosts.wait()
    assert all(before <= after for before, after in pairwise(hosts.ends))
