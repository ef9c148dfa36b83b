"""Shardings as plain data: which virtual devices hold an array's shards, and how large a shard is.

A sharding arrives serialized in one of several formats; the client gets back the same bytes, or the same format with
other devices. Equal bytes give one and the same object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError

_SINGLE = "xla::ifrt::SingleDeviceSharding"
_HLO = "xla::ifrt::HloSharding"
_EVEN = "xla::ifrt::ConcreteEvenSharding"
_CONCRETE = "xla::ifrt::ConcreteSharding"
_OPAQUE = "xla::ifrt::OpaqueSharding"
_PARAM = "xla::ifrt::ShardingParamSharding"
_FORMATS: dict[str, Callable[[], Any]] = {
    _SINGLE: pb.SingleDeviceShardingProto,
    _HLO: pb.HloShardingProto,
    _EVEN: pb.ConcreteEvenShardingProto,
    _CONCRETE: pb.ConcreteShardingProto,
    _OPAQUE: pb.OpaqueShardingProto,
    _PARAM: pb.ShardingParamShardingProto,
}

Shape = tuple[int, ...]

Part = tuple[tuple[int, int], ...]
"""A part of an array: (start, stop) in each dimension."""


class Sharding:
    """Where the shards of an array are. Immutable; made by `parse`, `single`, `tiled` and `even`."""

    __slots__ = ("_detail", "devices", "memory_kind", "proto")

    def __init__(self, proto: pb.ShardingProto, detail: Any) -> None:
        self.proto = proto
        """As it goes to the client."""
        self._detail = detail
        kind = proto.serialized_sharding.type_name
        self.devices: tuple[int, ...] = (detail.device_id,) if kind == _SINGLE else tuple(detail.devices.device_ids)
        """Virtual devices, in the order of the shards."""
        self.memory_kind: str | None = detail.memory_kind if detail.HasField("memory_kind") else None

    def __repr__(self) -> str:
        return f"Sharding({self.proto.serialized_sharding.type_name}, devices={self.devices})"

    def shard_shapes(self, shape: Shape) -> list[Shape]:
        """The shape of each shard of an array of `shape`, in the order of `devices`.

        Raises `StatusError` (UNIMPLEMENTED) if the format does not tell.
        """
        kind = self.proto.serialized_sharding.type_name
        if kind == _SINGLE:
            return [shape]
        if kind == _HLO:
            tiles = tile_counts(self._detail.xla_op_sharding, len(shape))
            shard = tuple(-(-size // tile) for size, tile in zip(shape, tiles, strict=True))
            return [shard] * len(self.devices)
        if kind == _EVEN:
            return [tuple(self._detail.shard_shape.dims)] * len(self.devices)
        if kind == _CONCRETE:
            return [tuple(shard.dims) for shard in self._detail.shard_shapes]
        if kind == _PARAM:
            tiles = tuple(self._detail.sharding_param.dim_shards)
            return [tuple(size // tile for size, tile in zip(shape, tiles, strict=True))] * len(self.devices)
        raise StatusError(Code.UNIMPLEMENTED, f"{kind} does not tell the shapes of its shards")

    def parts(self, shape: Shape) -> list[Part]:
        """The part of an array of `shape` that each shard is, in the order of `devices`.

        Raises `StatusError` (UNIMPLEMENTED) if the format does not tell.
        """
        kind = self.proto.serialized_sharding.type_name
        if kind == _HLO:
            return _hlo_parts(self, shape)
        if any(shard != shape for shard in self.shard_shapes(shape)):
            raise StatusError(Code.UNIMPLEMENTED, f"{kind} does not tell which parts of the array its shards are")
        return [_whole(shape)] * len(self.devices)

    def moved(self, devices: Sequence[int], memory_kind: str | None) -> Sharding:
        """The same division over other devices, or in another kind of memory."""
        kind = self.proto.serialized_sharding.type_name
        detail = _FORMATS[kind]()
        detail.CopyFrom(self._detail)
        if kind == _SINGLE:
            detail.device_id = devices[0]
        else:
            detail.devices.device_ids[:] = devices
        if memory_kind is not None:
            detail.memory_kind = memory_kind
        return parse(_serialized(kind, detail))


def parse(proto: pb.ShardingProto) -> Sharding:
    """The sharding of a message. Raises `StatusError` for an unknown format or bytes that are not one."""
    return _parse(proto.serialized_sharding.type_name, proto.serialized_sharding.data)


@lru_cache(maxsize=4096)
def _parse(kind: str, data: bytes) -> Sharding:
    if kind not in _FORMATS:
        raise StatusError(Code.UNIMPLEMENTED, f"shardings of the kind {kind!r} are not known")
    detail = _FORMATS[kind]()
    try:
        detail.ParseFromString(data)
    except Exception as error:
        raise StatusError(Code.INVALID_ARGUMENT, f"a sharding that cannot be read: {error}") from None
    return Sharding(pb.ShardingProto(serialized_sharding=pb.Serialized(type_name=kind, data=data)), detail)


def single(device: int, memory_kind: str | None = None) -> Sharding:
    """All on one device."""
    return parse(_serialized(_SINGLE, pb.SingleDeviceShardingProto(device_id=device, memory_kind=memory_kind)))


def tiled(devices: Sequence[int], op_sharding: bytes, memory_kind: str | None = None) -> Sharding:
    """As XLA's compiler says it: `op_sharding` is a serialized OpSharding."""
    detail = pb.HloShardingProto(devices=pb.DeviceListProto(device_ids=devices), memory_kind=memory_kind)
    detail.xla_op_sharding.ParseFromString(op_sharding)
    return parse(_serialized(_HLO, detail))


