"""Who holds what, event by event."""

from chaos.copies import Copies
from tests.chaos.histories import gone, holds, injected, joined, reverted, stored, story, striped

HOSTS = [joined(0, "h0"), joined(0, "h1"), joined(0, "h2")]


def after(*events, stores=False):
    copies = Copies(stores=stores)
    for event in story(*events):
        copies.tell(event)
    return copies


def test_before_the_first_snapshot_any_host_may_go_but_the_last():
    copies = after(joined(0, "h0"), joined(1, "h1"))
    assert copies.whole
    assert copies.may_lose(["h0"])
    assert not copies.may_lose(["h0", "h1"])


def test_a_host_may_go_if_others_hold_all_that_it_does():
    copies = after(joined(0, "h0"), joined(1, "h1"), joined(2, "h2"), holds(3, ["h0", "h1"], ["h1", "h2"]))
    assert copies.may_lose(["h0"])
    assert copies.may_lose(["h0", "h2"])
    assert not copies.may_lose(["h0", "h1"])


def test_what_only_a_host_held_that_is_gone_is_lost_until_it_says_that_it_has_it_again():
    events = [joined(0, "h0"), joined(1, "h1"), joined(2, "h2"), holds(3, ["h0", "h1"])]
    assert not after(*events, gone(4, "h0"), gone(5, "h1")).whole
    back = after(*events, gone(4, "h0"), gone(5, "h1"), joined(6, "h1"), holds(6, ["h1"]))
    assert back.whole
    assert not back.may_lose(["h1"])


def test_a_client_that_leaves_has_nothing_to_lose():
    copies = after(joined(0, "h0"), joined(1, "h1"), holds(2, ["h0"]), (3, "forgotten", {"operation": 5}))
    assert copies.may_lose(["h0"])


def test_of_a_stripe_as_many_blocks_suffice_as_it_has_data():
    events = [*HOSTS, striped(1, 2, ["h0"], ["h1"], ["h2"])]
    assert after(*events).may_lose(["h0"])
    assert not after(*events).may_lose(["h0", "h2"])
    assert after(*events, gone(2, "h1")).whole
    assert not after(*events, gone(2, "h1"), gone(3, "h2")).whole


def test_what_has_rotted_is_no_copy_until_there_is_another():
    events = [*HOSTS, holds(1, ["h0", "h1"]), injected(2, 1, "rot-copy", "h0")]
    assert not after(*events).may_lose(["h1"])
    assert after(*events, holds(3, ["h0", "h1"])).may_lose(["h1"])
    assert not after(*HOSTS, striped(1, 2, ["h0"], ["h1"], ["h2"]), injected(2, 1, "rot-parity", "h2")).may_lose(["h0"])


def test_a_run_that_stores_may_lose_all_of_its_hosts():
    events = [*HOSTS, holds(1, ["h0"])]
    assert after(*events, stores=True).may_lose(["h0", "h1", "h2"])  # Then it begins again.
    assert after(*events, stored(2, 5), gone(3, "h0"), stores=True).whole


def test_a_checkpoint_that_has_rotted_is_worth_nothing_until_the_next():
    events = [*HOSTS, stored(1, 5), injected(2, 1, "rot-checkpoint"), holds(3, ["h0"]), gone(4, "h0")]
    assert not after(*events, stores=True).whole
    assert after(*events, stored(5, 6), stores=True).whole


class TestAHostThatIsHit:
    """It may be given up at any moment, so no other may go that has what it has."""

    EVENTS = (*HOSTS, holds(1, ["h0", "h1"]))

    def test_no_other_may_go_until_it_is_given_up_and_others_have_what_it_had(self):
        events = [*self.EVENTS, injected(2, 1, "freeze-host", "h0"), holds(2.5, ["h0", "h1"])]
        assert not after(*events).may_lose(["h1"])
        assert after(*events).may_lose(["h2"])
        events += [gone(3, "h0"), joined(6, "h0"), holds(7, ["h0", "h1"])]
        assert after(*events).may_lose(["h1"])

    def test_one_that_goes_on_may_be_given_up_a_little_later(self):
        events = [*self.EVENTS, injected(2, 1, "freeze-host", "h0"), reverted(3, 1)]
        assert not after(*events, holds(4.9, ["h0", "h1"])).may_lose(["h1"])
        assert after(*events, holds(5.1, ["h0", "h1"])).may_lose(["h1"])

    def test_a_second_fault_counts_when_the_first_is_over(self):
        events = [*self.EVENTS, injected(2, 1, "cut", "h0"), injected(3, 2, "freeze-host", "h0"), reverted(3, 1)]
        assert not after(*events, holds(6, ["h0", "h1"])).may_lose(["h1"])

    def test_one_that_comes_back_only_to_be_hit_again_does_not_count_before_that_is_over(self):
        events = [*self.EVENTS, injected(2, 1, "flap", "h0"), gone(3, "h0"), joined(4, "h0"), holds(5, ["h0", "h1"])]
        assert not after(*events).may_lose(["h1"])
        assert after(*events, reverted(6, 1), holds(8.1, ["h0", "h1"])).may_lose(["h1"])

    def test_of_a_death_at_a_point_nobody_knows_whose_it_will_be(self):
        events = [joined(0, "h3"), *self.EVENTS, (2, "armed", {"number": 1, "point": "copies"})]
        assert not after(*events).may_lose(["h1"])
        assert after(*events).may_lose(["h2"])
        events += [injected(3, 1, "die"), gone(3.1, "h3"), holds(4.9, ["h0", "h1"])]
        assert not after(*events).may_lose(["h1"])
        assert after(*events, holds(5.1, ["h0", "h1"])).may_lose(["h1"])

    def test_one_that_is_to_die_at_a_point_may_be_anyone(self):
        assert after(*HOSTS, holds(1, ["h0", "h1"])).may_lose([], 1)
        assert not after(*HOSTS, holds(1, ["h0", "h1"])).may_lose([], 2)
        assert not after(*HOSTS, holds(1, ["h0"])).may_lose([], 1)
        assert not after(HOSTS[0]).may_lose([], 1)

    def test_an_executor_that_is_to_die_hinders_nobody(self):
        assert after(*self.EVENTS, (2, "armed", {"number": 1, "point": "snapshot"})).may_lose(["h1"])

    def test_what_takes_no_memory_hinders_nobody(self):
        assert after(*self.EVENTS, injected(2, 1, "kill-executor", "h0")).may_lose(["h1"])
