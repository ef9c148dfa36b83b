"""The state of a training loop, any pytree, as arrays that have a place in a checkpoint; and back onto any devices.

Leaves that are arrays, random keys or numbers are saved. Others, such as the functions in an equinox module, are parts
of the program: a restored state has those of the state it is restored into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lax import lax

from checkpoint import ArrayEntry, Manifest, Region, of_slices, whole
from elastic.errors import CheckpointError

Key = str | int


class Kind(StrEnum):
    """What a leaf was when it was saved, and is to be again."""

    ARRAY = "array"
    WEAK = "weak"
    """A jax.Array whose type gives way to that of others, as those have that came from a Python number."""
    NUMPY = "numpy"
    PYTHON = "python"


@dataclass(frozen=True)
class Leaf:
    """A leaf of a state. `value` is a jax.Array, for random keys of their raw values, or a numpy array."""

    path: tuple[Key, ...]
    value: Any
    kind: Kind
    key_implementation: str | None = None

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))


ReadRegion = Callable[[ArrayEntry, Region], "np.ndarray[Any, Any]"]
"""Gives a region of a saved array."""


def leaves_of(state: Any) -> list[Leaf]:
    """What is to be saved of a state. Raises `CheckpointError` for arrays of a type that cannot be saved."""
    found = (_leaf(path, value) for path, value in jax.tree_util.tree_flatten_with_path(state)[0])
    return [leaf for leaf in found if leaf is not None]


def kinds_of(leaves: Sequence[Leaf]) -> dict[str, str]:
    """By their names, what those leaves are that are not just arrays; for `restore`."""
    return {leaf.name: leaf.kind.value for leaf in leaves if leaf.kind is not Kind.ARRAY}


def restore(state: Any, manifest: Manifest, kinds: Mapping[str, str], read: ReadRegion) -> Any:
    """A state of the form of `state` with the saved values, its arrays sharded as those of `state` are.

    Each device's part is read by itself. Raises `CheckpointError` if the saved arrays are not those of this state, and
    whatever `read` raises.
    """
    saved = {entry.path: entry for entry in manifest.arrays}
    paths_and_values, structure = jax.tree_util.tree_flatten_with_path(state)
    leaves = [_leaf(path, value) for path, value in paths_and_values]
    wanted = {leaf.path: leaf for leaf in leaves if leaf is not None}
    differences = [f"{leaf.name} was not saved" for path, leaf in wanted.items() if path not in saved]
    differences += [f"{entry.name} is not in the state now" for path, entry in saved.items() if path not in wanted]
    differences += [
        difference for path, leaf in wanted.items() if path in saved for difference in _differ(leaf, saved[path])
    ]
    if differences:
        more = f", and {len(differences) - 5} more" if len(differences) > 5 else ""
        raise CheckpointError("the saved state has another form: " + "; ".join(differences[:5]) + more)
    values = [
        value if leaf is None else _restored(leaf, saved[leaf.path], Kind(kinds.get(leaf.name, Kind.ARRAY)), read)
        for leaf, (_, value) in zip(leaves, paths_and_values, strict=True)
    ]
    return jax.tree_util.tree_unflatten(structure, values)


def _leaf(path: tuple[Any, ...], value: Any) -> Leaf | None:
    keys = tuple(_key(part) for part in path) or ("state",)
    if isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return Leaf(keys, jax.random.key_data(value), Kind.ARRAY, str(jax.random.key_impl(value)))
        return Leaf(keys, value, Kind.WEAK if value.weak_type else Kind.ARRAY)
    if isinstance(value, (np.ndarray, np.generic)):
        if not jax.dtypes.issubdtype(value.dtype, np.number) and value.dtype != bool:
            raise CheckpointError(f"{Leaf(keys, value, Kind.NUMPY).name} cannot be saved: its type is {value.dtype}")
        return Leaf(keys, np.asarray(value), Kind.NUMPY)
    if isinstance(value, (bool, int, float, complex)):
        return Leaf(keys, np.asarray(value), Kind.PYTHON)
    return None


def _key(part: Any) -> Key:
    match part:
        case jax.tree_util.DictKey(key=key):
            return str(key)
        case jax.tree_util.GetAttrKey(name=name):
            return str(name)
        case jax.tree_util.SequenceKey(idx=index) | jax.tree_util.FlattenedIndexKey(key=index):
            return int(index)
        case _:
            return str(part)


def _differ(leaf: Leaf, entry: ArrayEntry) -> list[str]:
    if leaf.key_implementation != entry.key_implementation:
        known = [
            f"random keys ({name})" if name else "numbers"
            for name in (entry.key_implementation, leaf.key_implementation)
        ]
        return [f"{leaf.name} was {known[0]} and is {known[1]} now"]
    if leaf.value.shape != entry.shape:
        return [f"{leaf.name} had the shape {entry.shape} and has {leaf.value.shape} now"]
    if isinstance(leaf.value, jax.Array) and leaf.kind is not Kind.WEAK and leaf.value.dtype.name != entry.dtype:
        return [f"{leaf.name} had the type {entry.dtype} and has {leaf.value.dtype.name} now"]
    return []


def _restored(leaf: Leaf, entry: ArrayEntry, kind: Kind, read: ReadRegion) -> Any:
    if kind is Kind.PYTHON:
        return read(entry, whole(entry.shape)).item()
    if kind is Kind.NUMPY:
        return read(entry, whole(entry.shape)).copy()
    if isinstance(leaf.value, jax.Array) and leaf.value.committed:
        array = _on_devices(entry, leaf.value.sharding, read)
    else:
        array = jnp.asarray(read(entry, whole(entry.shape)))
    if kind is Kind.WEAK:
        array = lax._convert_element_type(array, weak_type=True)
    if entry.key_implementation:
        return jax.random.wrap_key_data(array, impl=entry.key_implementation)
    return array


def _on_devices(entry: ArrayEntry, sharding: Any, read: ReadRegion) -> Any:
    parts: dict[Region, np.ndarray[Any, Any]] = {}  # Devices that have the same part share one reading of it.

    def part(index: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        region = of_slices(index, entry.shape)
        if region not in parts:
            parts[region] = read(entry, region)
        return parts[region]

    return jax.make_array_from_callback(entry.shape, sharding, part)
