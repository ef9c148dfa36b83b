"""What each fault does to the processes of a run, and how it is taken back."""

import pytest

from chaos import FAULTS, AtTime, Injection
from elastic import fault_points
from elastic.chaos_run.verbs import Verbs
from tests.elastic.chaos_run.fake_run import FakeRun


@pytest.fixture
def run(tmp_path):
    return FakeRun(tmp_path)


@pytest.fixture
def verbs(run):
    return Verbs(run)


def fault(name, *hosts, lasts=None, point=None, share=0.5, number=1):
    return Injection(number, name, AtTime(0.0), hosts, lasts, point, share)


@pytest.mark.parametrize(
    ("name", "victims"),
    [
        ("kill-executor", ["executor h1"]),
        ("kill-agent", ["agent h1"]),
        ("kill-host", ["agent h1", "executor h1"]),
        ("kill-controller", ["controller"]),
        ("kill-client", ["script"]),
    ],
)
def test_who_is_killed(run, verbs, name, victims):
    verbs.do(fault(name, *(["h1"] if len(victims) > 1 or victims[0].endswith("h1") else [])))
    assert run.signals == [(0.0, "SIGKILL", victim) for victim in victims]
    assert run.of("injected")[0]["fault"] == name


def test_several_hosts_are_killed_at_once(run, verbs):
    verbs.do(fault("kill-agent", "h0", "h2"))
    assert [victim for _, _, victim in run.signals] == ["agent h0", "agent h2"]
    assert len(run.of("injected")) == 1


@pytest.mark.parametrize("name", ["freeze-host", "zombie"])
def test_who_is_frozen_goes_on_when_the_time_is_over(run, verbs, name):
    verbs.do(fault(name, "h1", lasts=3.0))
    run.pass_time(2.9)
    assert {number for _, number, _ in run.signals} == {"SIGSTOP"}
    run.pass_time(0.2)
    assert run.signals[2:] == [(3.0, "SIGCONT", "agent h1"), (3.0, "SIGCONT", "executor h1")]
    assert [event.at for event in run.of("reverted")] == [3.0]


def test_what_is_taken_back_before_its_time_is_not_taken_back_twice(run, verbs):
    verbs.do(fault("freeze-agent", "h1", lasts=3.0))
    run.pass_time(1)
    verbs.take_back(1)
    run.pass_time(5)
    assert [event.at for event in run.of("reverted")] == [1.0]


def test_a_slow_process_stands_still_for_a_part_of_each_slice_and_goes_on_in_the_end(run, verbs):
    verbs.do(fault("slow", "h1", lasts=1.0, share=0.2))
    run.pass_time(3)
    stops, goes = ([at for at, number, _ in run.signals if number == wanted] for wanted in ("SIGSTOP", "SIGCONT"))
    assert 18 <= len(stops) <= 20
    assert all(go - stop == pytest.approx(0.04) for stop, go in zip(stops, goes, strict=False) if go < 1)
    assert run.signals[-1][1] == "SIGCONT"
    assert run.signals[-1][0] == pytest.approx(1.0)


def test_a_flapping_host_stands_still_for_long_enough_to_be_given_up(run, verbs):
    verbs.do(fault("flap", "h1", lasts=6.0))
    run.pass_time(10)
    assert [number for _, number, _ in run.signals] == ["SIGSTOP", "SIGCONT", "SIGSTOP", "SIGCONT", "SIGCONT"]


def test_who_is_told_to_leave_is_killed_when_the_time_is_over(run, verbs):
    verbs.do(fault("preempt", "h1", lasts=10.0))
    run.pass_time(11)
    assert run.signals == [(0.0, "SIGTERM", "agent h1"), (10.0, "SIGKILL", "agent h1")]


def test_who_is_cut_off_is_reached_again_when_the_time_is_over(run, verbs):
    verbs.do(fault("cut-peers", "h1", lasts=4.0))
    run.pass_time(5)
    lost = [("h0", "h1"), ("h2", "h1"), ("h1", "h0"), ("h1", "h2")]
    assert run.signals == [(0.0, "sever", *lost), (4.0, "mend", *lost)]


