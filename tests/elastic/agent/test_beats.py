"""Which executors move, of real child processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elastic.agent.beats import Beats, processor_ns
from tests.elastic.connections import PATIENCE

WAKES = """
import time
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""

BURNS = """
print("ready", flush=True)
sum(range(10**15))  # One call into C, which never gives Python's lock back.
"""

SLEEPS = """
import sys
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child():
    """Starts a program that prints a line when it is under way; all end with the test."""
    children = []

    def start(program):
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        children.append(process)
        assert process.stdout.readline() == "ready\n"
        return process.pid

    yield start
    for process in children:
        process.kill()
        process.communicate()


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition):
    """The kernel tells nobody when a process uses its processor, so this has to look."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        os.sched_yield()


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


@pytest.mark.parametrize("program", [WAKES, BURNS], ids=["wakes-now-and-then", "burns-and-keeps-the-lock"])
def test_one_that_uses_a_processor_moves(child, program):
    pid = child(program)
    beats = Beats()
    beats.moved([pid])
    for _ in range(3):
        until(lambda: beats.moved([pid]) == [pid])


def test_one_that_sleeps_does_not_move(child):
    pid = child(SLEEPS)
    until(lambda: state(pid) == "S")
    beats = Beats()
    beats.moved([pid])
    assert [beats.moved([pid]) for _ in range(100)] == [[]] * 100


def test_one_that_was_stopped_does_not_move_and_one_that_goes_on_does(child):
    stopped, burning = child(BURNS), child(BURNS)
    both = [stopped, burning]
    stop(stopped)
    beats = Beats()
    beats.moved(both)
    looks = []

    def look():
        looks.append(beats.moved(both))
        return burning in looks[-1]

    for _ in range(5):
        until(look)
    assert not any(stopped in moved for moved in looks)
    os.kill(stopped, signal.SIGCONT)
    until(lambda: stopped in beats.moved(both))


def test_what_one_did_before_it_was_stopped_counts_once(child):
    pid = child(BURNS)
    beats = Beats()
    beats.moved([pid])
    before = processor_ns(pid)
    until(lambda: processor_ns(pid) > before)
    stop(pid)
    assert beats.moved([pid]) == [pid]
    assert beats.moved([pid]) == []


def test_nothing_is_said_of_others_than_those_that_are_asked_for(child):
    pid, other = child(BURNS), child(BURNS)
    beats = Beats()
    beats.moved([pid, other])
    until(lambda: beats.moved([other]) == [other])
    assert beats.moved([pid]) == []  # It was not looked at the time before.


def test_one_that_is_new_does_not_move_because_it_had_used_a_processor_before(child):
    pid = child(BURNS)
    stop(pid)
    assert processor_ns(pid) > 0
    assert Beats().moved([pid]) == []


def test_one_that_is_gone_does_not_move(child):
    pid = child(BURNS)
    beats = Beats()
    beats.moved([pid])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert beats.moved([pid]) == []
    assert processor_ns(pid) is None
