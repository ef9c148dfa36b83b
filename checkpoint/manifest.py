"""The manifest of a checkpoint: what is in it, and the size and checksum of every other file. Plain data.

Orbax writes no checksums, and returns wrong values without an error when a bit of a file has changed. Here each chunk
of an array is one file of raw bytes, so its checksum is that of the shard as it lay in the memory of hosts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from checkpoint.errors import BadCheckpointError, CheckpointError
from checkpoint.regions import Region, Shape, chunks_of, region_of, whole

VERSION = 1

Key = str | int
"""Of a dict, or an index of a list or tuple."""


@dataclass(frozen=True)
class ArrayEntry:
    """One array of a checkpoint, cut into chunks of one shape, each in a file of its own.

    Attributes:
        path: the keys that lead to it in the tree.
        dtype: numpy's (or ml_dtypes') name.
        key_implementation: of JAX's random keys, whose raw values these are; such as "threefry2x32".
    """

    path: tuple[Key, ...]
    dtype: str
    shape: Shape
    chunk: Shape
    key_implementation: str | None = None

    @property
    def name(self) -> str:
        """The folder in which its files are, as Orbax names it."""
        return ".".join(map(str, self.path))

    def file(self, position: tuple[int, ...]) -> str:
        """The file of a chunk, from the folder of a step: zarr's default names."""
        return "/".join([STATE, self.name, "c", *map(str, position)])

    def files(self, region: Region | None = None) -> dict[str, Region]:
        """The files that have a part of a region, or all, each with what it has."""
        return {
            self.file(position): region_of(position, self.chunk, self.shape)
            for position in chunks_of(whole(self.shape) if region is None else region, self.chunk)
        }


@dataclass(frozen=True)
class FileEntry:
    """What a file has to be. `digest` is XXH3's, 128 bits, in hexadecimal digits."""

    bytes: int
    digest: str


@dataclass(frozen=True)
class Manifest:
    """What is in a checkpoint. `extra` is for whoever saved it, anything that JSON can hold."""

    step: int
    arrays: tuple[ArrayEntry, ...]
    files: Mapping[str, FileEntry]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def array(self, path: tuple[Key, ...]) -> ArrayEntry:
        """Raises `CheckpointError` if there is none."""
        for entry in self.arrays:
            if entry.path == path:
                return entry
        raise CheckpointError(f"the checkpoint of step {self.step} has no array {'.'.join(map(str, path))}")


STATE = "state"
"""The folder of a step that holds its arrays: what Orbax calls an item."""


_RESERVED = {"", ".", "..", "_METADATA", "_sharding", "_strings.json", "array_metadatas"}
"""What means something else in that folder, to the file system or to Orbax."""


def check_names(arrays: tuple[ArrayEntry, ...]) -> None:
    """Raises `CheckpointError` for arrays that would share a folder, or that no folder can be named after."""
    seen: set[str] = set()
    for entry in arrays:
        name = entry.name
        if name in _RESERVED or "/" in name or "\0" in name:
            raise CheckpointError(f"an array cannot be saved under the name {name!r}")
        if name in seen:
            raise CheckpointError(f"two arrays would be saved under the name {name!r}; rename one")
        seen.add(name)


def encode(manifest: Manifest) -> bytes:
    body = {
        "version": VERSION,
        "step": manifest.step,
        "arrays": [
            {
                "path": list(entry.path),
                "dtype": entry.dtype,
                "shape": list(entry.shape),
                "chunk": list(entry.chunk),
                **({"key_implementation": entry.key_implementation} if entry.key_implementation else {}),
            }
            for entry in manifest.arrays
        ],
        "files": {name: [file.bytes, file.digest] for name, file in sorted(manifest.files.items())},
        "extra": manifest.extra,
    }
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return json.dumps({"xxh3_128": _digest(text), "manifest": text}, indent=0).encode()


def decode(data: bytes) -> Manifest:
    """Raises `BadCheckpointError` if this is no manifest, or one that was changed."""
    try:
        outer = json.loads(data)
        text = outer["manifest"]
        if _digest(text) != outer["xxh3_128"]:
            raise BadCheckpointError("its checksum does not fit")
        body = json.loads(text)
        if body["version"] != VERSION:
            raise BadCheckpointError(f"it is of version {body['version']}, and this program knows version {VERSION}")
        arrays = tuple(
            ArrayEntry(
                tuple(entry["path"]),
                entry["dtype"],
                tuple(entry["shape"]),
                tuple(entry["chunk"]),
                entry.get("key_implementation"),
            )
            for entry in body["arrays"]
        )
        files = {name: FileEntry(*file) for name, file in body["files"].items()}
        return Manifest(body["step"], arrays, files, body["extra"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadCheckpointError(f"it is no manifest: {error}") from error


def _digest(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())
