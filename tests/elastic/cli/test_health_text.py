"""Reports as text."""

from dataclasses import replace

import pytest

from elastic.cli.health_text import duration, lines, plain, ranges, size
from elastic.controller.findings import Finding, VerifiedFacts
from elastic.controller.majority import Shard
from elastic.controller.status_report import report, with_refused
from elastic.health_report import nothing, of_run
from tests.elastic.controller.test_status_report import CHANGE, JOURNAL, RUN, SNAPSHOT, gone, host

POOL = {"kind": "private", "address": "etcd://unix:/x/etcd.sock", "directory": "/dev/shm/elastic-0a1b2c3d"}


def test_a_report_is_a_line_a_host_and_a_line_a_failure():
    text = plain(of_run(report(RUN, [host(0), gone(1)], SNAPSHOT, JOURNAL, [CHANGE]), POOL))
    assert text.splitlines() == [
        "pool /dev/shm/elastic-0a1b2c3d: degraded",
        "  1 of 2 hosts are there; host h1 is dead: its agent is gone",
        "run r1: running; generation 3, 900 operations, its client is connected, age 60 s; "
        "4 virtual devices over 2 hosts",
        "  host  state    devices  virtual devices  heard       restarts  age   reason",
        "  h0    healthy  2        0-1              0.05 s ago  0         60 s  heard",
        "  h1    dead     2        -                0.05 s ago  0         60 s  its agent is gone",
        "snapshot at operation 800, 0.2 s old, 1.0 MiB in 2 copies; journal of 100 operations, 29 KiB",
        "changes (1):",
        "  2026-01-02T03:04:05.678Z h1 lost: its agent is gone; noticed by the controller; h2 takes over; 0.30 s "
        "(detect 0.10, fence 0.01, world 0.10, load 0.02, restore 0.03, replay 0.04), 12 operations replayed",
    ]


def test_how_a_snapshot_is_protected_by_parity_is_told_with_what_it_takes():
    snapshot = replace(SNAPSHOT, copies=1, protection="parity=3+1", copies_bytes=300, parity_bytes=350 << 10)
    text = "1.0 MiB in 1 copy, protected by parity=3+1 (parity takes 350 KiB, copies 300 bytes more);"
    assert text in plain(of_run(report(RUN, [host(0)], snapshot, JOURNAL, []), POOL))


def test_what_was_verified_and_found_is_told():
    finding = Finding("host h1 computed wrongly", "h1", [Shard(7, 2)], [Shard(7, 2, 9)], True, 3, time="now")
    facts = VerifiedFacts(4, 700, 12.0, 8, 9, True, "", [finding])
    found = of_run(report(RUN, [host(0), host(1)], SNAPSHOT, JOURNAL, [], None, facts), POOL)
    text = plain(found).splitlines()
    told = (
        "1 in 4 intervals between snapshots is executed again: 8 were right, the last at operation 700, 12 s ago; "
        "one is being verified"
    )
    assert told in text
    assert "  now host h1 computed wrongly; the run went back; wrong values that the script has read: 1" in text
    assert found["verification"]["findings"][0]["host"] == "h1"
    assert "verified" not in plain(of_run(report(RUN, [host(0)], SNAPSHOT, JOURNAL, []), POOL))


def test_that_nothing_can_be_verified_is_a_reason():
    facts = VerifiedFacts(4, 0, None, 0, 0, False, "results cannot be verified", ())
    found = of_run(report(RUN, [host(0), host(1)], SNAPSHOT, JOURNAL, [], None, facts), POOL)
    assert (found["status"], found["reasons"]) == ("degraded", ["results cannot be verified"])
    assert "1 in 4 intervals between snapshots is executed again: 0 were right" in plain(found).splitlines()


def test_refused_connections_are_a_line_if_there_are_any():
    hosts = [host(0, refused={"garbage": 12, "wrong_secret": 3}), host(1)]
    found = with_refused(report(RUN, hosts, SNAPSHOT, JOURNAL, []), {"silent": 1})
    line = "refused connections: h0: 12 garbage, 3 wrong secret; the controller of run r1: 1 silent"
    assert line in plain(of_run(found, POOL)).splitlines()
    assert "refused" not in plain(of_run(report(RUN, [host(0)], SNAPSHOT, JOURNAL, []), POOL))


def test_what_the_time_was_spent_on_is_a_line_with_the_most_first():
    spent = {"share": 0.75, "seconds": {"productive": 30.0, "waiting": 0.5, "world": 9.4, "fence": 0.01}}
    found = report(RUN, [host(0)], SNAPSHOT, JOURNAL, [], goodput=spent)
    assert "goodput 75.0%: productive 30 s, world 9.4 s, waiting 0.5 s" in plain(of_run(found, POOL)).splitlines()


def test_states_have_styles():
    styles = {piece: style for line in lines(nothing("there is none")) for piece, style in line}
    assert styles["down"] == "bad"


def test_no_pool_is_a_line_and_why():
    assert plain(nothing("there is none")) == "no pool: down\n  there is none"


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([3], "3"), ([2, 0, 1, 6], "0-2,6"), ([4, 5, 3], "3-5")])
def test_ranges(numbers, text):
    assert ranges(numbers) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.04, "0.0 s"), (59, "59 s"), (600, "10 min"), (7200, "2 h"), (10 * 86400, "10 d")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(7, "7 bytes"), (2048, "2.0 KiB"), (50 << 20, "50 MiB"), (3 << 40, "3.0 TiB")]
)
def test_sizes(count, text):
    assert size(count) == text
