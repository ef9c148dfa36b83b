"""Who holds what, event by event."""

from chaos.copies import Copies
from tests.chaos.histories import gone, holds, joined, story


def after(*events):
    copies = Copies()
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
