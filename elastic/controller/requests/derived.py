"""Arrays from other arrays: assembled, taken apart, copied between devices; and the end of arrays."""

from __future__ import annotations

from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.arrays import Array, Lifetime
from elastic.controller.requests import uploads
from elastic.controller.requests.answers import Respond
from elastic.controller.requests.checks import item
from elastic.controller.session import Session
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError


def assemble_array(
    session: Session, request: pb.AssembleArrayFromSingleDeviceArraysRequest, respond: Respond
) -> pb.AssembleArrayFromSingleDeviceArraysResponse:
    sharding = shardings.parse(request.sharding)
    pieces = [session.arrays.usable(handle) for handle in request.single_device_array_handles]
    if len(pieces) != len(sharding.devices):
        raise StatusError(
            Code.INVALID_ARGUMENT, f"{len(pieces)} shards for an array on {len(sharding.devices)} devices"
        )
    for piece, device in zip(pieces, sharding.devices, strict=True):
        if piece.devices != (device,):
            raise StatusError(
                Code.INVALID_ARGUMENT, f"a shard for virtual device {device} lives on {list(piece.devices)}"
            )
    kind = pieces[0].kind if pieces else request.dtype.kind
    lifetimes = tuple(lifetime for piece in pieces for lifetime in piece.lifetimes)
    handle = request.result_handle or session.new_handle()
    array = session.add_array(handle, kind, tuple(request.shape.dims), sharding, lifetimes)
    _alias(session, array, [(piece.number, piece.devices[0]) for piece in pieces])
    return pb.AssembleArrayFromSingleDeviceArraysResponse(array_handle=handle)


def disassemble_array(
    session: Session, request: pb.DisassembleIntoSingleDeviceArraysRequest, respond: Respond
) -> pb.DisassembleIntoSingleDeviceArraysResponse:
    whole = session.arrays.usable(request.array_handle)
    handles = list(request.result_handles) or [session.new_handle() for _ in whole.devices]
    shapes = whole.sharding.shard_shapes(whole.shape)
    for index, (handle, device, shape) in enumerate(zip(handles, whole.devices, shapes, strict=True)):
        sharding = shardings.single(device, whole.sharding.memory_kind)
        # One lifetime a shard: the array was assembled, and this piece is the array it was assembled from.
        assembled = len(whole.lifetimes) == len(whole.devices)
        lifetimes = (whole.lifetimes[index],) if assembled else tuple(map(Lifetime, whole.lifetimes))
        piece = session.add_array(handle, whole.kind, shape, sharding, lifetimes)
        _alias(session, piece, [(whole.number, device)])
    return pb.DisassembleIntoSingleDeviceArraysResponse(array_handles=handles)


def fully_replicated_shard(
    session: Session, request: pb.FullyReplicatedShardRequest, respond: Respond
) -> pb.FullyReplicatedShardResponse:
    whole = session.arrays.usable(request.array_handle)
    handle = request.result_handle or session.new_handle()
    sharding = shardings.single(whole.devices[0], whole.sharding.memory_kind)
    piece = session.add_array(handle, whole.kind, whole.shape, sharding, whole.lifetimes)
    _alias(session, piece, [(whole.number, whole.devices[0])])
    return pb.FullyReplicatedShardResponse(array_handle=handle)


def _alias(session: Session, array: Array, sources: list[tuple[int, int]]) -> None:
    session.run.send(array.devices, Command.ALIAS, [array.number, sources])


def copy_arrays(session: Session, request: pb.CopyArraysRequest, respond: Respond) -> pb.CopyArraysResponse:
    handles = list(request.result_handles) or [session.new_handle() for _ in request.array_handles]
    memory_kind = request.memory_kind if request.HasField("memory_kind") else None
    for source_handle, handle in zip(request.array_handles, handles, strict=True):
        source = session.arrays.usable(source_handle)
        devices = tuple(request.device_ids) or source.devices
        if len(devices) != len(source.devices):
            raise StatusError(
                Code.INVALID_ARGUMENT, f"an array of {len(source.devices)} shards cannot go to {len(devices)} devices"
            )
        sharding = source.sharding.moved(devices, memory_kind)
        array = session.add_array(handle, source.kind, source.shape, sharding)
        pairs = list(zip(source.devices, devices, strict=True))
        involved = tuple(dict.fromkeys((*source.devices, *devices)))
        session.run.send(involved, Command.COPY, [array.number, source.number, pairs, None, sharding.memory_kind])
        if request.copy_semantics == pb.ARRAY_COPY_SEMANTICS_DONATE_INPUT:
            source.delete()
    return pb.CopyArraysResponse(array_handles=handles)


