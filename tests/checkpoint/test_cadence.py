import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.cadence import Work, between_failures, cost, interval, optimum


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
    assert between_failures(0, 0) == 600
    assert between_failures(60, 4) == 132
    assert between_failures(15_000, 1000) == pytest.approx(15, rel=0.05)
    assert between_failures(86_400, 0) == 87_000


def test_while_nothing_fails_the_budget_is_spent():
    assert interval(0.01, 0.02, 3600, 0) == 0.5
    assert interval(0.2, 0.02, 3600, 0) == 10


def test_where_hosts_fail_all_the_time_more_is_spent_than_the_budget():
    assert interval(0.2, 0.02, 15_000, 1000) == pytest.approx(optimum(0.2, 15), rel=0.05) == pytest.approx(2.4, 0.1)


@given(st.floats(1e-4, 100), st.floats(0, 1e6), st.integers(0, 1000), st.floats(0.001, 0.5))
def test_snapshots_are_never_rarer_than_the_budget_allows(cost, observed, failures, budget):
    assert 0 < interval(cost, budget, observed, failures) <= cost / budget


def test_one_host_a_machine_costs_what_the_slowest_has_to_do():
    assert cost([Work("a", 8, 0.2), Work("b", 8, 0.5)]) == 0.5


def test_hosts_of_one_machine_share_its_cores():
    assert cost([Work("a", 2, 0.25)] * 4) == 0.5
    assert cost([Work("a", 16, 0.25)] * 4) == 0.25


def test_nobody_costs_nothing():
    assert cost([]) == 0
