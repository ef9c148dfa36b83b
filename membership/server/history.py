"""Every version of every key since the last compaction, and the events between them. Pure; without I/O.

This is what etcd calls its multi-version store. Leases, transactions and checks are the business of
`membership.server.store`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from membership.proto import etcd_pb2 as pb

_OPEN = b"\0"


def _revision(kv: pb.KeyValue) -> int:
    return kv.mod_revision


def _event_revision(event: pb.Event) -> int:
    return event.kv.mod_revision


def in_range(key: bytes, first: bytes, end: bytes) -> bool:
    """Whether the key is in etcd's range: ``end`` is exclusive, empty for one key, a zero byte for all that follow."""
    if not end:
        return key == first
    return first <= key and (end == _OPEN or key < end)


class History:
    """The keys and their past.

    Attributes:
        revision: of the last change; a new store is at 1.
        compacted: the first revision that can still be read; 0 for all.
    """

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0
        self._keys: list[bytes] = []  # In order; also those that are deleted but not forgotten.
        self._versions: dict[bytes, list[pb.KeyValue]] = {}  # A version of 0 is a deletion.
        self._events: list[pb.Event] = []

    def get(self, key: bytes) -> pb.KeyValue | None:
        """The key's newest version; None if it does not exist."""
        versions = self._versions.get(key)
        return versions[-1] if versions and versions[-1].version else None

    def range(self, first: bytes, end: bytes, revision: int) -> Iterator[pb.KeyValue]:
        """The keys of a range in order, as they were at ``revision``."""
        for key in self._keys_between(first, end):
            versions = self._versions[key]
            index = bisect_right(versions, revision, key=_revision)
            if index and versions[index - 1].version:
                yield versions[index - 1]

    def put(self, key: bytes, value: bytes, lease: int, revision: int) -> None:
        """Writes a key at ``revision``, which `commit` makes the store's."""
        before = self.get(key)
        kv = pb.KeyValue(
            key=key,
            value=value,
            lease=lease,
            mod_revision=revision,
            create_revision=before.create_revision if before else revision,
            version=before.version + 1 if before else 1,
        )
        self._append(pb.Event(type=pb.Event.PUT, kv=kv, prev_kv=before))

    def delete(self, key: bytes, revision: int) -> None:
        """Deletes a key that exists, at ``revision``."""
        tombstone = pb.KeyValue(key=key, mod_revision=revision)
        self._append(pb.Event(type=pb.Event.DELETE, kv=tombstone, prev_kv=self.get(key)))

    @property
    def latest(self) -> int:
        """The revision, counting what is not committed yet."""
        return max(self.revision, self._events[-1].kv.mod_revision) if self._events else self.revision

    def commit(self) -> None:
        """Makes the revision at which was written last the store's."""
        self.revision = self.latest

    def events(self, first: bytes, end: bytes, start: int, revisions: int) -> tuple[list[pb.Event], int]:
        """The events of a range from revision ``start`` on, and the revision to go on from.

        Looks at no more than ``revisions`` revisions at once. The events belong to the store: copy before changing
        them.
        """
        stop = min(start + revisions, self.revision + 1)
        begin = bisect_left(self._events, start, key=_event_revision)
        finish = bisect_left(self._events, stop, key=_event_revision)
        found = [event for event in self._events[begin:finish] if in_range(event.kv.key, first, end)]
        return found, max(start, stop)

    def compact(self, revision: int) -> None:
        """Forgets what was before ``revision``."""
        self.compacted = revision
        del self._events[: bisect_left(self._events, revision, key=_event_revision)]
        for key in list(self._versions):
            versions = self._versions[key]
            keep = bisect_right(versions, revision, key=_revision) - 1
            if keep >= 0 and not versions[keep].version:
                keep += 1
            del versions[: max(keep, 0)]
            if not versions:
                del self._versions[key]
        self._keys = [key for key in self._keys if key in self._versions]

    def _append(self, event: pb.Event) -> None:
        key = event.kv.key
        if key not in self._versions:
            insort(self._keys, key)
            self._versions[key] = []
        self._versions[key].append(event.kv)
        self._events.append(event)

    def _keys_between(self, first: bytes, end: bytes) -> list[bytes]:
        if not end:
            return [first] if first in self._versions else []
        begin = bisect_left(self._keys, first)
        return self._keys[begin:] if end == _OPEN else self._keys[begin : bisect_left(self._keys, end)]
