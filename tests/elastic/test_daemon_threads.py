import subprocess
import sys
import threading
from queue import SimpleQueue

import pytest

from elastic.daemon_threads import DaemonThreads
from tests.elastic.connections import PATIENCE


@pytest.mark.parametrize("limit", [1, 3])
def test_all_work_is_done_and_no_more_at_once_than_the_limit(limit):
    threads, names, lock = DaemonThreads(limit, "worker"), SimpleQueue(), threading.Lock()
    inside, most = 0, 0

    def work(number):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1
        names.put((number, threading.current_thread().name))

    for number in range(50):
        threads.submit(work, number)
    done = [names.get(timeout=PATIENCE) for _ in range(50)]
    assert sorted(number for number, _ in done) == list(range(50))
    assert {name for _, name in done} <= {f"worker-{n}" for n in range(limit)}
    assert most <= limit


def test_a_thread_is_started_when_the_others_are_busy():
    threads, release, done = DaemonThreads(2, "worker"), threading.Event(), SimpleQueue()
    threads.submit(release.wait, PATIENCE)
    threads.submit(done.put, "second")
    assert done.get(timeout=PATIENCE) == "second"
    release.set()


def test_a_script_may_end_and_its_exit_functions_still_get_work_done():
    code = """
import atexit, threading
from elastic.daemon_threads import DaemonThreads
threads, done = DaemonThreads(2, "worker"), threading.Event()
@atexit.register
def leave():
    threads.submit(lambda: (print("done"), done.set()))
    done.wait()
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (process.returncode, process.stdout, process.stderr) == (0, "done\n", "")
