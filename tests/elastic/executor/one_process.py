"""A world of one process with CPU devices of its own, for tests of what an executor does on its devices.

Its client is not JAX's default one: nothing is set or started that other tests could notice.
"""

from __future__ import annotations

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from elastic.executor.store import Store
from elastic.executor.world import Member, WorldSpec


def member_of_one(devices: int, local: tuple[int, ...] | None = None) -> Member:
    """A member that owns `devices` virtual devices, or believes to own some of them only."""
    client = _jax.get_tfrt_cpu_client(asynchronous=True, num_devices=devices)
    placement = [(0 if local is None or device in local else 1, device) for device in range(devices)]
    return Member(
        spec=WorldSpec(1, 0, 1, "", "cpu", placement, ["here:1", "there:2"]),
        client=client,
        devices=tuple(client.devices()),
        local=frozenset(range(devices) if local is None else local),
    )


def portable(text: str) -> bytes:
    """StableHLO text as the client sends it."""
    with jax_mlir.make_ir_context():
        return stablehlo.serialize_portable_artifact(ir.Module.parse(text), stablehlo.get_current_version())


def options(partitions: int = 1, replicas: int = 1) -> bytes:
    """Compile options for so many devices."""
    made = _jax.CompileOptions()
    made.num_partitions = partitions
    made.num_replicas = replicas
    made.executable_build_options.num_partitions = partitions
    made.executable_build_options.num_replicas = replicas
    made.executable_build_options.use_spmd_partitioning = partitions > 1
    return made.SerializeAsString()


def values_of(store: Store, array: int) -> dict[int, np.ndarray]:
    """Virtual device -> the values of an array's shard there. Raises the array's error."""
    value = store.get(array)
    return {device: np.asarray(value.shard(device)) for device in value.shards()}


def put(member: Member, values: object, device: int) -> jax.Array:
    """Values of float32 on one virtual device."""
    return jax.device_put(np.asarray(values, np.float32), member.devices[device])
