"""Who does not move any more is given up; the clock is the tests' own, so none of this takes time."""

import heapq
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.controller.watch import Watch

BEAT = 0.1
NOTICED = 1.0
"""Seconds in which the standstill of somebody with a steady rhythm is noticed, and a beat."""
LONGEST = 1.45 + BEAT
"""The same for somebody of whom little is known, or who is irregular: 0.95 s until suspicion, 0.5 s to be sure."""


class Timer:
    def __init__(self, work, arguments):
        self.work, self.arguments, self.cancelled = work, arguments, False

    def cancel(self):
        self.cancelled = True


class Loop:
    """The clock and the timers of an event loop."""

    def __init__(self):
        self.now = 1000.0
        self._timers = []
        self._numbers = itertools.count()

    def time(self):
        return self.now

    def call_later(self, seconds, work, *arguments):
        timer = Timer(work, arguments)
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), timer))
        return timer

    def call_soon(self, work, *arguments):
        return self.call_later(0, work, *arguments)

    def advance(self, seconds):
        """Lets time pass, and all timers fire when they are due."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            at, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            if not timer.cancelled:
                timer.work(*timer.arguments)
        self.now = end

    def stand_still(self, seconds):
        """Lets time pass without this process."""
        self.now += seconds

    @property
    def pending(self):
        return sum(not timer.cancelled for _, _, timer in self._timers)


class Story:
    """A watch, and who was given up when and why."""

    def __init__(self):
        self.loop = Loop()
        self.watch = Watch(self.loop)
        self.given_up = {}
        self.reasons = {}
        self._beating = {}

    def begin(self, name, incarnation=1, give_up=lambda: None):
        def gone(reason):
            self.given_up[name] = self.loop.now
            self.reasons[name] = reason
            self.end(name)
            give_up()

        self.watch.begin(name, incarnation, gone)
        self._beating[name] = incarnation

    def end(self, name):
        self.watch.end(name, self._beating.pop(name, 1))

    def freeze(self, name):
        del self._beating[name]

    def live(self, seconds):
        """Everybody who is not frozen beats."""
        for _ in range(round(seconds / BEAT)):
            self.loop.advance(BEAT)
            for name, incarnation in list(self._beating.items()):
                self.watch.heard(name, incarnation)


def test_who_moves_is_never_given_up():
    story = Story()
    for name in ("h1", "h2", "executor of h1"):
        story.begin(name)
    story.live(300)
    assert story.given_up == {}


def test_who_stops_is_given_up_in_less_than_a_second_and_nobody_else():
    story = Story()
    story.begin("h1")
    story.begin("h2")
    story.live(10)
    stopped = story.loop.now
    story.freeze("h2")
    story.live(10)
    assert list(story.given_up) == ["h2"]
    assert 0.5 < story.given_up["h2"] - stopped < NOTICED
    assert "connected but silent for 0." in story.reasons["h2"]


def test_who_is_silent_for_less_than_half_a_second_is_not_given_up():
    story = Story()
    story.begin("h1")
    for pause in (0.2, 0.4, 0.5, 0.3, 0.5):
        story.live(5)
        story.loop.advance(pause)
        story.watch.heard("h1", 1)
    assert story.given_up == {}


def test_who_was_never_heard_after_the_beginning_is_given_up():
    story = Story()
    story.begin("h1")
    story.freeze("h1")
    story.live(10)
    assert list(story.given_up) == ["h1"]
    assert story.given_up["h1"] - 1000 < LONGEST


@pytest.mark.parametrize("seconds", [1, 5, 60, 3600])
def test_a_controller_that_stood_still_itself_blames_nobody(seconds):
    story = Story()
    story.begin("h1")
    story.begin("h2")
    story.live(10)
    story.loop.stand_still(seconds)
    story.live(10)
    assert story.given_up == {}
    story.freeze("h1")
    story.live(NOTICED + BEAT)
    assert list(story.given_up) == ["h1"]


def test_who_was_given_up_and_is_back_is_watched_as_closely_as_before():
    """Also again and again; there is no quarantine in which nobody looks."""
    story = Story()
    for incarnation in range(1, 8):
        story.begin("h1", incarnation)
        story.live(1)
        stopped = story.loop.now
        story.freeze("h1")
        story.live(3)
        assert 0 < story.given_up["h1"] - stopped < NOTICED, incarnation


def test_who_is_not_watched_any_more_is_not_given_up():
    story = Story()
    story.begin("h1")
    story.live(1)
    story.freeze("h1")
    story.loop.advance(0.8)
    story.watch.end("h1", 1)
    story.loop.advance(60)
    assert story.given_up == {}


def test_giving_one_up_may_end_the_watch_over_others_that_stopped_with_it():
    """As the executor of a host that was cut off."""
    story = Story()
    story.begin("host", give_up=lambda: story.end("executor"))
    story.begin("executor", give_up=lambda: story.end("host"))
    story.live(5)
    story.freeze("host")
    story.freeze("executor")
    story.live(5)
    assert len(story.given_up) == 1


def test_heartbeats_of_an_earlier_incarnation_do_not_count():
    story = Story()
    story.begin("h1", 3)
    story.end("h1")
    story.begin("h1", 4)
    story.freeze("h1")
    for _ in range(30):
        story.loop.advance(BEAT)
        story.watch.heard("h1", 3)
    assert list(story.given_up) == ["h1"]


def test_the_end_of_an_earlier_incarnation_does_not_end_the_watch_over_the_next():
    story = Story()
    story.begin("h1", 3)
    story.begin("h1", 4)
    story.watch.end("h1", 3)
    story.live(1)
    story.freeze("h1")
    story.live(5)
    assert list(story.given_up) == ["h1"]


def test_who_computes_wrongly_is_given_up_at_once_though_it_moves_and_is_watched_again_when_it_is_back():
    story = Story()
    for incarnation in (1, 2):
        story.begin("h1", incarnation)
        story.live(5)
        wrong = story.loop.now
        story.watch.wrong_result("h1", incarnation, "device 1 computed wrongly")
        story.loop.advance(BEAT)
        assert story.given_up.pop("h1") == pytest.approx(wrong)
        assert story.reasons["h1"] == "a health check of its devices failed: device 1 computed wrongly"


def test_the_silence_of_somebody_is_told():
    story = Story()
    assert story.watch.silence("h1", story.loop.now) is None
    story.begin("h1")
    story.live(1)
    assert story.watch.silence("h1", story.loop.now) == pytest.approx(0, abs=1e-6)
    story.loop.advance(0.25)
    assert story.watch.silence("h1", story.loop.now) == pytest.approx(0.25, abs=1e-6)


def test_a_watch_that_is_closed_leaves_no_timer():
    story = Story()
    story.begin("h1")
    story.live(1)
    assert story.loop.pending == 1
    story.watch.close()
    assert story.loop.pending == 0


def test_an_idle_watch_needs_no_timer():
    assert Story().loop.pending == 0


PAUSES = st.lists(st.floats(0.01, 3.0), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(PAUSES)
def test_whatever_the_rhythm_nobody_is_given_up_within_half_a_second_or_kept_for_longer_than_said(pauses):
    story = Story()
    story.begin("h1")
    heard = story.loop.now
    for pause in pauses:
        story.loop.advance(pause)
        if "h1" in story.given_up:
            break
        assert story.loop.now - heard < LONGEST
        story.watch.heard("h1", 1)
        heard = story.loop.now
    if "h1" in story.given_up:
        assert 0.5 < story.given_up["h1"] - heard < LONGEST
