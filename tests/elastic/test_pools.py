"""Runs on pools that are there: hosts of a real etcd, claimed by runs and given back."""

import json
import os
import secrets
import signal

import pytest

from elastic import cli
from tests.elastic.hosts import Command
from tests.elastic.status_contract import check_report
from tests.elastic.up import FOREVER, SCRIPT
from tests.membership.servers import ROOT


class Pool:
    """A pool in a real etcd, with nothing in it."""

    def __init__(self, directory, etcd):
        self.base = directory / "base"
        self.base.mkdir()
        self.etcd = etcd
        self.url = f"etcd://{etcd.endpoints[0]}/p"
        self.script = directory / "script.py"
        self.script.write_text(SCRIPT)
        secret = directory / "secret"
        secret.write_text(secrets.token_hex(32))
        self.environment = {"ELASTIC_RUN_BASE": str(self.base), "ELASTIC_SECRET_FILE": str(secret)}

    def host(self, name, *options, **settings):
        return Command("host", "--pool", self.url, "--id", name, *options, environment=self.environment, **settings)

    def run(self, hosts, steps, *options):
        arguments = ("--pool", self.url, "--hosts", str(hosts), *options, str(self.script), steps)
        return Command("run", *arguments, environment=self.environment)

    def health(self, *options, environment=None):
        with Command(
            "health", "--pool", self.url, *options, environment={**self.environment, **(environment or {})}
        ) as health:
            return health.finish(), health.text

    def report(self):
        code, text = self.health("--json")
        report = json.loads(text)
        check_report(report)
        assert code == ["healthy", "degraded", "down"].index(report["status"])
        return report


@pytest.fixture
def pool(real_etcd):
    return Pool(*real_etcd)


def test_a_run_waits_for_hosts_and_gives_them_back(pool):
    with pool.host("a1") as first:
        first.wait_for("host a1 is registered in etcd://")
        with pool.run(2, "20") as run:
            run.wait_for("waiting for hosts: 1 of 2 (others have to be started)")
            with pool.host("a2", "--devices", "1") as second:
                assert run.finish() == 0, run.text
                # As many as the hosts have.
                run.wait_for("3 devices")
                run.wait_for("done")
                name = first.wait_for("is claimed by run").rpartition(" ")[2]
                first.wait_for(f"host a1 is released by run {name}")
                second.wait_for(f"host a2 is released by run {name}")
                assert "dead" not in first.text
                report = pool.report()
                assert (report["status"], report["run"]) == ("healthy", None)
                assert [(host["id"], host["run"]) for host in report["hosts"]] == [("a1", None), ("a2", None)]


def test_a_host_that_is_told_to_leave_moves_what_it_holds(pool):
    with pool.host("a1") as first, pool.host("a2") as second:
        first.wait_for("registered")
        second.wait_for("registered")
        with pool.run(2, FOREVER, "--devices-per-host", "1") as run:
            run.wait_for("2 devices")
            run.wait_for("running")
            assert {host["run"] for host in pool.report()["hosts"]} == {pool.report()["run"]["id"]}
            first.process.send_signal(signal.SIGTERM)
            assert first.finish() == 0
            first.wait_for("leaves when nothing needs it any more: it was told to leave (SIGTERM)")
            first.wait_for("host a1 has left")
            [host] = pool.report()["hosts"]
            assert (host["id"], host["virtual_devices"]) == ("a2", [0, 1])
            run.process.send_signal(signal.SIGTERM)
            run.finish()
        second.process.send_signal(signal.SIGINT)
        assert second.finish() == 0
    assert list(pool.base.iterdir()) == []


def test_two_runs_get_different_hosts_and_a_third_waits_and_says_for_whom(pool):
    with pool.host("a1") as first, pool.host("a2") as second:
        first.wait_for("registered")
        second.wait_for("registered")
        with pool.run(1, FOREVER) as one, pool.run(1, FOREVER) as two:
            one.wait_for("running")
            two.wait_for("running")
            report = pool.report()
            assert len({host["run"] for host in report["hosts"]}) == 2
            assert len(report["runs"]) == 2
            with pool.run(1, "5") as three:
                waits = three.wait_for("waiting for hosts: 0 of 1")
                assert "a1 is claimed by run" in waits
                assert "a2 is claimed by run" in waits
                # Killed, it cannot give anything back itself.
                holder = next(run for run in report["runs"] if run["id"] in waits)
                os.kill(holder["controller_pid"], signal.SIGKILL)
                assert three.finish() == 0, three.text


