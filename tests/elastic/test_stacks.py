"""The stacks of processes that do not answer."""

import subprocess
import sys

import pytest

from elastic import stacks

HANGS = """
import sys, threading
from elastic import stacks

def wait_for_godot():
    threading.Lock().acquire() or None
    lock = threading.Lock()
    lock.acquire()
    print("hangs", flush=True)
    lock.acquire()

if sys.argv[1] == "offers":
    stacks.offer()
wait_for_godot()
"""


@pytest.fixture
def hanging(tmp_path):
    started = []

    def start(offers="offers", stderr=None):
        log = stderr or (tmp_path / "log").open("wb")
        process = subprocess.Popen([sys.executable, "-c", HANGS, offers], stdout=subprocess.PIPE, stderr=log)
        started.append(process)
        assert process.stdout.readline() == b"hangs\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_stacks_of_a_process_that_hangs(hanging):
    process = hanging()
    told = stacks.of(process.pid)
    assert told.startswith(f"process {process.pid}: ")
    assert "in wait_for_godot" in told


def test_they_can_be_asked_for_again(hanging):
    process = hanging()
    for _ in range(3):
        assert stacks.of(process.pid).count("in wait_for_godot") == 1


def test_a_process_that_offers_none_is_left_alone(hanging):
    process = hanging("not")
    assert "it tells no stacks" in stacks.of(process.pid)
    assert process.poll() is None


def test_stacks_that_go_elsewhere_are_not_read(hanging):
    assert "its stacks are on its stderr" in stacks.of(hanging(stderr=subprocess.PIPE).pid)


def test_a_process_that_is_gone():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert stacks.of(process.pid) == f"there is no process {process.pid}"
