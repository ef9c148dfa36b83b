"""The report, of a short story: its data, its text and its page."""

import itertools
import json
import re
import xml.etree.ElementTree as ET

import pytest

from chaos.ledger import Span, ledger
from chaos.plan import Plan
from chaos.report import Report, html, text
from chaos.report.facts import curve
from chaos.report.pictures import COLOURS, in_groups, timeline
from tests.chaos.histories import (
    caught_up,
    ended,
    generation,
    holds,
    injected,
    joined,
    lost,
    read,
    recovered,
    replay,
    snapshot,
    started,
    story,
)


def line(at, words, step=None):
    return (at, "output", {"line": words, "step": step})


NOTHING = (30, "leftovers", {"processes": [], "files": []})
POOL = (joined(0, "h0"), joined(0, "h1"), generation(0, 1, "h0", "h1"), replay(0, 1, 0, 0))
PLAIN = story(started(), *POOL, read(1, 1, "aa"), line(1, "step 1 loss 0.5", 1), read(2, 2, "bb"), ended(3), NOTHING)
STORY = (
    *(started(), *POOL, read(1, 1, "aa"), line(1, "step 1 loss 0.5", 1), snapshot(2, 0), holds(2, ["h0", "h1"])),
    *(injected(3, 1, "kill-executor", "h1"), lost(3.1, "h1"), generation(3.2, 2, "h0", "h0"), replay(3.4, 2, 0, 3)),
    *(
        recovered(3.5, "h1", fence=0.1, world=0.3),
        caught_up(4),
        read(5, 2, "bb", 2),
        line(5, "step 2 <b>", 2),
        ended(6),
    ),
    *((3.6, "health", {"asked": 3.55, "failures": [{"host": "h1", "kind": "lost"}], "hosts": []}), NOTHING),
)


@pytest.fixture
def report():
    return Report.of(Plan(name="<smoke>", seed=7, hosts=2), PLAIN, story(*STORY), ["train.py", "--steps", "2"])


def test_a_run_that_kept_its_promises_is_told_as_such(report):
    assert [verdict.problems for verdict in report.verdicts if not verdict.held] == []
    found = json.loads(report.json())
    assert found["held"] is True
    assert (found["seed"], found["script"]) == (7, ["train.py", "--steps", "2"])
    assert found["faults"][0]["caught_up"] == 1.0
    assert sum(found["seconds"].values()) == pytest.approx(found["chaos_s"])
    assert "every check held" in text(report)
    assert "kill-executor    1 of 1 stopped the run, median 1.00 s, worst 1.00 s" in text(report)


def test_what_is_broken_is_told_with_the_problem():
    broken = Report.of(Plan(hosts=2), PLAIN, story(*STORY, read(5.5, 3, "zz", 2)), ["train.py"])
    assert not broken.held
    assert "BROKEN  numbers" in text(broken)
    assert "the script read 3 values, and 2 when nothing happens" in text(broken)
    assert "the script read 3 values, and 2 when nothing happens" in html(broken)


def test_the_page_is_whole_and_takes_nothing_from_elsewhere(report):
    page = html(report)
    ET.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>|<br>", "", page))
    assert page.count("<svg") == 4
    assert not re.search(r"(src|href)=|<script|@import|url\(", page)
    assert "&lt;smoke&gt;" in page


def test_a_report_of_a_run_that_hardly_began_has_a_page_too():
    page = html(Report.of(Plan(), story(), story(started(), ended(1, code=1)), ["x.py"]))
    assert "a promise was broken" in page


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("step 3 loss=1.5e-3 in 2.0 s", 0.0015),
        ("step 3  1.25", 1.25),
        ("step 3 0x1.8p-1", 0.75),
        ("epoch 3  Loss: -0.5  accuracy 0.9", -0.5),
    ],
)
def test_the_curve_has_the_number_that_a_line_tells_of_its_step(words, value):
    assert curve(story(line(1, words, 3))) == [(3, value)]


def test_lines_without_a_step_or_a_number_are_not_in_the_curve():
    assert curve(story(line(1, "loss 0.5"), line(2, "step 3 done", 3))) == []


def test_what_is_too_narrow_to_be_seen_is_drawn_together():
    spans = [Span("productive", at / 10, at / 10 + 0.1) for at in range(20)] + [Span("world", 2.0, 5.0)]
    groups = in_groups(spans, 0.45)
    assert [len(group) for group in groups] == [5, 5, 5, 5, 1]
    assert [span for group in groups for span in group] == spans
    assert in_groups([], 1.0) == []


def test_the_page_of_a_long_run_is_small_and_shows_what_stopped_it():
    begun = [started(), *POOL, read(0, 1, "aa")]
    often = (
        (snapshot(at / 10, at), line(at / 10, f"step {at}", at), (at / 10, "waited", {"seconds": 0.03}))
        for at in range(1, 30_000)
    )
    loss = [lost(2000, "h1"), generation(2000.1, 2, "h0", "h0"), recovered(2000.4, "h1", fence=0.1, world=0.3)]
    history = story(*begun, *itertools.chain.from_iterable(often), *loss, ended(3000))
    page = timeline(history, ledger(history))
    assert len(page) < 1_000_000
    assert page.count(COLOURS["world"]) == 2  # In the legend and in the picture.
