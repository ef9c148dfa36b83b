"""What each request of the protocol does. A new request gets a function here and a line in `HANDLERS`.

A handler takes (session, request, respond) and returns the response, or `LATER` and calls `respond` when the hosts have
answered. It raises `StatusError` for what cannot be done; the stream then answers with it and lets the request's result
handles hold it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.arrays import Array, Lifetime
from elastic.controller.host_buffers import Buffer
from elastic.controller.init import describe_client
from elastic.controller.programs import Program, metadata, parse_source
from elastic.controller.session import Session, Status
from elastic.dtypes import NUMPY_OF_KIND
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError, status_of

Respond = Callable[[Any], None]
"""Sends a response message, or a `StatusError`."""

LATER = object()
"""Returned by a handler that answers later."""

_SHARED_READ = 1 << 20
"""Bytes from which a read comes as a file in shared memory: it saves more copies than the file costs."""

Handler = Callable[[Session, Any, Respond], Any]

log = logging.getLogger(__name__)

_tasks: set[asyncio.Task[None]] = set()


def init(session: Session, request: pb.InitRequest, respond: Respond) -> pb.InitResponse:
    return describe_client(session.id, session.world.devices)


# Arrays from the client's bytes


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
                devices = tuple(_item(array.devices, index, "shard") for index in indices.indices)
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
    dtype = _dtype_name(kind)
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


# Arrays from other arrays


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
    session.world.send(array.devices, Command.ALIAS, [array.number, sources])


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
        session.world.send(involved, Command.COPY, [array.number, source.number, pairs, sharding.memory_kind])
        if request.copy_semantics == pb.ARRAY_COPY_SEMANTICS_DONATE_INPUT:
            source.delete()
    return pb.CopyArraysResponse(array_handles=handles)


def remap_arrays(session: Session, request: pb.RemapArraysRequest, respond: Respond) -> pb.RemapArraysResponse:
    sources = [session.arrays.usable(handle) for handle in request.array_handles]
    outputs = list(request.plan.output_specs)
    handles = list(request.result_handles) or [session.new_handle() for _ in outputs]
    parts: list[dict[int, tuple[Array, int]]] = [{} for _ in outputs]
    for mapping in request.plan.mappings:
        for start, end, step, to_start, to_step in zip(
            mapping.from_start, mapping.from_end, mapping.from_step, mapping.to_start, mapping.to_step, strict=True
        ):
            source = _item(sources, mapping.in_array, "input")
            for position, index in enumerate(range(start, end, step)):
                device = _item(source.devices, index, "shard")
                _item(parts, mapping.out_array, "output")[to_start + position * to_step] = (source, device)
    for chosen in request.plan.input_devices_for_output:
        part = _item(parts, chosen.out_array, "output")
        for wanted in chosen.input_devices:
            source = _item(sources, wanted.in_array, "input")
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


# The end of arrays


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


# What the client waits for


def copy_to_host_buffer(session: Session, request: pb.CopyToHostBufferRequest, respond: Respond) -> Any:
    array = session.arrays.usable(request.array_handle)
    strides = list(request.byte_strides.strides) if request.HasField("byte_strides") else None
    device = array.devices[0]
    handle = request.host_buffer_handle
    path = session.buffers.download_path(handle) if array.nbytes >= _SHARED_READ else None

    def answer(error: StatusError | None, result: Any, payload: wire.Bytes) -> None:
        if error is None and path is not None:
            session.buffers.store_mapped(handle, path)
        elif error is None:
            session.buffers.store(handle, payload)
        respond(error or pb.CopyToHostBufferResponse())

    session.world.ask((device,), Command.READ, [array.number, device, strides, path], answer)
    return LATER


def check_value_ready(session: Session, request: pb.CheckValueReadyRequest, respond: Respond) -> Any:
    arrays = [session.arrays.usable(handle) for handle in request.value_handles]
    _wait(session, [(array.number, array.devices) for array in arrays], respond, pb.CheckValueReadyResponse())
    return LATER


def check_future(session: Session, request: pb.CheckFutureRequest, respond: Respond) -> Any:
    return _end_of_execution(session, request.future_handle, respond, pb.CheckFutureResponse())


def fetch_execute_result(
    session: Session, request: pb.LoadedExecutableFetchExecuteResultRequest, respond: Respond
) -> Any:
    return _end_of_execution(
        session, request.result_status_handle, respond, pb.LoadedExecutableFetchExecuteResultResponse()
    )


def _end_of_execution(session: Session, handle: int, respond: Respond, response: Any) -> Any:
    """Answers when the execution of a status handle has ended; other futures of ours are fulfilled when they are
    made."""
    status = session.statuses.pop(handle, None)
    if status is None:
        return response
    if isinstance(status, StatusError):
        raise status
    _wait(session, [(status.number, status.devices)], respond, response)
    session.free([(status.number, status.devices)])
    return LATER


def _wait(session: Session, arrays: Sequence[tuple[int, tuple[int, ...]]], respond: Respond, response: Any) -> None:
    """Responds when all arrays, given as (number, devices), are computed, or with the first error."""
    missing = len(arrays)
    failure: StatusError | None = None

    def answer(error: StatusError | None, *_: Any) -> None:
        nonlocal missing, failure
        missing -= 1
        failure = failure or error
        if not missing:
            respond(failure or response)

    if not arrays:
        respond(response)
    for number, devices in arrays:
        session.world.ask(devices, Command.WAIT, [[number]], answer)


# Programs


def compile_program(session: Session, request: pb.CompileRequest, respond: Respond) -> Any:
    source = parse_source(request)
    if request.host_callbacks:
        raise StatusError(Code.UNIMPLEMENTED, "host callbacks are not supported")

    async def compile_and_respond() -> None:
        try:
            program = await session.compiler.load(session.world, session.new_number(), source)
        except Exception as error:
            if not isinstance(error, StatusError):
                log.exception("a program could not be compiled")
            respond(status_of(error))
            return
        if session.closed:
            session.unload(program)
            return
        handle = session.new_handle()
        session.programs[handle] = program
        respond(
            pb.CompileResponse(
                loaded_executable_handle=handle,
                name=program.about["name"],
                num_devices=len(source.devices),
                device_ids=source.devices,
                addressable_device_ids=source.devices,
                fingerprint_value=program.about["fingerprint"],
                ready_future_handle=session.new_handle(),
            )
        )

    task = asyncio.get_running_loop().create_task(compile_and_respond())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return LATER


def executable_metadata(
    session: Session, request: pb.LoadedExecutableMetadataRequest, respond: Respond
) -> pb.LoadedExecutableMetadataResponse:
    return metadata(session.program(request.loaded_executable_handle))


def execute(
    session: Session, request: pb.LoadedExecutableExecuteRequest, respond: Respond
) -> pb.LoadedExecutableExecuteResponse:
    program = session.program(request.loaded_executable_handle)
    devices = program.source.devices
    handles: Sequence[int] = request.result_array_handle
    usable = session.arrays.usable
    arguments = [usable(handle) for handle in request.args_handles]
    for position, argument in enumerate(arguments):
        if argument.sharding.devices != devices:
            raise StatusError(
                Code.INVALID_ARGUMENT,
                f"argument {position} is on virtual devices {list(argument.devices)}, the program on {list(devices)}",
            )
    if len(arguments) != program.about["parameters"]:
        raise StatusError(
            Code.INVALID_ARGUMENT, f"{len(arguments)} arguments for a program of {program.about['parameters']}"
        )
    kept = list(request.execute_options.non_donatable_input_indices)
    donated = [index for index in program.donated if index not in kept]
    if donated:
        _check_donations(arguments, donated)
    if handles and len(handles) != len(program.results):
        raise StatusError(
            Code.INVALID_ARGUMENT, f"{len(handles)} handles for the {len(program.results)} results of a program"
        )
    response = pb.LoadedExecutableExecuteResponse()
    described = not handles
    handles = handles or [session.new_handle() for _ in program.results]
    status = 0
    if request.execute_options.fill_status:
        status_handle = request.result_status_handle or session.new_handle()
        status = session.new_number()
        session.statuses[status_handle] = Status(status, devices)
        response.status_handle = status_handle
    numbers = []
    for handle, result in zip(handles, program.results, strict=True):
        array = session.add_array(handle, result.kind, result.shape, result.sharding)
        numbers.append(array.number)
        if described:
            response.outputs.add(
                dtype=pb.DTypeProto(kind=result.kind),  # type: ignore[arg-type]
                shape=pb.ShapeProto(dims=result.shape),
                sharding=result.sharding.proto,
                array_handle=handle,
            )
    session.world.send(devices, Command.EXECUTE, [program.number, [a.number for a in arguments], numbers, kept, status])
    for index in donated:
        arguments[index].delete()
    return response


def _check_donations(arguments: Sequence[Array], donated: Sequence[int]) -> None:
    for index in donated:
        for position, argument in enumerate(arguments):
            if position != index and not set(argument.lifetimes).isdisjoint(arguments[index].lifetimes):
                raise StatusError(
                    Code.INVALID_ARGUMENT,
                    "Attempt to use a buffer that was previously donated in the same call to Execute() (flattened "
                    f"argument {position}, first use: {index}). Toy example for this bug: `f(donate(a), a)`.",
                )


def cost_analysis(session: Session, request: pb.LoadedExecutableCostAnalysisRequest, respond: Respond) -> Any:
    def respond_with(costs: dict[str, Any]) -> None:
        response = pb.LoadedExecutableCostAnalysisResponse()
        response.attributes.SetInParent()
        for name, value in costs.items():
            response.attributes.attributes[name].float_value = float(value)
        respond(response)

    return _ask_one(session, session.program(request.loaded_executable_handle), Command.COST, respond, respond_with)


def program_text(
    session: Session, request: pb.LoadedExecutableHumanReadableProgramTextRequest, respond: Respond
) -> Any:
    def respond_with(text: str) -> None:
        respond(pb.LoadedExecutableHumanReadableProgramTextResponse(human_readable_program_text=text))

    return _ask_one(session, session.program(request.loaded_executable_handle), Command.TEXT, respond, respond_with)


def _ask_one(
    session: Session, program: Program, command: Command, respond: Respond, respond_with: Callable[[Any], None]
) -> Any:
    session.world.ask(
        program.source.devices[:1],
        command,
        [program.number],
        lambda error, result, _: respond(error) if error else respond_with(result),
    )
    return LATER


def delete_executable(
    session: Session, request: pb.LoadedExecutableDeleteRequest, respond: Respond
) -> pb.LoadedExecutableDeleteResponse:
    _unload(session, request.loaded_executable_handle)
    return pb.LoadedExecutableDeleteResponse(future_handle=session.new_handle())


def is_executable_deleted(
    session: Session, request: pb.LoadedExecutableIsDeletedRequest, respond: Respond
) -> pb.LoadedExecutableIsDeletedResponse:
    return pb.LoadedExecutableIsDeletedResponse(is_deleted=request.loaded_executable_handle not in session.programs)


def destruct_executable(
    session: Session, request: pb.LoadedExecutableDestructRequest, respond: Respond
) -> pb.LoadedExecutableDestructResponse:
    _unload(session, request.loaded_executable_handle)
    return pb.LoadedExecutableDestructResponse()


def _unload(session: Session, handle: int) -> None:
    program = session.programs.pop(handle, None)
    if program is not None:
        session.unload(program)


# Questions about devices


def default_layout(
    session: Session, request: pb.GetDefaultLayoutRequest, respond: Respond
) -> pb.GetDefaultLayoutResponse:
    order = ",".join(str(dimension) for dimension in reversed(range(len(request.dims))))
    return pb.GetDefaultLayoutResponse(serialized_pjrt_layout=f"{{{order}}}".encode())


def default_device_assignment(
    session: Session, request: pb.GetDefaultDeviceAssignmentRequest, respond: Respond
) -> pb.GetDefaultDeviceAssignmentResponse:
    replicas, partitions = request.num_replicas, request.num_partitions
    count = len(session.world.devices)
    if replicas * partitions > count:
        raise StatusError(
            Code.INVALID_ARGUMENT, f"{replicas} replicas x {partitions} partitions need more than the {count} devices"
        )
    response = pb.GetDefaultDeviceAssignmentResponse()
    response.device_assignment.replica_count = replicas
    response.device_assignment.computation_count = partitions
    for partition in range(partitions):
        response.device_assignment.computation_devices.add(
            replica_device_ids=[replica * partitions + partition for replica in range(replicas)]
        )
    return response


# What the stream must know of a request


def needed_buffers(request: pb.IfrtRequest) -> Iterable[int]:
    """The handles of host buffers that must have arrived before a request can take effect."""
    kind: str | None = request.WhichOneof("request")
    if kind == "make_array_from_host_buffer_request":
        return (request.make_array_from_host_buffer_request.host_buffer_handle,)
    if kind == "make_arrays_from_host_buffer_shards_request":
        specs = request.make_arrays_from_host_buffer_shards_request.specs
        return [buffer.host_buffer_handle for spec in specs for buffer in spec.host_buffers]
    return ()


_RESULT_FIELDS = {
    pb.MakeArrayFromHostBufferRequest: "array_handle",
    pb.MakeArraysFromHostBufferShardsRequest: "array_handles",
    pb.MakeErrorArraysRequest: "array_handles",
    pb.AssembleArrayFromSingleDeviceArraysRequest: "result_handle",
    pb.DisassembleIntoSingleDeviceArraysRequest: "result_handles",
    pb.FullyReplicatedShardRequest: "result_handle",
    pb.CopyArraysRequest: "result_handles",
    pb.RemapArraysRequest: "result_handles",
    pb.BitcastArraysRequest: "result_handles",
    pb.ReshardArraysRequest: "result_handles",
    pb.LoadedExecutableExecuteRequest: "result_array_handle",
}


def result_handles(request: Any) -> list[int]:
    """The handles that the client chose for a request's results."""
    field = _RESULT_FIELDS.get(type(request))
    if field is None:
        return []
    value = getattr(request, field)
    return [value] if isinstance(value, int) else list(value)


