"""How the arrays of a snapshot become those of a checkpoint. Pure.

An array that the client has is one of the checkpoint, each of its shards a chunk. What no client's array describes (it
has been dropped meanwhile, or how it is divided is not known) is stored shard by shard. The names are numbers, since
the controller knows no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checkpoint import ArrayEntry, Key, Region, chunk_of, grid_of
from elastic.controller.arrays import Array
from elastic.status import StatusError

Record = list[Any]


@dataclass(frozen=True)
class StoredFile:
    """A file of a checkpoint, and the copy that it is to have."""

    name: str
    digest: bytes
    bytes: int


def layout(
    records: Iterable[Record], arrays: Mapping[int, Array]
) -> tuple[tuple[ArrayEntry, ...], tuple[StoredFile, ...]]:
    """The arrays and files of a checkpoint, of a snapshot's records and what is known of arrays, by number."""
    shards: dict[int, dict[int, Record]] = {}
    for record in records:
        if record[2] == "bytes":
            shards.setdefault(record[0], {})[record[1]] = record
    entries: list[ArrayEntry] = []
    files: list[StoredFile] = []
    for number, of_devices in shards.items():
        array = arrays.get(number)
        whole = put_together(("arrays", str(number)), array, of_devices) if array is not None else None
        for entry, of_entry in [whole] if whole else [_shard(number, *one) for one in of_devices.items()]:
            entries.append(entry)
            files += of_entry
    return tuple(entries), tuple(files)


Found = tuple[ArrayEntry, list[StoredFile]]


def put_together(
    path: tuple[Key, ...], array: Array, shards: Mapping[int, Record], key_implementation: str | None = None
) -> Found | None:
    """An array of a checkpoint and its files, of the records of its shards by device; several may be of one part.

    None if they do not make the array up as it is said to be divided, or if that cannot be known.
    """
    try:
        parts: dict[int, Region] = dict(zip(array.devices, array.sharding.parts(array.shape), strict=True))
    except StatusError:
        return None
    chunk = grid_of(array.shape, parts.values())
    first = next(iter(shards.values()))
    entry = ArrayEntry(path, first[3], array.shape, chunk, key_implementation)
    chunks: dict[str, Record] = {}
    for device, record in shards.items():
        if device not in parts or tuple(record[4]) != tuple(stop - start for start, stop in parts[device]):
            return None
        name = entry.file(chunk_of(parts[device], chunk))
        if record[-2] and (tuple(record[4]) != chunk or chunks.setdefault(name, record)[-1] != record[-1]):
            return None
    return (entry, _files(chunks)) if chunks.keys() == entry.files().keys() else None


def _shard(number: int, device: int, record: Record) -> Found:
    shape = tuple(record[4])
    entry = ArrayEntry(("shards", f"{number}-{device}"), record[3], shape, tuple(size or 1 for size in shape))
    return entry, _files(dict.fromkeys(entry.files(), record))


def _files(chunks: Mapping[str, Record]) -> list[StoredFile]:
    return [StoredFile(name, record[-1], record[-2]) for name, record in chunks.items()]
