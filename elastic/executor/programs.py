"""Compiling, loading and describing programs, and running them on arrays of the store."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import core
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client as _jax_client
from jax._src.sharding_impls import GSPMDSharding
from jaxlib import _hlo, _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from elastic import inspection, wire
from elastic.dtypes import KIND_OF_NAME, TOKEN, numpy_dtype
from elastic.executor.bit_flips import flip_if_armed
from elastic.executor.callbacks import Callbacks
from elastic.executor.store import Binding, Store, Value
from elastic.executor.world import Member
from elastic.fault_points import reach
from elastic.inspection import config_of, custom_calls
from elastic.status import Code, StatusError, status_of

_Types = list[tuple[int, list[int]]]
"""(kind, dimensions) of values."""

_COPY = _jax.ArrayCopySemantics.ALWAYS_COPY


@dataclass(frozen=True)
class Facts:
    """What must be known of a program to run it. XLA takes a while to tell, so it travels with the executable.

    Attributes:
        donated: the inputs whose memory the program may take for its outputs.
        results: (shard shape, dtype) of each output.
    """

    donated: frozenset[int]
    results: tuple[tuple[tuple[int, ...], np.dtype], ...]

    @classmethod
    def of(cls, executable: Any) -> Facts:
        return cls(donated_inputs(executable), tuple(_result_shapes(executable)))

    def pack(self, blob: bytes) -> bytes:
        """A serialized executable with these."""
        return wire.frame([sorted(self.donated), [(shape, dtype.name) for shape, dtype in self.results]], blob)

    @classmethod
    def unpack(cls, packed: wire.Bytes) -> tuple[Facts, bytes]:
        """Raises `FrameError`."""
        (donated, results), blob = wire.unframe(packed)
        return cls(frozenset(donated), tuple((tuple(shape), numpy_dtype(name)) for shape, name in results)), bytes(blob)


class Program:
    """A loaded executable, bound to its devices."""

    def __init__(self, executable: Any, binding: Binding, callbacks: Sequence[int], facts: Facts) -> None:
        self.executable = executable
        self.last_token: Any = None
        """The end of the last execution, kept for programs that call back into the client."""
        self._calls_back = bool(callbacks)
        self.binding = binding
        self.donated = facts.donated
        self._handlers = [
            _jax.array_result_handler(
                core.ShapedArray(shape, dtype), binding.sharding, committed=True, _skip_checks=True
            )
            for shape, dtype in facts.results
        ]

    def run(
        self, store: Store, arguments: Sequence[int], results: Sequence[int], not_donated: Sequence[int], status: int
    ) -> None:
        """Starts the program and puts its results, which may still be computing, into the store.

        An error, of an argument or of the start, becomes the value of every result.
        """
        binding = self.binding
        if len(binding.local) < len(binding.devices):
            reach("collective")
        flip_if_armed(store, arguments, binding)
        try:
            inputs = [store.get(number).bind(binding) for number in arguments]
            for index in not_donated:
                if index in self.donated:
                    inputs[index] = _copy(inputs[index], binding)
            outcome = self.executable.execute_sharded(inputs, with_tokens=True)
            token = binding.last_token = outcome.consume_token()
            if self._calls_back:
                self.last_token = token
            if status:
                store.set(status, Value(shards={binding.local[0]: token}))
            outputs = outcome.consume_with_handlers(self._handlers)
        except Exception as error:
            failure = status_of(error)
            for number in (*results, *([status] if status else ())):
                store.fail(number, failure)
            return
        for number, output in zip(results, outputs, strict=True):
            store.set(number, Value(bound=output, binding=binding, local=binding.local))


class Programs:
    """The programs of one executor, and the device lists they run on."""

    def __init__(self, member: Member, callbacks: Callbacks) -> None:
        self._member = member
        self._callbacks = callbacks
        self._lock = threading.Lock()
        self._bindings: dict[tuple[int, ...], Binding] = {}
        self._programs: dict[int, Program] = {}
        self._coming: dict[int, Future[None]] = {}

    def binding(self, devices: Sequence[int]) -> Binding:
        """The one `Binding` of a device list."""
        key = tuple(devices)
        with self._lock:
            found = self._bindings.get(key)
            if found is None:
                device_list = _jax.DeviceList(tuple(self._member.devices[v] for v in key))
                sharding = GSPMDSharding(device_list, _hlo.HloSharding.replicate())
                local = tuple(v for v in key if v in self._member.local)
                found = self._bindings[key] = Binding(key, local, device_list, sharding)
            return found

    def compile(
        self,
        number: int,
        portable: bytes,
        options: bytes,
        devices: Sequence[int],
        replicas: int,
        callbacks: Sequence[int],
        want_blob: bool,
    ) -> tuple[dict[str, Any], bytes]:
        """Compiles portable StableHLO; the answer is (`describe`, serialized executable or nothing).

        A program with tokens gives no serialized executable, wanted or not: jaxlib 0.10.2 crashes over some.
        """
        reach("compile")
        binding = self.binding(devices)
        with jax_mlir.make_ir_context() as context:
            module = stablehlo.deserialize_portable_artifact(context, portable)
            _refuse_partitioners(portable, module)
            inspectors = _bind_inspectors(portable, module, self._callbacks.stub)
            arguments, results = _signature(module)
            executable = self._member.client.compile_and_load(
                module,
                binding.device_list,
                self._options(options, binding, replicas),
                host_callbacks=[self._callbacks.stub(callback) for callback in callbacks],
            )
        del inspectors
        facts = Facts.of(executable)
        self._programs[number] = Program(executable, binding, callbacks, facts)
        tokens = any(kind == TOKEN for kind, _ in (*arguments, *results))
        blob = facts.pack(self._member.client.serialize_executable(executable)) if want_blob and not tokens else b""
        return describe(executable, len(arguments), results), blob

    def load(
        self,
        number: int,
        packed: wire.Bytes,
        options: bytes,
        devices: Sequence[int],
        replicas: int,
        callbacks: Sequence[int],
    ) -> None:
        """Loads an executable that another executor of this pool has compiled and serialized."""
        facts, blob = Facts.unpack(packed)
        binding = self.binding(devices)
        executable = self._member.client.deserialize_executable(
            blob,
            binding.device_list,
            self._options(options, binding, replicas),
            host_callbacks=[self._callbacks.stub(callback) for callback in callbacks],
        )
        self._programs[number] = Program(executable, binding, callbacks, facts)

    def expect(self, number: int, coming: Future[None]) -> None:
        """A program is being compiled or loaded by another thread; whoever wants it waits until that has ended."""
        self._coming[number] = coming

    def finish_callbacks(self) -> None:
        """Waits until no execution that was started calls back any more."""
        for program in list(self._programs.values()):
            if program.last_token is not None:
                with contextlib.suppress(Exception):  # It is an error of its results.
                    program.last_token.block_until_ready()

    def last_token(self, devices: Sequence[int]) -> Any:
        """The end of the program that was started last on just these devices; None if none was."""
        with self._lock:
            binding = self._bindings.get(tuple(devices))
        return binding and binding.last_token

    def get(self, number: int) -> Program:
        """Raises `KeyError` if there is none, or it could not be made."""
        if number in self._coming:
            self._coming.pop(number).result()
        return self._programs[number]

    def unload(self, number: int) -> Any:
        """Forgets a program; the token of its last execution if that may still call back, else None."""
        if number in self._coming:
            self._coming.pop(number).result()
        program = self._programs.pop(number, None)
        return program and program.last_token

    def _options(self, serialized: bytes, binding: Binding, replicas: int) -> Any:
        options = _jax.CompileOptions.ParseFromString(serialized)
        ids = [self._member.devices[v].id for v in binding.devices]
        options.device_assignment = _jax.DeviceAssignment.create(np.array(ids, np.int32).reshape(replicas, -1))
        return options


def describe(executable: Any, parameters: int, results: _Types) -> dict[str, Any]:
    """What the client asks about a program, as plain data. `results` are (kind, global dimensions) of the outputs."""
    parameter_shardings = executable.get_parameter_shardings()
    output_shardings = executable.get_output_shardings()
    stats = executable.get_compiled_memory_stats()
    return {
        "name": executable.hlo_modules()[0].name,
        "parameters": parameters,
        "results": results,
        "parameter_shardings": parameter_shardings and [s.SerializeToString() for s in parameter_shardings],
        "output_shardings": output_shardings and [s.SerializeToString() for s in output_shardings],
        "parameter_layouts": _layouts(executable.get_parameter_layouts),
        "output_layouts": _layouts(executable.get_output_layouts),
        "output_memory_kinds": executable.get_output_memory_kinds(),
        "donated": sorted(donated_inputs(executable)),
        "fingerprint": executable.fingerprint or b"",
        "code_bytes": executable.size_of_generated_code_in_bytes(),
        "memory": {
            name: int(getattr(stats, name))
            for name in dir(stats)
            if name.endswith("_in_bytes") and isinstance(getattr(stats, name), int)
        },
    }


def donated_inputs(executable: Any) -> frozenset[int]:
    """The inputs whose memory the program may take for its outputs, from the header of its HLO text."""
    header = executable.get_hlo_text().split("\n", 1)[0]
    # Within input_output_alias={ {0}: (2, {}, may-alias), {1}: (3, {}, must-alias) }; nothing else has this form.
    return frozenset(int(number) for number in re.findall(r"\}: \((\d+), \{[\d, ]*\}, \w+-alias\)", header))


def cost(executable: Any) -> dict[str, Any]:
    """XLA's cost analysis."""
    return dict(executable.cost_analysis())


