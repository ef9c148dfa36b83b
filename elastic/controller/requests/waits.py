"""What the client waits for: values that are computed, bytes that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.controller.requests.answers import LATER, Respond
from elastic.controller.session import Session
from elastic.host_memory import digest_of
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError

_SHARED_READ = 1 << 20
"""Bytes from which a read comes as a file in shared memory: it saves more copies than the file costs."""


def copy_to_host_buffer(session: Session, request: pb.CopyToHostBufferRequest, respond: Respond) -> Any:
    array = session.arrays.usable(request.array_handle)
    strides = list(request.byte_strides.strides) if request.HasField("byte_strides") else None
    device = array.devices[0]
    handle = request.host_buffer_handle
    path = session.buffers.download_path(handle) if array.nbytes >= _SHARED_READ else None

    def answer(error: StatusError | None, result: Any, payload: wire.Bytes) -> None:
        if error is None and path is not None and payload and digest_of(payload) != result:
            error = StatusError(Code.DATA_LOSS, f"the bytes of array {array.number} were changed on their way")
        elif error is None and path is not None and not payload:
            session.buffers.store_mapped(handle, path)
        elif error is None:  # Small, or of a host on another machine.
            session.buffers.store(handle, payload)
        respond(error or pb.CopyToHostBufferResponse())

    session.run.ask((device,), Command.READ, [array.number, device, strides, path], answer)
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
        session.run.ask(devices, Command.WAIT, [[number]], answer)
