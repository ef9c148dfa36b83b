"""A health check: a small known program on every device of a host, and whether what comes out is right.

It runs in a process of its own, forked from the template, which makes a device client, says of each device how it did,
and ends. That is safe whatever the host does meanwhile. A standby stays without a client and its threads. An executor
is not touched: its order of operations, thread pools and memory are its run's alone, and a program of the user's that
takes minutes cannot be mistaken for a device that does not answer. For CPUs this sees all there is to see, since their
devices are the machine's cores, whoever asks. Chips that belong to one process at a time will have to be checked by
that process; `look` asks for no more than devices of one client.

The results are whole numbers below 2^24, whose sums are exact in every order and precision that a platform may choose,
factors of 8 bits included. So the right bits are known beforehand, the same everywhere, and a host that is wrong from
its first day is found, too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.sharding_impls import GSPMDSharding
from jaxlib import _hlo, _jax
from jaxlib.mlir import ir

from elastic.executor.device_faults import spoil_if_armed
from elastic.host_memory import DIGEST_BYTES, digest_of

SIZE = 128
_SCALE = 1 << 16
_SAFE = 0.25
"""How near exp(x) * `_SCALE` is to a whole number. Its error is less than a tenth as long as exp is good to 3 ulp."""

_EXPONENTS = [k for k in range(4096) if abs(math.exp(k / 4096) * _SCALE % 1 - 0.5) > 0.5 - _SAFE][::17][:64]
"""In 4096ths."""

NAMES = ("a matrix product", "a sum", "an exponential")
"""What the program computes, in the order of its results."""

RIGHT = (
    "01b6c646f135317a6c56de32c45929a0",
    "63a388bc03aac21c7e3f5514d6243c18",
    "6f3aac75290e005d5c9a2e52e2b450f5",
)
"""The digest of each result as little-endian int32, in hexadecimal. A test computes them by other means."""

_T, _F = f"tensor<{SIZE}x{SIZE}xi32>", f"tensor<{SIZE}x{SIZE}xf32>"
_ROW, _SINGLE, _E = f"tensor<{SIZE}xf32>", "tensor<f32>", f"tensor<{len(_EXPONENTS)}x"
_SPREAD = "dims = [] : (tensor<i32>) ->"


def _factor(name: str, i: int, j: int, ij: int) -> str:
    """One factor of the product: whole numbers from -255 to 255, which look random."""
    return f"""
    %{name}i = stablehlo.constant dense<{i}> : {_T}
    %{name}0 = stablehlo.multiply %row, %{name}i : {_T}
    %{name}j = stablehlo.constant dense<{j}> : {_T}
    %{name}ij = stablehlo.constant dense<{ij}> : {_T}
    %{name}1 = stablehlo.multiply %column, %{name}j : {_T}
    %{name}2 = stablehlo.multiply %both, %{name}ij : {_T}
    %{name}3 = stablehlo.add %{name}0, %{name}1 : {_T}
    %{name}4 = stablehlo.add %{name}3, %{name}2 : {_T}
    %{name}5 = stablehlo.remainder %{name}4, %range : {_T}
    %{name}6 = stablehlo.subtract %{name}5, %half : {_T}
    %{name} = stablehlo.convert %{name}6 : ({_T}) -> {_F}"""


FACTORS = {"a": (7919, 104_729, 31), "b": (1299, 15_485, 97)}
"""(i, j, i * j): how each factor comes of its indices."""

# The argument is 1. The compiler does not know that, so it cannot do the computing itself. Written by hand, because to
# trace it costs more than all the rest of a check.
PROGRAM = f"""module @device_check {{
  func.func public @main(%one: tensor<i32>) -> ({_T}, tensor<{SIZE}xi32>, {_E}i32>) {{
    %ones = stablehlo.broadcast_in_dim %one, {_SPREAD} {_T}
    %i = stablehlo.iota dim = 0 : {_T}
    %column = stablehlo.iota dim = 1 : {_T}
    %row = stablehlo.multiply %i, %ones : {_T}
    %both = stablehlo.multiply %row, %column : {_T}
    %range = stablehlo.constant dense<511> : {_T}
    %half = stablehlo.constant dense<255> : {_T}
    {"".join(_factor(name, *numbers) for name, numbers in FACTORS.items())}
    %product = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
      : ({_F}, {_F}) -> {_F}
    %squares = stablehlo.multiply %a, %a : {_F}
    %zero = stablehlo.constant dense<0.0> : {_SINGLE}
    %sum = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1]
      : ({_F}, {_SINGLE}) -> {_ROW}
    %k = stablehlo.constant dense<{_EXPONENTS}> : {_E}i32>
    %e0 = stablehlo.broadcast_in_dim %one, {_SPREAD} {_E}i32>
    %e1 = stablehlo.multiply %k, %e0 : {_E}i32>
    %e2 = stablehlo.convert %e1 : ({_E}i32>) -> {_E}f32>
    %e3 = stablehlo.constant dense<{1 / 4096}> : {_E}f32>
    %e4 = stablehlo.multiply %e2, %e3 : {_E}f32>
    %e5 = stablehlo.exponential %e4 : {_E}f32>
    %e6 = stablehlo.constant dense<{float(_SCALE)}> : {_E}f32>
    %e7 = stablehlo.multiply %e5, %e6 : {_E}f32>
    %e8 = stablehlo.round_nearest_even %e7 : {_E}f32>
    %r0 = stablehlo.convert %product : ({_F}) -> {_T}
    %r1 = stablehlo.convert %sum : ({_ROW}) -> tensor<{SIZE}xi32>
    %r2 = stablehlo.convert %e8 : ({_E}f32>) -> {_E}i32>
    return %r0, %r1, %r2 : {_T}, tensor<{SIZE}xi32>, {_E}i32>
  }}
}}
"""


def expected() -> tuple[np.ndarray, ...]:
    """The right results, by whole numbers."""
    row, column = np.indices((SIZE, SIZE))
    a, b = ((row * i + column * j + row * column * ij) % 511 - 255 for i, j, ij in FACTORS.values())
    powers = [round(math.exp(k / 4096) * _SCALE) for k in _EXPONENTS]
    return (a @ b).astype("<i4"), (a * a).sum(1).astype("<i4"), np.array(powers, "<i4")


def judge(results: Sequence[np.ndarray]) -> str:
    """What is wrong with a device's results, in words; empty if nothing is."""
    for index, (name, result) in enumerate(zip(NAMES, results, strict=True)):
        found = np.ascontiguousarray(result, "<i4")
        if digest_of(found.tobytes()).hex() == RIGHT[index]:
            continue
        wanted = expected()[index]
        wrong = np.flatnonzero(found != wanted)
        if not wrong.size:
            # Or the digest is, which was taken by the same machine: it cannot be trusted either way.
            return f"the digest of {name} is wrong"
        first = int(wrong[0])
        text = f"{wrong.size} of {wanted.size} numbers of {name} are wrong, such as {found.flat[first]} instead of"
        return f"{text} {wanted.flat[first]}"
    return ""


