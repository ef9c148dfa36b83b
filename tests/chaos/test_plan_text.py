"""Plans as text: what is understood, what is refused and in which words."""

import pytest

from chaos.errors import PlanError
from chaos.plan import AtEvent, AtStep, AtTime, Every, Injection, Plan, PlannedFault, Poisson
from chaos.plan_text import dump, parse, settled

ALL = """
name: everything
hosts: 3
spares: 1
devices_per_host: 1
on_loss: wait
snapshot_budget: 0.3
etcd: 3
protect: parity=2+1
checkpoint_every: 1.5
verify_every: 2
seed: 7
until: 60
allow_data_loss: true
step: 'loss after (\\d+)'
notice_within: 3
recover_within: 20
patience: 100
faults:
  - {fault: kill-host, host: h1, at: {step: 10}}
  - {fault: freeze-agent, host: [h0, h3], for: 2.5, at: {seconds: 4}}
  - {fault: kill-executor, count: 2, every: 5, times: 3}
  - {fault: kill-agent, host: random, mtbf: 10}
  - {fault: die, point: snapshot, at: {event: recovered, count: 2}}
  - {fault: slow, host: h2, share: 0.25, at: {event: lost}}
  - {fault: kill-client, at: {step: 99}}
  - {fault: flip-bit, host: h1, device: 1, at: {event: compared}}
  - {fault: delay, host: h2, by: 0.3, for: 4, every: 9}
"""


def plan_of(fault, head="hosts: 4"):
    return f"{head}\nfaults:\n  - {{{fault}}}\n"


def test_a_plan_says_what_hits_whom_and_when():
    plan = parse(ALL)
    assert plan == Plan(
        name="everything",
        hosts=3,
        devices_per_host=1,
        spares=1,
        on_loss="wait",
        snapshot_budget=0.3,
        etcd="3",
        protect="parity=2+1",
        checkpoint_every=1.5,
        verify_every=2,
        seed=7,
        until=60.0,
        allow_data_loss=True,
        step="loss after (\\d+)",
        notice_within=3.0,
        recover_within=20.0,
        patience=100.0,
        faults=(
            PlannedFault("kill-host", AtStep(10), ("h1",)),
            PlannedFault("freeze-agent", AtTime(4.0), ("h0", "h3"), lasts=2.5),
            PlannedFault("kill-executor", Every(5.0, 3), count=2),
            PlannedFault("kill-agent", Poisson(10.0)),
            PlannedFault("die", AtEvent("recovered", 2), point="snapshot"),
            PlannedFault("slow", AtEvent("lost"), ("h2",), lasts=5.0, share=0.25),
            PlannedFault("kill-client", AtStep(99)),
            PlannedFault("flip-bit", AtEvent("compared"), ("h1",), device=1),
            PlannedFault("delay", Every(9.0), ("h2",), lasts=4.0, by=0.3),
        ),
    )


def test_a_plan_that_is_written_and_read_is_the_same():
    assert parse(dump(parse(ALL))) == parse(ALL)


