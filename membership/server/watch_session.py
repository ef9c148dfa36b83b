"""All watches on one stream of one client: what to tell it next. Pure; without I/O.

Nothing is queued for a watch: each keeps the revision up to which it was told, and reads the history from there when
the client can take more. So a slow client costs no memory; one that is too slow for the history is told to list again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from membership.proto import etcd_pb2 as pb
from membership.server.store import Store

BATCH = 1000
"""Revisions in one message at most, as etcd."""


@dataclass(slots=True)
class _Watch:
    first: bytes
    end: bytes
    next_revision: int
    previous: bool


class WatchSession:
    """The watches of one stream."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watches: dict[int, _Watch] = {}
        self._answers: deque[pb.WatchResponse] = deque()
        self._progress_wanted = False

    def request(self, request: pb.WatchRequest) -> None:
        """The client wants something; `messages` has the answer."""
        if request.HasField("create_request"):
            self._create(request.create_request)
        elif request.HasField("cancel_request"):
            watch_id = request.cancel_request.watch_id
            if self._watches.pop(watch_id, None) is not None:
                self._answers.append(self._message(watch_id, canceled=True))
        elif request.HasField("progress_request"):
            self._progress_wanted = True

    def messages(self) -> Iterator[pb.WatchResponse]:
        """What to send now, until the client knows all that the store knows. Ask again after each change."""
        behind = True
        while behind or self._answers:
            behind = False
            while self._answers:
                yield self._answers.popleft()
            for watch_id in list(self._watches):
                if message := self._advance(watch_id):
                    behind = True
                    yield message
        if self._progress_wanted:  # Only now: it says that there is nothing up to its revision.
            self._progress_wanted = False
            yield self._message(-1)

    def _create(self, request: pb.WatchCreateRequest) -> None:
        watch_id = request.watch_id or max(self._watches, default=0) + 1
        if watch_id in self._watches:
            reason = "mvcc: watcher ID already exists"
            self._answers.append(self._message(watch_id, created=True, canceled=True, cancel_reason=reason))
            return
        start = request.start_revision or self._store.history.revision + 1
        self._watches[watch_id] = _Watch(request.key or b"\0", request.range_end, start, request.prev_kv)
        self._answers.append(self._message(watch_id, created=True))

    def _advance(self, watch_id: int) -> pb.WatchResponse | None:
        watch = self._watches.get(watch_id)
        if watch is None:  # Cancelled between two messages.
            return None
        history = self._store.history
        if watch.next_revision < history.compacted:
            del self._watches[watch_id]
            return self._message(watch_id, canceled=True, compact_revision=history.compacted)
        while watch.next_revision <= history.revision:
            events, watch.next_revision = history.events(watch.first, watch.end, watch.next_revision, BATCH)
            if events:
                message = self._message(watch_id)
                message.events.extend(events)
                if not watch.previous:
                    for event in message.events:
                        event.ClearField("prev_kv")
                return message
        return None

    def _message(
        self,
        watch_id: int,
        *,
        created: bool = False,
        canceled: bool = False,
        compact_revision: int = 0,
        cancel_reason: str = "",
    ) -> pb.WatchResponse:
        return pb.WatchResponse(
            header=self._store.header(),
            watch_id=watch_id,
            created=created,
            canceled=canceled,
            compact_revision=compact_revision,
            cancel_reason=cancel_reason,
        )
