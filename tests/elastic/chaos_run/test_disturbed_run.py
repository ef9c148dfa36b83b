"""Real runs to which tests of one's own do something, with the fixture that comes with the package."""

import os
from pathlib import Path

import psutil
import pytest

from chaos import cannot_delay, missing
from elastic.errors import UsageError
from tests.elastic.processes import wait_gone

pytest_plugins = ["elastic.pytest_plugin"]

SCRIPT = str(Path(__file__).with_name("steps.py"))


def test_a_test_of_ones_own_may_do_faults_with_verbs(elastic_chaos):
    with elastic_chaos(SCRIPT, "40", "0.1", hosts=3, devices_per_host=1) as run:
        run.kill("h1", what="agent", at=3)
        run.wait_for_recoveries(1)
        run.freeze("h2")
        run.wait_for_recoveries(2)
        run.thaw("h2")
        assert run.finish() == 0
    assert run.problems() == []


def test_hosts_that_have_what_nobody_else_has_and_stand_still_are_waited_for(elastic_chaos):
    with elastic_chaos(SCRIPT, "40", "0.1", hosts=3, devices_per_host=1, allow_data_loss=True) as run:
        run.freeze("h0", "h1", at=5)
        run.wait_until(lambda: run.history.of("waits"), "the run to wait for them")
        run.thaw("h0", "h1")
        assert run.finish() == 0
    assert run.problems() == []
    assert run.history.of("waits")[0]["what"].endswith("h0 and h1 may come back with them")


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_host_that_is_cut_off_is_done_without_and_used_again(elastic_chaos):
    with elastic_chaos(SCRIPT, "40", "0.2", hosts=2, devices_per_host=1, networks=True) as run:
        run.cut("h1", at=3)
        run.wait_for_recoveries(1)
        run.heal("h1")
        assert run.finish() == 0
    assert run.problems() == []
    assert [event.host for event in run.history.of("lost")] == ["h1"]


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_host_at_the_address_of_a_dead_one_is_another(elastic_chaos):
    with elastic_chaos(SCRIPT, "40", "0.2", hosts=2, devices_per_host=1, networks=True) as run:
        run.recycle_address("h1", at=3)
        run.wait_until(lambda: any(event.host == "h1-successor" for event in run.history.of("joined")), "its successor")
        assert run.finish() == 0
    assert run.problems() == []
    assert [event.host for event in run.history.of("lost")] == ["h1"]


@pytest.mark.parametrize("what", ["kill", "compact"])
def test_a_run_makes_steps_while_its_etcd_is_away(elastic_chaos, what):
    with elastic_chaos(SCRIPT, "60", "0.1", hosts=2, devices_per_host=1, machines=True) as run:
        run.hit_etcd(what, seconds=600, at=3)
        assert run.finish() == 0
    assert run.problems() == []
    assert run.history.of("lost") == []


@pytest.mark.skipif(bool(missing() or cannot_delay()), reason=str(missing() or cannot_delay()))
def test_a_host_whose_messages_take_longer_is_waited_for(elastic_chaos):
    with elastic_chaos(SCRIPT, "40", "0.1", hosts=2, devices_per_host=1, networks=True) as run:
        run.delay("h1", by=0.1, seconds=600, at=3)
        before = last_step(run)
        assert run.finish() == 0
    assert run.problems() == []
    assert run.history.of("lost") == []
    steps = {event["step"]: event.at for event in run.history.of("output") if event["step"] is not None}
    # There and back again, beside the step itself; what was under way then was not delayed.
    assert steps[39] - steps[before + 2] > (39 - before - 2) * 0.3


def last_step(run):
    return max(event["step"] for event in run.history.of("output") if event["step"] is not None)


