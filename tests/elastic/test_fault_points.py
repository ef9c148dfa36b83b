"""Points at which processes are killed, of real child processes, and devices go wrong."""

import os
import signal
import subprocess
import sys

import pytest

from chaos.faults import POINTS
from elastic import fault_points

PASSES = "from elastic import fault_points; fault_points.reach('compile'); print('passed')"


def passing(environment):
    return subprocess.run([sys.executable, "-c", PASSES], env=environment, capture_output=True, text=True, timeout=60)


def test_the_first_process_that_reaches_an_armed_point_dies_and_the_next_passes(tmp_path, monkeypatch):
    monkeypatch.setenv(fault_points.DIRECTORY, str(tmp_path))
    environment = dict(os.environ)
    fault_points.arm(tmp_path, "snapshot")
    assert passing(environment).stdout == "passed\n"  # Another point.
    fault_points.arm(tmp_path, "compile")
    assert passing(environment).returncode == -signal.SIGKILL
    assert not fault_points.is_armed(tmp_path, "compile")
    assert passing(environment).stdout == "passed\n"


def test_without_the_variable_no_point_is_armed(tmp_path):
    fault_points.arm(tmp_path, "compile")
    assert passing({"PATH": "", "PYTHONPATH": ":".join(sys.path)}).stdout == "passed\n"
    assert fault_points.is_armed(tmp_path, "compile")


def test_a_point_that_does_not_exist_cannot_be_armed(tmp_path):
    with pytest.raises(ValueError, match="there is no point 'lunch'; there are compile, "):
        fault_points.arm(tmp_path, "lunch")
    with pytest.raises(ValueError, match="there is no point 'compile'; there are flip-bit, device-check, "):
        fault_points.arm(tmp_path, "compile", "h1")


def test_plans_know_the_points_that_there_are():
    assert set(POINTS) == set(fault_points.POINTS)


def test_what_is_armed_for_one_host_is_not_of_others_and_is_taken_by_one_process(tmp_path, monkeypatch):
    monkeypatch.setattr(fault_points, "_directory", str(tmp_path))
    fault_points.arm(tmp_path, "flip-bit", "h1", "0 7")
    monkeypatch.setenv(fault_points.HOST, "h2")
    assert (fault_points.armed("flip-bit"), fault_points.take("flip-bit")) == (None, False)
    monkeypatch.setenv(fault_points.HOST, "h1")
    assert fault_points.armed("flip-bit") == "0 7"
    assert [fault_points.take("flip-bit") for _ in range(2)] == [True, False]


def test_what_is_armed_can_be_disarmed_before_it_happens(tmp_path):
    environment = {**os.environ, fault_points.DIRECTORY: str(tmp_path)}
    fault_points.arm(tmp_path, "compile")
    assert fault_points.is_armed(tmp_path, "compile")
    fault_points.disarm(tmp_path, "compile")
    assert not fault_points.is_armed(tmp_path, "compile")
    assert passing(environment).stdout == "passed\n"
