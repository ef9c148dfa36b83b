"""Shrinking, of experiments that take no time."""

from hypothesis import given
from hypothesis import strategies as st

from chaos.shrink import shrink


@given(st.sets(st.integers(0, 30), min_size=1, max_size=5))
def test_only_the_faults_that_matter_are_left(culprits):
    assert shrink(range(31), lambda faults: culprits <= set(faults), 1000) == sorted(culprits)


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 20))
def test_whatever_is_left_still_fails_and_no_more_is_asked_than_allowed(culprits, most):
    asked = []

    def fails(faults):
        asked.append(list(faults))
        return culprits <= set(faults)

    assert culprits <= set(shrink(range(31), fails, most))
    assert len(asked) <= most


def test_one_fault_is_as_small_as_it_gets():
    assert shrink(["kill"], lambda _: True, 10) == ["kill"]