def _dtype_name(kind: int) -> str:
    try:
        return NUMPY_OF_KIND[kind].name
    except KeyError:
        name = pb.DTypeProto.Kind.Name(kind) if kind in pb.DTypeProto.Kind.values() else str(kind)
        raise StatusError(Code.UNIMPLEMENTED, f"arrays of the element type {name} are not supported") from None


def _item(items: Sequence[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(items):
        raise StatusError(Code.INVALID_ARGUMENT, f"{what} {index} of {len(items)}")
    return items[index]


HANDLERS: dict[str, Handler] = {
    "init_request": init,
    "make_array_from_host_buffer_request": make_array_from_host_buffer,
    "make_arrays_from_host_buffer_shards_request": make_arrays_from_host_buffer_shards,
    "make_error_arrays_request": make_error_arrays,
    "assemble_array_from_single_device_arrays_request": assemble_array,
    "disassemble_into_single_device_arrays_request": disassemble_array,
    "fully_replicated_shard_request": fully_replicated_shard,
    "copy_arrays_request": copy_arrays,
    "remap_arrays_request": remap_arrays,
    "delete_array_request": delete_array,
    "is_array_deleted_request": is_array_deleted,
    "destruct_array_request": destruct_array,
    "copy_to_host_buffer_request": copy_to_host_buffer,
    "check_value_ready_request": check_value_ready,
    "check_future_request": check_future,
    "loaded_executable_fetch_execute_result_request": fetch_execute_result,
    "compile_request": compile_program,
    "loaded_executable_metadata_request": executable_metadata,
    "loaded_executable_execute_request": execute,
    "loaded_executable_cost_analysis_request": cost_analysis,
    "loaded_executable_human_readable_program_text_request": program_text,
    "loaded_executable_delete_request": delete_executable,
    "loaded_executable_is_deleted_request": is_executable_deleted,
    "loaded_executable_destruct_request": destruct_executable,
    "get_default_layout_request": default_layout,
    "get_default_device_assignment_request": default_device_assignment,
}
