"""Leases: kept alive while their holder lives, and known to be lost in time, connection or not.

All leases of a client share one stream of renewals, at etcd's leader where possible, which saves each renewal a hop.
The deadline of each is watched apart from the stream, so that a holder is fenced even if nothing is heard any more. Not
for: what a lease stands for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine

from membership.api import LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE
from membership.calls import Caller, NotServed
from membership.errors import AuthError, LeaseLost, RequestRefused
from membership.lease_book import LeaseBook
from membership.proto import etcd_pb2 as pb
from membership.streams import Stream, hold_open

_log = logging.getLogger(__name__)

LeaseStream = Stream[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]


class Lease:
    """A lease that is kept alive until it is revoked, lost, or its client is closed.

    Attributes:
        id: for `put` and transactions.
        ttl: seconds for which etcd granted it; it may be more than was asked for.
        lost: set once the lease must be taken for gone, no later than etcd deletes its keys.
        reason: why it was lost, in words; empty while it is not.
    """

    def __init__(self, owner: Leases, lease: int, ttl: int) -> None:
        self._owner = owner
        self.id = lease
        self.ttl = ttl
        self.lost = asyncio.Event()
        self.reason = ""

    def check(self) -> None:
        """Raises `LeaseLost` if the lease must be taken for gone. Reads the clock: also right after a pause."""
        self._owner.expire()
        if self.lost.is_set():
            raise LeaseLost(self.id, self.reason)

    @property
    def remaining(self) -> float:
        """Seconds until it is lost unless it is renewed; 0 once it is lost."""
        return self._owner.remaining(self.id)

    async def revoke(self) -> None:
        """Ends the lease at etcd, which deletes its keys. It counts as lost here at once, whatever etcd says.

        Raises `EtcdUnavailable`; the lease then ends at its TTL.
        """
        await self._owner.revoke(self)

    def lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()


class Leases:
    """All leases of one client, and the stream that renews them."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._book = LeaseBook()
        self._leases: dict[int, Lease] = {}
        self._fences: dict[int, asyncio.TimerHandle] = {}
        self._granted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def grant(self, ttl: int) -> Lease:
        answer, asked = await self._caller.timed_call(LEASE_GRANT, pb.LeaseGrantRequest(TTL=ttl), "granting a lease")
        lease = Lease(self, answer.ID, answer.TTL)
        self._leases[lease.id] = lease
        self._book.add(lease.id, lease.ttl, asked)
        self._set_fence(lease.id)
        self._granted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._renew())
        return lease

    async def revoke(self, lease: Lease) -> None:
        self._lose(lease.id, "it was revoked here")
        # Refused because there is no such lease: that is what was wanted.
        with contextlib.suppress(RequestRefused):
            await self._caller.call(LEASE_REVOKE, pb.LeaseRevokeRequest(ID=lease.id), f"revoking lease {lease.id:x}")

    def remaining(self, lease: int) -> float:
        return max(0.0, self._book.deadline(lease) - time.monotonic()) if lease in self._book else 0.0

    def expire(self) -> None:
        """Takes those leases for lost whose deadline has passed."""
        for lease in self._book.overdue(time.monotonic()):
            self._lose(lease, "its deadline passed without an answer to a renewal, so etcd may have deleted its keys")

    async def close(self) -> None:
        for lease in list(self._leases):
            self._lose(lease, "its client was closed")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _lose(self, lease: int, reason: str) -> None:
        self._book.remove(lease)
        if fence := self._fences.pop(lease, None):
            fence.cancel()
        if lost := self._leases.pop(lease, None):
            lost.lose(reason)

    def _set_fence(self, lease: int) -> None:
        """Has `expire` called at the lease's deadline, which may have moved."""
        if fence := self._fences.pop(lease, None):
            fence.cancel()
        self._fences[lease] = asyncio.get_running_loop().call_at(self._book.deadline(lease), self._at_fence, lease)

    def _at_fence(self, lease: int) -> None:
        self.expire()
        if lease in self._book:  # The loop calls up to a tick of its clock too early.
            self._set_fence(lease)

    async def _renew(self) -> None:
        while True:
            try:
                await hold_open(self._caller, LEASE_KEEP_ALIVE, self._talk, at_leader=True)
            except AuthError as error:  # The leases live on until their deadlines, and the user may be let in again.
                _log.warning("leases are not renewed: %s", error)
                await asyncio.sleep(1)

    def _talk(self, stream: LeaseStream) -> list[Coroutine[None, None, None]]:
        self._book.begin_again(time.monotonic())
        return [self._ask(stream), self._hear(stream)]

    async def _ask(self, stream: LeaseStream) -> None:
        while True:
            self._granted.clear()
            now = time.monotonic()
            if self._book.silent(now):
                raise NotServed(f"{stream.endpoint} answers no renewals")
            for lease in self._book.due(now):
                if lease in self._book:  # It may have gone while the one before was written.
                    self._book.sent(lease, time.monotonic())
                    await stream.write(pb.LeaseKeepAliveRequest(ID=lease))
            next_due = self._book.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if next_due is None else next_due - time.monotonic()):
                    await self._granted.wait()

    async def _hear(self, stream: LeaseStream) -> None:
        while True:
            answer = await stream.read()
            if not self._book.answered(answer.ID, answer.TTL):
                self._lose(answer.ID, "etcd says that it is gone: it was revoked, or not renewed in time")
            elif answer.ID in self._book:
                self._set_fence(answer.ID)
