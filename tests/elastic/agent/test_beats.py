"""Which executors move, of real child processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elastic.agent.beats import Beats, processor_ticks
from tests.elastic.connections import PATIENCE

BURNS = """
import os, threading
def beat():
    while True:
        os.write(1, b"beat\\n")
threading.Thread(target=beat, daemon=True).start()
os.write(1, b"ready\\n")
sum(range(10**15))  # One call into C, which never gives Python's lock back.
"""

IDLES = """
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
        while (line := process.stdout.readline()) != "ready\n":
            assert line
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


def until_idle(pid):
    until(lambda: state(pid) == "S")


def test_one_that_says_so_moves_until_the_next_look(child):
    pid = child(IDLES)
    until_idle(pid)
    beats = Beats()
    assert beats.moved([pid]) == []
    beats.update(pid)
    assert beats.moved([pid]) == [pid]
    assert beats.moved([pid]) == []


def test_one_that_uses_a_processor_moves_though_it_cannot_say_so(child):
    pid = child(BURNS)
    beats = Beats()
    beats.moved([pid])
    until(lambda: beats.moved([pid]) == [pid])
    until(lambda: beats.moved([pid]) == [pid])


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


def test_what_one_said_before_it_was_stopped_counts_once(child):
    pid = child(IDLES)
    beats = Beats()
    until_idle(pid)
    beats.moved([pid])
    beats.update(pid)
    stop(pid)
    assert beats.moved([pid]) == [pid]
    assert beats.moved([pid]) == []


def test_nothing_is_said_of_others_than_those_that_are_asked_for(child):
    pid = child(IDLES)
    until_idle(pid)
    beats = Beats()
    beats.update(pid)
    beats.update(1)
    assert beats.moved([]) == []
    assert beats.moved([pid]) == []  # The look before was the last at what was heard then.


def test_one_that_is_new_does_not_move_because_it_had_used_a_processor_before(child):
    pid = child(BURNS)
    until(lambda: processor_ticks(pid) > 0)
    stop(pid)
    beats = Beats()
    assert beats.moved([pid]) == []


def test_one_that_is_gone_does_not_move(child):
    pid = child(BURNS)
    until(lambda: processor_ticks(pid) > 0)
    beats = Beats()
    beats.moved([pid])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert beats.moved([pid]) == []
    assert processor_ticks(pid) is None


def test_a_name_with_a_bracket_does_not_confuse_it(child):
    pid = child("import ctypes\nctypes.CDLL(None).prctl(15, b'a) R 1 (b', 0, 0, 0)\n" + BURNS)
    assert "a) R 1 (b" in Path(f"/proc/{pid}/stat").read_text()
    before = processor_ticks(pid)
    until(lambda: processor_ticks(pid) > before)
