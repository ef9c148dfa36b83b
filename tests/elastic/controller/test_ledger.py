"""The ledger of a run while it goes on."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.entries import ENTRIES
from chaos.history import Event, History
from chaos.ledger import Span, ledger
from elastic.controller.ledger import KINDS, Ledger
from tests.chaos.histories import caught_up, lost, read, recovered, story


def kept(events, end, begin=0.0):
    """The account at the end of events that came one by one."""
    live = Ledger(begin)
    for event in story(*events):
        live.feed(event)
    return live.seconds(end)


def spent(seconds):
    return {entry: value for entry, value in seconds.items() if value}


def test_before_the_first_value_a_run_starts_and_then_it_is_productive():
    assert spent(kept([], 2)) == {"starting": 2}
    assert spent(kept([read(4, 1, "a")], 10)) == {"starting": 4, "productive": 6}


def test_a_loss_is_booked_while_it_is_mended_and_by_its_phases_when_it_is():
    events = [read(1, 1, "a"), lost(5, "h1", silence=0.5), (5.5, "generation", {})]
    assert spent(kept(events, 7)) == {"starting": 1, "productive": 3.5, "detecting": 0.5, "fence": 0.5, "world": 1.5}
    events += [recovered(6, "h1", fence=0.25, world=0.5, restore=0.125, replay=0.125)]
    assert spent(kept(events, 7))["replayed"] == 1
    events += [caught_up(7)]
    assert spent(kept(events, 8)) == {
        **{"starting": 1, "productive": 4.5, "detecting": 0.5, "replayed": 1},
        **{"fence": 0.25, "world": 0.5, "restore": 0.125, "replay": 0.125},
    }


def test_a_run_that_waits_for_hosts_or_has_failed_is_idle():
    events = [read(0, 1, "a"), lost(4, "h1", silence=0), (5, "waits", {})]
    assert spent(kept(events, 9)) == {"productive": 4, "fence": 1, "idle": 4}
    assert spent(kept([*events, (6, "failed", {})], 9)) == {"productive": 4, "fence": 1, "idle": 4}
    back = [*events, (8, "generation", {}), recovered(8, "h1", fence=4)]
    assert spent(kept([*back, caught_up(8.5)], 9)) == {"productive": 4.5, "fence": 1, "idle": 3, "replayed": 0.5}


def test_a_client_that_asks_for_nothing_is_told_apart_from_work():
    live = Ledger(0)
    live.feed(Event("read", 1))
    assert spent(live.seconds(5, waiting_since=2)) == {"starting": 1, "productive": 1, "waiting": 3}
    live.feed(Event("waited", 5, {"seconds": 3}))
    assert spent(live.seconds(6)) == {"starting": 1, "productive": 2, "waiting": 3}


def test_a_snapshot_holds_nobody_up_who_waits_anyway():
    events = [read(0, 1, "a"), (5, "saved", {"seconds": 2}), (6, "waited", {"seconds": 2})]
    events += [(9, "saved", {"seconds": 1})]
    assert spent(kept(events, 9)) == {"productive": 5, "snapshotting": 2, "waiting": 2}


def test_what_lies_far_back_is_settled_unless_it_is_under_way():
    live = Ledger(0)
    assert live.feed(Event("compiling", 5, {"program": 1})) == []
    assert live.feed(Event("joined", 100)) == []
    live.feed(Event("compiled", 200, {"program": 1, "seconds": 195}))
    assert live.feed(Event("read", 205)) == [Span("starting", 0, 5)]
    assert live.feed(Event("waited", 300, {"seconds": 1})) == [Span("compiling", 5, 200), Span("starting", 200, 205)]
    assert [span.entry for span in live.close(310)] == ["productive", "waiting", "productive"]


_SECONDS = st.floats(0, 10)
_PHASES = dict.fromkeys(("fence", "world", "restore", "replay"), st.floats(0, 2.5))
_FACTS = {
    "lost": st.fixed_dictionaries({"silence": _SECONDS}),
    "recovered": st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["lost", "moved"]),
            "operations_replayed": st.integers(0, 1),
            "phases": st.fixed_dictionaries(_PHASES),
        }
    ),
    "compiling": st.fixed_dictionaries({"program": st.just(1)}),
    "compiled": st.fixed_dictionaries({"program": st.just(1), "seconds": _SECONDS}),
    "saved": st.fixed_dictionaries({"seconds": _SECONDS}),
    "waited": st.fixed_dictionaries({"seconds": _SECONDS}),
}


@st.composite
def histories(draw):
    """Whatever may happen, in whatever order; a failure ends it."""
    kinds = draw(st.lists(st.sampled_from(sorted(set(KINDS) - {"failed"})), max_size=25))
    kinds += ["failed"] * draw(st.integers(0, 1))
    times = sorted(draw(st.sets(st.floats(0.5, 20), min_size=len(kinds), max_size=len(kinds))))
    events = [Event(kind, at, draw(_FACTS.get(kind, st.just({})))) for kind, at in zip(kinds, times, strict=True)]
    return [Event("started", 0.0), *events, Event("ended", 25.0, {"code": 0})]


@given(histories())
def test_it_agrees_with_the_ledger_of_the_whole_history_and_adds_up_at_any_time(events):
    live = Ledger(0.0)
    settled = []
    for event in events:
        settled += live.feed(event)
        assert sum(live.seconds(event.at).values()) == pytest.approx(event.at)
    whole = ledger(History(events))
    assert live.seconds(25.0) == pytest.approx({entry: whole.seconds[entry] for entry in ENTRIES}, abs=1e-9)
    spans = [*settled, *live.close(25.0)]
    assert sum(span.end - span.begin for span in spans) == pytest.approx(25.0)
    assert all(left.end == right.begin for left, right in itertools.pairwise(spans))
    assert live.seconds(25.0) == pytest.approx(whole.seconds, abs=1e-9)
