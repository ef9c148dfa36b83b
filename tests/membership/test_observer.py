import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membership.observer import ObservedTime

looks = st.lists(st.integers(0, 4000).map(lambda step: step / 1024), min_size=1).map(sorted)


@given(looks)
def test_observed_time_is_the_sum_of_gaps_each_up_to_the_allowance(looks):
    time = ObservedTime(0.25)
    observed = [time.look(now) for now in looks]
    twin = [looks[0]]
    for before, now in itertools.pairwise(looks):
        twin.append(twin[-1] + min(now - before, 0.25))
    assert observed == twin
    assert time.missed == looks[-1] - observed[-1]
    assert time.real(observed[-1]) == looks[-1]


def test_an_observer_that_looks_often_misses_nothing():
    time = ObservedTime(0.25)
    for step in range(100):
        assert time.look(step * 0.1) == pytest.approx(step * 0.1)


def test_a_stall_counts_as_the_allowance():
    time = ObservedTime(0.25)
    time.look(10.0)
    assert time.look(70.0) == 10.25
    assert time.missed == 59.75


def test_a_time_from_before_the_last_look_does_not_turn_time_back():
    time = ObservedTime(0.25)
    time.look(10.0)
    assert time.look(9.9) == 10.0
    assert time.look(10.1) == pytest.approx(10.1)
