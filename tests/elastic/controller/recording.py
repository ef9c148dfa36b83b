"""A client's session over a run that only notes what it is told, for tests of what requests do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from elastic import wire
from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.placement import spread
from elastic.controller.programs import ProgramTable
from elastic.controller.requests.uploads import put_all_held
from elastic.controller.session import Session
from elastic.controller.shardings import Sharding
from elastic.controller.stream import RequestStream
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError

F32 = int(pb.DTypeProto.KIND_F32)
FIELD_OF = {getattr(pb, field.message_type.name): field.name for field in pb.IfrtRequest.DESCRIPTOR.oneofs[0].fields}
"""The field of IfrtRequest that holds a request of a type."""
HEADER_BYTES = len(wire.frame_header(None, 0)) - 1

ABOUT = {
    "name": "jit_step",
    "results": [[F32, [4, 6]]],
    "parameter_shardings": None,
    "output_shardings": None,
    "parameters": 1,
    "parameter_layouts": [[1, 0]],
    "output_layouts": [[1, 0]],
    "output_memory_kinds": [["device"]],
    "donated": [],
    "fingerprint": b"print",
    "code_bytes": 12,
    "memory": {"temp_size_in_bytes": 34, "a_new_size_in_bytes": 5},
}
"""A program of one result as its compiler describes it."""


class RecordingRun:
    """As `Run` and its world to their users. Answers come from `reply`, or later from `answer`."""

    def __init__(self, devices: int = 4, hosts: int = 2) -> None:
        self.placement = spread(1, [f"h{number}" for number in range(hosts)], devices)
        self.lost_devices: frozenset[int] = frozenset()
        self.devices = [described(number) for number in range(devices)]
        self.failure: StatusError | None = None
        self.reply: Callable[[list[Any]], tuple[StatusError | None, Any, bytes] | None] = lambda message: None
        """What the hosts answer to a message at once; None to leave it waiting."""
        self.payloads: list[bytes] = []
        self.kept: list[tuple[str, int]] = []
        """The files that it was told to keep, and their bytes."""
        self.programs = ProgramTable()
        self.callbacks = CallbackSwitch()
        self.forgotten = self.congested = False
        self._told: list[tuple[Any, ...]] = []
        self._waiting: dict[int, Callable[..., None]] = {}
        self._requests = itertools.count(1)

    def send(
        self,
        devices: tuple[int, ...],
        command: Command,
        arguments: Sequence[Any],
        payload: wire.Bytes = b"",
        *,
        file: str | None = None,
        file_bytes: int = 0,
    ) -> None:
        self._check(devices)
        self._note(devices, (command, *arguments), payload)
        if file is not None:
            self.kept.append((file, file_bytes))

    def ask(
        self,
        devices: tuple[int, ...],
        command: Command,
        arguments: Sequence[Any],
        answer: Callable[..., None],
        payload: wire.Bytes = b"",
    ) -> None:
        self._check(devices)
        if self.failure is not None:
            answer(self.failure, None, b"")
            return
        request = next(self._requests)
        message = self._note(devices, (command, request, *arguments), payload)
        self._waiting[request] = answer
        reply = self.reply(message)
        if reply is not None:
            self.answer(request, *reply)

    async def call(
        self, devices: tuple[int, ...], command: Command, arguments: Sequence[Any], payload: wire.Bytes = b""
    ) -> tuple[Any, wire.Bytes]:
        answers: list[Any] = []
        self.ask(devices, command, arguments, lambda *answer: answers.append(answer), payload)
        error, result, data = answers[0]
        if error:
            raise error
        return result, data

    async def world(self) -> RecordingRun:
        return self

    def forget(self) -> None:
        self.forgotten = True

    def one_per_host(self, devices: Sequence[int]) -> list[int]:
        self._check(tuple(devices))
        return [next(d for d in devices if self.placement.owners[d][0] == rank) for rank in self._ranks(devices)]

    def _ranks(self, devices: Sequence[int]) -> list[int]:
        return list(dict.fromkeys(self.placement.owners[device][0] for device in devices))

    def _check(self, devices: tuple[int, ...]) -> None:
        if any(not 0 <= device < len(self.devices) for device in devices):
            raise StatusError(Code.INVALID_ARGUMENT, f"virtual devices {devices} do not all exist")

    def _note(self, devices: tuple[int, ...], message: Sequence[Any], payload: wire.Bytes) -> Any:
        """Notes a message as its receiver reads it."""
        read = wire.unpack(wire.frame(message)[HEADER_BYTES:])
        self._told.append((Command(read[0]), devices, *read[1:]))
        self.payloads.append(bytes(payload))
        return read

    # For tests

    def heard(self) -> list[tuple[Any, ...]]:
        """(command, devices, arguments...) of all that was told since the last time."""
        told, self._told = self._told, []
        self.payloads = []
        return told

    def answer(self, request: int, error: StatusError | None = None, result: Any = None, payload: bytes = b"") -> None:
        """The hosts answer a request."""
        self._waiting.pop(request)(error, result, payload)

    @property
    def waiting(self) -> list[int]:
        """The requests that were not answered yet."""
        return list(self._waiting)


def described(device: int) -> dict[str, Any]:
    """A device as its executor describes it."""
    return {
        "device": device,
        "platform": "cpu",
        "kind": "cpu",
        "platform_version": "of a test",
        "memories": ["device", "pinned_host"],
        "default_memory": "device",
        "pid": 1,
    }


class Client:
    """The client's end of a session's stream; the run at its other end is `run`."""

    def __init__(self, uploads: Path, devices: int = 4, hosts: int = 2) -> None:
        self.run = RecordingRun(devices, hosts)
        self.session = Session(1, self.run, itertools.count(100), uploads)
        self.stream = RequestStream(self.session, self._hear)
        self.responses: dict[int, pb.IfrtResponse] = {}
        self._ops = itertools.count(1)

    def _hear(self, data: bytes) -> None:
        response = pb.IfrtResponse.FromString(data)
        op_id = response.response_metadata.op_id
        assert op_id not in self.responses, "a request is answered once"
        self.responses[op_id] = response

    def send(self, request: Any) -> int:
        """Sends a request; returns its op_id."""
        op_id = next(self._ops)
        fields = {FIELD_OF[type(request)]: request}
        envelope = pb.IfrtRequest(request_metadata=pb.RequestMetadata(op_id=op_id), **fields)
        self.stream.receive(envelope.SerializeToString())
        return op_id

    def outcome(self, op_id: int) -> Any:
        """The response to a request. Raises `StatusError` if it is one."""
        response = self.responses[op_id]
        if response.response_metadata.HasField("status"):
            status = response.response_metadata.status
            assert status.code != 0
            assert response.WhichOneof("response") is None
            raise StatusError(status.code, status.message)
        return getattr(response, response.WhichOneof("response"))

    def call(self, request: Any) -> Any:
        """Sends a request that is answered at once."""
        return self.outcome(self.send(request))

    def refused(self, code: Code, request: Any) -> str:
        """Sends a request that must be answered with an error of this code; returns the text."""
        with pytest.raises(StatusError) as raised:
            self.call(request)
        assert raised.value.code is code, raised.value
        return raised.value.message

    def number(self, handle: int) -> int:
        """The number under which the hosts know an array."""
        return self.session.arrays.get(handle).number

    def make(self, handle: int, sharding: Sharding | int, shape: tuple[int, ...] = (4, 6)) -> int:
        """An array of float32 from bytes, without more ado; returns its number."""
        sharding = shardings.single(sharding) if isinstance(sharding, int) else sharding
        spec = pb.ArraySpecProto(dtype=f32(), shape=pb.ShapeProto(dims=shape), sharding=sharding.proto)
        shards = pb.MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec(array_spec=spec)
        for index, shard in enumerate(sharding.shard_shapes(shape)):
            self.session.buffers.store(1000 + index, b"")
            shards.addressable_shard_indices.add(indices=[index])
            shards.host_buffers.add(dtype=f32(), shape=pb.ShapeProto(dims=shard), host_buffer_handle=1000 + index)
        self.call(pb.MakeArraysFromHostBufferShardsRequest(specs=[shards], array_handles=[handle]))
        self.settle()
        self.run.heard()
        return self.number(handle)

    def settle(self) -> None:
        """Sends the hosts what is held back until the next request."""
        put_all_held(self.session)

    def deleted(self, handle: int) -> bool:
        return self.call(pb.IsArrayDeletedRequest(array_handle=handle)).deleted


def f32() -> pb.DTypeProto:
    return pb.DTypeProto(kind=pb.DTypeProto.KIND_F32)


def cut(*devices: int) -> Sharding:
    """The first of two dimensions cut over the devices."""
    op_sharding = pb.OpSharding(type=pb.OpSharding.OTHER, tile_assignment_devices=range(len(devices)))
    op_sharding.tile_assignment_dimensions.extend((len(devices), 1))
    return shardings.tiled(devices, op_sharding.SerializeToString())


def copied(*devices: int) -> Sharding:
    """A copy on each of the devices."""
    return shardings.tiled(devices, pb.OpSharding(type=pb.OpSharding.REPLICATED).SerializeToString())
