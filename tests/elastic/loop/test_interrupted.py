"""Trainings that are killed, told to end, or fail: started again, they end in the bits of an undisturbed one."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import checkpoint
from tests.elastic.loop.sources import SIZE
from tests.elastic.runs import Run

SCRIPT = Path(__file__).with_name("training.py")
STEPS = 2 * SIZE + 2


def environment(devices):
    root = str(Path(__file__).parents[3])
    threads = str(2 * devices + 2)
    return {**os.environ, "PYTHONPATH": root, "NPROC": threads} | {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
    }


def start(directory, data, fault="none=0"):
    return subprocess.Popen(
        # Without that, a child of a shell's background job would ignore Ctrl-C.
        ["env", "--default-signal=INT", sys.executable, SCRIPT, directory, str(STEPS), data, fault],
        env=environment(4),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """(exit code, lines of stdout, stderr)"""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out.splitlines(), err


def train(directory, data, fault="none=0"):
    return finish(start(directory, data, fault))


@pytest.fixture
def directory():
    """One whose files cost nothing to make durable."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a training with some data prints when nothing happens; found out once."""
    outputs = {}

    def output(data):
        if data not in outputs:
            code, outputs[data], err = train(tmp_path_factory.mktemp("undisturbed"), data)
            assert code == 0, err
        return outputs[data]

    return output


def wait_for(text, process):
    """The lines of stdout before it."""
    lines = []
    for line in process.stdout:
        if line.rstrip() == text:
            return lines
        lines.append(line.rstrip())
    raise AssertionError(f"it ended without {text!r}: {lines}, {process.stderr.read()}")


def newest(directory):
    path, manifest = next(checkpoint.whole_steps(directory, lambda why: None), None)
    assert checkpoint.verify(path) == []
    return manifest.step


@pytest.mark.parametrize("data", ["loader", "stateful iterator"])
def test_killed_at_any_step_it_goes_on_with_the_same_numbers_and_ids(undisturbed, directory, data):
    expected = undisturbed(data)
    assert len(expected) == STEPS + 1
    # Before anything was saved, at the end of an epoch, at the beginning of the next one, right after a save.
    for killed, resumed in ((2, 0), (SIZE, 0), (SIZE + 1, 6), (13, 6)):
        code, lines, err = train(directory, data, f"die={killed}")
        assert code == -signal.SIGKILL, err
        assert lines == expected[resumed:killed]
    code, lines, err = train(directory, data)
    assert (code, lines) == (0, expected[12:]), err
    assert f"goes on after step 12, from {directory / '12'}" in err
    assert newest(directory) == STEPS
    code, lines, err = train(directory, data)
    assert (code, lines) == (0, expected[-1:]), "what is done is not done again"


def test_however_it_is_ended_its_state_is_saved_and_it_goes_on(undisturbed, directory):
    expected = undisturbed("loader")

    process = start(directory, "loader", f"wait=5:{directory / 'go on'}")
    wait_for("waits", process)
    process.terminate()
    (directory / "go on").touch()
    code, _, err = finish(process)
    assert code == -signal.SIGTERM
    assert "SIGTERM: step 5 was the last one" in err
    assert newest(directory) == 5

    process = start(directory, "loader", f"wait=8:{directory / 'never'}")
    assert wait_for("waits", process) == expected[5:8]
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert newest(directory) == 8

    code, lines, err = train(directory, "loader", "raise=11")
    assert (code, lines) == (1, expected[8:11])
    assert "ValueError: as it was asked to" in err
    assert newest(directory) == 11

    assert train(directory, "loader")[:2] == (0, expected[11:])


def test_a_second_process_is_refused_while_the_first_one_saves(directory):
    process = start(directory, "list", f"wait=1:{directory / 'never'}")
    try:
        wait_for("waits", process)
        code, lines, err = train(directory, "list")
        assert (code, lines) == (1, [])
        assert f"UsageError: process {process.pid} saves to {directory}; end it, or save elsewhere" in err
    finally:
        process.kill()
        finish(process)


def test_under_elastic_run_the_client_may_be_killed_too(directory):
    """The pool ends with its client; a new one goes on."""
    settings = {"hosts": 2, "devices": 2, "environment": {"PYTHONPATH": environment(4)["PYTHONPATH"]}}
    arguments = (str(STEPS), "loader")
    with Run(SCRIPT, str(directory / "undisturbed"), *arguments, **settings) as run:
        assert run.finish(120) == 0, run.text
        expected = run.output
    with Run(SCRIPT, str(directory / "run"), *arguments, f"die={SIZE + 1}", **settings) as run:
        assert run.finish(120) == 128 + signal.SIGKILL, run.text
        assert run.output == expected[: SIZE + 1]
    with Run(SCRIPT, str(directory / "run"), *arguments, **settings) as run:
        assert run.finish(120) == 0, run.text
        assert run.output == expected[6:]
    assert newest(directory / "run") == STEPS