def even(devices: Sequence[int], shard_shape: Shape, memory_kind: str | None = None) -> Sharding:
    """One shard of `shard_shape` a device, whatever array they make up: the results of replicated programs."""
    shape = pb.ShapeProto(dims=shard_shape)
    detail = pb.ConcreteEvenShardingProto(
        devices=pb.DeviceListProto(device_ids=devices), shape=shape, shard_shape=shape, memory_kind=memory_kind
    )
    return parse(_serialized(_EVEN, detail))


def tile_counts(op_sharding: pb.OpSharding, rank: int) -> Shape:
    """Into how many tiles each dimension is cut."""
    if op_sharding.type != pb.OpSharding.OTHER or not op_sharding.tile_assignment_dimensions:
        return (1,) * rank
    return tuple(op_sharding.tile_assignment_dimensions[:rank])


@lru_cache(maxsize=4096)
def _hlo_parts(sharding: Sharding, shape: Shape) -> list[Part]:
    op_sharding = sharding._detail.xla_op_sharding
    tiles = tile_counts(op_sharding, len(shape))
    parts = [_whole(shape)] * len(sharding.devices)
    if all(count == 1 for count in tiles):
        return parts
    steps = [-(-size // count) for size, count in zip(shape, tiles, strict=True)]
    for tile, position in np.ndenumerate(_tile_assignment(op_sharding)):
        # The dimensions behind those of the array are of devices that hold the same tile.
        parts[position] = tuple(
            (min(index * step, size), min((index + 1) * step, size))
            for index, step, size in zip(tile, steps, shape, strict=False)
        )
    return parts


def _tile_assignment(op_sharding: pb.OpSharding) -> np.ndarray:
    """Tile -> position in the list of devices."""
    if op_sharding.tile_assignment_devices:
        order = np.array(op_sharding.tile_assignment_devices)
    else:
        iota = np.arange(math.prod(op_sharding.iota_reshape_dims)).reshape(op_sharding.iota_reshape_dims)
        order = iota.transpose(op_sharding.iota_transpose_perm)
    return order.reshape(op_sharding.tile_assignment_dimensions)


def _whole(shape: Shape) -> Part:
    return tuple((0, size) for size in shape)


def _serialized(kind: str, detail: Any) -> pb.ShardingProto:
    data = detail.SerializeToString(deterministic=True)
    return pb.ShardingProto(serialized_sharding=pb.Serialized(type_name=kind, data=data))
