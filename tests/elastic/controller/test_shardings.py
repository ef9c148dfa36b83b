import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax._src.op_shardings import op_sharding_to_indices
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from elastic.controller import shardings
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError

HLO = "xla::ifrt::HloSharding"


def serialized(kind, detail):
    data = detail if isinstance(detail, bytes) else detail.SerializeToString()
    return pb.ShardingProto(serialized_sharding=pb.Serialized(type_name=f"xla::ifrt::{kind}", data=data))


def devices(*ids):
    return pb.DeviceListProto(device_ids=ids)


def shape(*dims):
    return pb.ShapeProto(dims=dims)


def one_of_each():
    """(format, sharding over two devices or, where it can only have one, one; shape of the array; of the shards)."""
    cut = pb.OpSharding(type=pb.OpSharding.OTHER, tile_assignment_dimensions=[2, 1], tile_assignment_devices=[0, 1])
    param = pb.ShardingParamProto(dim_shards=[1, 2], permutation=[0], axis_sizes=[2])
    return [
        ("SingleDeviceSharding", pb.SingleDeviceShardingProto(device_id=4), (4, 6), [(4, 6)]),
        ("HloSharding", pb.HloShardingProto(devices=devices(4, 5), xla_op_sharding=cut), (4, 6), [(2, 6)] * 2),
        (
            "ConcreteEvenSharding",
            pb.ConcreteEvenShardingProto(devices=devices(4, 5), shape=shape(4, 6), shard_shape=shape(2, 6)),
            (4, 6),
            [(2, 6)] * 2,
        ),
        (
            "ConcreteSharding",
            pb.ConcreteShardingProto(devices=devices(4, 5), shape=shape(4, 6), shard_shapes=[shape(3, 6), shape(1, 6)]),
            (4, 6),
            [(3, 6), (1, 6)],
        ),
        (
            "ShardingParamSharding",
            pb.ShardingParamShardingProto(devices=devices(4, 5), sharding_param=param),
            (4, 6),
            [(4, 3)] * 2,
        ),
        ("OpaqueSharding", pb.OpaqueShardingProto(devices=devices(4, 5)), (4, 6), None),
    ]


each_format = pytest.mark.parametrize(
    ("kind", "detail", "whole", "shards"), one_of_each(), ids=[kind for kind, *_ in one_of_each()]
)


@each_format
def test_a_sharding_tells_its_devices_and_the_shapes_of_its_shards(kind, detail, whole, shards):
    sharding = shardings.parse(serialized(kind, detail))
    assert sharding.devices == ((4,) if kind == "SingleDeviceSharding" else (4, 5))
    assert sharding.memory_kind is None
    if shards is not None:
        assert sharding.shard_shapes(whole) == shards
    else:
        with pytest.raises(StatusError, match="does not tell") as raised:
            sharding.shard_shapes(whole)
        assert raised.value.code is Code.UNIMPLEMENTED


@each_format
def test_the_client_gets_back_the_same_bytes(kind, detail, whole, shards):
    proto = serialized(kind, detail)
    assert shardings.parse(proto).proto == proto


@each_format
def test_equal_bytes_are_the_same_object(kind, detail, whole, shards):
    assert shardings.parse(serialized(kind, detail)) is shardings.parse(serialized(kind, detail))


@each_format
def test_a_moved_sharding_divides_as_before_over_other_devices(kind, detail, whole, shards):
    sharding = shardings.parse(serialized(kind, detail))
    target = (9, 7)[: len(sharding.devices)]
    moved = sharding.moved(target, None)
    assert moved.devices == target
    assert moved.memory_kind is None
    assert moved.proto.serialized_sharding.type_name == f"xla::ifrt::{kind}"
    if shards is not None:
        assert moved.shard_shapes(whole) == shards
    assert sharding.devices == (4, 5)[: len(sharding.devices)]
    assert sharding.proto == serialized(kind, detail)


@each_format
def test_a_moved_sharding_may_be_in_another_kind_of_memory(kind, detail, whole, shards):
    sharding = shardings.parse(serialized(kind, detail))
    moved = sharding.moved(sharding.devices, "pinned_host")
    assert (moved.devices, moved.memory_kind) == (sharding.devices, "pinned_host")
    assert sharding.memory_kind is None
    again = moved.moved(sharding.devices, None)
    assert again.memory_kind == "pinned_host"


@each_format
def test_fields_that_nobody_here_knows_survive_a_move(kind, detail, whole, shards):
    unknown = b"\xfa\x3f\x03new"  # Field 1023.
    moved = shardings.parse(serialized(kind, detail.SerializeToString() + unknown)).moved((4, 5), None)
    assert unknown in moved.proto.serialized_sharding.data


@pytest.mark.parametrize("kind", ["", "xla::ifrt::NewSharding", "xla::ifrt::"])
def test_an_unknown_format_is_not_implemented(kind):
    proto = pb.ShardingProto(serialized_sharding=pb.Serialized(type_name=kind, data=b""))
    with pytest.raises(StatusError, match="are not known") as raised:
        shardings.parse(proto)
    assert raised.value.code is Code.UNIMPLEMENTED


@each_format
def test_bytes_that_are_no_sharding_are_an_invalid_argument(kind, detail, whole, shards):
    with pytest.raises(StatusError, match="cannot be read") as raised:
        shardings.parse(serialized(kind, b"\xff\xff\xff"))
    assert raised.value.code is Code.INVALID_ARGUMENT