def run(devices: int, cache: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Checks this host's devices, in a process that was forked for this and has no device client yet.

    Tells {"checked": device, "problem": words} of each, in their order; without words it is well. `cache` is a file in
    which the first check leaves the compiled program for the others.
    """
    # The same program on each of them, without a word between them: one thread each, and one to spare.
    os.environ["NPROC"] = str(devices + 1)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    try:
        pending = look(jax.local_devices(), cache)
    except Exception as error:
        tell({"checked": 0, "problem": f"device 0 cannot compute: {error}"})
        return
    for device, results in enumerate(pending):
        tell({"checked": device, "problem": _problem(device, devices, results)})


def look(devices: Sequence[Any], cache: int) -> list[list[Any]]:
    """Starts the program on all of the devices at once; the results of each, which may still be computing."""
    client, device_list = devices[0].client, _jax.DeviceList(tuple(devices))
    options = _jax.CompileOptions()
    options.num_replicas, options.num_partitions = len(devices), 1
    ids = np.array([device.id for device in devices], np.int32)
    options.device_assignment = _jax.DeviceAssignment.create(ids.reshape(-1, 1))
    blob = _read(cache)
    if blob:
        executable = client.deserialize_executable(blob, device_list, options)
    else:
        with jax_mlir.make_ir_context():
            executable = client.compile_and_load(ir.Module.parse(PROGRAM), device_list, options)
        _write(cache, client.serialize_executable(executable))
    sharding = GSPMDSharding(device_list, _hlo.HloSharding.replicate())
    one = np.ones((), np.int32)
    argument = _jax.batched_device_put(
        jax.core.ShapedArray((), np.int32), sharding, [one] * len(devices), list(devices), True
    )
    outputs = executable.execute_sharded([argument]).disassemble_into_single_device_arrays()
    return [[result[index] for result in outputs] for index in range(len(devices))]


def _problem(device: int, devices: int, results: Sequence[Any]) -> str:
    try:
        found = spoil_if_armed(device, devices, [np.asarray(result) for result in results])
    except Exception as error:
        return f"device {device} cannot compute: {error}"
    wrong = judge(found)
    return f"device {device} computed wrongly: {wrong}" if wrong else ""


def _read(cache: int) -> bytes:
    """The compiled program, unless there is none or whoever wrote it did not come to its end."""
    packed = os.pread(cache, os.fstat(cache).st_size, 0)
    digest, blob = packed[:DIGEST_BYTES], packed[DIGEST_BYTES:]
    return blob if blob and digest_of(blob) == digest else b""


def _write(cache: int, blob: bytes) -> None:
    os.ftruncate(cache, 0)
    os.pwrite(cache, digest_of(blob) + blob, 0)
