"""What each request of the protocol does. A new request gets a function in one of the modules and a line in `HANDLERS`.

A handler takes (session, request, respond) and returns the response, or `LATER` and calls `respond` when the hosts have
answered. It raises `StatusError` for what cannot be done; the stream then answers with it and lets the request's result
handles hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from elastic.controller.requests import derived, devices, programs, uploads, waits
from elastic.controller.requests.answers import LATER, Respond
from elastic.controller.session import Session
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError

__all__ = ["LATER", "handle", "needed_buffers", "result_handles"]

Handler = Callable[[Session, Any, Respond], Any]


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


_MAY_FOLLOW_UPLOADS = {
    "make_array_from_host_buffer_request",
    "make_arrays_from_host_buffer_shards_request",
    "reshard_arrays_request",
}


def handle(session: Session, kind: str, body: Any, respond: Respond) -> Any:
    """Does what a request says. Raises `StatusError` for one that cannot be done, or is not known."""
    if session.held and kind not in _MAY_FOLLOW_UPLOADS:
        uploads.put_all_held(session)
    handler = HANDLERS.get(kind)
    if handler is None:
        raise StatusError(Code.UNIMPLEMENTED, f"{kind} is not supported")
    return handler(session, body, respond)


def result_handles(request: Any) -> list[int]:
    """The handles that the client chose for a request's results."""
    field = _RESULT_FIELDS.get(type(request))
    if field is None:
        return []
    value = getattr(request, field)
    return [value] if isinstance(value, int) else list(value)


HANDLERS: dict[str, Handler] = {
    "init_request": devices.init,
    "make_array_from_host_buffer_request": uploads.make_array_from_host_buffer,
    "make_arrays_from_host_buffer_shards_request": uploads.make_arrays_from_host_buffer_shards,
    "make_error_arrays_request": uploads.make_error_arrays,
    "assemble_array_from_single_device_arrays_request": derived.assemble_array,
    "disassemble_into_single_device_arrays_request": derived.disassemble_array,
    "fully_replicated_shard_request": derived.fully_replicated_shard,
    "copy_arrays_request": derived.copy_arrays,
    "remap_arrays_request": derived.remap_arrays,
    "reshard_arrays_request": derived.reshard_arrays,
    "delete_array_request": derived.delete_array,
    "is_array_deleted_request": derived.is_array_deleted,
    "destruct_array_request": derived.destruct_array,
    "copy_to_host_buffer_request": waits.copy_to_host_buffer,
    "check_value_ready_request": waits.check_value_ready,
    "check_future_request": waits.check_future,
    "loaded_executable_fetch_execute_result_request": waits.fetch_execute_result,
    "compile_request": programs.compile_program,
    "loaded_executable_metadata_request": programs.executable_metadata,
    "loaded_executable_execute_request": programs.execute,
    "loaded_executable_cost_analysis_request": programs.cost_analysis,
    "loaded_executable_human_readable_program_text_request": programs.program_text,
    "loaded_executable_delete_request": programs.delete_executable,
    "loaded_executable_is_deleted_request": programs.is_executable_deleted,
    "loaded_executable_destruct_request": programs.destruct_executable,
    "get_default_layout_request": devices.default_layout,
    "get_default_device_assignment_request": devices.default_device_assignment,
}
