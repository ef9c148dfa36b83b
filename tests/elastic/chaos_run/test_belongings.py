"""What belongs to a run is found by its mark, and goes when its guard is told to end it; real processes."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from chaos import missing
from elastic.chaos_run.belongings import Belongings
from elastic.chaos_run.guard import Guard
from tests.elastic.processes import wait_gone

SLEEPS = "import sys; print('here', flush=True); sys.stdin.read()"

STARTS = """
import os, signal, subprocess, sys, time
from pathlib import Path
from elastic.chaos_run.belongings import Belongings
from elastic.chaos_run.guard import Guard
run = Belongings(Path(sys.argv[1]))
guard = Guard(run.directory, disk=os.geteuid() == 0)
run.make()
(run.disk / "file").touch()
child = subprocess.Popen(["sleep", "600"], env={**os.environ, **run.variables}, start_new_session=True)
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, guard.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def run():
    run = Belongings(Path(tempfile.mkdtemp(prefix="chaos-test-")))
    run.make()
    yield run
    run.remove()


def start(run):
    environment = {**os.environ, **run.variables}
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "here\n"
    return child


def test_a_process_with_the_mark_belongs_to_the_run_until_it_ends(run):
    with start(run) as child:
        assert list(run.processes()) == [child.pid]
        assert not run.owns(os.getpid())
        child.stdin.close()
        child.wait()
        assert list(run.processes()) == []


def test_what_is_left_is_named(run):
    with start(run) as child:
        (run.pools / "elastic-0").mkdir()
        [process], [path] = run.left(0.0)
        assert process.startswith(f"{child.pid} (")
        assert path.endswith("elastic-0")
        child.kill()


def test_stopped_processes_are_removed_too_and_the_directory_with_them(run):
    with start(run) as child:
        child.send_signal(signal.SIGSTOP)
        guard = Guard(run.directory)
        guard.close()
        assert child.wait(10) == -signal.SIGKILL
        assert not run.directory.exists()


def interface(bridge):
    """The kernel's number of it, which is not used again; "" if there is none of this name."""
    try:
        return (bridge / "ifindex").read_text()
    except FileNotFoundError:
        return ""


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_the_network_of_a_run_goes_with_its_guard(run):
    guard = Guard(run.directory, ["h0", "h1"])
    bridge = Path(f"/sys/class/net/elastic{guard.network.number}")
    before = interface(bridge)
    assert before
    guard.close()
    assert interface(bridge) != before  # Another test may have one of the same name meanwhile.


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root")
def test_the_disk_of_a_run_goes_with_its_guard(run):
    guard = Guard(run.directory, disk=True)
    assert os.path.ismount(run.disk)
    with (run.disk / "file").open("wb") as file:
        file.write(bytes(1000))
        guard.close()
    assert not run.directory.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_whoever_started_a_run_takes_it_along_however_it_ends(number):
    directory = tempfile.mkdtemp(prefix="chaos-test-")
    with subprocess.Popen([sys.executable, "-c", STARTS, directory], stdout=subprocess.PIPE, text=True) as starter:
        child, guard = map(int, starter.stdout.readline().split())
        starter.send_signal(number)
        starter.wait()
    wait_gone([child, guard])
    assert not Path(directory).exists()