def test_what_was_drawn_is_written_as_a_plan_that_draws_nothing():
    injections = [
        Injection(1, "kill-agent", AtTime(3.25), ("h2",)),
        Injection(2, "die", AtStep(4), point="compile"),
        Injection(3, "flip-bit", AtStep(5), ("h0",), device=1),
        Injection(4, "delay", AtStep(6), ("h0",), lasts=3.0, by=0.2),
    ]
    plan = parse(dump(settled(parse(ALL), injections)))
    assert plan.faults == (
        PlannedFault("kill-agent", AtTime(3.25), ("h2",)),
        PlannedFault("die", AtStep(4), point="compile"),
        PlannedFault("flip-bit", AtStep(5), ("h0",), device=1),
        PlannedFault("delay", AtStep(6), ("h0",), lasts=3.0, by=0.2),
    )
    assert not plan.drawn


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- kill-host", "the plan is no map of settings"),
        ("a: [", "the plan is no YAML"),
        ("host: 4", r"there is no setting 'host' \(did you mean hosts\?\)"),
        ("hosts: 0", "hosts: is a whole number, at least 1; it is 0"),
        ("hosts: true", "it is True"),
        ("on_loss: surface", "on_loss: there is no 'surface'; there are stack, spare, wait"),
        ("etcd: 2", "etcd: there is no '2'; there are embedded, 1, 3"),
        ("snapshot_budget: 1", "a share of the time, below 1"),
        ("allow_data_loss: maybe", "true or false, not 'maybe'"),
        ("step: '('", "no regular expression"),
        ("step: 'step'", "has one group"),
        ("until: 0", "until: is a number above 0"),
        ("faults: {}", "is no list"),
        (
            plan_of("fault: kill-hots, at: {step: 1}"),
            r"fault 1: fault: there is no 'kill-hots' \(did you mean kill-host\?",
        ),
        (plan_of("at: {step: 1}"), "fault 1: fault: there is no None; there are kill-executor, "),
        (plan_of("fault: kill-host, host: h4, at: {step: 1}"), "there is no host 'h4'; the pool has h0, h1, h2, h3"),
        (plan_of("fault: kill-host, hst: h1, at: {step: 1}"), "did you mean host"),
        (plan_of("fault: kill-host, host: h1"), "say when, by one of `at`, `every` and `mtbf`"),
        (plan_of("fault: kill-host, host: h1, at: {step: 1}, every: 3"), "say when, by one of"),
        (plan_of("fault: kill-host, host: h1, at: 3"), r"at: is one of {step: 10}"),
        (plan_of("fault: kill-host, host: h1, at: {step: -1}"), "step: is a whole number, at least 0"),
        (plan_of("fault: kill-host, host: h1, at: {event: lunch}"), "there is no 'lunch'; there are lost, "),
        (plan_of("fault: kill-host, host: h1, at: {step: 1}, times: 2"), "`at` is one moment"),
        (plan_of("fault: kill-host, host: h1, for: 3, at: {step: 1}"), "it is not taken back, so it has no `for`"),
        (plan_of("fault: kill-host, host: h1, point: compile, at: {step: 1}"), "only `die` has a point"),
        (plan_of("fault: freeze-host, host: h1, share: 0.5, at: {step: 1}"), "only `slow` has `share`"),
        (plan_of("fault: die, point: lunch, at: {step: 1}"), "point: there is no 'lunch'; there are compile, "),
        (plan_of("fault: die, host: h1, point: compile, at: {step: 1}"), "not addressed to a host"),
        (plan_of("fault: kill-host, count: 5, at: {step: 1}"), "how many hosts are drawn, of 4"),
        (plan_of("fault: slow, host: h1, share: 1, at: {step: 1}"), "below 1; it is 1"),
        (plan_of("fault: kill-etcd, host: h1, at: {step: 1}"), "not addressed to a host"),
        (plan_of("fault: recycle-address, host: h1, for: 3, at: {step: 1}"), "it is not taken back"),
        (plan_of("fault: kill-host, mtbf: 0"), "a number above 0"),
        (plan_of("fault: kill-host, host: h1, device: 1, at: {step: 1}"), "only `flip-bit` has `device`"),
        (plan_of("fault: flip-bit, host: h1, at: {step: 1}"), "only a run that verifies finds flip-bit"),
        ("protect: parity=3", "protect: is copies=N or parity=K[+]M, such as parity=3[+]1; it is 'parity=3'"),
        ("checkpoint_every: -1", "checkpoint_every: is a number, 0 or more"),
        (plan_of("fault: delay, host: h1, by: 0, at: {step: 1}"), "by: is a number above 0"),
        (
            plan_of("fault: delay, host: h1, by: 2, at: {step: 1}"),
            "by: is at most 0.5: what takes longer is as good as",
        ),
        (plan_of("fault: slow, host: h1, by: 0.1, at: {step: 1}"), "only `delay` has `by`"),
        (plan_of("fault: disk-full, at: {step: 1}"), "disk-full hits checkpoints on disk; say `checkpoint_every: 5`"),
        (plan_of("fault: disk-slow, host: h9, at: {step: 1}", "checkpoint_every: 5"), "there is no host 'h9'"),
        (plan_of("fault: disk-full, host: h1, at: {step: 1}", "checkpoint_every: 5"), "not addressed to a host"),
        (plan_of("fault: rot-copy, for: 3, at: {step: 1}"), "it is not taken back, so it has no `for`"),
        (plan_of("fault: rot-parity, at: {step: 1}"), "only parity can be hit by rot-parity; say `protect: parity=3"),
        (plan_of("fault: die, point: parity, at: {step: 1}"), "nobody makes parity; say `protect: parity=3"),
        (plan_of("fault: die, point: store, at: {step: 1}"), "nobody writes checkpoints; say `checkpoint_every: 5`"),
    ],
)
def test_what_cannot_be_is_refused_in_words_that_help(text, words):
    with pytest.raises(PlanError, match=words):
        parse(text)


@pytest.mark.parametrize(
    "fault",
    [
        "fault: kill-host, host: [h0, h1], at: {step: 3}",
        "fault: freeze-agent, count: 2, every: 4",
        "fault: kill-controller, at: {step: 3}",
        "fault: kill-client, at: {step: 3}",
    ],
)
def test_a_plan_that_takes_everything_must_say_so(fault):
    with pytest.raises(PlanError, match="the run cannot survive that; say `allow_data_loss: true` if it may fail"):
        parse(plan_of(fault, "hosts: 2"))
    assert parse(plan_of(fault, "hosts: 2\nallow_data_loss: true")).allow_data_loss


def test_all_hosts_one_by_one_at_the_same_step_are_everything_too():
    text = "hosts: 2\nfaults:\n" + "".join(f"  - {{fault: kill-agent, host: h{i}, at: {{step: 3}}}}\n" for i in (0, 1))
    with pytest.raises(PlanError, match="fault 2: all 2 hosts lose their memory at the same moment"):
        parse(text)


def test_all_executors_may_die_since_the_memory_of_their_hosts_stays():
    assert parse(plan_of("fault: kill-executor, host: [h0, h1, h2, h3], at: {step: 3}")).faults


def test_a_run_that_stores_may_lose_the_memory_of_all_hosts():
    plan = parse(plan_of("fault: kill-host, host: [h0, h1], at: {step: 3}", "hosts: 2\ncheckpoint_every: 0.5"))
    assert plan.checkpoint_every == 0.5
    assert not plan.needs_disk
    assert parse(dump(plan)) == plan


def test_a_disk_that_changes_is_one_of_its_own():
    assert parse(plan_of("fault: disk-read-only, for: 3, at: {step: 3}", "checkpoint_every: 1")).needs_disk
