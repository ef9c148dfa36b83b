"""What the pool's client cannot do and a CPU backend of this process can: copies between the two, and cost estimates.

Copies such as `jax.device_put(x, jax.devices("cpu")[0])`: jaxlib copies arrays between its own backends, but its proxy
client refuses devices that are not the proxy's. Here such arrays take the way through numpy, which is what a copy
between the two comes to anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def install() -> None:
    """Makes JAX take the CPU backend of this process where the pool's client would refuse."""
    from jax._src.lib import xla_client

    if getattr(xla_client.batched_copy_array_to_devices_with_sharding, "_elastic", False):
        return
    _install_cost_estimates()
    copy_within = xla_client.batched_copy_array_to_devices_with_sharding

    def copy(
        arrays: Sequence[Any], device_lists: Sequence[Any], shardings: Sequence[Any], semantics: Sequence[Any]
    ) -> list[Any]:
        crossing = [
            index
            for index, (array, devices) in enumerate(zip(arrays, device_lists, strict=True))
            if len(devices) and _client(array.sharding._internal_device_list) is not _client(devices)
        ]
        if not crossing:
            return list(copy_within(arrays, device_lists, shardings, semantics))
        within = [index for index in range(len(arrays)) if index not in crossing]
        copied: list[Any] = [None] * len(arrays)
        columns = (arrays, device_lists, shardings, semantics)
        kept = copy_within(*([column[index] for index in within] for column in columns)) if within else []
        for index, result in zip(within, kept, strict=True):
            copied[index] = result
        for index in crossing:
            copied[index] = _through_numpy(arrays[index], device_lists[index], shardings[index])
        return copied

    copy._elastic = True  # type: ignore[attr-defined]
    xla_client.batched_copy_array_to_devices_with_sharding = copy


def _install_cost_estimates() -> None:
    """`jax.jit(f).lower(x).cost_analysis()`, an estimate from the program alone, which no device has to make."""
    from jax._src import xla_bridge
    from jaxlib import _jax

    analyse = _jax.hlo_module_cost_analysis

    def hlo_module_cost_analysis(client: Any, module: Any) -> Any:
        if client.platform_version.startswith("elastic"):
            client = xla_bridge.get_backend("cpu")
        return analyse(client, module)

    _jax.hlo_module_cost_analysis = hlo_module_cost_analysis


def _client(devices: Any) -> Any:
    return devices[0].client


def _through_numpy(array: Any, devices: Any, sharding: Any) -> Any:
    from jax._src.lib import xla_client

    values = [np.asarray(shard) for shard in array._arrays]
    return xla_client.batched_device_put(array.aval, sharding, values, list(devices), array.committed, enable_x64=True)
