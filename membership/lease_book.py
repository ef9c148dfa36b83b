"""When each lease must be renewed and when it must be taken for lost. Pure: time is passed in, in monotonic seconds.

A lease ends at the latest when its server counts it out, and that count began no earlier than when the renewal was sent
that was answered last. So the deadline here is that time plus the TTL: never later than the server's, whatever the
answer took, and known without hearing from anyone.
"""

from __future__ import annotations

from dataclasses import dataclass

_RENEWALS = 3
"""How often a lease is renewed in one TTL: a lost renewal and a new connection fit before the deadline."""


@dataclass(slots=True)
class _Entry:
    ttl: float
    deadline: float
    due: float  # When the next renewal is to be sent.
    asked: float | None = None  # When the renewal was sent that is not answered yet.


class LeaseBook:
    """The leases of one client, by id."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def __contains__(self, lease: int) -> bool:
        return lease in self._entries

    def add(self, lease: int, ttl: float, asked: float) -> None:
        """The lease was granted or renewed for ``ttl`` seconds, as was asked at ``asked``."""
        self._entries[lease] = _Entry(ttl, asked + ttl, asked + ttl / _RENEWALS)

    def remove(self, lease: int) -> None:
        self._entries.pop(lease, None)

    def deadline(self, lease: int) -> float:
        return self._entries[lease].deadline

    def due(self, now: float) -> list[int]:
        """The leases to renew now."""
        return [lease for lease, entry in self._entries.items() if entry.asked is None and entry.due <= now]

    def sent(self, lease: int, now: float) -> None:
        """A renewal of the lease is sent, or begins to be."""
        self._entries[lease].asked = now

    def answered(self, lease: int, ttl: float) -> bool:
        """A renewal was answered; False if the answer is that the lease is gone, which removes it."""
        entry = self._entries.get(lease)
        if entry is None or entry.asked is None:  # Removed meanwhile.
            return True
        if ttl <= 0:
            self.remove(lease)
            return False
        self.add(lease, ttl, entry.asked)
        return True

    def begin_again(self, now: float) -> None:
        """What was sent will not be answered any more: all of it is due again."""
        for entry in self._entries.values():
            if entry.asked is not None:
                entry.asked, entry.due = None, now

    def overdue(self, now: float) -> list[int]:
        """Removes the leases whose deadline has passed, and returns them."""
        lost = [lease for lease, entry in self._entries.items() if entry.deadline <= now]
        for lease in lost:
            self.remove(lease)
        return lost

    def silent(self, now: float) -> bool:
        """Whether an answer has been missing for so long that another way should be tried."""
        return any(
            entry.asked is not None and entry.asked + entry.ttl / _RENEWALS <= now for entry in self._entries.values()
        )

    def next_due(self) -> float | None:
        """When `due` or `silent` says something new at the earliest."""
        return min(
            (
                entry.due if entry.asked is None else entry.asked + entry.ttl / _RENEWALS
                for entry in self._entries.values()
            ),
            default=None,
        )

    def next_deadline(self) -> float | None:
        """When `overdue` says something new at the earliest."""
        return min((entry.deadline for entry in self._entries.values()), default=None)
