"""The health of a pool from what etcd and controllers said."""

import pytest

from elastic.health_report import EXIT_CODES, nothing, of_pool, of_run
from elastic.pool_view import PoolView
from membership.registry import HostRecord, RunRecord
from tests.elastic.status_contract import check_report

POOL = {"kind": "pool", "address": "etcd://h1:2379/p"}


def record(id, incarnation=1, **changes):
    return HostRecord(id, f"{id}:4000", 2, 99, "m", incarnation=incarnation, ttl=5, **changes)


def host(id, incarnation=1, state="healthy"):
    return {
        "id": id,
        "incarnation": incarnation,
        "state": state,
        "reason": "heard",
        "agent_pid": 99,
        "executor_pid": 100,
        "address": f"{id}:4000",
        "devices": 2,
        "virtual_devices": [0, 1],
        "heartbeat_age_s": 0.1,
        "lease_ttl_s": 5,
        "refused": {},
        "restarts": 0,
        "age_s": 1.0,
    }


def report(run, *hosts, reasons=(), failures=()):
    return {
        "status": "degraded" if reasons else "healthy",
        "reasons": list(reasons),
        "run": {
            "id": run,
            "generation": 2,
            "virtual_devices": 2,
            "operations": 7,
            "client_connected": True,
        },
        "hosts": list(hosts),
        "snapshot": {
            **{"operation": 5, "age_s": 0.1, "bytes": 10, "copies": 2},
            **{"protection": "copies=2", "copies_bytes": 10, "parity_bytes": 0, "problem": ""},
        },
        "journal": {"operations": 2, "bytes": 600},
        "failures": list(failures),
    }


def failure(time, host):
    phases = {"detect": 0.1, "fence": 0.0, "world": 0.2, "restore": 0.0, "replay": 0.0}
    return {
        "time": time,
        "host": host,
        "kind": "lost",
        "detected_by": "x",
        "reason": "y",
        "plan": "z",
        "phases_s": phases,
        "total_s": 0.3,
        "operations_replayed": 1,
        "verified": None,
    }


def view(*hosts, claims=(), runs=()):
    return PoolView(
        {one.id: one for one in hosts}, dict(claims), {run: RunRecord(run, "unix:/x", 7, 2) for run in runs}, {}
    )


def test_no_pool_is_down():
    found = nothing("there is none")
    check_report(found)
    assert EXIT_CODES[found["status"]] == 2


def test_a_pool_without_a_run_shows_its_hosts():
    found = of_pool(view(record("h10"), record("h2"), record("h1", draining="told to leave")), {}, POOL)
    check_report(found)
    assert [(one["id"], one["state"]) for one in found["hosts"]] == [
        ("h1", "draining"),
        ("h2", "healthy"),
        ("h10", "healthy"),
    ]
    assert (found["status"], found["run"], found["snapshot"]) == ("healthy", None, None)
    assert found["hosts"][1]["reason"] == "it is registered; no run has it"


def test_a_host_in_quarantine_degrades_the_pool_and_is_shown_with_its_reason_once():
    bad = record("h1", incarnation=2, quarantined="device 1 computed wrongly")
    words = "host h1 is quarantined: device 1 computed wrongly"
    found = of_pool(view(record("h0"), bad), {}, POOL)
    check_report(found)
    assert (found["status"], found["reasons"]) == ("degraded", [words])
    assert [(host["id"], host["state"]) for host in found["hosts"]] == [("h0", "healthy"), ("h1", "quarantined")]
    assert found["hosts"][1]["reason"] == "device 1 computed wrongly"
    seen = report("r", host("h0"), host("h1", state="quarantined"), reasons=[f"1 of 2 hosts are there; {words}"])
    found = of_pool(view(record("h0"), bad, claims=["h0"], runs=["r"]), {"r": seen}, POOL)
    assert "; ".join(found["reasons"]).count(words) == 1


def test_a_pool_without_hosts_is_down():
    found = of_pool(view(), {}, POOL)
    assert found["status"] == "down"
    assert "no host is registered" in found["reasons"][0]


def test_hosts_that_are_missing_degrade_the_pool():
    found = of_pool(view(record("h0")), {}, POOL, wanted=2)
    assert (found["status"], found["reasons"]) == ("degraded", ["1 of 2 hosts are registered in the pool"])


def test_each_host_is_shown_once_as_the_run_that_has_it_sees_it():
    pool = view(record("h0"), record("h1"), record("h2"), claims={"h0": "a", "h1": "b"}, runs=["a", "b"])
    # Run a had h1 before b got it, and still shows it.
    answers = {"a": report("a", host("h0"), host("h1", state="dead")), "b": report("b", host("h1"))}
    found = of_pool(pool, answers, POOL)
    check_report(found)
    assert [(one["id"], one["state"], one["run"]) for one in found["hosts"]] == [
        ("h0", "healthy", "a"),
        ("h1", "healthy", "b"),
        ("h2", "healthy", None),
    ]


def test_a_host_that_came_back_is_not_shown_dead():
    answers = {"a": report("a", host("h0", 4, "dead"))}
    found = of_pool(view(record("h0", 9), runs=["a"]), answers, POOL)
    assert [(one["incarnation"], one["state"]) for one in found["hosts"]] == [(9, "healthy")]


def test_a_dead_host_that_is_not_registered_any_more_is_shown_dead():
    answers = {"a": report("a", host("h0"), host("h1", 4, "dead"), reasons=["1 of 2 hosts are there"])}
    found = of_pool(view(record("h0"), claims={"h0": "a"}, runs=["a"]), answers, POOL)
    assert [(one["id"], one["state"]) for one in found["hosts"]] == [("h0", "healthy"), ("h1", "dead")]
    assert found["reasons"] == ["run a: 1 of 2 hosts are there"]


def test_a_controller_that_does_not_answer_degrades_the_pool():
    found = of_pool(view(record("h0"), claims={"h0": "a"}, runs=["a"]), {"a": "it hangs"}, POOL)
    check_report(found)
    assert (found["status"], found["run"]["id"]) == ("degraded", "a")
    assert found["reasons"] == ["run a: its controller does not answer: it hangs"]


def test_a_controller_that_was_not_asked_does_not():
    found = of_pool(view(record("h0"), claims={"h0": "a"}, runs=["a"]), {}, POOL)
    check_report(found)
    assert (found["status"], found["hosts"][0]["reason"]) == ("healthy", "it is registered; run a has it")


def test_failures_of_all_runs_come_in_the_order_of_time():
    answers = {
        "a": report("a", host("h0"), failures=[failure("2026-01-01T00:00:02Z", "x")]),
        "b": report("b", host("h1"), failures=[failure("2026-01-01T00:00:01Z", "y")]),
    }
    found = of_pool(view(record("h0"), record("h1"), runs=["a", "b"]), answers, POOL)
    assert [one["host"] for one in found["failures"]] == ["y", "x"]


@pytest.mark.parametrize("reasons", [(), ("1 of 2 hosts are there",)])
def test_a_run_of_its_own_keeps_its_report(reasons):
    found = of_run(report("a", host("h0"), reasons=reasons), POOL)
    check_report(found)
    assert found["runs"] == [found["run"]]
    assert found["status"] == ("degraded" if reasons else "healthy")
