"""Reads the protobuf descriptors that are compiled into the installed jaxlib.

jaxlib ships no `.proto` files, but its C++ code carries each of them as a serialized FileDescriptorProto inside
`libjax_common.so`. A FileDescriptorProto begins with the file's own name, so the library can be searched for names.
This is the truth our messages are compared with; nothing outside the tests reads it.
"""

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

import jaxlib
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

_NAME_FIELD = 0x0A  # field 1, length-delimited
_WIRE_VARINT, _WIRE_BYTES = 0, 2
_FIELDS = frozenset(FileDescriptorProto.DESCRIPTOR.fields_by_number)


class DescriptorNotFoundError(Exception):
    """The library holds no descriptor of that file: it was renamed, dropped, or is stored in another way."""


def pool_of(files: Iterable[str]) -> DescriptorPool:
    """A pool with the descriptors of `files` (names as in their import statements) and of all they import.

    Takes about 2 seconds. Raises `DescriptorNotFoundError`.
    """
    pool = DescriptorPool()
    added: set[str] = set()
    with _library().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:

        def add(name: str) -> None:
            if name in added:
                return
            added.add(name)
            descriptor = _find(data, name)
            for dependency in descriptor.dependency:
                add(dependency)
            pool.Add(descriptor)

        for name in files:
            add(name)
    return pool


def _library() -> Path:
    return Path(str(jaxlib.__file__)).parent / "libjax_common.so"


def _find(data: mmap.mmap, name: str) -> FileDescriptorProto:
    """The longest descriptor of the file `name`: shorter ones are chance occurrences of its name."""
    found = [descriptor for start in _starts(data, name) if (descriptor := _parse_at(data, start)) is not None]
    if not found:
        raise DescriptorNotFoundError(f"no descriptor of {name} in {_library()}")
    return max(found, key=FileDescriptorProto.ByteSize)


def _starts(data: mmap.mmap, name: str) -> Iterator[int]:
    key = bytes([_NAME_FIELD, len(name)]) + name.encode()
    start = data.find(key)
    while start >= 0:
        yield start
        start = data.find(key, start + 1)


def _parse_at(data: mmap.mmap, start: int) -> FileDescriptorProto | None:
    """The descriptor that begins at `start`; None if what stands there is none.

    The library does not say how long it is. It ends where the next bytes are no field of a FileDescriptorProto, or one
    with a smaller number than the last, since protoc writes fields in the order of their numbers.
    """
    end = position = start
    last_field = 0
    while position < len(data):
        tag, position = _varint(data, position)
        field, wire_type = tag >> 3, tag & 7
        if field not in _FIELDS or field < last_field:
            break
        last_field = field
        value, position = _varint(data, position)
        if wire_type == _WIRE_BYTES:
            position += value
        elif wire_type != _WIRE_VARINT:
            break
        end = position
    try:
        return FileDescriptorProto.FromString(data[start:end])
    except DecodeError:
        return None


def _varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    """The number encoded at `position`, and the position behind it."""
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, position