@pytest.mark.skipif(bool(missing() or cannot_delay()), reason=str(missing() or cannot_delay()))
def test_a_run_that_is_left_by_an_error_leaves_no_process(elastic_chaos):
    with (  # noqa: PT012
        pytest.raises(RuntimeError, match="mine"),
        elastic_chaos(SCRIPT, "1000", "1", hosts=2, devices_per_host=1, networks=True) as run,
    ):
        run.delay("h1", seconds=600, at=0)
        pids = [child.pid for child in psutil.Process().children(recursive=True)]
        raise RuntimeError("mine")
    wait_gone(pids)


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root")
def test_what_is_on_disk_and_in_memory_may_fail(elastic_chaos, tmp_path):
    settings = {"checkpoint_every": 0.5, "snapshot_budget": 0.3, "disk": True}
    script = (SCRIPT, "400", "0.1", "60000", str(tmp_path / "hurry"))
    with elastic_chaos(*script, hosts=2, devices_per_host=1, **settings) as run:
        run.hit_disk("full", seconds=2, at=5)
        run.wait_until(lambda: run.history.of("not_stored"), "a checkpoint for which there is no space")
        run.rot("copy", "h1")
        run.kill("h1", what="executor")
        run.wait_for_recoveries(1)
        run.slow_disk("h0", seconds=600)
        run.wait_until(lambda: run.history.of("slow_disk"), "a host that writes slowly")
        run.press_memory("h0", seconds=600)
        run.wait_until(lambda: run.history.of("not_saved"), "a copy for which there is no space")
        (tmp_path / "hurry").touch()
        assert run.finish() == 0
    assert run.problems() == []
    assert {event.host for event in run.history.of("bad_copy")} == {"h1"}
    assert {event.host for event in run.history.of("slow_disk")} == {"h0"}


def test_what_is_on_disk_is_right_after_a_bit_has_flipped(elastic_chaos, tmp_path):
    settings = {"checkpoint_every": 0.5, "verify_every": 1, "snapshot_budget": 0.3}
    script = (SCRIPT, "400", "0.1", "60000", str(tmp_path / "hurry"))
    with elastic_chaos(*script, hosts=3, devices_per_host=1, **settings) as run:
        run.wait_until(lambda: run.history.of("stored"), "a checkpoint")
        run.flip_bit("h1")
        run.wait_until(lambda: run.history.of("corruption"), "somebody to find it")
        run.wait_until(lambda: run.history.of("recovered"), "the run to go back")
        wrong = run.history.of("corruption")[0].host  # If it is known, it is gone already, and stays away.
        run.kill(*({"h0", "h1", "h2"} - {wrong}))
        run.wait_until(lambda: {event.host for event in run.history.of("gone")} == {"h0", "h1", "h2"}, "all to be gone")
        run.wait_until(lambda: run.history.last("gone", "recovered").kind == "recovered", "the run to go on")
        (tmp_path / "hurry").touch()
        assert run.finish() == 0
    assert run.problems() == []
    contents = [event["holders"] for event in run.history.of("holds")]
    assert any(holders and not any(holders) for holders in contents)  # So all came from disk.


def test_what_a_run_is_not_prepared_for_is_refused_and_it_is_said_how_to_start_it(elastic_chaos):
    refused = [
        ("cut", ["h0"], "networks=True"),
        ("delay", ["h0"], "networks=True"),
        ("recycle_address", ["h0"], "networks=True"),
        ("hit_etcd", ["kill"], "machines=True"),
        ("hit_disk", ["full"], "disk=True"),
        ("slow_disk", ["h0"], "checkpoint_every"),
        ("rot", ["checkpoint"], "checkpoint_every"),
        ("rot", ["parity", "h0"], "protect"),
        ("flip_bit", ["h0"], "verify_every"),
        ("kill", ["h7"], "there is no host 'h7'; the pool has h0"),
        ("kill", [], "kill-host hits a host"),
    ]
    with elastic_chaos(SCRIPT, "1000", "1", hosts=1, devices_per_host=1) as run:
        for verb, arguments, words in refused:
            with pytest.raises(UsageError, match=words):
                getattr(run, verb)(*arguments)
        with pytest.raises(UsageError, match="there is no 'freeze-hots'; there are kill-executor, "):
            run.freeze("h0", what="hots")
