"""A plan is carried out: when faults are due, and which wait since they would take too much."""

import pytest

from chaos import parse
from elastic.chaos_run.conduct import Conductor
from tests.elastic.chaos_run.fake_run import POOL, FakeRun

JOINED = [("joined", {"host": host}) for host in POOL]
READ = ("read", {"number": 1})


def step(number):
    return ("output", {"line": f"step {number}", "step": number})


def holds(*hosts):
    return ("holds", {"holders": [list(hosts)]})


@pytest.fixture
def conducted(tmp_path):
    def conduct(faults, *looks, head="hosts: 3"):
        run = FakeRun(tmp_path, [(0.0, JOINED), *looks])
        Conductor(parse(f"{head}\nfaults:\n{faults}"), 1, run).conduct()
        return run

    return conduct


def test_a_fault_is_done_at_its_step(conducted):
    run = conducted(
        "- {fault: kill-agent, host: h1, at: {step: 2}}", (1.0, [READ, step(1)]), (2.0, [step(2)]), (3.0, [step(3)])
    )
    assert run.signals == [(2.0, "SIGKILL", "agent h1")]


def test_times_and_events_count_from_the_first_value_that_the_script_read(conducted):
    run = conducted(
        "- {fault: kill-executor, host: h1, at: {seconds: 5}}\n"
        "- {fault: kill-executor, host: h2, at: {event: snapshot}}",
        (6.0, [("snapshot", {"operation": 1})]),
        (10.0, [READ]),
        (14.0, [("snapshot", {"operation": 2})]),
        (15.0, []),
    )
    assert run.signals == [(14.0, "SIGKILL", "executor h2"), (15.0, "SIGKILL", "executor h1")]


def test_a_fault_that_would_take_the_last_copy_waits_for_another_one(conducted):
    kill = "- {fault: kill-agent, host: h1, at: {step: 1}}"
    looks = (1.0, [READ, holds("h1"), step(1)]), (2.0, []), (3.0, [holds("h1", "h2")]), (4.0, [])
    assert conducted(kill, *looks).signals == [(3.0, "SIGKILL", "agent h1")]
    allowed = conducted(kill, *looks, head="hosts: 3\nallow_data_loss: true")
    assert allowed.signals == [(1.0, "SIGKILL", "agent h1")]


def test_a_death_of_some_agent_waits_until_whoever_it_is_may_go(conducted):
    die = "- {fault: die, point: copies, at: {step: 1}}"
    run = conducted(die, (1.0, [READ, holds("h1"), step(1)]), (2.0, []), (3.0, [holds("h1", "h2")]), (4.0, []))
    assert [event.at for event in run.of("armed")] == [3.0]
    run = conducted(die, (1.0, [READ, holds("h1"), step(1)]), (32.0, []), (33.0, []))
    assert [event["why"] for event in run.of("skipped")] == [
        "for 30 s no other host held all that whoever comes there did"
    ]


def test_a_fault_that_waited_in_vain_is_told(conducted):
    kill = "- {fault: kill-agent, host: h1, at: {step: 1}}"
    run = conducted(kill, (1.0, [READ, holds("h1"), step(1)]), (32.0, []), (33.0, []))
    assert [event["why"] for event in run.of("skipped")] == ["for 30 s no other host held all that h1 did"]
    run = conducted(kill, (1.0, [READ, holds("h1"), step(1)]), (2.0, []))
    assert [event["why"] for event in run.of("skipped")] == ["the script ended before"]


def test_an_executor_may_die_though_its_host_has_the_only_copy(conducted):
    run = conducted("- {fault: kill-executor, host: h1, at: {step: 1}}", (1.0, [READ, holds("h1"), step(1)]))
    assert run.signals == [(1.0, "SIGKILL", "executor h1")]


def test_what_the_script_did_not_come_to_is_told(conducted):
    run = conducted("- {fault: kill-agent, host: h1, at: {step: 9}}", (1.0, [READ, step(1)]))
    assert [(event["fault"], event["why"]) for event in run.of("skipped")] == [
        ("kill-agent", "the script told no step 9")
    ]


def test_a_run_that_tells_nothing_any_more_is_ended(conducted):
    run = conducted("  []", (1.0, [READ]), (10.9, []), (11.1, []), (99.0, [READ]), head="hosts: 3\npatience: 10")
    assert [event.at for event in run.of("hung")] == [11.1]
    assert len(run.of("read")) == 1
