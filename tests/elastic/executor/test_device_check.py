"""The known program of health checks, on real devices, and what is said of results that are wrong."""

import os

import numpy as np
import pytest

from elastic.executor import device_check
from elastic.executor.device_check import NAMES, RIGHT, expected, judge, look
from elastic.host_memory import digest_of


@pytest.fixture
def cache():
    descriptor = os.memfd_create("test")
    yield descriptor
    os.close(descriptor)


def results(devices, cache):
    return [[np.asarray(result) for result in found] for found in look(devices, cache)]


def test_the_right_digests_are_those_of_whole_numbers_that_every_platform_computes_exactly():
    right = expected()
    assert tuple(digest_of(result.tobytes()).hex() for result in right) == RIGHT
    row, column = np.indices((device_check.SIZE,) * 2)
    factors = [(row * i + column * j + row * column * ij) % 511 - 255 for i, j, ij in device_check.FACTORS.values()]
    # Eight bits of a factor are exact in bfloat16, and no sum of products, in whatever order, leaves 24 bits.
    assert max(np.abs(factor).max() for factor in factors) <= 255
    assert (np.abs(factors[0]) @ np.abs(factors[1])).max() < 1 << 24
    assert len(right[2]) == 64


def test_every_device_gives_the_right_results_compiled_or_loaded(member, cache):
    devices = member.devices
    assert len(devices) > 1
    for _ in range(2):
        found = results(devices, cache)
        assert [judge(result) for result in found] == [""] * len(devices)
        assert [array.tolist() for array in found[-1]] == [array.tolist() for array in expected()]
        assert os.fstat(cache).st_size > 0


def test_a_compiled_program_that_was_only_written_in_part_is_not_used(member, cache):
    devices = member.devices[:1]
    look(devices, cache)
    whole = os.fstat(cache).st_size
    os.ftruncate(cache, whole // 2)
    assert judge(results(devices, cache)[0]) == ""
    assert os.fstat(cache).st_size >= whole // 2
    assert judge(results(devices, cache)[0]) == ""


@pytest.mark.parametrize("index", range(3))
def test_a_single_wrong_bit_is_found_and_told(index):
    found = [result.copy() for result in expected()]
    found[index].flat[7] ^= 1
    words = judge(found)
    assert words.startswith("1 of ")
    assert f"numbers of {NAMES[index]} are wrong" in words
    assert words.endswith(f"such as {found[index].flat[7]} instead of {expected()[index].flat[7]}")


def test_an_exponential_may_be_off_by_three_ulp():
    """As it is on other processors, and other chips."""
    wanted = expected()[2]
    x = np.array(device_check._EXPONENTS, np.float32) / np.float32(4096)
    exact = np.exp(x.astype(np.float64)).astype(np.float32)
    for ulps in (-3, 3):
        off = exact + ulps * np.spacing(exact)
        assert np.rint(off * np.float32(1 << 16)).astype(np.int32).tolist() == wanted.tolist()
