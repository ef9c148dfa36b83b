"""Goodput: each second of a run has one entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.ledger import ENTRIES, ledger
from tests.chaos.histories import caught_up, ended, lost, read, recovered, started, story


def test_a_run_to_which_nothing_happens_is_productive_from_its_first_value_on():
    found = ledger(story(started(0), read(4, 1, "a"), ended(10)))
    assert found.seconds["starting"] == 4
    assert found.seconds["productive"] == 6
    assert found.goodput == 1.0


def test_a_recovery_is_told_by_its_phases_and_what_follows_is_computed_again():
    found = ledger(
        story(
            started(0),
            read(1, 1, "a"),
            lost(5, "h1", silence=0.5),
            recovered(6, "h1", fence=0.25, world=0.5, restore=0.125, replay=0.125),
            caught_up(7),
            ended(11),
        )
    )
    assert found.seconds == {
        **dict.fromkeys(ENTRIES, 0.0),
        "starting": 1,
        "detecting": 0.5,
        "fence": 0.25,
        "world": 0.5,
        "restore": 0.125,
        "replay": 0.125,
        "replayed": 1,
        "productive": 7.5,
    }
    assert found.goodput == 0.75
    assert [span.entry for span in found.spans] == [
        *("starting", "productive", "detecting", "fence", "world", "restore", "replay", "replayed", "productive")
    ]


def test_a_move_to_other_hosts_and_compiling_are_told_too():
    found = ledger(
        story(
            started(0),
            read(1, 1, "a"),
            (3, "compiled", {"seconds": 1.0}),
            recovered(5, "h1", kind="moved", replayed=0, fence=0.5, world=0.5),
            ended(10),
        )
    )
    assert (found.seconds["compiling"], found.seconds["moving"], found.seconds["productive"]) == (1, 1, 7)


_MOMENTS = st.floats(0, 100, allow_nan=False)


@given(st.lists(st.tuples(_MOMENTS, _MOMENTS), max_size=8), st.floats(1, 100))
def test_the_entries_add_up_to_the_run_whatever_happened(losses, end):
    events = [lost(at, "h1", silence=silence) for at, silence in losses]
    events += [recovered(at + silence, "h1", world=silence) for at, silence in losses]
    found = ledger(story(started(0), *events, ended(end)))
    assert found.total == pytest.approx(end)
    assert sum(span.end - span.begin for span in found.spans) == pytest.approx(end)
