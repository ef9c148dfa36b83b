"""Uploads of numpy views such as `x[::-1]` and `np.broadcast_to(x, shape)`.

jaxlib's proxy client takes no buffer with a negative or zero stride, so these are copied first. JAX's C++ fast path for
`jit` puts numpy arguments on a device without asking Python; calls with numpy arrays therefore do not get one, which
costs some tens of microseconds where the upload itself costs a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def install() -> None:
    """Makes JAX copy what the proxy client would refuse; programs of other backends are left alone."""
    from jax._src import pjit
    from jax._src.interpreters import pxla

    if getattr(pxla.batched_device_put, "_elastic", False):
        return
    device_put, fastpath_data = pxla.batched_device_put, pjit._get_fastpath_data

    def batched_device_put(aval: Any, sharding: Any, xs: Sequence[Any], *rest: Any, **options: Any) -> Any:
        return device_put(aval, sharding, [uploadable(x) for x in xs], *rest, **options)

    def get_fastpath_data(executable: Any, out_tree: Any, args_flat: Sequence[Any], *rest: Any) -> Any:
        if any(isinstance(argument, np.ndarray) for argument in args_flat) and _is_of_a_pool(executable):
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


def _is_of_a_pool(executable: Any) -> bool:
    loaded = getattr(executable, "xla_executable", None)
    return loaded is not None and loaded.client.platform_version.startswith("elastic")