def test_who_is_delayed_is_hastened_when_the_time_is_over_and_not_delayed_twice_at_once(run, verbs):
    for number in (1, 2):
        verbs.do(Injection(number, "delay", AtTime(0.0), ("h1",), lasts=4.0, by=0.2))
    run.pass_time(5)
    assert run.signals == [(0.0, "delay", "h1", 0.2), (4.0, "hasten", "h1")]
    assert [event["why"] for event in run.of("skipped")] == ["h1 was delayed already"]
    verbs.do(Injection(3, "delay", AtTime(0.0), ("h1",), lasts=4.0))
    assert run.signals[-1] == (5.0, "delay", "h1", 0.1)


def test_a_host_whose_address_is_recycled_is_killed_and_replaced(run, verbs):
    verbs.do(fault("recycle-address", "h1"))
    victims = [(0.0, "SIGKILL", "agent h1"), (0.0, "SIGKILL", "executor h1")]
    assert run.signals == [*victims, (0.0, "replace", "h1")]


@pytest.mark.parametrize(
    ("name", "done", "undone"),
    [
        ("kill-etcd-leader", ["kill etcd's leader"], "start etcd"),
        ("kill-etcd", ["kill etcd"], "start etcd"),
        ("freeze-etcd", ["freeze etcd"], "thaw etcd"),
        ("compact-etcd", ["compact etcd", "freeze etcd"], "thaw etcd"),
    ],
)
def test_what_is_done_to_etcd_is_taken_back_when_the_time_is_over(run, verbs, name, done, undone):
    verbs.do(fault(name, lasts=4.0))
    run.pass_time(5)
    assert run.signals == [*((0.0, what) for what in done), (4.0, undone)]


def test_a_fault_that_etcd_makes_impossible_is_not_done_and_told(run, verbs):
    run.etcd.leads = False
    verbs.do(fault("kill-etcd-leader", lasts=4.0))
    assert run.of("injected") == []
    assert run.of("skipped")[0]["why"] == "no member of etcd leads"


def test_a_fault_for_a_host_that_is_not_there_is_not_done_and_told(run, verbs):
    run.members.discard("h1")
    verbs.do(fault("kill-host", "h1"))
    assert run.signals == []
    assert run.of("injected") == []
    assert run.of("skipped")[0]["why"] == "h1 had no such process then"


def test_a_death_at_a_point_is_never_told_as_later_than_it_was(run, verbs, monkeypatch):
    """A loaded machine may let the process that dies, and the run that notices it, go first."""

    def arm(directory, point):
        run.pass_time(1)  # Then somebody died of it, and the run has noticed.
        run.pass_time(1)

    monkeypatch.setattr(fault_points, "arm", arm)
    run.pass_time(5)
    verbs.do(fault("die", point="snapshot"))
    verbs.look()
    assert run.of("injected")[0].at < 6


def test_a_death_at_a_point_is_told_when_it_has_come_and_the_next_is_armed_then(run, verbs):
    verbs.do(fault("die", point="snapshot", number=1))
    verbs.do(fault("die", point="snapshot", number=2))
    run.pass_time(5)
    verbs.look()
    assert run.of("injected") == []
    fault_points.disarm(run.points, "snapshot")
    run.pass_time(0.02)
    verbs.look()
    assert [(event["number"], event.at) for event in run.of("injected")] == [(1, 5.0)]  # Then it was still to come.
    assert fault_points.is_armed(run.points, "snapshot")
    verbs.give_up()
    assert [(event["number"], event["why"]) for event in run.of("skipped")] == [
        (2, "no process came to the point 'snapshot'")
    ]


def test_a_flip_is_armed_for_each_host_that_is_hit(run, verbs):
    verbs.do(Injection(4, "flip-bit", AtTime(0.0), ("h1", "h2"), device=1))
    assert {file.name: file.read_text() for file in run.points.iterdir()} == {
        "flip-bit.h1": "1 4",
        "flip-bit.h2": "1 4",
    }
    assert len(run.of("injected")) == 1


def test_every_fault_of_the_catalogue_can_be_done(run, verbs, tmp_path):
    file, block = tmp_path / ("a" * 32), tmp_path / ("b" * 32)
    file.write_bytes(b"copy")
    block.write_bytes(b"block")
    run.files, run.memories = [file], {"h1": tmp_path}
    run.tell("holds", holders=[["h1"]], parity=[block.name])
    for number, kind in enumerate(FAULTS.values()):
        point = "compile" if kind.name == "die" else None
        verbs.do(
            fault(
                kind.name,
                *(["h1"] if kind.target.value == "host" else []),
                lasts=kind.lasts,
                point=point,
                number=number,
            )
        )
    assert len(run.of("injected")) == len(FAULTS) - 1  # The death at a point comes later.
