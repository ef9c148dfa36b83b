"""Programs compiled, described, loaded and run on CPU devices of this process."""

import numpy as np
import pytest

from elastic import wire
from elastic.dtypes import KIND_OF_NAME
from elastic.executor.callbacks import Callbacks
from elastic.executor.programs import Facts, Programs
from elastic.executor.store import Store, Value
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError
from elastic.wire import FrameError
from tests.elastic.executor.one_process import options, portable, put, values_of

F32 = int(pb.DTypeProto.KIND_F32)
ERROR = StatusError(Code.DATA_LOSS, "the cause")

ADD = """
module @jit_add {
  func.func public @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %sum = stablehlo.add %a, %b : tensor<3xf32>
    %product = stablehlo.multiply %a, %b : tensor<3xf32>
    return %sum, %product : tensor<3xf32>, tensor<3xf32>
  }
}"""

CUT = """
module @jit_cut attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%a: tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"})
      -> (tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}, tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %doubled = stablehlo.add %a, %a : tensor<4x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    return %doubled, %sum : tensor<4x2xf32>, tensor<f32>
  }
}"""


@pytest.fixture
def programs(member):
    return Programs(member, Callbacks())


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def compiled(programs):
    """Compiles a program under a number; returns (description, blob)."""

    def compiled(text, devices=(0,), number=1, replicas=1):
        made = options(len(devices) // replicas, replicas)
        return programs.compile(number, portable(text), made, list(devices), replicas, [], True)

    return compiled


@pytest.fixture
def give(member, store):
    """Puts float32 values on a device, as an array."""
    return lambda array, values, device=0: store.add_shards(array, [device], [put(member, values, device)])


def test_a_program_runs_and_its_results_are_in_the_store(compiled, programs, store, give):
    compiled(ADD)
    give(10, [1, 2, 3])
    give(11, [4, 5, 6])
    programs.get(1).run(store, [10, 11], [12, 13], [], 0)
    assert values_of(store, 12)[0].tolist() == [5, 7, 9]
    assert values_of(store, 13)[0].tolist() == [4, 10, 18]
    programs.get(1).run(store, [12, 13], [14, 15], [], 0)
    assert values_of(store, 14)[0].tolist() == [9, 17, 27]


def test_a_program_that_was_serialized_runs_on_another_device_with_the_same_bits(compiled, programs, store, give):
    _, blob = compiled(ADD)
    programs.load(2, blob, options(), [3], 1, [])
    for device, program in ((0, 1), (3, 2)):
        give(10 + device, [0.1, 1e-30, 3], device)
        give(20 + device, [0.2, 1e30, 7], device)
        programs.get(program).run(store, [10 + device, 20 + device], [30 + device, 40 + device], [], 0)
    assert list(values_of(store, 33)) == [3]
    for result in (30, 40):
        assert values_of(store, result)[0].tobytes() == values_of(store, result + 3)[3].tobytes()


def test_a_program_over_two_devices_takes_and_leaves_shards_in_their_order(compiled, programs, store, give):
    _, blob = compiled(CUT, (2, 1))
    programs.load(2, blob, options(2), [0, 3], 1, [])
    for program, (first, second), base in ((1, (2, 1), 10), (2, (0, 3), 20)):
        give(base, [[0, 1], [2, 3]], first)
        give(base, [[4, 5], [6, 7]], second)
        programs.get(program).run(store, [base], [base + 1, base + 2], [], 0)
        assert {device: values.tolist() for device, values in values_of(store, base + 1).items()} == {
            first: [[0, 2], [4, 6]],
            second: [[8, 10], [12, 14]],
        }
        assert {device: float(values) for device, values in values_of(store, base + 2).items()} == {
            first: 28,
            second: 28,
        }


def test_a_program_over_two_devices_is_described_by_its_whole_arrays(compiled):
    about, _ = compiled(CUT, (0, 1))
    assert about["results"] == [(F32, [4, 2]), (F32, [])]
    cut, copied = map(pb.OpSharding.FromString, about["output_shardings"])
    assert (cut.type, list(cut.tile_assignment_dimensions)) == (pb.OpSharding.OTHER, [2, 1])
    assert copied.type == pb.OpSharding.REPLICATED
    (parameter,) = map(pb.OpSharding.FromString, about["parameter_shardings"])
    assert list(parameter.tile_assignment_dimensions) == [2, 1]


def test_a_description_is_plain_data(compiled):
    about, blob = compiled(ADD)
    assert wire.unpack(wire.frame(about)[12:])["name"] == about["name"] == "jit_add"
    assert about["results"] == [(F32, [3]), (F32, [3])]
    assert about["parameter_layouts"] == about["output_layouts"] == [[0], [0]]
    assert about["output_memory_kinds"] == [["device", "device"]]
    assert about["donated"] == []
    assert about["memory"]["argument_size_in_bytes"] == 24
    assert isinstance(about["fingerprint"], bytes)
    assert blob


def test_a_blob_is_made_only_if_it_is_wanted(programs):
    assert programs.compile(1, portable(ADD), options(), [0], 1, [], False)[1] == b""


def donating(donated):
    """A program of four vectors of different sizes that passes them on, and may reuse the memory of some."""
    sizes = [2, 3, 4, 5]
    parameters = ", ".join(
        f"%a{index}: tensor<{size}xf32>" + (f" {{tf.aliasing_output = {index} : i32}}" if index in donated else "")
        for index, size in enumerate(sizes)
    )
    body = "\n".join(
        f"%r{index} = stablehlo.add %a{index}, %a{index} : tensor<{size}xf32>" for index, size in enumerate(sizes)
    )
    types = ", ".join(f"tensor<{size}xf32>" for size in sizes)
    returned = f"return %r0, %r1, %r2, %r3 : {types}"
    return f"module @donate {{ func.func public @main({parameters}) -> ({types}) {{ {body}\n{returned} }} }}"


@pytest.mark.parametrize("donated", [(), (0,), (2,), (0, 1), (1, 3), (0, 1, 2, 3)], ids=str)
def test_donated_inputs_are_known_and_taken_and_others_are_left(compiled, programs, store, give, donated):
    about, blob = compiled(donating(donated))
    assert about["donated"] == list(donated)
    programs.load(2, blob, options(), [0], 1, [])
    for program in (1, 2):
        for index, size in enumerate((2, 3, 4, 5)):
            give(10 * program + index, np.ones(size))
        arguments = [10 * program + index for index in range(4)]
        programs.get(program).run(store, arguments, [argument + 100 for argument in arguments], [], 0)
        gone = tuple(index for index in range(4) if store.get(arguments[index]).shard(0).is_deleted())
        assert gone == donated
        assert values_of(store, arguments[3] + 100)[0].tolist() == [2] * 5


@pytest.mark.parametrize("kept", [(0,), (2,), (0, 2)], ids=str)
def test_inputs_that_must_not_be_donated_are_left(compiled, programs, store, give, kept):
    compiled(donating((0, 2)))
    for index, size in enumerate((2, 3, 4, 5)):
        give(index, np.full(size, 3))
    programs.get(1).run(store, [0, 1, 2, 3], [10, 11, 12, 13], list(kept), 0)
    gone = [index for index in range(4) if store.get(index).shard(0).is_deleted()]
    assert gone == [index for index in (0, 2) if index not in kept]
    for index in kept:
        assert values_of(store, index)[0].tolist() == [3] * (index + 2)
    assert values_of(store, 12)[0].tolist() == [6] * 4


def test_a_single_result_may_take_its_input(compiled):
    about, _ = compiled("""
        module @one { func.func public @main(%b: tensor<f32>, %a: tensor<7xf32> {tf.aliasing_output = 0 : i32})
        -> tensor<7xf32> { %r = stablehlo.add %a, %a : tensor<7xf32> return %r : tensor<7xf32> } }""")
    assert about["donated"] == [1]


MLIR_NAMES = {
    "bool": "i1",
    "bfloat16": "bf16",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float8_e3m4": "f8E3M4",
    "float8_e4m3": "f8E4M3",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}


def test_results_of_every_element_type_are_known_by_their_kinds(compiled):
    assert set(MLIR_NAMES) == set(KIND_OF_NAME)
    names = list(MLIR_NAMES)
    types = ["tensor<2xi1>" if name == "bool" else f"tensor<2x{MLIR_NAMES[name]}>" for name in names]
    parameters = ", ".join(f"%a{index}: {type}" for index, type in enumerate(types))
    passed_on = ", ".join(f"%a{index}" for index in range(len(types)))
    about, _ = compiled(
        f"module @types {{ func.func public @main({parameters}) -> ({', '.join(types)}) "
        f"{{ return {passed_on} : {', '.join(types)} }} }}"
    )
    assert about["results"] == [(KIND_OF_NAME[name], [2]) for name in names]


def test_a_program_may_have_neither_arguments_nor_results(compiled, programs, store):
    about, _ = compiled("module @nothing { func.func public @main() { return } }")
    assert (about["results"], about["donated"]) == ([], [])
    programs.get(1).run(store, [], [], [], 0)
    assert len(store) == 0


def test_what_does_not_compile_is_an_error_and_no_program(programs):
    with pytest.raises(Exception, match=r"(?i)portable artifact|deserializ|parse"):
        programs.compile(1, b"no program", options(), [0], 1, [], True)
    with pytest.raises(KeyError):
        programs.get(1)


def test_a_blob_that_is_none_is_an_error(programs):
    with pytest.raises(Exception, match=r"(?i)deserializ|parse|proto"):
        programs.load(1, Facts(frozenset(), ()).pack(b"no program"), options(), [0], 1, [])
    with pytest.raises(FrameError):
        programs.load(1, b"no program", options(), [0], 1, [])


def test_what_must_be_known_of_a_program_travels_with_it(compiled, programs):
    _, blob = compiled(CUT, (0, 1))
    facts, _ = Facts.unpack(blob)
    assert facts == Facts.of(programs.get(1).executable)
    assert facts.results == (((2, 2), np.dtype(np.float32)), ((), np.dtype(np.float32)))


def test_the_error_of_an_argument_is_the_value_of_every_result(compiled, programs, store, give):
    compiled(ADD)
    give(10, [1, 2, 3])
    store.fail(11, ERROR)
    programs.get(1).run(store, [10, 11], [12, 13], [], 14)
    assert [store.get(array).error for array in (12, 13, 14)] == [ERROR] * 3
    programs.get(1).run(store, [12, 13], [15, 16], [], 0)
    assert store.get(16).error is ERROR


@pytest.mark.parametrize(
    "arguments", [[10, 99], [10, 20], [10, 30]], ids=["unknown-array", "another-device", "another-shape"]
)
def test_an_argument_that_does_not_fit_is_the_error_of_every_result(compiled, programs, store, give, arguments):
    compiled(ADD)
    give(10, [1, 2, 3])
    give(20, [1, 2, 3], device=1)
    give(30, [1, 2, 3, 4])
    programs.get(1).run(store, arguments, [12, 13], [], 14)
    for array in (12, 13, 14):
        assert isinstance(store.get(array).error, StatusError)
    give(11, [4, 5, 6])
    programs.get(1).run(store, [10, 11], [15, 16], [], 0)
    assert values_of(store, 15)[0].tolist() == [5, 7, 9]


@pytest.mark.parametrize("arguments", [[], [10], [10, 10, 10]])
def test_another_number_of_arguments_is_the_error_of_every_result(compiled, programs, store, give, arguments):
    compiled(ADD)
    give(10, [1, 2, 3])
    programs.get(1).run(store, arguments, [12, 13], [], 0)
    for array in (12, 13):
        assert isinstance(store.get(array).error, StatusError)


def test_the_status_of_an_execution_can_be_waited_for(compiled, programs, store, give):
    compiled(ADD)
    give(10, [1, 2, 3])
    programs.get(1).run(store, [10, 10], [12, 13], [], 14)
    (token,) = store.get(14).shards().values()
    token.block_until_ready()


def test_an_unloaded_program_is_unknown_and_may_be_unloaded_again(compiled, programs):
    compiled(ADD)
    programs.unload(1)
    programs.unload(1)
    with pytest.raises(KeyError):
        programs.get(1)


def test_results_are_ready_to_be_arguments_without_being_touched(compiled, programs, store, give):
    compiled(ADD)
    give(10, [1, 2, 3])
    programs.get(1).run(store, [10, 10], [12, 13], [], 0)
    value = store.get(12)
    assert isinstance(value, Value)
    assert value.bind(programs.binding([0])) is value.bound
