"""Joining a world: `jax.distributed`, XLA's collectives, and which devices are whose.

Works for any platform that JAX knows; what is particular to CPU (any number of devices, gloo) stands in one function.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax._src import distributed, xla_bridge
from jaxlib import _jax
from jaxlib.cpu import _lapack

_FOREVER_S = 7 * 24 * 3600
"""The controller notices failures in milliseconds and kills the whole world; XLA's own detector must not interfere."""


@dataclass(frozen=True)
class WorldSpec:
    """What an executor must know to take its place in a world."""

    generation: int
    rank: int
    processes: int
    coordinator: str
    """Address of the coordination service, which runs in the executor of rank 0."""
    platform: str
    placement: list[tuple[int, int]]
    """(rank, local index) of each virtual device; negative for one that has no place in this world."""
    peers: list[str]
    """Address of each rank's executor."""


@dataclass(frozen=True)
class Member:
    """A formed world as one of its executors sees it."""

    spec: WorldSpec
    client: Any
    """The PJRT client (`jaxlib._jax.Client`)."""
    devices: tuple[Any, ...]
    """The `jax.Device` of each virtual device, of every host; None for one that has no place."""
    local: frozenset[int]
    """The virtual devices that this executor owns."""

    def owner(self, device: int) -> str:
        """The address of the executor that owns a virtual device."""
        return self.spec.peers[self.spec.placement[device][0]]


def prepare() -> None:
    """What every member needs and need not do itself: done once in a process from which members are forked.

    Starts no thread. It saves each of them most of a fifth of a second of one core.
    """
    # What a client does as it lowers a program that calls LAPACK; here programs come lowered.
    _lapack.initialize()
    # JAX looks for plugins in all that is installed before it makes its first device client.
    xla_bridge._discover_and_register_pjrt_plugins()


def coordinate(host: str, processes: int) -> str:
    """Starts the coordination service of a world of `processes` here, on a free port; returns its address.

    It must listen before anyone connects: a client that comes first waits a second before it tries again.
    """
    with socket.socket() as probe:
        probe.bind((host, 0))
        address = f"{host}:{probe.getsockname()[1]}"
    distributed.global_state.service = _jax.get_distributed_runtime_service(
        address, processes, heartbeat_timeout=_FOREVER_S, shutdown_timeout=1
    )
    return address


def join(spec: WorldSpec, host: str) -> Member:
    """Becomes a member of a world: connects, makes the client, finds everyone's devices.

    Blocks until all members have come. `host` is the address that XLA's collectives listen on.
    Raises `RuntimeError` if a member does not come or the platform cannot start.
    """
    state = distributed.global_state
    state.client = _jax.get_distributed_runtime_client(
        spec.coordinator,
        spec.rank,
        init_timeout=60,
        heartbeat_timeout=_FOREVER_S,
        shutdown_on_destruction=False,
        use_compression=False,
    )
    state.client.connect()
    state.process_id = spec.rank
    state.num_processes = spec.processes
    state.coordinator_address = spec.coordinator
    # Values of 64 bits keep their width on their way in and out; what a program computes in is the client's choice.
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", spec.platform)
    if spec.platform == "cpu":
        os.environ.setdefault("NPROC", str(pool_threads(len(spec.placement))))
        _prepare_cpu(sum(rank == spec.rank for rank, _ in spec.placement), host)
    by_process: dict[int, list[Any]] = {}
    for device in sorted(jax.devices(), key=lambda device: device.id):
        by_process.setdefault(device.process_index, []).append(device)
    devices = tuple(by_process[rank][index] if rank >= 0 else None for rank, index in spec.placement)
    return Member(
        spec=spec,
        client=jax.local_devices()[0].client,
        devices=devices,
        local=frozenset(v for v, (rank, _) in enumerate(spec.placement) if rank == spec.rank),
    )


def pool_threads(virtual_devices: int) -> int:
    """Threads of each of XLA's CPU pools.

    A collective holds a thread while it waits for its peers: with fewer than two threads a device, jaxlib 0.10.2 hangs
    in an all-reduce behind a larger matrix product. One host may come to own all virtual devices, and the number of
    threads decides how some sums are cut up, so it depends on the run alone, not on the host or its cores.
    """
    return 2 * virtual_devices + 2


def _prepare_cpu(devices: int, host: str) -> None:
    """CPU devices in any number, joined by gloo even where one process has them all: other collectives, other bits."""
    jax.config.update("jax_num_cpu_devices", devices)
    collectives = _jax.make_gloo_tcp_collectives(distributed.global_state.client, hostname=host)
    xla_bridge.register_backend_factory(
        "cpu", partial(xla_bridge.make_cpu_client, collectives), priority=0, fail_quietly=False
    )
