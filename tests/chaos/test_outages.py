"""MTTR by fault."""

import pytest

from chaos.outages import by_fault, outages
from tests.chaos.histories import caught_up, injected, lost, recovered, story


def test_a_fault_is_told_with_the_seconds_until_each_thing_that_followed():
    [found] = outages(
        story(injected(10, 1, "kill-host", "h1"), lost(10.5, "h1"), recovered(11, "h1", world=0.5), caught_up(12)), 5.0
    )
    assert (found.noticed, found.recovered, found.caught_up) == (0.5, 1.0, 2.0)
    assert (found.phases, found.operations_replayed, found.how) == ({"world": 0.5}, 3, "a closed connection")


def test_of_each_kind_of_fault_there_is_the_median_and_the_worst():
    found = outages(
        story(
            *(injected(10, 1, "kill-host", "h1"), lost(10.5, "h1"), recovered(11, "h1"), caught_up(12)),
            *(injected(20, 2, "kill-host", "h2"), lost(20.5, "h2"), recovered(23, "h2"), caught_up(24)),
            injected(30, 3, "slow", "h2"),
        ),
        5.0,
    )
    kills, slow = by_fault(found)
    assert (kills.count, kills.stopped, kills.median, kills.worst) == (2, 2, 3.0, 4.0)
    assert (slow.count, slow.stopped, slow.median) == (1, 0, None)


def test_the_seconds_of_each_kind_are_divided_into_phases_in_the_mean():
    found = outages(
        story(
            *(injected(10, 1, "kill-host", "h1"), lost(10.5, "h1"), recovered(11, "h1", world=0.5), caught_up(12)),
            *(injected(20, 2, "kill-host", "h2"), lost(20.1, "h2"), recovered(20.4, "h2", world=0.3), caught_up(21)),
            injected(30, 3, "slow", "h2"),
        ),
        5.0,
    )
    kills, slow = by_fault(found)
    assert kills.phases == pytest.approx({"detecting": 0.3, "world": 0.4, "replayed": 0.8})
    assert slow.phases == {}
