"""Compiling, running and describing programs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from elastic.commands import Command
from elastic.controller.arrays import Array
from elastic.controller.named_saves import MARK
from elastic.controller.programs import Program, Source, metadata, parse_source
from elastic.controller.requests.answers import LATER, Respond
from elastic.controller.session import Session, Status
from elastic.controller.world import WorldLost
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError, status_of

log = logging.getLogger(__name__)

_STRIKES = 2
"""So often a program may end the process that compiles it."""

_tasks: set[asyncio.Task[None]] = set()


def compile_program(session: Session, request: pb.CompileRequest, respond: Respond) -> Any:
    source = parse_source(request)
    if request.host_callbacks:
        raise StatusError(Code.UNIMPLEMENTED, "host callbacks are not supported")

    async def compile_and_respond() -> None:
        try:
            program = await _load(session, source)
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


async def _load(session: Session, source: Source) -> Program:
    strikes = 0
    while True:
        world = await session.run.world()
        try:
            return await session.run.programs.load(world, session.new_number(), source)
        except WorldLost as lost:
            # XLA aborts its process over some programs. Only the compiling host's end can be that.
            compiling = world.placement.host_of(source.devices[0])
            strikes += lost.failure.by_itself and lost.failure.host == compiling
            if strikes >= _STRIKES:
                text = f"the program ended the process that compiled it, twice: {lost.failure.reason}"
                raise StatusError(Code.INTERNAL, text) from None


def executable_metadata(
    session: Session, request: pb.LoadedExecutableMetadataRequest, respond: Respond
) -> pb.LoadedExecutableMetadataResponse:
    return metadata(session.program(request.loaded_executable_handle))


def execute(
    session: Session, request: pb.LoadedExecutableExecuteRequest, respond: Respond
) -> pb.LoadedExecutableExecuteResponse:
    program = session.program(request.loaded_executable_handle)
    marks = program.about["name"] == MARK
    try:
        response, arguments = _execute(session, program, request)
    except StatusError as error:
        if marks:
            session.run.saves.mark_failed(error.message)
        raise
    if marks:
        session.run.saves.mark(arguments)
    return response


def _execute(
    session: Session, program: Program, request: pb.LoadedExecutableExecuteRequest
) -> tuple[pb.LoadedExecutableExecuteResponse, Sequence[Array]]:
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
    session.run.send(devices, Command.EXECUTE, [program.number, [a.number for a in arguments], numbers, kept, status])
    for index in donated:
        arguments[index].delete()
    return response, arguments


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
    session.run.ask(
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