def test_all_on_one_device():
    sharding = shardings.single(3, "device")
    assert (sharding.devices, sharding.memory_kind) == ((3,), "device")
    assert sharding.shard_shapes(()) == [()]
    assert sharding.shard_shapes((0, 5)) == [(0, 5)]
    assert shardings.single(3).memory_kind is None


def test_results_of_replicated_programs_are_shards_of_one_shape():
    sharding = shardings.even((2, 0, 1), (5, 7), "device")
    assert (sharding.devices, sharding.memory_kind) == ((2, 0, 1), "device")
    assert sharding.shard_shapes((5, 7)) == [(5, 7)] * 3


@pytest.mark.parametrize("kind", sorted(set(dict(pb.OpSharding.Type.items())) - {"OTHER"}))
def test_only_a_tiled_op_sharding_cuts(kind):
    op_sharding = pb.OpSharding(type=pb.OpSharding.Type.Value(kind))
    assert shardings.tile_counts(op_sharding, 3) == (1, 1, 1)


@st.composite
def tilings(draw):
    """(shape, tiles of each dimension, copies of each tile)."""
    tiles = draw(st.lists(st.integers(1, 4), max_size=3))
    dims = [draw(st.integers(0, 6)) * tile for tile in tiles]
    return tuple(dims), tuple(tiles), draw(st.integers(1, 3))


@settings(deadline=None)
@given(tilings())
def test_shard_shapes_are_those_of_an_array_that_is_cut_up(tiling):
    whole, tiles, copies = tiling
    count = int(np.prod(tiles)) * copies
    op_sharding = pb.OpSharding(type=pb.OpSharding.OTHER, tile_assignment_devices=range(count))
    op_sharding.tile_assignment_dimensions.extend((*tiles, copies))
    op_sharding.replicate_on_last_tile_dim = True
    sharding = shardings.tiled(range(10, 10 + count), op_sharding.SerializeToString())
    array = np.empty(whole)
    pieces = [array]
    for axis, tile in enumerate(tiles):
        pieces = [part for piece in pieces for part in np.split(piece, tile, axis)]
    assert sharding.shard_shapes(whole) == [piece.shape for piece in pieces for _ in range(copies)]
    assert sharding.devices == tuple(range(10, 10 + count))


@st.composite
def named(draw):
    """(mesh, partition spec, shape that it divides)."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    names = tuple("xyz"[: len(sizes)])
    mesh = AbstractMesh(tuple(sizes), names)
    left, spec, dims = draw(st.permutations(names)), [], []
    for _ in range(draw(st.integers(0, 3))):
        count = draw(st.integers(0, min(2, len(left))))
        axes, left = tuple(left[:count]), left[count:]
        spec.append(axes or None)
        dims.append(draw(st.integers(0, 3)) * int(np.prod([mesh.shape[axis] for axis in axes])))
    return mesh, PartitionSpec(*spec), tuple(dims)


@settings(deadline=None)
@given(named())
def test_shard_shapes_are_those_of_jax(case):
    mesh, spec, whole = case
    sharding = NamedSharding(mesh, spec)
    op_sharding = sharding._to_xla_hlo_sharding(len(whole)).to_proto().SerializeToString()
    ours = shardings.tiled(range(mesh.size), op_sharding)
    assert ours.shard_shapes(whole) == [sharding.shard_shape(whole)] * mesh.size


@settings(deadline=None)
@given(named())
def test_the_parts_are_those_of_jax(case):
    mesh, spec, whole = case
    op_sharding = NamedSharding(mesh, spec)._to_xla_hlo_sharding(len(whole))
    ours = shardings.tiled(range(mesh.size), op_sharding.to_proto().SerializeToString())
    indices = op_sharding_to_indices(op_sharding, whole, mesh.size)
    assert ours.parts(whole) == [
        tuple(index.indices(size)[:2] for index, size in zip(part, whole, strict=True)) for part in indices
    ]


def test_the_devices_of_the_parts_may_be_listed():
    op_sharding = pb.OpSharding(type=pb.OpSharding.OTHER, tile_assignment_devices=[2, 0, 1])
    op_sharding.tile_assignment_dimensions.extend((3, 1))
    sharding = shardings.tiled((7, 8, 9), op_sharding.SerializeToString())
    assert sharding.parts((6, 5)) == [((2, 4), (0, 5)), ((4, 6), (0, 5)), ((0, 2), (0, 5))]


@each_format
def test_a_format_that_does_not_tell_its_parts_says_so(kind, detail, whole, shards):
    sharding = shardings.parse(serialized(kind, detail))
    if kind == "SingleDeviceSharding":
        assert sharding.parts(whole) == [((0, 4), (0, 6))]
    elif kind != "HloSharding":
        with pytest.raises(StatusError, match="does not tell") as raised:
            sharding.parts(whole)
        assert raised.value.code is Code.UNIMPLEMENTED


def test_the_representation_names_format_and_devices():
    assert repr(shardings.tiled((1, 2), b"")) == f"Sharding({HLO}, devices=(1, 2))"


def test_shardings_that_differ_are_different_objects():
    made = [
        shardings.single(0),
        shardings.single(1),
        shardings.single(0, "device"),
        shardings.even((0,), (1,)),
        shardings.even((0,), (2,)),
        shardings.tiled((0,), b""),
        shardings.tiled((0, 1), b""),
    ]
    assert all(first is not second for first, second in itertools.combinations(made, 2))
