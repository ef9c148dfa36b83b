"""What a device that is to fail a health check makes of its results."""

import numpy as np
import pytest

from elastic import fault_points
from elastic.executor.device_faults import spoil_if_armed

DEVICES = 3


@pytest.fixture
def arm(tmp_path, monkeypatch):
    monkeypatch.setattr(fault_points, "_directory", str(tmp_path))
    monkeypatch.setenv(fault_points.HOST, "h1")
    return lambda fault, host="h1": fault_points.arm(tmp_path, fault_points.DEVICE_CHECK, host, fault)


def right():
    return [np.zeros((8, 8), np.int32), np.zeros(4, np.int32)]


def wrong_numbers():
    """How many each device gives."""
    return [
        sum(int((result != 0).sum()) for result in spoil_if_armed(device, DEVICES, right()))
        for device in range(DEVICES)
    ]


@pytest.mark.parametrize(("fault", "numbers"), [("wrong-result", [0, 0, 1]), ("wrong-result 1\n", [0, 1, 0])])
def test_one_number_of_the_device_that_is_named_is_wrong_or_of_the_last(arm, fault, numbers):
    arm(fault)
    assert wrong_numbers() == numbers


def test_a_device_may_refuse(arm):
    arm("error 0")
    with pytest.raises(RuntimeError, match="told to fail"):
        spoil_if_armed(0, DEVICES, right())
    assert not any(result.any() for result in spoil_if_armed(1, DEVICES, right()))


def test_it_lasts_until_it_is_disarmed(arm, tmp_path):
    arm("wrong-result")
    assert wrong_numbers() == wrong_numbers() == [0, 0, 1]
    fault_points.disarm(tmp_path, fault_points.DEVICE_CHECK, "h1")
    assert wrong_numbers() == [0, 0, 0]


def test_other_hosts_are_well(arm):
    arm("wrong-result", host="h2")
    assert wrong_numbers() == [0, 0, 0]


@pytest.mark.parametrize("fault", ["", "flood", "stall first"])
def test_what_names_no_fault_is_refused(arm, fault):
    arm(fault)
    with pytest.raises(ValueError, match=r"."):
        spoil_if_armed(0, DEVICES, right())
