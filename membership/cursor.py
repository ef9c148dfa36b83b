"""Where a watch stands in the history of its keys, and what a message of etcd means there. Pure; without I/O.

The rule that matters: history is resumed behind the last event that was seen, never behind the store's revision, which
messages carry in their header. Old events come in batches whose headers already show the newest revision, so that a
stream which breaks between two batches would lose the second.
"""

from __future__ import annotations

from dataclasses import dataclass

from membership.kv import KeyRange, KeyValue, Listing, decode
from membership.proto import etcd_pb2 as pb


@dataclass(frozen=True, slots=True)
class Put:
    """A key was written. ``previous`` is what it held before, if asked for and there was something."""

    kv: KeyValue
    previous: KeyValue | None = None

    @property
    def key(self) -> str:
        return self.kv.key

    @property
    def revision(self) -> int:
        """When this happened."""
        return self.kv.mod_revision


@dataclass(frozen=True, slots=True)
class Delete:
    """A key was deleted at ``revision``, by someone or with its lease. ``previous`` as in `Put`."""

    key: str
    revision: int
    previous: KeyValue | None = None


@dataclass(frozen=True, slots=True)
class Relisted:
    """The contents now, because the events up to now are not to be had: replace what was known before.

    Attributes:
        listing: all keys that are watched.
        reason: why, in words.
    """

    listing: Listing
    reason: str

    @property
    def revision(self) -> int:
        """When the contents were these."""
        return self.listing.revision


Event = Put | Delete | Relisted


@dataclass(frozen=True, slots=True)
class MustRelist:
    """The watch has lost its place in history: list the keys, and go on from there."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """etcd does not serve this watch."""

    reason: str


class Cursor:
    """The place of one watch in history.

    Attributes:
        keys: what is watched.
        next_revision: the first revision of which nothing was seen yet.
    """

    def __init__(self, keys: KeyRange, next_revision: int) -> None:
        self.keys = keys
        self.next_revision = next_revision
        self._cluster: int | None = None  # Revisions mean something only within one store.

    def receive(self, message: pb.WatchResponse) -> tuple[Put | Delete, ...] | MustRelist | Refused:
        """The new events in a message for this watch, or what is wrong with the watch."""
        if self._cluster is not None and message.header.cluster_id != self._cluster:
            return MustRelist("another store answers, whose history is not that of the old one")
        self._cluster = message.header.cluster_id
        if message.compact_revision:
            return MustRelist(
                f"events from revision {self.next_revision} on are needed, but etcd keeps only those from "
                f"{message.compact_revision} on"
            )
        if message.canceled:
            return Refused(message.cancel_reason or "etcd ended the watch and gave no reason")
        if message.created:
            return ()
        if not message.events:  # Progress: there was nothing for these keys up to the header's revision.
            self.next_revision = max(self.next_revision, message.header.revision + 1)
            return ()
        events = tuple(_event(wire) for wire in message.events if wire.kv.mod_revision >= self.next_revision)
        self.next_revision = max(self.next_revision, message.events[-1].kv.mod_revision + 1)
        return events

    def relisted(self, revision: int, cluster: int) -> None:
        """The keys were listed at ``revision`` of the store ``cluster``: goes on from there."""
        self.next_revision = revision + 1
        self._cluster = cluster


def _event(wire: pb.Event) -> Put | Delete:
    previous = KeyValue.from_wire(wire.prev_kv) if wire.HasField("prev_kv") else None
    if wire.type == pb.Event.DELETE:
        return Delete(decode(wire.kv.key), wire.kv.mod_revision, previous)
    return Put(KeyValue.from_wire(wire.kv), previous)
