"""`elastic health` on real pools: what it says, how soon, and its exit codes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from elastic.status_client import NoAnswer, StatusClient
from tests.elastic.runs import Run
from tests.elastic.status_contract import check_report

LOOP = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
x = jax.device_put(np.arange(24.0, dtype=np.float32), sharding)
step = jax.jit(lambda a: a - a.sum() / 24 + 1)
for i in range(10**9):
    x = step(x)
    float(x[0])
    if i == 3:
        print("running", flush=True)
"""


@pytest.fixture
def base():
    """Where this test's pools are, and no others."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        yield Path(path)


@pytest.fixture
def loop(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    return script


def health(base, *options):
    """(exit code, what it printed, seconds)."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "elastic.cli", "health", *options],
        env={**os.environ, "ELASTIC_RUN_BASE": str(base)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout, time.monotonic() - began


@contextlib.contextmanager
def running(base, loop, **settings):
    with Run(loop, environment={"ELASTIC_RUN_BASE": str(base)}, **settings) as run:
        run.wait_for("running")
        yield run


@contextlib.contextmanager
def client(base):
    [directory] = base.glob("elastic-*")
    secret = bytes.fromhex((directory / "secret").read_text())
    with StatusClient(f"unix:{directory}/client.sock", secret, timeout_s=30) as made:
        yield made


def wait_until(base, condition):
    """The first report that fulfils a condition; asks again and again, since that is what a controller answers."""
    with client(base) as asked:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            report = asked.report()
            if condition(report):
                return report
    raise AssertionError(f"it did not come: {report}")


def test_no_pool_at_all(base):
    code, text, _ = health(base)
    assert code == 2
    assert "this user has no pool on this machine" in text
    code, text, _ = health(base, "--json")
    assert code == 2
    check_report(json.loads(text))


def test_a_healthy_run_and_one_that_lost_a_host(base, loop):
    with running(base, loop, hosts=3, devices=2) as run:
        code, text, _ = health(base, "--json")
        report = json.loads(text)
        assert code == 0, text
        check_report(report)
        assert [host["state"] for host in report["hosts"]] == ["healthy"] * 3
        assert sorted(device for host in report["hosts"] for device in host["virtual_devices"]) == list(range(6))
        assert {host["agent_pid"] for host in report["hosts"]} == {agent.pid for agent in run.role("agent")}
        assert report["run"]["client_connected"] is True
        code, text, _ = health(base)
        assert code == 0
        assert text.count(" healthy ") == 3

        # So that no other agent takes its place in the meantime.
        run.process.send_signal(signal.SIGSTOP)
        os.kill(report["hosts"][1]["agent_pid"], signal.SIGKILL)
        lost = wait_until(base, lambda report: report["failures"])
        check_report(lost)
        assert lost["status"] == "degraded"
        assert "host h1 is dead" in "; ".join(lost["reasons"])
        [failure] = lost["failures"]
        assert (failure["host"], failure["kind"]) == ("h1", "lost")
        assert failure["total_s"] == pytest.approx(sum(failure["phases_s"].values()), abs=1e-3)
        run.process.send_signal(signal.SIGCONT)
        back = wait_until(base, lambda report: report["status"] == "healthy")
        assert [host["restarts"] for host in back["hosts"]] == [0, 1, 0]
        code, text, _ = health(base)
        assert code == 0
        assert "h1 lost" in text


def test_a_degraded_pool_has_exit_code_1(base, loop):
    with running(base, loop, hosts=2, devices=1) as run:
        frozen = run.role("agent")[1]
        frozen.suspend()
        try:
            wait_until(base, lambda report: report["status"] == "degraded")
            code, text, _ = health(base)
            assert code == 1, text
        finally:
            frozen.resume()


@pytest.mark.parametrize("role", ["controller", "launcher"])
def test_a_frozen_process_makes_a_pool_down(base, loop, role):
    with running(base, loop, hosts=1, devices=1) as run:
        pid = run.process.pid if role == "launcher" else run.role("controller")[0].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            code, text, seconds = health(base)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert code == 2
        assert f"kill -CONT {pid}" in text
        assert seconds < 3 + _start_of_python()


def test_a_dead_controller_makes_a_pool_down(base, loop):
    with running(base, loop, hosts=1, devices=1) as run:
        run.process.send_signal(signal.SIGSTOP)
        [controller] = run.role("controller")
        controller.kill()
        run.process.send_signal(signal.SIGCONT)
        # The script fails, and with it everything; until then its controller is what health misses.
        code, text, _ = health(base)
        assert code == 2, text


def test_who_does_not_know_the_secret_is_told_nothing(base, loop):
    with running(base, loop, hosts=1, devices=1):
        [directory] = base.glob("elastic-*")
        with pytest.raises(NoAnswer, match="ELASTIC_SECRET_FILE"):
            StatusClient(f"unix:{directory}/client.sock", bytes(32))


def test_watch_without_a_terminal_prints_report_after_report(base, loop):
    with running(base, loop, hosts=1, devices=1):
        process = subprocess.Popen(
            [sys.executable, "-m", "elastic.cli", "health", "--json", "--watch"],
            env={**os.environ, "ELASTIC_RUN_BASE": str(base)},
            stdout=subprocess.PIPE,
            text=True,
        )
        reports = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert [report["status"] for report in reports] == ["healthy", "healthy"]
        process.stdout.close()


def _start_of_python():
    """Seconds that the command takes before it looks, on this machine as busy as it is."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import elastic.health, elastic.cli"], check=True)
    return time.monotonic() - began


def test_watch_on_a_terminal_shows_it_in_place(base, loop):
    with running(base, loop, hosts=1, devices=1):
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "elastic.cli", "health", "--watch"],
            env={**os.environ, "ELASTIC_RUN_BASE": str(base), "TERM": "xterm-256color"},
            stdout=theirs,
        )
        os.close(theirs)
        shown = b""
        while shown.count(b"pool /dev/shm/") < 3:
            shown += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        # Somebody has to read what it still shows.
        with contextlib.suppress(OSError):
            while os.read(ours, 1 << 16):
                pass
        assert process.wait(30) == 0
        os.close(ours)
        assert b"\x1b[32mhealthy" in shown
        assert b"\x1b[1A" in shown  # The cursor goes up, and the next report stands where the last one stood.
