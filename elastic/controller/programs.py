"""The program table: what the client compiled, described as plain data, and its compilation on the hosts.

Compile once: the first host of a program's devices compiles, the others load its serialized executable. The executable
is kept by content, so that the same program is never compiled twice in a run, whatever devices it is for and however
often a new world needs it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from elastic import wire
from elastic.callbacks import OPTION
from elastic.commands import Command
from elastic.controller import history, shardings
from elastic.controller.shardings import Shape, Sharding
from elastic.controller.world import World, WorldLost
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError


@dataclass(frozen=True)
class Source:
    """A program to compile.

    Attributes:
        portable: StableHLO as a portable artifact.
        options: serialized CompileOptionsProto, without a device assignment.
        devices: virtual devices, replica by replica.
        replicas: how many replicas; each has len(devices) / replicas partitions.
        callbacks: numbers of the client's functions that it calls, in the order of their indices in the program.
    """

    portable: bytes
    options: bytes
    devices: tuple[int, ...]
    replicas: int
    callbacks: tuple[int, ...] = ()

    @property
    def content(self) -> bytes:
        """Equal for programs whose executables are equal: all but which devices they run on, and which functions of
        the client they call."""
        digest = hashlib.sha256()
        for part in (self.options, f"{len(self.devices)},{self.replicas}".encode(), self.portable):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()


@dataclass(frozen=True)
class Result:
    """One output of a program."""

    kind: int
    shape: Shape
    sharding: Sharding


@dataclass(frozen=True)
class Program:
    """A program that is loaded on every host that it needs."""

    number: int
    source: Source
    about: dict[str, Any]
    """As its compiler describes it (see `executor.programs.describe`)."""
    results: tuple[Result, ...]
    donated: frozenset[int]


def parse_source(request: pb.CompileRequest) -> Source:
    """The program of a request. Raises `StatusError` if it is of a kind that is not known, or broken."""
    if request.program.type_name != "xla::ifrt::XlaProgram":
        raise StatusError(Code.UNIMPLEMENTED, f"programs of the kind {request.program.type_name!r} are not known")
    try:
        options = pb.XlaCompileOptionsProto.FromString(request.compile_options.data).compile_options
    except Exception as error:
        raise StatusError(Code.INVALID_ARGUMENT, f"compile options that cannot be read: {error}") from None
    build = options.executable_build_options
    assignment = build.device_assignment
    replicas = max(assignment.replica_count, 1)
    # The assignment lists each partition's replicas; a program's devices are in the order of (replica, partition).
    devices = tuple(
        computation.replica_device_ids[replica]
        for replica in range(replicas)
        for computation in assignment.computation_devices
    ) or (max(build.device_ordinal, 0),)
    build.ClearField("device_assignment")
    build.device_ordinal = -1
    callbacks = _take_callbacks(options)
    return Source(request.program.data, options.SerializeToString(deterministic=True), devices, replicas, callbacks)


def _take_callbacks(options: pb.CompileOptionsProto) -> tuple[int, ...]:
    """Takes the option out in which the client's plugin names a program's callbacks."""
    if OPTION not in options.env_option_overrides:
        return ()
    numbers = options.env_option_overrides[OPTION].string_field
    del options.env_option_overrides[OPTION]
    return tuple(int(number) for number in numbers.split(","))


class ProgramTable:
    """The programs of a run by number, and what was compiled, by content."""

    def __init__(self) -> None:
        self._compiled: dict[bytes, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        self._sources: dict[int, Source] = {}

    async def load(self, world: World, number: int, source: Source) -> Program:
        """Makes a program ready on every host that owns one of its devices.

        Raises `StatusError` if it cannot be compiled, `WorldLost` if it should be tried again with the next world.
        """
        content = source.content
        compiled = self._compiled.get(content)
        # For devices that have no place it is only compiled, on others: the client is told when it uses what it made.
        lost = not world.lost_devices.isdisjoint(source.devices)
        hosts = [] if lost else world.one_per_host(source.devices)
        if compiled is None:
            compiled = self._compiled[content] = asyncio.get_running_loop().create_future()
            try:
                # The portable form is what makes another host, or another world, able to load what this one compiled.
                there = replace(source, devices=world.stand_ins(len(source.devices))) if lost else source
                arguments, compiler = [*_arguments(number, there), True], there.devices[:1] if lost else (hosts[0],)
                answer = await _compile(world, compiler, arguments, source.portable)
                compiled.set_result((answer[0], bytes(answer[1])))
                if lost:
                    world.send(compiler, Command.UNLOAD, [0, number])
            except BaseException as error:
                del self._compiled[content]
                compiled.set_exception(error)
                compiled.exception()
                raise
            hosts = hosts[1:]
        about, blob = await asyncio.shield(compiled)
        await _load(world, hosts, number, source, blob)
        self._sources[number] = source
        return Program(number, source, about, _results(source, about), frozenset(about["donated"]))

    def post(self, world: World, numbers: Iterable[int]) -> None:
        """Has programs made ready on the hosts of another world; who runs one there waits until it is.

        A host that cannot load what others have loaded is lost to the world.
        """
        for number in numbers:
            source = self._sources[number]
            _, blob = self._compiled[source.content].result()
            command, arguments, payload = _loading(number, source, blob)
            for device in world.one_per_host(source.devices):
                world.ask((device,), command, arguments, partial(_loaded, world, device), payload)

    @property
    def numbers(self) -> list[int]:
        """All that another world will need."""
        return list(self._sources)

    def needs(self, number: int, devices: frozenset[int]) -> bool:
        """Whether a program runs on any of these virtual devices."""
        return not devices.isdisjoint(self._sources[number].devices)

    def callbacks_on(self, devices: frozenset[int]) -> list[int]:
        """The functions of the client that programs on any of these virtual devices call."""
        return [
            call for number in self._sources if self.needs(number, devices) for call in self._sources[number].callbacks
        ]

    def forget(self, numbers: Iterable[int]) -> None:
        """Another world will not need these."""
        for number in numbers:
            self._sources.pop(number, None)

    def clear(self) -> None:
        """Another world will need none of those that were loaded until now."""
        self._sources.clear()


async def _compile(world: World, compiler: tuple[int, ...], arguments: list[Any], portable: bytes) -> Any:
    began = time.monotonic()
    history.tell("compiling", program=arguments[0])
    try:
        return await world.call(compiler, Command.COMPILE, arguments, portable)
    finally:
        history.tell("compiled", program=arguments[0], seconds=time.monotonic() - began)


async def _load(world: World, hosts: Sequence[int], number: int, source: Source, blob: bytes) -> None:
    command, arguments, payload = _loading(number, source, blob)
    await asyncio.gather(*(world.call((device,), command, arguments, payload) for device in hosts))


def _loading(number: int, source: Source, blob: bytes) -> tuple[Command, list[Any], bytes]:
    """The command, with arguments and payload, that makes a host load what another has compiled."""
    if blob:
        return Command.LOAD, _arguments(number, source), blob
    # It cannot be serialized; the compiler gives every host the same.
    return Command.COMPILE, [*_arguments(number, source), False], source.portable


def _loaded(world: World, device: int, error: StatusError | None, result: Any, payload: wire.Bytes) -> None:
    if error is not None and not isinstance(error, WorldLost):
        world.lost(world.placement.host_of(device), f"it cannot load a program: {error.message}")


def _arguments(number: int, source: Source) -> list[Any]:
    return [number, source.options, list(source.devices), source.replicas, list(source.callbacks)]


def _results(source: Source, about: dict[str, Any]) -> tuple[Result, ...]:
    op_shardings = about["output_shardings"]
    results = []
    for index, (kind, dimensions) in enumerate(about["results"]):
        memory_kind = about["output_memory_kinds"][0][index] if about["output_memory_kinds"] else None
        shape = tuple(dimensions)
        if len(source.devices) == 1:
            sharding = shardings.single(source.devices[0], memory_kind)
        elif op_shardings is not None and source.replicas == 1:
            sharding = shardings.tiled(source.devices, op_shardings[index], memory_kind)
        else:
            sharding = shardings.even(source.devices, shape, memory_kind)
        results.append(Result(kind, shape, sharding))
    return tuple(results)


def metadata(program: Program) -> pb.LoadedExecutableMetadataResponse:
    """What the client asks about a program right after compiling it."""
    about = program.about
    response = pb.LoadedExecutableMetadataResponse()
    for field, key in (
        (response.parameter_shardings, "parameter_shardings"),
        (response.output_shardings, "output_shardings"),
    ):
        if about[key] is not None:
            field.SetInParent()
            for op_sharding in about[key]:
                field.shardings.add().ParseFromString(op_sharding)
    for layouts, error, key in (
        (response.parameter_layouts_list, response.parameter_layouts_error, "parameter_layouts"),
        (response.output_layouts_list, response.output_layouts_error, "output_layouts"),
    ):
        if about[key] is None:
            error.code = pb.StatusProto.UNIMPLEMENTED
            error.message = "a program with tokens has no layouts"
            continue
        layouts.SetInParent()
        for minor_to_major in about[key]:
            layouts.layouts.add().minor_to_major.extend(minor_to_major)
    response.output_memory_kinds.SetInParent()
    for kinds in about["output_memory_kinds"]:
        response.output_memory_kinds.memory_kind_lists.add().memory_kinds.extend(kinds)
    response.donated_input_indices.SetInParent()
    response.donated_input_indices.donated_input_indices.extend(about["donated"])
    response.compiled_memory_stats.SetInParent()
    known = response.compiled_memory_stats.DESCRIPTOR.fields_by_name
    for name, value in about["memory"].items():
        if name in known:
            setattr(response.compiled_memory_stats, name, value)
    response.size_of_generated_code_in_bytes = about["code_bytes"]
    return response