def test_health_of_a_pool_without_its_secret_or_its_etcd(pool):
    with pool.host("a1") as host:
        host.wait_for("registered")
        with pool.run(1, FOREVER) as run:
            run.wait_for("running")
            code, text = pool.health(environment={"ELASTIC_SECRET_FILE": ""})
            assert code == 0, text
            assert "set ELASTIC_SECRET_FILE" in text
    pool.etcd.kill()
    code, text = pool.health()
    assert code == 2
    assert pool.etcd.endpoints[0] in text


def test_a_second_host_of_a_name_is_refused(pool):
    with pool.host("a1") as first:
        first.wait_for("registered")
        with pool.host("a1") as second:
            assert second.finish() == 1
            assert "a host named a1 is in this pool already" in second.text


@pytest.mark.parametrize(
    ("line", "variables", "words"),
    [
        ("host --pool etcd://h1/p", {}, "set ELASTIC_SECRET_FILE to the file that holds it. Make one with"),
        ("host --pool etcd://h1/p", {"ELASTIC_SECRET": "abc"}, "ELASTIC_SECRET holds no secret"),
        ("host --pool etcd://h1/p", {"ELASTIC_SECRET_FILE": "/no/file"}, "/no/file cannot be read"),
        ("host --pool etcd://h1/p", {"ELASTIC_SECRET_FILE": "x", "ELASTIC_SECRET": "y"}, "are both set; unset one"),
        ("host --pool h1/p", {}, "begins with etcd://"),
        ("host --pool etcd://h1/p --id a/b", {}, "'a/b' cannot name a host"),
        ("host --pool etcd://h1/p --listen 0.0.0.0:0", {}, "give that by which the others reach it"),
        ("host --pool etcd://h1/p --devices 0", {}, "ask for at least 1"),
        (
            "host --pool etcd://h1/p",
            {"ELASTIC_SECRET": "ab" * 16, "ELASTIC_TLS_KEY": "k"},
            "set all three, or unset all",
        ),
        ("run -m json.tool", {"ELASTIC_TLS_CA": "x"}, "ELASTIC_TLS_CA is set, but not ELASTIC_TLS_CERT"),
        ("host --pool local", {}, "no pool is up on this machine; start one with `elastic up`"),
        ("run --pool etcd://h1/p -m json.tool", {}, "set ELASTIC_SECRET_FILE"),
        ("run --pool etcd://h1/p --hosts 0 -m json.tool", {}, "ask for at least 1 host"),
        ("run --spares -1 -m json.tool", {}, "ask for at least 0"),
    ],
)
def test_bad_command_lines(capsys, monkeypatch, tmp_path, line, variables, words):
    for name in ("ELASTIC_SECRET_FILE", "ELASTIC_SECRET"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**variables, "ELASTIC_RUN_BASE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    assert cli.main(line.split()) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "abc" not in error


ELSEWHERE = """
# Imported by every Python that starts with this directory on its path: it is as if it were on another machine.
import elastic.machine, elastic.shared_files

def refuse(work):
    def checked(path, *arguments):
        if "/uploads/" in str(path):
            raise FileNotFoundError(2, "this is another machine", path)
        return work(path, *arguments)
    return checked

elastic.machine.machine_id = lambda: "another"
elastic.shared_files.map_file = refuse(elastic.shared_files.map_file)
elastic.shared_files.write_file = refuse(elastic.shared_files.write_file)
"""

LARGE = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
x = np.arange(1 << 20, dtype=np.float32)
for device in jax.devices():
    there = jax.device_put(x, device)
    assert (np.asarray(there + 1) == x + 1).all()
mesh = Mesh(np.array(jax.devices()), "d")
spread = jax.device_put(x, NamedSharding(mesh, P("d")))
assert (np.asarray(spread * 2) == x * 2).all()
same = jax.device_put(x, NamedSharding(mesh, P()))
assert (np.asarray(same - 1) == x - 1).all()
print("equal", flush=True)
"""


def test_uploads_and_reads_of_hosts_on_another_machine_go_as_bytes(pool, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(ELSEWHERE)
    (tmp_path / "large.py").write_text(LARGE)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    there = Command("host", "--pool", pool.url, "--id", "far", environment={**pool.environment, "PYTHONPATH": path})
    with pool.host("near") as here, there:
        here.wait_for("registered")
        there.wait_for("registered")
        arguments = ("run", "--pool", pool.url, "--hosts", "2", str(tmp_path / "large.py"))
        with Command(*arguments, environment=pool.environment) as run:
            assert run.finish() == 0, run.text
            run.wait_for("equal")
