import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.retention import Retention


@pytest.mark.parametrize(
    ("rule", "steps", "kept"),
    [
        (Retention(last=2), [10, 20, 30, 40], {30, 40}),
        (Retention(last=1, every=20), [10, 20, 30, 40, 50], {20, 40, 50}),
        (Retention(last=3), [10], {10}),
        (Retention(), [], set()),
    ],
)
def test_what_is_kept(rule, steps, kept):
    assert rule.keeps(steps) == kept


@given(st.sets(st.integers(0, 100)), st.integers(1, 5), st.none() | st.integers(1, 5))
def test_the_newest_is_always_kept_and_what_was_given_up_is_never_wanted_again(steps, last, every):
    rule = Retention(last, every)
    kept = rule.keeps(steps)
    assert kept <= steps
    assert not steps or max(steps) in kept
    assert rule.keeps(kept) == kept


@pytest.mark.parametrize("settings", [{"last": 0}, {"every": 0}])
def test_numbers_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match="at least one"):
        Retention(**settings)
