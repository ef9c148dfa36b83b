"""Which reaction belongs to which fault."""

from chaos.causes import alarms_without_cause, reactions
from tests.chaos.histories import caught_up, generation, gone, injected, lost, recovered, replay, reverted, story


def reaction(*events):
    [found] = reactions(story(*events), 5.0)
    return found


def test_a_fault_is_noticed_when_its_host_is_given_up_and_over_when_the_run_has_caught_up():
    found = reaction(
        injected(1, 1, "kill-host", "h1"), lost(1.1, "h1"), gone(1.2, "h1"), recovered(1.4, "h1"), caught_up(2)
    )
    assert (found.noticed.at, found.recovered.at, found.caught_up.at) == (1.1, 1.4, 2)


def test_a_fault_may_be_noticed_by_the_neighbour_that_it_took_along():
    found = reaction(replay(0, 1, 0, 5), injected(1, 1, "kill-executor", "h1"), lost(1.1, "h2"))
    assert found.noticed.host == "h2"


def test_while_a_world_is_being_formed_a_fault_is_noticed_by_forming_another():
    before = [replay(0, 1, 0, 5), lost(1, "h0"), generation(1.1, 2, "h1")]
    found = reaction(*before, injected(1.2, 1, "kill-executor", "h1"), generation(1.5, 3, "h2"))
    assert (found.noticed.kind, found.noticed.at) == ("generation", 1.5)


def test_a_host_that_leaves_as_it_was_told_is_left_for_that():
    told = injected(1, 1, "preempt", "h1", lasts=20.0, must_be_noticed=False)
    assert reaction(told, lost(2, "h2")).noticed is None
    found = reaction(
        told, (2, "moving", {"host": "h1", "reason": "it was told to leave"}), recovered(3, "h1", kind="moved")
    )
    assert (found.noticed.kind, found.recovered.at) == ("moving", 3)


def test_what_need_not_be_noticed_is_not_noticed_by_what_the_next_fault_does_to_its_host():
    slow = injected(1, 1, "slow", "h1", lasts=5.0, must_be_noticed=False)
    for_host = [slow, injected(4, 2, "kill-host", "h1"), lost(4.1, "h1"), recovered(4.3, "h1"), reverted(6, 1)]
    first, second = reactions(story(*for_host), 5.0)
    assert (first.noticed, second.noticed.at) == (None, 4.1)
    first, _ = reactions(story(slow, injected(4, 2, "kill-host", "h2"), lost(4.1, "h1")), 5.0)
    assert first.noticed.at == 4.1
    first, _ = reactions(story(slow, injected(4, 2, "die"), lost(4.1, "h1")), 5.0)
    assert first.noticed is None


def test_what_comes_too_late_is_no_reaction():
    assert reaction(injected(1, 1, "kill-host", "h1"), lost(6.1, "h1")).noticed is None


def test_the_time_of_a_fault_that_lasts_ends_when_it_is_taken_back():
    found = reaction(injected(1, 1, "freeze-host", "h1", lasts=9.0), reverted(10, 1), lost(14, "h1"))
    assert found.until == 10
    assert found.noticed.at == 14


def test_what_happened_to_storage_is_noticed_by_who_comes_upon_it_and_stops_nothing():
    failed = (3, "not_stored", {"operation": 7, "why": "no space left"})
    found = reaction(injected(1, 1, "disk-full", lasts=5.0), lost(2, "h1"), failed, recovered(4, "h1"), reverted(6, 1))
    assert (found.noticed.kind, found.recovered) == ("not_stored", None)
    rotten = injected(1, 1, "rot-copy", "h1", must_be_noticed=False)
    of_another, of_this = ((at, "bad_copy", {"host": host, "digest": "ab"}) for at, host in ((2, "h2"), (3, "h1")))
    assert reaction(rotten, of_another).noticed is None
    assert reaction(rotten, of_another, of_this).noticed.at == 3
    found, _ = reactions(story(rotten, injected(1, 2, "kill-executor", "h1"), lost(1.1, "h1"), of_this), 5.0)
    assert found.noticed.at == 3


def test_a_flipped_bit_is_noticed_by_who_computes_again_whether_a_host_is_named_or_not():
    flip = injected(1, 1, "flip-bit", "h1", must_be_noticed=False)
    for host in ("h1", ""):
        found = reaction(flip, lost(2, "h1"), (30, "corruption", {"host": host}), recovered(31, host), caught_up(32))
        assert (found.noticed.at, found.recovered.at, found.caught_up.at) == (30, 31, 32)
    assert reaction(flip, (30, "corruption", {"host": "h2"})).noticed is None


def test_an_alarm_without_a_fault_has_no_cause():
    history = story(injected(1, 1, "kill-host", "h1"), lost(1.1, "h1"), lost(20, "h2"))
    assert [alarm.host for alarm in alarms_without_cause(history, 5.0)] == ["h2"]


def test_an_etcd_that_is_away_is_no_cause_for_giving_up_a_host():
    history = story(injected(1, 1, "kill-etcd", lasts=5.0, must_be_noticed=False), lost(2, "h1"), reverted(6, 1))
    assert [alarm.host for alarm in alarms_without_cause(history, 5.0)] == ["h1"]
