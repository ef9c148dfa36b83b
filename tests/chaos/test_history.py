"""Histories as files."""

import pytest

from chaos.errors import HistoryError
from chaos.history import Event, parse, parse_line
from tests.chaos.histories import ended, started, story


def test_an_event_that_is_written_and_read_is_the_same():
    event = Event("lost", 12.5, {"host": "h1", "generation": 3}, "2031-05-06T07:08:09.123Z")
    assert parse_line(event.line()) == event
    assert parse_line(event.line()).host == "h1"


def test_a_line_that_its_writer_did_not_finish_is_left_out():
    text = Event("joined", 2.0).line() + "\n" + Event("started", 1.0).line() + "\n" + '{"event": "gon'
    assert [event.kind for event in parse(text)] == ["started", "joined"]


@pytest.mark.parametrize("line", ["[]", "{}", "no", '{"event": "lost"}', '{"event": "lost", "at": "soon"}'])
def test_what_is_no_event_is_refused(line):
    with pytest.raises(HistoryError, match="is no event of a history"):
        parse_line(line)


def test_what_is_between_two_moments_includes_both():
    history = story((3.0, "c"), (1.0, "a"), (2.0, "b"), (2.0, "b2"), (4.0, "d"))
    assert [event.kind for event in history.between(2.0, 3.0)] == ["b", "b2", "c"]
    assert (list(history.between(5.0, 9.0)), list(story().between(0.0, 1.0))) == ([], [])


def test_the_events_of_some_kinds_are_the_askers_own():
    history = story((1.0, "a"), (2.0, "b"))
    history.of("a", "b").clear()
    assert [event.kind for event in history.of("a", "b")] == ["a", "b"]


def test_a_history_knows_when_the_script_ran_and_how_it_ended():
    history = story((1.0, "joined"), started(2.0), ended(9.0, code=1), (9.5, "leftovers"))
    assert (history.began, history.ended, history.failed) == (2.0, 9.0, True)
    assert (story().began, story((1.0, "joined")).ended) == (0.0, 1.0)
