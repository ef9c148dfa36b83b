"""When faults are due: by steps, events and seconds, and the same ones for the same seed."""

import itertools

import pytest

from chaos.agenda import Agenda
from chaos.plan import AtEvent, AtStep, AtTime, Every, Plan, PlannedFault, Poisson


def agenda(*faults, seed=1, **plan):
    return Agenda(Plan(faults=faults, **plan), seed)


def names(injections):
    return [str(one) for one in injections]


def test_a_fault_at_a_step_is_due_once_and_also_if_the_step_was_not_told():
    plan = agenda(PlannedFault("kill-host", AtStep(5), ("h1",)))
    assert plan.step(4) == []
    assert names(plan.step(6)) == ["kill-host h1"]
    assert plan.step(7) == []


def test_a_fault_at_an_event_waits_for_the_one_that_it_names():
    plan = agenda(PlannedFault("die", AtEvent("lost", 2), point="restore"))
    assert plan.event("lost") == []
    assert plan.event("snapshot") == []
    assert names(plan.event("lost")) == ["die in restore"]
    assert plan.event("lost") == []


def test_faults_at_times_come_in_the_order_of_time():
    plan = agenda(
        PlannedFault("kill-executor", Every(2.0, times=2), ("h0",)), PlannedFault("kill-agent", AtTime(3.0), ("h1",))
    )
    assert plan.next_time == 2.0
    assert plan.time(1.9) == []
    assert names(plan.time(5)) == ["kill-executor h0", "kill-agent h1", "kill-executor h0"]
    assert plan.next_time is None


def test_nothing_is_drawn_after_the_plan_has_ended():
    plan = agenda(PlannedFault("kill-executor", Every(2.0), ("h0",)), until=5.0)
    assert len(plan.time(100)) == 2
    assert plan.next_time is None


@pytest.mark.parametrize("step", [0.1, 7.0, 1000.0])
def test_the_same_seed_draws_the_same_however_time_passes(step):
    faults = (PlannedFault("kill-agent", Poisson(3.0)), PlannedFault("kill-executor", Poisson(5.0), count=2))
    once = agenda(*faults).time(300)
    other = agenda(*faults)
    found = list(
        itertools.chain.from_iterable(other.time(min(index * step, 300)) for index in range(int(300 / step) + 2))
    )
    assert found == once
    assert agenda(*faults, seed=2).time(300) != once


def test_hosts_are_drawn_from_all_and_faults_have_the_rate_that_the_plan_says():
    found = agenda(PlannedFault("kill-agent", Poisson(2.0)), hosts=3, spares=1).time(2000)
    assert {host for one in found for host in one.hosts} == {"h0", "h1", "h2", "h3"}
    assert 850 < len(found) < 1150
    assert [one.number for one in found] == list(range(1, len(found) + 1))


def test_what_was_not_reached_is_told():
    plan = agenda(
        PlannedFault("kill-host", AtStep(50), ("h1",)), PlannedFault("die", AtEvent("lost", 3), point="copies")
    )
    plan.event("lost")
    assert plan.not_reached == ["kill-host: the script told no step 50", "die: lost came 1 times, not 3"]