def reshard_arrays(session: Session, request: pb.ReshardArraysRequest, respond: Respond) -> pb.ReshardArraysResponse:
    """Cuts arrays into parts; only an array that one device has whole can be cut."""
    handles = list(request.result_handles) or [session.new_handle() for _ in request.array_handles]
    donate = request.copy_semantics == pb.ARRAY_COPY_SEMANTICS_DONATE_INPUT
    for source_handle, spec, handle in zip(request.array_handles, request.array_specs, handles, strict=True):
        source = session.arrays.usable(source_handle)
        sharding = shardings.parse(spec.sharding)
        if tuple(spec.shape.dims) != source.shape:
            raise StatusError(Code.INVALID_ARGUMENT, f"an array of shape {source.shape} cannot become {spec.shape}")
        parts = sharding.parts(source.shape)
        array = session.add_array(handle, source.kind, source.shape, sharding)
        if not (donate and uploads.put_held_as(session, source_handle, array, parts)):
            _cut(session, source, array, parts)
        if donate:
            source.delete()
    return pb.ReshardArraysResponse(array_handles=handles)


def _cut(session: Session, source: Array, array: Array, parts: list[shardings.Part]) -> None:
    if source.sharding.shard_shapes(source.shape)[0] != source.shape:
        raise StatusError(Code.UNIMPLEMENTED, "an array that is in parts already cannot be cut again")
    uploads.put_all_held(session)
    pairs = [(source.devices[0], device) for device in array.devices]
    involved = tuple(dict.fromkeys((source.devices[0], *array.devices)))
    arguments = [array.number, source.number, pairs, parts, array.sharding.memory_kind]
    session.run.send(involved, Command.COPY, arguments)


def remap_arrays(session: Session, request: pb.RemapArraysRequest, respond: Respond) -> pb.RemapArraysResponse:
    sources = [session.arrays.usable(handle) for handle in request.array_handles]
    outputs = list(request.plan.output_specs)
    handles = list(request.result_handles) or [session.new_handle() for _ in outputs]
    parts: list[dict[int, tuple[Array, int]]] = [{} for _ in outputs]
    for mapping in request.plan.mappings:
        for start, end, step, to_start, to_step in zip(
            mapping.from_start, mapping.from_end, mapping.from_step, mapping.to_start, mapping.to_step, strict=True
        ):
            source = item(sources, mapping.in_array, "input")
            for position, index in enumerate(range(start, end, step)):
                device = item(source.devices, index, "shard")
                item(parts, mapping.out_array, "output")[to_start + position * to_step] = (source, device)
    for chosen in request.plan.input_devices_for_output:
        part = item(parts, chosen.out_array, "output")
        for wanted in chosen.input_devices:
            source = item(sources, wanted.in_array, "input")
            for device in wanted.device_list.device_ids:
                part[len(part)] = (source, device)
    for handle, spec, part in zip(handles, outputs, parts, strict=True):
        shards = [part[index] for index in sorted(part)]
        sharding = shardings.parse(spec.sharding)
        by_device = {device: source for source, device in shards}
        if set(by_device) != set(sharding.devices):
            raise StatusError(Code.INVALID_ARGUMENT, "a remap plan whose shards are not on the devices of its output")
        lifetimes = tuple(dict.fromkeys(lifetime for source, _ in shards for lifetime in source.lifetimes))
        array = session.add_array(handle, spec.dtype.kind, tuple(spec.shape.dims), sharding, lifetimes)
        _alias(session, array, [(by_device[device].number, device) for device in sharding.devices])
    return pb.RemapArraysResponse(array_handles=handles)


def delete_array(session: Session, request: pb.DeleteArrayRequest, respond: Respond) -> pb.DeleteArrayResponse:
    arrays, failure = [], None
    for handle in request.array_handle:
        try:
            arrays.append(session.arrays.get(handle))
        except StatusError as error:
            failure = failure or error
    for array in arrays:
        array.delete()
    session.free((array.number, array.devices) for array in arrays)
    if failure is not None:
        raise failure
    return pb.DeleteArrayResponse(deletion_future_handle=session.new_handle())


def is_array_deleted(
    session: Session, request: pb.IsArrayDeletedRequest, respond: Respond
) -> pb.IsArrayDeletedResponse:
    return pb.IsArrayDeletedResponse(deleted=session.arrays.get(request.array_handle).deleted)


def destruct_array(session: Session, request: pb.DestructArrayRequest, respond: Respond) -> pb.DestructArrayResponse:
    gone = [session.arrays.remove(handle) for handle in request.array_handle]
    session.free((array.number, array.devices) for array in gone if array is not None)
    return pb.DestructArrayResponse()
