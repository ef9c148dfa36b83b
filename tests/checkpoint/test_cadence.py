import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.cadence import Cadence, Measured, between_failures, decide, optimum

RUN = Measured(cost=0.01, replay=1.0, observed=3600, failures=5, since=1.0, operations=100, bytes=1 << 20)


def slowdown(interval, cost, between):
    """Run time over useful time by Daly's model without restart time (equation 20): what `optimum` minimizes."""
    return between / interval * math.expm1((interval + cost) / between)


def best_by_search(cost, between):
    return min(
        (cost * 1.01**step for step in range(-400, 2500)), key=lambda t: slowdown(min(t, 50 * between), cost, between)
    )


@pytest.mark.parametrize("between", [15.0, 600.0, 86_400.0])
@pytest.mark.parametrize("part", [1e-5, 1e-3, 0.03, 0.3])
def test_the_interval_is_as_good_as_the_best_found_by_search(between, part):
    cost = part * between
    best = slowdown(best_by_search(cost, between), cost, between)
    assert slowdown(optimum(cost, between), cost, between) <= best * 1.001


def test_the_formula_is_dalys_to_the_digit():
    assert optimum(50, 100) == pytest.approx(100 * (1 + 0.5 / 3 + 0.25 / 9) - 50)


def test_for_cheap_snapshots_it_is_youngs():
    assert optimum(0.001, 3600) == pytest.approx(math.sqrt(2 * 0.001 * 3600), rel=1e-3)


def test_where_a_snapshot_costs_more_than_is_ever_lost_it_is_the_time_between_failures():
    assert optimum(100, 20) == 20


@given(st.floats(1e-4, 10), st.floats(1.1, 100), st.floats(20, 1e5))
def test_it_grows_with_the_cost_and_with_the_time_between_failures(cost, factor, between):
    assert optimum(cost, between) > 0
    assert optimum(cost, between * factor) >= optimum(cost, between)
    if cost * factor < between / 4:
        assert optimum(cost * factor, between) >= optimum(cost, between)


def test_failures_that_were_seen_outweigh_the_prior_with_time():
    rule = Cadence(prior=600)
    assert between_failures(replace(RUN, observed=0, failures=0), rule) == 600
    assert between_failures(replace(RUN, observed=60, failures=4), rule) == 132
    assert between_failures(replace(RUN, observed=15_000, failures=1000), rule) == pytest.approx(15, rel=0.05)
    assert between_failures(replace(RUN, observed=86_400, failures=0), rule) == 87_000


def test_a_snapshot_is_due_when_the_interval_has_passed():
    interval = decide(RUN).interval
    assert interval == pytest.approx(optimum(0.01, 700))
    assert not decide(replace(RUN, since=interval * 0.99)).due
    assert decide(replace(RUN, since=interval)).due


def test_the_reason_is_in_words():
    assert decide(RUN).reason == (
        "due in 2.7 s: best every 3.7 s (a snapshot costs 10 ms, a failure comes every 12 min, "
        "a second replays in 1.0 s)"
    )
    assert decide(replace(RUN, since=5)).reason.startswith("due: 5.0 s since the last, best every 3.7 s")


def test_slow_replay_asks_for_more_snapshots_and_fast_replay_for_fewer():
    slow, usual, fast = (decide(replace(RUN, replay=replay)).interval for replay in (4.0, 1.0, 0.25))
    assert slow == pytest.approx(usual / 2, rel=0.01)
    assert fast == pytest.approx(usual * 2, rel=0.01)


def test_replay_is_bounded():
    decision = decide(replace(RUN, cost=0.1, observed=1e6, failures=0, replay=0.5))
    assert decision.interval == 20
    assert "so that replay takes at most 10 s" in decision.reason


def test_the_budget_comes_before_the_replay():
    decision = decide(replace(RUN, cost=1.0))
    assert decision.interval == pytest.approx(49)
    assert "so that snapshots of 1.0 s take 2.0% of the time" in decision.reason


@given(st.floats(1e-4, 100), st.floats(0.05, 20), st.floats(0, 1e6), st.integers(0, 1000), st.floats(0.001, 0.5))
def test_snapshots_never_take_more_than_the_budget(cost, replay, observed, failures, budget):
    measured = replace(RUN, cost=cost, replay=replay, observed=observed, failures=failures)
    interval = decide(measured, Cadence(budget=budget)).interval
    assert cost / (cost + interval) <= budget * (1 + 1e-9)


def test_a_full_journal_comes_before_all():
    rule = Cadence(journal_operations=500, journal_bytes=10 << 20)
    assert decide(replace(RUN, operations=500), rule).reason == "due: the journal holds 500 operations, its limit"
    assert decide(replace(RUN, bytes=10 << 20), rule).reason == "due: the journal holds 10 MiB, its limit"


def test_the_first_snapshot_is_due_at_once_to_learn_its_cost():
    assert decide(replace(RUN, cost=None)).due


def test_without_an_operation_there_is_nothing_to_save():
    assert not decide(replace(RUN, operations=0, since=1e6)).due


@pytest.mark.parametrize("values", [{"budget": 0}, {"budget": 1}, {"prior": 0}, {"journal_bytes": 0}])
def test_a_rule_that_makes_no_sense_is_refused(values):
    with pytest.raises(ValueError, match=r"budget is a part|must be positive"):
        Cadence(**values)
