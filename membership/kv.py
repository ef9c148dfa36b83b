"""Keys and values as plain data: what is read, what a listing is, what a range is.

Keys are text; bytes of other clients' keys that are no UTF-8 survive as surrogates. Values are bytes. Revisions are
those of etcd: ``create_revision`` grows whenever a key is made anew, so it serves as a fencing token. Not for: sending
anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from membership.proto import etcd_pb2 as pb

_LOWEST = b"\0"  # There is no empty key.
_OPEN = b"\0"  # As the end of a range.


def encode(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def decode(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key with its value.

    Attributes:
        create_revision: when the key was last made.
        mod_revision: when it was last written.
        version: how often it was written since it was made; 1 for a new key.
        lease: the lease it dies with; 0 for none.
    """

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int = 0

    @classmethod
    def from_wire(cls, kv: pb.KeyValue) -> KeyValue:
        return cls(decode(kv.key), kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease)


@dataclass(frozen=True, slots=True)
class Listing:
    """All keys with one prefix, as they were together at ``revision``. Watch from ``revision + 1`` to go on."""

    kvs: tuple[KeyValue, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class KeyRange:
    """One key, or all keys with a prefix, in etcd's form: ``end`` is exclusive, and empty for the one key."""

    first: bytes
    end: bytes

    @classmethod
    def one(cls, key: str) -> KeyRange:
        return cls(encode(key), b"")

    @classmethod
    def prefix(cls, prefix: str) -> KeyRange:
        first = encode(prefix)
        stem = first.rstrip(b"\xff")
        # Without a byte to count up, the range is open.
        return cls(first or _LOWEST, stem[:-1] + bytes([stem[-1] + 1]) if stem else _OPEN)

    def __str__(self) -> str:
        if self.first == _LOWEST:
            return "all"
        return repr(decode(self.first)) + ("..." if self.end else "")