def _layouts(get: Callable[[], Any]) -> list[list[int]] | None:
    """The order of dimensions, minor to major, of each value; None for a program with tokens, which have none."""
    try:
        return [list(layout._xla_layout().minor_to_major()) for layout in get()]
    except _jax.JaxRuntimeError:
        return None


def _refuse_partitioners(portable: bytes, module: Any) -> None:
    """Raises `StatusError` (UNIMPLEMENTED) for a program with the address of a Python partitioner of the client's."""
    if b"CustomSPMDPartitioning" in portable and any(custom_calls(module, "CustomSPMDPartitioning")):
        raise StatusError(
            Code.UNIMPLEMENTED, "custom_partitioning calls Python while XLA compiles, which happens on a host"
        )


def _bind_inspectors(portable: bytes, module: Any, stub: Callable[[int], Callable[..., Any]]) -> list[Any]:
    """Gives the module's sharding inspectors addresses in this process; the result must live while it compiles.

    Raises `StatusError` (UNIMPLEMENTED) for an address that means something in the client only.
    """
    inspectors: list[Any] = []
    if inspection.CALL.encode() not in portable:
        return inspectors
    for operation in custom_calls(module, inspection.CALL):
        config = config_of(operation)
        if not config.startswith(inspection.PREFIX):
            raise StatusError(
                Code.UNIMPLEMENTED,
                "inspect_array_sharding needs elastic's JAX plugin in the client (ELASTIC_CONTROLLER)",
            )
        inspect = stub(int(config.removeprefix(inspection.PREFIX)))

        def inspector(sharding: Any, inspect: Callable[..., Any] = inspect) -> None:
            inspect(np.frombuffer(sharding.to_proto().SerializeToString(), np.uint8))

        inspectors.append(inspector)
        address = _jax_client.encode_inspect_sharding_callback(inspector)
        operation.attributes["backend_config"] = ir.StringAttr.get(address)
    return inspectors


