"""How numpy arrays get to the pool: in few messages, by strides that the client takes, no faster than hosts take them.

- jaxlib's proxy client makes a call for the bytes of each shard. An array that many devices share is therefore uploaded
  as one, and cut by the hosts.
- Views such as `x[::-1]` and `np.broadcast_to(x, shape)`: the client takes no buffer with a negative or zero stride, so
  these are copied first.
- JAX's C++ fast path for `jit` puts numpy arguments on a device without asking Python; calls with numpy arrays do
  therefore not get one, which costs some tens of microseconds where the upload itself costs a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from elastic.upload_limit import UploadLimit

_NUMBERS = "biufcV"
"""The kinds of numpy's element types that are numbers; V: those of ml_dtypes, such as bfloat16."""


def install(limit: Callable[[], UploadLimit]) -> None:
    """Makes JAX upload to a pool in this way; other backends are left alone.

    `limit()` is called once, at the first upload to a pool.
    """
    from jax._src import literals, pjit
    from jax._src.interpreters import pxla

    if getattr(pxla.batched_device_put, "_elastic", False):
        return
    device_put, fastpath_data = pxla.batched_device_put, pjit._get_fastpath_data
    limits: list[UploadLimit] = []

    def count(nbytes: int, devices: Any) -> None:
        if not limits:
            limits.append(limit())
        limits[0].uploaded(nbytes, lambda: _upload_marker(device_put, devices))

    def batched_device_put(aval: Any, sharding: Any, xs: Sequence[Any], *rest: Any, **options: Any) -> Any:
        values = [uploadable(x) for x in xs]
        result = device_put(aval, sharding, values, *rest, **options)
        nbytes = sum(value.nbytes for value in values if isinstance(value, np.ndarray))
        devices = sharding._internal_device_list
        if nbytes and _is_pool(devices[0].client):
            count(nbytes, devices)
        return result

    def put_as_one(x: np.ndarray, sharding: Any) -> Any:
        value = uploadable(x)
        result = _put_as_one(device_put, value, sharding)
        count(value.nbytes, sharding._internal_device_list)
        return result

    def get_fastpath_data(executable: Any, out_tree: Any, args_flat: Sequence[Any], *rest: Any) -> Any:
        # Without dimensions there are no strides.
        arrays = any(isinstance(argument, np.ndarray) and argument.ndim for argument in args_flat)
        if arrays and _is_of_a_pool(executable):
            return None
        return fastpath_data(executable, out_tree, args_flat, *rest)

    batched_device_put._elastic = True  # type: ignore[attr-defined]
    pxla.batched_device_put = batched_device_put
    for kind in (np.ndarray, literals.TypedNdArray):
        pxla.shard_arg_handlers[kind] = _sharding_handler(pxla.shard_arg_handlers[kind], put_as_one)
    pjit._get_fastpath_data = get_fastpath_data


def uploadable(value: Any) -> Any:
    """The value, copied if it is a numpy array with a stride that is not positive."""
    if isinstance(value, np.ndarray) and any(stride <= 0 for stride in value.strides):
        return np.array(value, order="C")
    return value


def _sharding_handler(shard_each: Callable[..., list[Any]], put_as_one: Callable[[np.ndarray, Any], Any]) -> Any:
    """What makes arrays of numpy arrays by their shardings: some as one, the rest by `shard_each`."""

    def shard(xs: Sequence[Any], *others: Sequence[Any]) -> list[Any]:
        return [
            put_as_one(x, sharding)
            if layout is None and _may_go_as_one(x, sharding)
            else shard_each([x], [sharding], [layout], *([value] for value in rest))[0]
            for x, sharding, layout, *rest in zip(xs, *others, strict=True)
        ]

    return shard


def _may_go_as_one(x: np.ndarray, sharding: Any) -> bool:
    """Whether one upload is enough: to several devices of a pool, by a sharding that the pool can cut by."""
    from jax.sharding import NamedSharding

    return (
        isinstance(sharding, NamedSharding)
        and sharding.num_devices > 1
        and x.size > 0
        and x.dtype.kind in _NUMBERS
        and x.dtype.names is None
        and _is_pool(sharding._internal_device_list[0].client)
    )


def _put_as_one(device_put: Callable[..., Any], x: np.ndarray, sharding: Any) -> Any:
    from jax._src import core
    from jax.sharding import SingleDeviceSharding
    from jaxlib import _pathways

    first = sharding._internal_device_list[0]
    whole = device_put(core.shaped_abstractify(x), SingleDeviceSharding(first), [x], [first])
    return _pathways._transfer_to_shardings([whole], [sharding], donate=True)[0]


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
