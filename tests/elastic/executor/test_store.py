from concurrent.futures import Future

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.executor.callbacks import Callbacks
from elastic.executor.programs import Programs
from elastic.executor.store import Store, Value
from elastic.status import Code, StatusError

ERROR = StatusError(Code.DATA_LOSS, "the cause")


def raised(work):
    with pytest.raises(StatusError) as caught:
        work()
    return caught.value


@pytest.fixture
def store():
    return Store()


@pytest.fixture(scope="module")
def programs(member):
    return Programs(member, Callbacks())


@pytest.fixture
def put(member):
    return lambda value, device: jax.device_put(np.float32(value), member.devices[device])


def test_an_array_that_never_came_is_an_error(store):
    error = raised(lambda: store.get(7).shards())
    assert (error.code, "7" in error.message) == (Code.NOT_FOUND, True)
    assert len(store) == 0


def test_an_array_may_come_in_pieces(store):
    store.add_shards(7, [0, 2], ["a", "c"])
    store.add_shards(7, [1], ["b"])
    assert store.get(7).shards() == {0: "a", 2: "c", 1: "b"}
    assert len(store) == 1


def test_a_freed_array_is_unknown_again(store):
    store.add_shards(7, [0], ["a"])
    store.set(8, Value(error=ERROR))
    store.free([7, 8, 9])
    assert len(store) == 0
    assert raised(lambda: store.get(8).shards()).code is Code.NOT_FOUND


def test_a_failed_array_gives_its_first_error_to_whoever_uses_it(store):
    store.add_shards(7, [0], ["a"])
    store.fail(7, ERROR)
    store.fail(7, StatusError(Code.INTERNAL, "a consequence"))
    store.add_shards(7, [1], ["b"])  # A piece that came too late.
    for use in (store.get(7).shards, lambda: store.get(7).shard(0), lambda: store.get(7).add(2, "c")):
        assert raised(use) is ERROR


def test_a_shard_that_a_peer_is_sending_is_waited_for(store):
    coming = Future()
    store.add_shards(7, [0, 1], [coming, "there"])
    assert store.get(7).shard(1) == "there"
    coming.set_result("here")
    assert store.get(7).shard(0) == "here"
    assert store.get(7).shards() == {0: "here", 1: "there"}


def test_a_shard_that_a_peer_cannot_send_is_its_error(store):
    coming = Future()
    coming.set_exception(ERROR)
    store.add_shards(7, [0], [coming])
    assert raised(lambda: store.get(7).shard(0)) is ERROR


def test_a_shard_that_is_not_here_is_an_error_that_names_its_device(store):
    store.add_shards(7, [0], ["a"])
    error = raised(lambda: store.get(7).shard(3))
    assert "virtual device 3" in error.message


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 3)),
            st.tuples(st.just("fail"), st.integers(0, 2), st.integers(0, 3)),
            st.tuples(st.just("free"), st.integers(0, 2), st.just(0)),
        ),
        max_size=20,
    )
)
def test_a_store_is_a_dictionary_of_dictionaries_with_errors(operations):
    store, twin = Store(), {}
    for turn, (what, array, device) in enumerate(operations):
        if what == "add":
            store.add_shards(array, [device], [turn])
            if not isinstance(twin.setdefault(array, {}), str):
                twin[array][device] = turn
        elif what == "fail":
            store.fail(array, StatusError(Code.INTERNAL, str(turn)))
            if not isinstance(twin.get(array), str):
                twin[array] = str(turn)
        else:
            store.free([array])
            twin.pop(array, None)
    assert len(store) == len(twin)
    for array, expected in twin.items():
        if isinstance(expected, str):
            assert raised(store.get(array).shards).message == expected
        else:
            assert store.get(array).shards() == expected


def test_one_list_of_devices_is_one_binding(programs):
    assert programs.binding([0, 2]) is programs.binding((0, 2))
    assert programs.binding([2, 0]) is not programs.binding([0, 2])
    assert programs.binding([2, 0]).devices == programs.binding([2, 0]).local == (2, 0)


def test_an_array_is_bound_to_the_devices_of_a_program_in_their_order(store, programs, member, put):
    binding = programs.binding([2, 0])
    store.add_shards(7, [0, 2], [put(10, 0), put(12, 2)])
    bound = store.get(7).bind(binding)
    assert [shard.device for shard in bound._arrays] == [member.devices[2], member.devices[0]]
    assert [float(shard) for shard in bound._arrays] == [12.0, 10.0]


def test_a_chain_of_programs_touches_no_shard(store, programs, put):
    binding = programs.binding([0, 2])
    store.add_shards(7, [0, 2], [put(0, 0), put(2, 2)])
    bound = store.get(7).bind(binding)
    assert store.get(7).bind(binding) is bound
    store.set(8, Value(bound=bound, binding=binding, local=binding.local))
    assert store.get(8).bind(binding) is bound


def test_the_shards_of_a_result_are_where_its_program_ran(store, programs, put):
    binding = programs.binding([2, 0])
    store.add_shards(7, [0, 2], [put(10, 0), put(12, 2)])
    store.set(8, Value(bound=store.get(7).bind(binding), binding=binding, local=binding.local))
    assert {device: float(shard) for device, shard in store.get(8).shards().items()} == {0: 10.0, 2: 12.0}


def test_an_array_may_be_bound_to_other_devices_later(store, programs, put):
    store.add_shards(7, [0, 1], [put(0, 0), put(1, 1)])
    store.get(7).bind(programs.binding([0, 1]))
    again = store.get(7).bind(programs.binding([1]))
    assert [float(shard) for shard in again._arrays] == [1.0]


def test_a_shard_that_comes_after_an_array_was_bound_belongs_to_it(store, programs, put):
    store.add_shards(7, [0], [put(0, 0)])
    store.get(7).bind(programs.binding([0]))
    store.add_shards(7, [1], [put(1, 1)])
    bound = store.get(7).bind(programs.binding([0, 1]))
    assert [float(shard) for shard in bound._arrays] == [0.0, 1.0]


def test_an_array_without_all_shards_cannot_be_bound(store, programs, put):
    store.add_shards(7, [0], [put(0, 0)])
    assert "virtual device 2" in raised(lambda: store.get(7).bind(programs.binding([0, 2]))).message


def test_an_error_cannot_be_bound(store, programs):
    store.fail(7, ERROR)
    assert raised(lambda: store.get(7).bind(programs.binding([0]))) is ERROR


def test_a_shard_that_a_peer_is_sending_is_waited_for_to_be_bound(store, programs, put):
    coming = Future()
    store.add_shards(7, [0], [coming])
    coming.set_result(put(5, 0))
    assert float(store.get(7).bind(programs.binding([0]))._arrays[0]) == 5.0
