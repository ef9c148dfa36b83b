"""A slow, obvious twin of the store: it keeps all contents of every revision, and searches them from end to end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Kv:
    value: bytes
    create: int
    mod: int
    version: int
    lease: int


Contents = dict[bytes, Kv]


@dataclass(frozen=True)
class Happened:
    revision: int
    key: bytes
    kv: Kv | None  # None for a deletion.
    before: Kv | None


def covers(key: bytes, first: bytes, end: bytes) -> bool:
    if end == b"":
        return key == first
    if end == b"\0":
        return key >= first
    return first <= key < end


@dataclass
class Twin:
    contents: list[Contents] = field(default_factory=lambda: [{}, {}])  # By revision; a new store is at 1.
    events: list[Happened] = field(default_factory=list)
    leases: dict[int, tuple[int, float]] = field(default_factory=dict)  # {id: (ttl, deadline)}
    compacted: int = 0

    @property
    def revision(self) -> int:
        return len(self.contents) - 1

    def range(self, first: bytes, end: bytes, revision: int) -> list[tuple[bytes, Kv]]:
        return sorted((key, kv) for key, kv in self.contents[revision].items() if covers(key, first, end))

    def apply(self, operations: list[tuple[str, bytes, bytes, bytes, int]]) -> list[list[tuple[bytes, Kv]]]:
        """Does (kind, key, end, value, lease) each at one revision; returns what each of them found."""
        revision = self.revision + 1
        now, happened, found = dict(self.contents[-1]), [], []
        for kind, first, end, value, lease in operations:
            hits = sorted((key, kv) for key, kv in now.items() if covers(key, first, end))
            found.append(hits)
            if kind == "put":
                before = now.get(first)
                kv = Kv(value, revision, revision, 1, lease)
                if before:
                    kv = replace(kv, create=before.create, version=before.version + 1)
                now[first] = kv
                happened.append(Happened(revision, first, kv, before))
            elif kind == "delete":
                for key, kv in hits:
                    del now[key]
                    happened.append(Happened(revision, key, None, kv))
        if happened:
            self.contents.append(now)
            self.events += happened
        return found

    def end_lease(self, lease: int) -> None:
        keys = sorted(key for key, kv in self.contents[-1].items() if kv.lease == lease)
        self.apply([("delete", key, b"", b"", 0) for key in keys])
        del self.leases[lease]

    def events_from(self, first: bytes, end: bytes, revision: int) -> list[Happened]:
        return [event for event in self.events if event.revision >= revision and covers(event.key, first, end)]
