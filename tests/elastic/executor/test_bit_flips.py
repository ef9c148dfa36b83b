"""One bit of an array that a program is about to take, changed on demand."""

import jax
import numpy as np
import pytest

from elastic import fault_points
from elastic.executor.bit_flips import flip_if_armed, flipped
from elastic.executor.callbacks import Callbacks
from elastic.executor.programs import Programs
from elastic.executor.store import Store, Value
from elastic.status import Code, StatusError
from tests.elastic.executor.one_process import put, values_of


@pytest.fixture
def points(tmp_path, monkeypatch):
    monkeypatch.setattr(fault_points, "_directory", str(tmp_path))
    monkeypatch.setenv(fault_points.HOST, "h1")
    return tmp_path


@pytest.fixture
def store(member):
    made = Store()
    for array in (1, 2):
        made.add_shards(array, [0, 1], [put(member, np.full(8, array), device) for device in (0, 1)])
    return made


@pytest.fixture
def binding(member):
    return Programs(member, Callbacks()).binding((0, 1))


def bits_changed(store):
    """(array, device) -> how many bits are not as they were."""
    found = {}
    for array in (1, 2):
        for device, values in values_of(store, array).items():
            plain = np.full(8, array, np.float32)
            different = np.bitwise_xor(values.view(np.uint8), plain.view(np.uint8))
            found[array, device] = int(np.unpackbits(different).sum())
    return {shard: count for shard, count in found.items() if count}


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("seed", range(8))
def test_exactly_one_bit_is_changed_of_one_array_on_the_device_that_was_named(points, store, binding, device, seed):
    fault_points.arm(points, fault_points.FLIP_BIT, "h1", f"{device} {seed}")
    flip_if_armed(store, [1, 2], binding)
    changed = bits_changed(store)
    assert changed in ({(1, device): 1}, {(2, device): 1})
    assert not list(points.iterdir())


def test_the_same_seed_changes_the_same_bit(points, member, binding):
    def changed():
        store = Store()
        store.add_shards(1, [0, 1], [put(member, np.arange(100), device) for device in (0, 1)])
        fault_points.arm(points, fault_points.FLIP_BIT, "h1", "0 5")
        flip_if_armed(store, [1], binding)
        return values_of(store, 1)[0]

    np.testing.assert_array_equal(changed(), changed())


def test_another_host_does_not_do_it(points, store, binding):
    fault_points.arm(points, fault_points.FLIP_BIT, "h2", "0 0")
    flip_if_armed(store, [1, 2], binding)
    assert bits_changed(store) == {}
    assert len(list(points.iterdir())) == 1


def test_it_waits_for_a_program_that_takes_something(points, store, binding):
    store.fail(3, StatusError(Code.INTERNAL, "none"))
    fault_points.arm(points, fault_points.FLIP_BIT, "h1", "0 0")
    flip_if_armed(store, [], binding)
    flip_if_armed(store, [3], binding)
    assert len(list(points.iterdir())) == 1
    flip_if_armed(store, [1], binding)
    assert bits_changed(store) == {(1, 0): 1}


def test_an_array_that_programs_have_made_can_be_hit_as_well(points, member, binding):
    store = Store()
    store.add_shards(1, [0, 1], [put(member, np.full(8, 1), device) for device in (0, 1)])
    store.set(2, Value(bound=store.get(1).bind(binding), binding=binding, local=binding.local))
    fault_points.arm(points, fault_points.FLIP_BIT, "h1", "1 0")
    flip_if_armed(store, [2], binding)
    assert (values_of(store, 2)[1] != 1).sum() == 1
    assert (values_of(store, 1)[1] == 1).all()


def test_an_array_keeps_where_and_how_it_lies(member):
    shard = jax.device_put(np.zeros((2, 3), np.int8), member.devices[2])
    made = flipped(shard, 9)
    assert (made.format, np.asarray(made).tolist()) == (shard.format, [[0, 2, 0], [0, 0, 0]])


def test_without_the_variable_nothing_is_looked_at(store, binding):
    flip_if_armed(store, [1, 2], binding)
    assert bits_changed(store) == {}
