import bisect
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membership.phi import Rhythm, Sensitivity, surprise


class SlowRhythm:
    """The same by the book: all gaps in a list, added up each time, the threshold found by search."""

    def __init__(self, sensitivity, now):
        self.sensitivity, self.heard, self.gaps = sensitivity, now, []

    def beat(self, now):
        gap = round(now - self.heard, 6)
        if now < self.heard:
            return
        if now - self.heard < self.allowed:
            self.gaps.append(gap)
        self.heard = now

    @property
    def allowed(self):
        longest = self.sensitivity.longest
        if len(self.gaps) < self.sensitivity.enough:
            return longest
        measured = self.measured()
        steps = range(round(longest * 1e7))
        first = bisect.bisect_left(steps, self.sensitivity.threshold, key=lambda step: self.phi(step / 1e7, *measured))
        return min(longest, first / 1e7)

    def measured(self):
        s, last = self.sensitivity, self.gaps[-self.sensitivity.window :]
        if not last:
            return s.interval, s.least_deviation
        mean = sum(last) / len(last)
        deviation = math.sqrt(sum((gap - mean) ** 2 for gap in last) / len(last))
        return max(mean, s.interval), max(deviation, s.least_deviation)

    def phi(self, silence, mean, deviation):
        return -math.log10(math.erfc((silence - self.sensitivity.pause - mean) / deviation / math.sqrt(2)) / 2)


def fed(gaps, sensitivity=None, kind=Rhythm):
    rhythm, now = kind(sensitivity or Sensitivity(), 100.0), 100.0
    for gap in gaps:
        now += gap
        rhythm.beat(now)
    return rhythm


gaps = st.lists(st.one_of(st.floats(0, 0.3), st.floats(0, 3)), max_size=60)
sensitivities = st.builds(Sensitivity, window=st.integers(10, 20))


@settings(deadline=None)
@given(gaps, sensitivities)
def test_the_rhythm_is_what_its_slow_twin_makes_of_the_same_gaps(gaps, sensitivity):
    rhythm, twin = fed(gaps, sensitivity), fed(gaps, sensitivity, SlowRhythm)
    assert rhythm.heard == twin.heard
    assert rhythm.allowed == pytest.approx(twin.allowed, abs=1e-5)
    for silence in (0.0, 0.3, 0.7, 0.9):
        expected = max(0.0, twin.phi(silence, *twin.measured()))
        assert rhythm.phi(rhythm.heard + silence) == pytest.approx(expected, rel=1e-3, abs=1e-3)


@given(gaps)
def test_a_host_is_suspect_within_the_bounds_whatever_it_did_before(gaps):
    rhythm = fed(gaps)
    assert Sensitivity().shortest - 1e-9 <= rhythm.allowed <= Sensitivity().longest
    assert rhythm.deadline == rhythm.heard + rhythm.allowed


@given(gaps)
def test_phi_reaches_the_threshold_with_the_deadline_and_grows_with_silence(gaps):
    rhythm = fed(gaps)
    if rhythm.allowed < Sensitivity().longest:
        assert rhythm.phi(rhythm.deadline) == pytest.approx(Sensitivity().threshold, rel=1e-3)
    values = [rhythm.phi(rhythm.heard + silence) for silence in (0, 0.5, 0.7, 0.9, 2, 10, 1e3, 1e9)]
    assert values == sorted(values)
    assert all(math.isfinite(value) and value >= 0 for value in values)


def test_the_probability_joins_its_asymptotic_series_without_a_step():
    assert surprise(30) == pytest.approx(surprise(math.nextafter(30, 0)), rel=1e-6)
    assert surprise(0) == pytest.approx(math.log10(2))
    assert surprise(-40) == 0


def test_a_regular_host_is_suspect_after_two_thirds_of_a_second():
    assert fed([0.1] * 200).allowed == pytest.approx(0.6745, abs=1e-3)


def test_a_stall_of_half_a_second_is_forgiven_to_a_host_that_never_stalled():
    assert fed([0.1] * 200).allowed > 0.6


def test_a_new_host_is_given_the_longest_silence_until_its_rhythm_is_known():
    assert fed([0.1] * 9).allowed == Sensitivity().longest
    assert fed([0.1] * 10).allowed < Sensitivity().longest


def test_a_silence_that_was_suspected_teaches_nothing():
    assert fed([0.1] * 50 + [30.0]).measured() == fed([0.1] * 50).measured()


def test_gaps_leave_the_window_without_a_trace():
    noisy = random.Random(1)
    rhythm = fed([noisy.uniform(0, 0.7) for _ in range(10_000)] + [0.1] * 100)
    mean, deviation = rhythm.measured()
    assert mean == pytest.approx(0.1, abs=1e-9)
    assert deviation == Sensitivity().least_deviation
    assert rhythm._squares == 100 * 100_000**2


def test_a_heartbeat_that_was_overtaken_by_a_later_one_changes_nothing():
    rhythm = fed([0.1] * 20)
    before = rhythm.measured(), rhythm.heard
    rhythm.beat(rhythm.heard - 0.05)
    assert (rhythm.measured(), rhythm.heard) == before


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"interval": 0}, "must be positive"),
        ({"enough": 0}, "between 1 and window"),
        ({"enough": 200}, "between 1 and window"),
        ({"longest": 0.5}, "raise longest, or lower pause or threshold"),
        ({"threshold": 40}, "raise longest"),
    ],
)
def test_a_setting_that_contradicts_another_is_refused_with_advice(values, complaint):
    with pytest.raises(ValueError, match=complaint):
        Sensitivity(**values)
