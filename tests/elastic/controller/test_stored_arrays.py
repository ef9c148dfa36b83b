"""Snapshots' records as arrays and files of a checkpoint."""

import pytest

from checkpoint import ArrayEntry
from elastic.controller import shardings
from elastic.controller.arrays import Array
from elastic.controller.stored_arrays import StoredFile, layout
from elastic.proto import ifrt_pb2 as pb

F32 = int(pb.DTypeProto.KIND_F32)


def record(array, device, digest, *shape):
    nbytes = 4
    for size in shape:
        nbytes *= size
    return [array, device, "bytes", "float32", list(shape), None, None, nbytes, digest]


def rows(number, devices, shape):
    """An array that is cut along its first dimension."""
    tiles = pb.OpSharding(
        type=pb.OpSharding.OTHER,
        tile_assignment_dimensions=[len(devices)] + [1] * (len(shape) - 1),
        tile_assignment_devices=range(len(devices)),
    )
    return Array(number, F32, shape, shardings.tiled(devices, tiles.SerializeToString()))


def everywhere(number, devices, shape):
    tiles = pb.OpSharding(type=pb.OpSharding.REPLICATED)
    return Array(number, F32, shape, shardings.tiled(devices, tiles.SerializeToString()))


def test_the_shards_of_an_array_are_its_chunks():
    records = [record(7, 0, b"a", 2, 3), record(7, 1, b"b", 2, 3)]
    entries, files = layout(records, {7: rows(7, [0, 1], (4, 3))})
    assert entries == (ArrayEntry(("arrays", "7"), "float32", (4, 3), (2, 3)),)
    assert files == (
        StoredFile("state/arrays.7/c/0/0", b"a", 24),
        StoredFile("state/arrays.7/c/1/0", b"b", 24),
    )


def test_what_every_device_has_is_stored_once():
    entries, files = layout([record(7, device, b"a", 2) for device in (0, 1)], {7: everywhere(7, [0, 1], (2,))})
    assert entries == (ArrayEntry(("arrays", "7"), "float32", (2,), (2,)),)
    assert files == (StoredFile("state/arrays.7/c/0", b"a", 8),)


def test_a_scalar_has_one_file():
    _, files = layout([record(7, 0, b"a")], {7: Array(7, F32, (), shardings.single(0))})
    assert files == (StoredFile("state/arrays.7/c", b"a", 4),)


def test_an_array_without_elements_has_none():
    entries, files = layout([record(7, 0, b"", 0, 3)], {7: Array(7, F32, (0, 3), shardings.single(0))})
    assert [entry.shape for entry in entries] == [(0, 3)]
    assert files == ()


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(None, id="nobody knows it"),
        pytest.param(rows(7, [0, 1, 2], (6, 3)), id="a shard is missing"),
        pytest.param(rows(7, [0, 1], (2, 3)), id="the shapes are others"),
        pytest.param(everywhere(7, [0, 1], (2, 3)), id="copies that differ"),
    ],
)
def test_what_cannot_be_put_together_is_stored_shard_by_shard(array):
    records = [record(7, 0, b"a", 2, 3), record(7, 1, b"b", 2, 3)]
    entries, files = layout(records, {} if array is None else {7: array})
    assert entries == (
        ArrayEntry(("shards", "7-0"), "float32", (2, 3), (2, 3)),
        ArrayEntry(("shards", "7-1"), "float32", (2, 3), (2, 3)),
    )
    assert files == (
        StoredFile("state/shards.7-0/c/0/0", b"a", 24),
        StoredFile("state/shards.7-1/c/0/0", b"b", 24),
    )


def test_errors_and_ends_of_executions_are_not_stored():
    assert layout([[7, -1, "error", 13, "no"], [8, -1, "token"]], {}) == ((), ())
