"""Arrays from the client's bytes."""

from __future__ import annotations

from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.arrays import Array
from elastic.controller.host_buffers import Buffer
from elastic.controller.requests.answers import Respond
from elastic.controller.requests.checks import dtype_name, item
from elastic.controller.session import Session
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError


def make_array_from_host_buffer(
    session: Session, request: pb.MakeArrayFromHostBufferRequest, respond: Respond
) -> pb.MakeArrayFromHostBufferResponse:
    sharding = shardings.parse(request.sharding)
    shape = tuple(request.shape.dims)
    strides = list(request.byte_strides.strides) if request.HasField("byte_strides") else None
    handle = request.array_handle or session.new_handle()
    buffer = session.buffers.take(request.host_buffer_handle)
    with _Discarding(buffer):
        shards = sharding.shard_shapes(shape)
        if any(shard != shape for shard in shards):
            raise StatusError(Code.UNIMPLEMENTED, f"one buffer for an array that is cut into {len(shards)} parts")
        array = session.add_array(handle, request.dtype.kind, shape, sharding)
        _put(session, array, buffer, request.dtype.kind, shape, strides, array.devices)
    return pb.MakeArrayFromHostBufferResponse(array_handle=handle)


def make_arrays_from_host_buffer_shards(
    session: Session, request: pb.MakeArraysFromHostBufferShardsRequest, respond: Respond
) -> pb.MakeArraysFromHostBufferShardsResponse:
    handles = list(request.array_handles) or [session.new_handle() for _ in request.specs]
    for handle, spec in zip(handles, request.specs, strict=True):
        sharding = shardings.parse(spec.array_spec.sharding)
        kind, shape = spec.array_spec.dtype.kind, tuple(spec.array_spec.shape.dims)
        array = session.add_array(handle, kind, shape, sharding)
        for indices, host_buffer in zip(spec.addressable_shard_indices, spec.host_buffers, strict=True):
            buffer = session.buffers.take(host_buffer.host_buffer_handle)
            strides = list(host_buffer.byte_strides.strides) if host_buffer.HasField("byte_strides") else None
            with _Discarding(buffer):
                devices = tuple(item(array.devices, index, "shard") for index in indices.indices)
                _put(session, array, buffer, host_buffer.dtype.kind, tuple(host_buffer.shape.dims), strides, devices)
    return pb.MakeArraysFromHostBufferShardsResponse(array_handles=handles)


def _put(
    session: Session,
    array: Array,
    buffer: Buffer,
    kind: int,
    shape: tuple[int, ...],
    strides: list[int] | None,
    devices: tuple[int, ...],
) -> None:
    """Sends a buffer to the hosts of the devices, each of which makes shards of it."""
    dtype = dtype_name(kind)
    body = [array.number, dtype, list(shape), strides, list(devices), array.sharding.memory_kind]
    if buffer.path:
        session.world.ask(devices, Command.PUT, [*body, buffer.path], lambda *_: buffer.discard())
    else:
        session.world.send(devices, Command.PUT, [0, *body, None], buffer.data)


class _Discarding:
    """Removes a buffer's file if the request that took it fails before the hosts were told."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._buffer.discard()


def make_error_arrays(
    session: Session, request: pb.MakeErrorArraysRequest, respond: Respond
) -> pb.MakeErrorArraysResponse:
    handles = list(request.array_handles) or [session.new_handle() for _ in request.array_specs]
    error = StatusError(request.error.code, request.error.message)
    for handle, spec in zip(handles, request.array_specs, strict=True):
        array = session.add_array(handle, spec.dtype.kind, tuple(spec.shape.dims), shardings.parse(spec.sharding))
        array.error = error
    return pb.MakeErrorArraysResponse(array_handles=handles)
