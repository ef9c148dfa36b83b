import pytest
from hypothesis import given
from hypothesis import strategies as st

from membership.backoff import BackOff, Conduct

RULE = BackOff(first=2, cap=300, half_life=120)


def failures(times):
    conduct = Conduct()
    for now in times:
        conduct = conduct.failed(RULE, now)
    return conduct


def wait(conduct, now):
    return conduct.until - now


def test_each_failure_doubles_the_wait_up_to_the_cap():
    waits = [wait(failures([0] * count), 0) for count in range(1, 11)]
    assert waits == pytest.approx([2, 4, 8, 16, 32, 64, 128, 256, 300, 300])


def test_good_conduct_takes_it_back():
    conduct = failures([0, 0, 0]).well(10)
    assert wait(conduct.failed(RULE, 10), 10) == 16
    assert wait(conduct.failed(RULE, 10 + 120), 130) == pytest.approx(2 * 2**1.5)
    assert wait(conduct.failed(RULE, 10 + 10_000), 10_010) == pytest.approx(2)


def test_time_that_was_not_healthy_is_no_good_conduct():
    conduct = failures([0, 0, 0]).well(10).unwell(20).well(1000).unwell(1010)
    assert conduct.owed(RULE, 5000) == pytest.approx(3 * 2 ** (-20 / 120))


def test_a_heavy_failure_counts_as_several():
    assert wait(Conduct().failed(RULE, 0, weight=8), 0) == 256


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 1000)), max_size=40))
def test_the_wait_is_bounded_and_never_shorter_for_a_worse_history(spans):
    """Compared with a host that had the same good times and one failure less."""
    now, worse, better = 0.0, Conduct().failed(RULE, 0), Conduct()
    for healthy, ill in spans:
        worse, better = worse.well(now), better.well(now)
        now += healthy
        worse, better = worse.failed(RULE, now), better.failed(RULE, now)
        now += ill
        assert RULE.first <= wait(better, now - ill) * (1 + 1e-9)
        assert wait(better, now - ill) <= wait(worse, now - ill) * (1 + 1e-9)
        assert wait(worse, now - ill) <= RULE.cap * (1 + 1e-9)


def test_a_host_that_fails_for_ever_costs_no_memory_and_no_overflow():
    conduct = failures([0] * 5000)
    assert wait(conduct, 0) == pytest.approx(300)
    assert len(conduct.failures) == 32


def test_the_words_say_how_often_and_what_follows():
    assert failures([0]).words(RULE, 0) == "failed once in 10 min, next use in 2 s"
    assert failures([0, 10, 20]).words(RULE, 21) == "failed 3 times in 10 min, next use in 7 s"
    assert failures([0, 10]).words(RULE, 605) == "failed once in 10 min, may be used"


@pytest.mark.parametrize("values", [{"first": 0}, {"first": 10, "cap": 5}, {"half_life": 0}, {"memory": -1}])
def test_a_rule_that_makes_no_sense_is_refused(values):
    with pytest.raises(ValueError, match="first <= cap"):
        BackOff(**values)
