"""The report of a run from facts alone."""

import json
from dataclasses import replace

import pytest

from chaos import ENTRIES
from chaos.checkers.truth import MOST as EXPECTED
from elastic.controller.changes import MOST, Changes, Recovered
from elastic.controller.replay import Verification
from elastic.controller.status_report import (
    HostFacts,
    JournalFacts,
    RunFacts,
    SnapshotFacts,
    report,
    with_etcd,
    with_refused,
)
from tests.elastic.status_contract import check_report

RUN = RunFacts("r1", 77, 3, 4, 900, True, 2, "running", "", "4 virtual devices over 2 hosts", 60.0)
SNAPSHOT = SnapshotFacts(800, 0.25, 1 << 20, 2)
JOURNAL = JournalFacts(100, 30_000)
CHANGE = Recovered(
    "lost",
    "h1",
    "its agent is gone",
    "h2 takes over",
    {"fence": 0.01, "world": 0.1, "load": 0.02, "restore": 0.03, "replay": 0.04},
    12,
    detected_by="the controller",
    detect=0.1,
    time="2026-01-02T03:04:05.678Z",
)


def host(index, **changes):
    made = HostFacts(
        id=f"h{index}",
        incarnation=10 + index,
        state="healthy",
        reason="heard",
        address=f"127.0.0.1:{4000 + index}",
        agent_pid=100 + index,
        executor_pid=200 + index,
        devices=2,
        virtual_devices=[2 * index, 2 * index + 1],
        heartbeat_age=0.05,
        lease_ttl=5,
        checked_age=12.0,
        restarts=0,
        age=60.0,
        member=True,
    )
    return replace(made, **changes)


def gone(index, state="dead", reason="its agent is gone"):
    return host(index, state=state, reason=reason, executor_pid=None, virtual_devices=[], member=False)


def made(run=RUN, hosts=None, changes=()):
    found = report(run, hosts or [host(0), host(1)], SNAPSHOT, JOURNAL, changes)
    check_report(json.loads(json.dumps(found)))
    return found


def test_a_run_that_has_what_it_was_asked_to_have_is_healthy():
    found = made()
    assert (found["status"], found["reasons"]) == ("healthy", [])
    assert found["run"]["id"] == "r1"
    assert found["hosts"][1]["virtual_devices"] == [2, 3]
    assert found["snapshot"] == {
        "operation": 800,
        "age_s": 0.25,
        "bytes": 1 << 20,
        "copies": 2,
        "protection": "copies=2",
        "copies_bytes": 0,
        "parity_bytes": 0,
        "problem": "",
    }
    assert found["journal"] == {"operations": 100, "bytes": 30_000}


def test_refused_connections_are_told_of_each_host_and_of_the_controller():
    found = with_refused(made(hosts=[host(0, refused={"garbage": 2}), host(1)]), {"wrong_secret": 1})
    check_report(found)
    assert [one["refused"] for one in found["hosts"]] == [{"garbage": 2}, {}]
    assert found["run"]["refused"] == {"wrong_secret": 1}
    assert found["status"] == "healthy"


def test_an_etcd_that_does_not_answer_is_told_and_what_follows_from_that():
    found = with_etcd(made(), 4.0)
    check_report(found)
    assert found["status"] == "degraded"
    assert found["reasons"][-1].startswith("etcd has not answered for 4.0 s or more: until it does")
    well = made()
    assert with_etcd(well, None) == well


def test_a_change_is_told_with_all_its_phases_and_their_sum():
    [failure] = made(changes=[CHANGE])["failures"]
    assert failure["phases_s"] == {
        "detect": 0.1,
        "fence": 0.01,
        "world": 0.1,
        "load": 0.02,
        "restore": 0.03,
        "replay": 0.04,
    }
    assert failure["total_s"] == pytest.approx(0.3)
    assert (failure["host"], failure["kind"], failure["time"]) == ("h1", "lost", "2026-01-02T03:04:05.678Z")


