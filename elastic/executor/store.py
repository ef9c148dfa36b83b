"""The arrays of one executor: for each of the controller's array numbers, this host's shards.

An array here is "some shards of one shape on some devices"; how they make up a global array is the controller's and the
client's business. Programs take arrays that are bound to their device list, and leave such arrays, so a chain of
programs touches no shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import jax
from jax._src import array as jax_array
from jax._src import core

from elastic.status import Code, StatusError

Shard = Any
"""A single-device `jax.Array`, or a Future of one that a peer is sending."""


class Value:
    """One array's shards on this host; bound to a program's devices, or loose, or an error."""

    __slots__ = ("_shards", "binding", "bound", "error", "locals")

    def __init__(
        self,
        *,
        shards: dict[int, Shard] | None = None,
        bound: Any = None,
        binding: Any = None,
        local: Sequence[int] = (),
        error: StatusError | None = None,
    ) -> None:
        self._shards = shards
        self.bound = bound
        """A `jax.Array` over all devices of `binding`, or None."""
        self.binding = binding
        self.locals = local
        """The virtual devices of `bound`'s local shards, in order."""
        self.error = error

    @property
    def deleted(self) -> bool:
        """Whether a program has taken its memory."""
        return self.bound is not None and bool(self.bound.is_deleted())

    def shards(self) -> dict[int, Shard]:
        """Virtual device -> shard, on this host. Raises the array's error if it has one."""
        if self.error is not None:
            raise self.error
        if self._shards is None:
            self._shards = dict(zip(self.locals, self.bound._arrays, strict=True))
        return self._shards

    def peek(self, device: int) -> Shard:
        """The shard on a virtual device of this host, or the future of one that a peer is sending."""
        try:
            return self.shards()[device]
        except KeyError:
            raise StatusError(Code.INTERNAL, f"no shard on virtual device {device} here") from None

    def shard(self, device: int) -> jax.Array:
        """The shard on a virtual device of this host; waits for a peer that is sending it."""
        found = self.peek(device)
        if isinstance(found, Future):
            found = self.shards()[device] = found.result()
        return found

    def add(self, device: int, shard: Shard) -> None:
        """Adds the shard of one more device to a loose array."""
        self.shards()[device] = shard

    def bind(self, binding: Binding) -> Any:
        """The array over the devices of `binding`, as a program takes it. Raises the array's error if it has one."""
        if self.binding is binding:
            return self.bound
        arrays = [self.shard(device) for device in binding.local]
        self.bound = jax_array.ArrayImpl(
            core.ShapedArray(arrays[0].shape, arrays[0].dtype),
            binding.sharding,
            arrays,
            committed=True,
            _skip_checks=True,
        )
        self.binding = binding
        self.locals = binding.local
        return self.bound


class Binding:
    """A list of virtual devices as programs run on it; one object for each list, so that identity means equality."""

    __slots__ = ("device_list", "devices", "last_token", "local", "sharding")

    def __init__(self, devices: tuple[int, ...], local: tuple[int, ...], device_list: Any, sharding: Any) -> None:
        self.devices = devices
        self.local = local
        self.device_list = device_list
        self.sharding = sharding
        """Says "replicated": it only tells `jax.Array` where the shards are, XLA looks at the shards themselves."""
        self.last_token: Any = None
        """The end of the program that was started last on them."""


class Store:
    """Array number -> value. What cannot be found or computed is a value that holds the error."""

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> list[tuple[int, Value]]:
        return list(self._values.items())

    def shards(self) -> list[Shard]:
        """All shards that are here, and those that are coming."""
        values = (value for value in self._values.values() if value.error is None and not value.deleted)
        return [shard for value in values for shard in value.shards().values()]

    def get(self, array: int) -> Value:
        """The value of an array; one that this host never had is an error value."""
        value = self._values.get(array)
        if value is None:
            return Value(error=StatusError(Code.NOT_FOUND, f"array {array} is not on this host"))
        return value

    def set(self, array: int, value: Value) -> None:
        self._values[array] = value

    def add_shards(self, array: int, devices: Sequence[int], shards: Sequence[Shard]) -> None:
        """Adds shards to an array, which may come in several pieces."""
        value = self._values.get(array)
        if value is None:
            self._values[array] = Value(shards=dict(zip(devices, shards, strict=True)))
        elif value.error is None:
            for device, shard in zip(devices, shards, strict=True):
                value.add(device, shard)

    def fail(self, array: int, error: StatusError) -> None:
        """Makes an array an error; its first error stays."""
        value = self._values.get(array)
        if value is None or value.error is None:
            self._values[array] = Value(error=error)

    def free(self, arrays: Sequence[int]) -> None:
        for array in arrays:
            self._values.pop(array, None)
