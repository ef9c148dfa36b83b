"""Arrays from the client's bytes.

The client's half of the protocol needs a call for the bytes of each shard. The plugin therefore uploads an array that
many devices share as one, to one device, and then has it cut (`ReshardArrays`). So what goes to one device is held
until the next request has come: if that cuts it, each host is sent the same bytes and takes its parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.arrays import NOWHERE, Array
from elastic.controller.host_buffers import Buffer
from elastic.controller.requests.answers import Respond
from elastic.controller.requests.checks import dtype_name, item
from elastic.controller.session import Session
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError


@dataclass(frozen=True)
class Upload:
    """Bytes as the client sent them, and what they are the values of."""

    buffer: Buffer
    dtype: str
    shape: tuple[int, ...]
    strides: list[int] | None
    """In bytes; None if the values are dense."""


def make_array_from_host_buffer(
    session: Session, request: pb.MakeArrayFromHostBufferRequest, respond: Respond
) -> pb.MakeArrayFromHostBufferResponse:
    sharding = shardings.parse(request.sharding)
    shape = tuple(request.shape.dims)
    handle = request.array_handle or session.new_handle()
    buffer = session.buffers.take(request.host_buffer_handle)
    with _Discarding(buffer):
        upload = Upload(buffer, dtype_name(request.dtype.kind), shape, _strides(request))
        shards = sharding.shard_shapes(shape)
        if any(shard != shape for shard in shards):
            raise StatusError(Code.UNIMPLEMENTED, f"one buffer for an array that is cut into {len(shards)} parts")
        array = session.add_array(handle, request.dtype.kind, shape, sharding)
        _put_or_hold(session, handle, array, upload, array.devices)
    return pb.MakeArrayFromHostBufferResponse(array_handle=handle)


def make_arrays_from_host_buffer_shards(
    session: Session, request: pb.MakeArraysFromHostBufferShardsRequest, respond: Respond
) -> pb.MakeArraysFromHostBufferShardsResponse:
    handles = list(request.array_handles) or [session.new_handle() for _ in request.specs]
    for handle, spec in zip(handles, request.specs, strict=True):
        sharding = shardings.parse(spec.array_spec.sharding)
        kind, shape = spec.array_spec.dtype.kind, tuple(spec.array_spec.shape.dims)
        array = session.add_array(handle, kind, shape, sharding)
        for indices, sent in zip(spec.addressable_shard_indices, spec.host_buffers, strict=True):
            buffer = session.buffers.take(sent.host_buffer_handle)
            with _Discarding(buffer):
                upload = Upload(buffer, dtype_name(sent.dtype.kind), tuple(sent.shape.dims), _strides(sent))
                devices = tuple(item(array.devices, index, "shard") for index in indices.indices)
                _put_or_hold(session, handle, array, upload, devices)
    return pb.MakeArraysFromHostBufferShardsResponse(array_handles=handles)


def _strides(
    message: pb.MakeArrayFromHostBufferRequest | pb.MakeArraysFromHostBufferShardsRequest.HostBuffer,
) -> list[int] | None:
    return list(message.byte_strides.strides) if message.HasField("byte_strides") else None


def _put_or_hold(session: Session, handle: int, array: Array, upload: Upload, devices: tuple[int, ...]) -> None:
    if len(array.devices) == 1:
        session.held[handle] = (array, upload)
    else:
        _put(session, array, upload, devices)


def put_all_held(session: Session) -> None:
    """Sends what is held to the devices that it was uploaded to."""
    for array, upload in session.held.values():
        _put(session, array, upload, array.devices)
    session.held.clear()


def put_held_as(session: Session, handle: int, array: Array, parts: list[shardings.Part]) -> bool:
    """If the upload under a handle is held, makes another array of parts of it instead, one for each of its devices."""
    held = session.held.pop(handle, None)
    if held is None:
        return False
    uploaded, upload = held
    uploaded.number = NOWHERE
    _put(session, array, upload, array.devices, parts)
    return True


def _put(
    session: Session,
    array: Array,
    upload: Upload,
    devices: tuple[int, ...],
    parts: list[shardings.Part] | None = None,
) -> None:
    """Sends bytes to the hosts of the devices, each of which makes shards of them."""
    body = [array.number, upload.dtype, upload.shape, upload.strides, devices, parts, array.sharding.memory_kind]
    buffer = upload.buffer
    session.run.send(
        devices, Command.PUT, [*body, buffer.path], buffer.data, file=buffer.path, file_bytes=buffer.file_bytes
    )


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
