"""How numpy arrays get to the pool: views are copied where they must be, and a program that uploads too fast waits.

Views such as `x[::-1]` and `np.broadcast_to(x, shape)`: jaxlib's proxy client takes no buffer with a negative or zero
stride, so these are copied first. JAX's C++ fast path for `jit` puts numpy arguments on a device without asking Python;
calls with numpy arrays therefore do not get one, which costs some tens of microseconds where the upload itself costs a
millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from elastic.upload_limit import UploadLimit


def install(limit: Callable[[], UploadLimit]) -> None:
    """Makes JAX copy what the proxy client would refuse, and count what it uploads; other backends are left alone.

    `limit()` is called once, at the first upload to a pool.
    """
    from jax._src import pjit
    from jax._src.interpreters import pxla

    if getattr(pxla.batched_device_put, "_elastic", False):
        return
    device_put, fastpath_data = pxla.batched_device_put, pjit._get_fastpath_data
    limits: list[UploadLimit] = []

    def batched_device_put(aval: Any, sharding: Any, xs: Sequence[Any], *rest: Any, **options: Any) -> Any:
        values = [uploadable(x) for x in xs]
        result = device_put(aval, sharding, values, *rest, **options)
        nbytes = sum(value.nbytes for value in values if isinstance(value, np.ndarray))
        devices = sharding._internal_device_list
        if nbytes and _is_pool(devices[0].client):
            if not limits:
                limits.append(limit())
            limits[0].uploaded(nbytes, lambda: _upload_marker(device_put, devices))
        return result

    def get_fastpath_data(executable: Any, out_tree: Any, args_flat: Sequence[Any], *rest: Any) -> Any:
        # Without dimensions there are no strides.
        arrays = any(isinstance(argument, np.ndarray) and argument.ndim for argument in args_flat)
        if arrays and _is_of_a_pool(executable):
            return None
        return fastpath_data(executable, out_tree, args_flat, *rest)

    batched_device_put._elastic = True  # type: ignore[attr-defined]
    pxla.batched_device_put = batched_device_put
    pjit._get_fastpath_data = get_fastpath_data


def uploadable(value: Any) -> Any:
    """The value, copied if it is a numpy array with a stride that is not positive."""
    if isinstance(value, np.ndarray) and any(stride <= 0 for stride in value.strides):
        return np.array(value, order="C")
    return value


def _upload_marker(device_put: Callable[..., Any], devices: Any) -> Any:
    """A number on each of the devices, behind all that was uploaded to them before."""
    from jax._src import core
    from jax._src.sharding_impls import GSPMDSharding
    from jaxlib import _hlo

    sharding = GSPMDSharding(devices, _hlo.HloSharding.replicate())
    marker = np.zeros((), np.uint8)
    return device_put(core.ShapedArray((), marker.dtype), sharding, [marker] * len(devices), list(devices))


def _is_of_a_pool(executable: Any) -> bool:
    loaded = getattr(executable, "xla_executable", None)
    return loaded is not None and _is_pool(loaded.client)


def _is_pool(client: Any) -> bool:
    return bool(client.platform_version.startswith("elastic"))
