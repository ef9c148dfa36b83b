"""The files by which Orbax knows a checkpoint: its own metadata, and zarr's for each array. Pure.

An array is zarr version 3 without compression: each chunk is a file of the values' little-endian bytes in C order, so
that a host can write what it has in memory as it is, and no two hosts write one file. The names and contents are those
that Orbax 0.12 writes itself with `use_zarr3=True, use_ocdbt=False`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from checkpoint.manifest import STATE, ArrayEntry

_HANDLER = "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler.PyTreeHandler"
_INDEX, _NAME = 1, 2
"""Orbax's kinds of keys: of a sequence, of a dict."""


def metadata_files(arrays: tuple[ArrayEntry, ...]) -> Mapping[str, bytes]:
    """All files that are known before any value is: path from the step's folder -> content."""
    files: dict[str, Any] = {
        f"{STATE}/_METADATA": _tree(arrays),
        f"{STATE}/array_metadatas/process_0": {"array_metadatas": [_array(entry) for entry in arrays]},
    }
    for entry in arrays:
        files[f"{STATE}/{entry.name}/zarr.json"] = _zarr(entry)
    return {name: json.dumps(content).encode() for name, content in files.items()}


def checkpoint_metadata(began_ns: int) -> Mapping[str, bytes]:
    """What makes a folder a finished checkpoint, begun at this time (nanoseconds since 1970)."""
    content = {
        "item_handlers": {STATE: _HANDLER},
        "metrics": {},
        "performance_metrics": {},
        "init_timestamp_nsecs": began_ns,
        "commit_timestamp_nsecs": time.time_ns(),
        "custom_metadata": {},
    }
    return {"_CHECKPOINT_METADATA": json.dumps(content).encode()}


def _tree(arrays: tuple[ArrayEntry, ...]) -> dict[str, Any]:
    leaves = {
        str(tuple(map(str, entry.path))): {
            "key_metadata": [
                {"key": str(key), "key_type": _INDEX if isinstance(key, int) else _NAME} for key in entry.path
            ],
            "value_metadata": {
                # Of a jax.Array, Orbax wants to know the devices; what has none it loads anywhere.
                "value_type": "jax.Array" if entry.key_implementation else "np.ndarray",
                "skip_deserialize": False,
                "write_shape": list(entry.chunk),
            },
        }
        for entry in arrays
    }
    return {
        "tree_metadata": leaves,
        "use_ocdbt": False,
        "use_zarr3": True,
        "store_array_data_equal_to_fill_value": True,
        "custom_metadata": None,
    }


def _array(entry: ArrayEntry) -> dict[str, Any]:
    keys = {"random_key_impl": entry.key_implementation} if entry.key_implementation else None
    return {
        "array_metadata": {
            "param_name": entry.name,
            "write_shape": list(entry.chunk),
            "chunk_shape": list(entry.chunk),
            "ext_metadata": keys,
        }
    }


def _zarr(entry: ArrayEntry) -> dict[str, Any]:
    nothing: Any = [0.0, 0.0] if entry.dtype.startswith("complex") else 0.0
    if entry.dtype == "bool":
        nothing = False
    elif "int" in entry.dtype:
        nothing = 0
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(entry.shape),
        "data_type": entry.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(entry.chunk)}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": nothing,
    }
