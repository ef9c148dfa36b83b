"""`elastic up` and `elastic down`: a pool that stays between runs."""

import os
import signal

import pytest

from elastic import pool_target
from tests.elastic.hosts import Command
from tests.elastic.processes import wait_gone
from tests.elastic.up import FOREVER


def test_a_pool_comes_up_once_and_goes_down_with_everything(elastic):
    assert elastic("down") == (0, "no pool is up on this machine\n")
    code, text = elastic("up", "--hosts", "2", "--devices-per-host", "1")
    assert code == 0, text
    assert "2 hosts x 1 device at etcd://unix:" in text
    secret = elastic.directory.secret
    assert str(secret) in text
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text() not in text
    code, again = elastic("up")
    assert code == 0
    assert "a pool is up already: 2 hosts x 1 device" in again
    code, other = elastic("up", "--hosts", "3")
    assert code == 2
    assert "end it first with `elastic down`" in other
    supervisor = elastic.supervisor()
    everything = [supervisor, *supervisor.children(recursive=True)]
    # A terminal that goes away is no reason to end.
    supervisor.send_signal(signal.SIGHUP)
    report = elastic.report()
    assert report["status"] == "healthy", report["reasons"]
    assert [host["id"] for host in report["hosts"]] == ["h0", "h1"]
    code, text = elastic("down")
    assert (code, text.startswith("ended the pool of 2 hosts x 1 device at etcd://unix:")) == (0, True)
    wait_gone([process.pid for process in everything])
    assert list(elastic.base.glob("elastic-*")) == []


def test_two_runs_at_once_get_different_hosts_and_the_end_tells_whom_it_hits(elastic):
    elastic("up", "--hosts", "2", "--devices-per-host", "1")
    script = str(elastic.script)
    with elastic.run("--hosts", "1", script, FOREVER) as one, elastic.run("--hosts", "1", script, FOREVER) as two:
        one.wait_for("running")
        two.wait_for("running")
        report = elastic.wait_until(lambda report: report["status"] == "healthy")
        assert len({host["run"] for host in report["hosts"]} - {None}) == 2
        two.process.send_signal(signal.SIGTERM)
        two.finish()
        [left] = elastic.report()["runs"]
        # The hosts of a run whose controller is killed are free when its lease has ended.
        os.kill(left["controller_pid"], signal.SIGKILL)
        with elastic.run("--hosts", "2", script, "20") as three:
            assert three.finish() == 0, three.text
            three.wait_for("2 devices")
            three.wait_for("done")


def test_hosts_and_etcd_that_are_killed_come_back_under_a_run_that_goes_on(elastic):
    elastic("up", "--hosts", "2", "--devices-per-host", "1")
    with elastic.run("--hosts", "2", str(elastic.script), FOREVER) as run:
        run.wait_for("running")
        report = elastic.report()
        os.kill(report["hosts"][0]["agent_pid"], signal.SIGKILL)
        run.wait_for("host h0 was lost")
        run.wait_for("host h0 changed: it joined")
        supervisor = elastic.supervisor()
        [etcd] = [child for child in supervisor.children() if "membership.server" in child.cmdline()]
        etcd.kill()
        # Hosts and run register again, and the run claims what it has.
        elastic.wait_until(lambda report: [bool(host["run"]) for host in report["hosts"]] == [True, True])
        assert run.process.poll() is None, run.text
        _, text = elastic("down")
        assert f"used by {report['run']['id']}" in text


def test_a_supervisor_that_is_frozen_or_dead_is_told_and_ended(elastic):
    elastic("up", "--hosts", "1", "--devices-per-host", "1")
    supervisor = elastic.supervisor()
    everything = supervisor.children(recursive=True)
    supervisor.suspend()
    code, text = elastic("health")
    assert code == 2
    assert f"kill -CONT {supervisor.pid}" in text
    code, _ = elastic("down")
    assert code == 0
    wait_gone([supervisor.pid, *(process.pid for process in everything)])
    assert list(elastic.base.glob("elastic-*")) == []


def test_a_pool_that_listens_takes_hosts_that_know_its_secret(elastic):
    code, text = elastic("up", "--hosts", "1", "--devices-per-host", "1", "--listen", "127.0.0.1:0")
    assert code == 0, text
    address = pool_target.saved(elastic.directory)["address"]
    assert f"elastic host --pool {address} --listen THEIR_ADDRESS:0" in text
    code, text = elastic("health", "--pool", address)
    assert code == 2
    assert "ELASTIC_ETCD_PASSWORD" in text
    secret = str(elastic.directory.secret)
    known = {**elastic.environment, "ELASTIC_SECRET_FILE": secret, "ELASTIC_ETCD_PASSWORD_FILE": secret}
    with Command("host", "--pool", address, "--id", "far", "--devices", "1", environment=known) as host:
        host.wait_for("host far is registered")
        with Command("run", "--pool", address, "--hosts", "2", str(elastic.script), "20", environment=known) as run:
            assert run.finish() == 0, run.text
        assert {one["id"] for one in elastic.report()["hosts"]} == {"h0", "far"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--hosts", "0"), "ask for at least 1"),
        (("--listen", "nowhere"), "is no address to listen on"),
        (("--hosts", "many"), "is no whole number"),
    ],
)
def test_bad_command_lines(elastic, options, words):
    code, text = elastic("up", *options)
    assert code == 2
    assert words in text
    assert "Traceback" not in text
    assert list(elastic.base.glob("elastic-*")) == []
