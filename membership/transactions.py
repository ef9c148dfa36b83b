"""What a transaction asks and does, as plain data: if all compares hold, ``then`` is done, else ``otherwise``.

All of it happens at one revision. Not for: sending anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from membership.kv import KeyRange, KeyValue, encode
from membership.proto import etcd_pb2 as pb


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition on one key. Make it with `missing`, `exists`, `created`, `unchanged` or `holds`."""

    key: str
    target: pb.Compare.CompareTarget
    result: pb.Compare.CompareResult
    operand: int | bytes

    @classmethod
    def missing(cls, key: str) -> Compare:
        """The key does not exist."""
        return cls(key, pb.Compare.CREATE, pb.Compare.EQUAL, 0)

    @classmethod
    def exists(cls, key: str) -> Compare:
        """The key exists."""
        return cls(key, pb.Compare.CREATE, pb.Compare.GREATER, 0)

    @classmethod
    def created(cls, key: str, revision: int) -> Compare:
        """The key is still the one that was made at this ``create_revision``, whatever it holds now."""
        return cls(key, pb.Compare.CREATE, pb.Compare.EQUAL, revision)

    @classmethod
    def unchanged(cls, key: str, revision: int) -> Compare:
        """The key was last written at this ``mod_revision``."""
        return cls(key, pb.Compare.MOD, pb.Compare.EQUAL, revision)

    @classmethod
    def holds(cls, key: str, value: bytes) -> Compare:
        """The key exists and holds this value."""
        return cls(key, pb.Compare.VALUE, pb.Compare.EQUAL, value)

    def to_wire(self) -> pb.Compare:
        wire = pb.Compare(key=encode(self.key), target=self.target, result=self.result)
        if isinstance(self.operand, bytes):
            wire.value = self.operand
        elif self.target == pb.Compare.CREATE:
            wire.create_revision = self.operand
        else:
            wire.mod_revision = self.operand
        return wire


@dataclass(frozen=True, slots=True)
class PutKey:
    """Writes a key; ``lease`` is the id of the lease it dies with, 0 for none."""

    key: str
    value: bytes
    lease: int = 0

    def to_wire(self) -> pb.RequestOp:
        return pb.RequestOp(request_put=pb.PutRequest(key=encode(self.key), value=self.value, lease=self.lease))


@dataclass(frozen=True, slots=True)
class DeleteKey:
    """Deletes a key, if it exists."""

    key: str

    def to_wire(self) -> pb.RequestOp:
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=encode(self.key)))


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Deletes all keys that begin with ``prefix``."""

    prefix: str

    def to_wire(self) -> pb.RequestOp:
        keys = KeyRange.prefix(self.prefix)
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=keys.first, range_end=keys.end))


@dataclass(frozen=True, slots=True)
class GetKey:
    """Reads a key; the answer is in the result's ``read``."""

    key: str

    def to_wire(self) -> pb.RequestOp:
        return pb.RequestOp(request_range=pb.RangeRequest(key=encode(self.key)))


Operation = PutKey | DeleteKey | DeletePrefix | GetKey


@dataclass(frozen=True, slots=True)
class TxnResult:
    """What a transaction did.

    Attributes:
        succeeded: all compares held, and ``then`` was done; else ``otherwise`` was.
        revision: the store's revision after it.
        read: {key: what `GetKey` found there, or None}, of the operations that were done.
    """

    succeeded: bool
    revision: int
    read: Mapping[str, KeyValue | None]


def request(compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]) -> pb.TxnRequest:
    """The transaction as etcd's message."""
    return pb.TxnRequest(
        compare=[compare.to_wire() for compare in compares],
        success=[operation.to_wire() for operation in then],
        failure=[operation.to_wire() for operation in otherwise],
    )


def result(wire: pb.TxnResponse, done: Sequence[Operation]) -> TxnResult:
    """What etcd answered; ``done`` are the operations of the branch that it took."""
    read: dict[str, KeyValue | None] = {}
    for operation, answer in zip(done, wire.responses, strict=True):
        if isinstance(operation, GetKey):
            kvs = answer.response_range.kvs
            read[operation.key] = KeyValue.from_wire(kvs[0]) if kvs else None
    return TxnResult(wire.succeeded, wire.header.revision, read)