def test_no_snapshot_yet_has_no_age():
    found = report(RUN, [host(0), host(1)], SnapshotFacts(0, None, 0, 0), JOURNAL, ())
    assert found["snapshot"]["age_s"] is None
    check_report(found)


def test_a_snapshot_that_could_not_be_taken_is_a_reason():
    facts = SnapshotFacts(5, 2.0, 10, 2, problem="the arrays could not be saved: no space")
    found = report(RUN, [host(0), host(1)], facts, JOURNAL, ())
    assert (found["status"], found["reasons"]) == ("degraded", ["the arrays could not be saved: no space"])
    check_report(found)


@pytest.mark.parametrize(
    ("run", "hosts", "words"),
    [
        (RUN, [host(0), gone(1)], "1 of 2 hosts are there; host h1 is dead: its agent is gone"),
        (RUN, [host(0), gone(1, "frozen", "connected but silent")], "host h1 is frozen: connected but silent"),
        (RUN, [host(0), host(1, state="suspect", reason="silent for 1 s")], "host h1 is suspect: silent for 1 s"),
        (RUN, [host(0, virtual_devices=[0, 1, 2]), host(1)], "virtual devices share devices on h0"),
        (replace(RUN, state="recovering", reason="host h1: gone"), [host(0), host(1)], "recovering: host h1: gone"),
        (replace(RUN, state="waiting", reason="h1: 2 of 4 lack"), [host(0)], "the run is waiting: h1: 2 of 4 lack"),
        (replace(RUN, policy="surface", lost=(2, 3)), [host(0)], "virtual devices 2, 3 have no physical device"),
        (replace(RUN, state="starting", reason="1 of 2"), [host(0), host(1)], "the run is starting: 1 of 2"),
    ],
)
def test_a_run_that_lacks_something_is_degraded_and_says_why(run, hosts, words):
    found = made(run, hosts)
    assert found["status"] == "degraded"
    assert words in "; ".join(found["reasons"])


def test_a_run_that_moves_to_other_hosts_is_healthy():
    assert made(replace(RUN, state="moving", reason="host h2: it joined"))["status"] == "healthy"


def test_a_host_that_was_replaced_is_shown_but_does_not_count():
    found = made(hosts=[host(0), host(1), gone(2)])
    assert found["status"] == "healthy"
    assert [one["state"] for one in found["hosts"]] == ["healthy", "healthy", "dead"]


def test_a_run_that_failed_is_down():
    found = made(replace(RUN, state="failed", reason="every copy of array 7 is lost"))
    assert found["status"] == "down"
    assert "every copy of array 7 is lost" in found["reasons"][0]


def test_only_the_last_changes_are_kept():
    changes = Changes()
    for number in range(MOST + 3):
        changes.add(replace(CHANGE, host=f"h{number}"))
    assert len(changes.told()) == MOST == EXPECTED
    assert changes.told()[-1].host == f"h{MOST + 2}"


@pytest.mark.parametrize(
    ("verification", "verified"),
    [
        (Verification(), None),
        (Verification(equal=3), True),
        (Verification(equal=3, waiting=1), None),
        (Verification(equal=3, waiting=1, different=["array 7"]), False),
    ],
)
def test_what_a_replay_gave_is_told_when_it_is_known(verification, verified):
    changes = Changes()
    changes.add(CHANGE, verification)
    assert [change.verified for change in changes.told()] == [verified]


def test_a_change_has_a_time():
    check_report(made(changes=[replace(CHANGE, time=Recovered("lost", "h", "r", "p", {}, 0).time)]))


def test_what_the_time_was_spent_on_is_told_as_it_is_and_none_if_nobody_counts():
    spent = {"share": 0.5, "seconds": {**dict.fromkeys(ENTRIES, 0.0), "productive": 3.0, "waiting": 3.0}}
    found = report(RUN, [host(0), host(1)], SNAPSHOT, JOURNAL, [], goodput=spent)
    check_report(found)
    assert found["goodput"] == spent
    assert made()["goodput"] is None