def _signature(module: Any) -> tuple[_Types, _Types]:
    """(kind, global dimensions) of each argument and each result of the module's main function."""
    main = ir.FunctionType(ir.SymbolTable(module.operation)["main"].type)
    return [_kind_and_dimensions(value) for value in main.inputs], [
        _kind_and_dimensions(value) for value in main.results
    ]


def _kind_and_dimensions(result: Any) -> tuple[int, list[int]]:
    if str(result) == "!stablehlo.token":  # A token, which orders effects and has no bytes.
        return TOKEN, []
    tensor = ir.RankedTensorType(result)
    return KIND_OF_NAME[_element_name(tensor.element_type)], list(tensor.shape)


def _element_name(element: Any) -> str:
    text = str(element)
    if text == "i1":
        return "bool"
    if match := re.fullmatch(r"(u?)i(\d+)", text):
        return f"{'u' if match[1] else ''}int{match[2]}"
    if match := re.fullmatch(r"f(\d+)", text):
        return f"float{match[1]}"
    if text == "bf16":
        return "bfloat16"
    if match := re.fullmatch(r"f(\d)(E.*)", text):
        return f"float{match[1]}_{match[2].lower()}"
    if match := re.fullmatch(r"complex<f(\d+)>", text):
        return f"complex{2 * int(match[1])}"
    return text


def _result_shapes(executable: Any) -> list[tuple[tuple[int, ...], Any]]:
    """(shard shape, dtype) of each output, from the compiled program."""
    module = executable.hlo_modules()[0]
    result = _hlo.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape().result_shape()
    shapes = result.tuple_shapes() if result.is_tuple() else [result]
    return [
        ((0,), np.dtype(bool)) if shape.is_token() else (tuple(shape.dimensions()), shape.numpy_dtype())
        for shape in shapes
    ]


def _copy(array: jax.Array, binding: Binding) -> jax.Array:
    copied = _jax.batched_copy_array_to_devices_with_sharding(
        [array], [binding.device_list], [binding.sharding], [_COPY]
    )
    result: jax.Array = copied[0]
    return result
