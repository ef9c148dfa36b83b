"""Watches: iterators over what happens to keys, without loss and without repetition, whatever becomes of connections.

All watches of a client share one stream. When it breaks, another begins and every watch goes on behind the last event
that it saw. A watch that has lost its place in history (compaction, another store) says `Relisted`. Events wait in
memory until they are taken. Not for: keeping what the keys hold (see `membership.view`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Self

from membership.api import WATCH
from membership.calls import Caller, NotServed
from membership.cursor import Cursor, Event, MustRelist, Refused, Relisted
from membership.errors import EtcdUnavailable, MembershipError
from membership.failures import refusal
from membership.kv import KeyRange
from membership.listing import read_listing
from membership.proto import etcd_pb2 as pb
from membership.streams import Stream, hold_open

_log = logging.getLogger(__name__)

WatchStream = Stream[pb.WatchRequest, pb.WatchResponse]


class Watch(AsyncIterator[Event]):
    """What happens to some keys, in order: ``async with etcd.watch(...) as events: async for event in events: ...``.

    It ends when it or its client is closed, and with an `AuthError` or `RequestRefused` if etcd does not serve it. It
    does not end, and says nothing, while etcd cannot be reached.
    """

    def __init__(self, owner: Watches, keys: KeyRange, revision: int | None, previous: bool) -> None:
        self._owner = owner
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None
        self.cursor = Cursor(keys, revision or 0)
        self.previous = previous
        # For the owner alone:
        self.id = 0
        self.must_relist = None if revision else "the watch begins"
        self.was_refused = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the watch. What arrived already can still be taken."""
        self._owner.remove(self)
        self.end(None)

    async def __anext__(self) -> Event:
        while not self._events:
            if self._ended:
                raise self._error or StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()

    def deliver(self, events: Iterable[Event]) -> None:
        self._events.extend(events)
        self._changed.set()

    def end(self, error: Exception | None) -> None:
        self._ended, self._error = True, self._error or error
        self._changed.set()


class Watches:
    """All watches of one client, and the stream they share."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._watches: set[Watch] = set()
        self._live: dict[int, Watch] = {}  # By the id that each has on the present stream.
        self._creating: deque[int] = deque()  # The ids of those that etcd has not answered yet, which it does in order.
        self._ids = itertools.count(1)
        self._requests: asyncio.Queue[pb.WatchRequest] = asyncio.Queue()
        self._to_list: asyncio.Queue[Watch] = asyncio.Queue()
        self._heard = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, keys: KeyRange, revision: int | None, *, previous: bool) -> Watch:
        watch = Watch(self, keys, revision, previous)
        self._watches.add(watch)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        else:
            self._begin(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        self._watches.discard(watch)
        self._cancel(watch)

    async def close(self) -> None:
        self._end_all(None)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            await hold_open(self._caller, WATCH, self._talk)
        except Exception as error:  # Nobody may wait for a stream that nobody holds.
            self._end_all(error)

    def _end_all(self, error: Exception | None) -> None:
        for watch in self._watches:
            watch.end(error)
        self._watches.clear()

    def _talk(self, stream: WatchStream) -> list[Coroutine[None, None, None]]:
        self._live.clear()
        self._creating.clear()
        self._requests, self._to_list = asyncio.Queue(), asyncio.Queue()
        for watch in self._watches:
            self._begin(watch)
        return [self._read(stream), self._write(stream), self._listen(stream), self._list()]

    def _begin(self, watch: Watch) -> None:
        """Asks for the watch's events from its cursor on, or first for a listing if it has lost its place."""
        if watch.must_relist is not None:
            self._to_list.put_nowait(watch)
            return
        # A fresh id each time, so that nothing that was sent before belongs to it.
        watch.id = next(self._ids)
        self._live[watch.id] = watch
        self._creating.append(watch.id)
        create = pb.WatchCreateRequest(
            key=watch.cursor.keys.first,
            range_end=watch.cursor.keys.end,
            start_revision=watch.cursor.next_revision,
            progress_notify=True,
            prev_kv=watch.previous,
            watch_id=watch.id,
        )
        self._requests.put_nowait(pb.WatchRequest(create_request=create))

    def _cancel(self, watch: Watch) -> None:
        if self._live.pop(watch.id, None) is not None:
            self._requests.put_nowait(pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=watch.id)))

    async def _write(self, stream: WatchStream) -> None:
        while True:
            await stream.write(await self._requests.get())

    async def _read(self, stream: WatchStream) -> None:
        while True:
            message = await stream.read()
            self._heard += 1
            # etcd does not say whom it refuses: that message, like an answer to a request for progress, has no id.
            watch = self._live.get(self._creating.popleft() if message.created else message.watch_id)
            if watch is None:  # Just closed, or nobody's.
                continue
            news = watch.cursor.receive(message)
            if isinstance(news, MustRelist):
                _log.warning("the watch of %s begins anew: %s", watch.cursor.keys, news.reason)
                self._cancel(watch)
                watch.must_relist = news.reason
                self._begin(watch)
            elif isinstance(news, Refused):
                self._refuse(watch, news.reason.rpartition("desc = ")[2], stream.endpoint)
            else:
                watch.was_refused = False
                watch.deliver(news)

    def _refuse(self, watch: Watch, details: str, endpoint: str) -> None:
        """The first time, the token may be too old, which some versions of etcd do not tell apart: tries a new one."""
        if not watch.was_refused:
            watch.was_refused = True
            raise NotServed(details, stale_token=True)
        self.remove(watch)
        watch.end(refusal(f"watching {watch.cursor.keys}", endpoint, details))

    async def _listen(self, stream: WatchStream) -> None:
        """Gives the stream up when nothing comes back any more."""
        quiet = self._caller.timing.quiet
        while True:
            heard = self._heard
            await asyncio.sleep(quiet)
            if self._heard != heard or not self._live:
                continue
            self._requests.put_nowait(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
            await asyncio.sleep(quiet)
            if self._heard == heard:
                raise NotServed(f"{stream.endpoint} was silent for {2 * quiet:g} s")

    async def _list(self) -> None:
        while True:
            watch = await self._to_list.get()
            if watch not in self._watches:
                continue
            try:
                listing, cluster = await read_listing(self._caller, watch.cursor.keys)
            except EtcdUnavailable:
                self._to_list.put_nowait(watch)
            except MembershipError as error:
                self.remove(watch)
                watch.end(error)
            else:
                if watch not in self._watches:  # Closed meanwhile.
                    continue
                reason, watch.must_relist = watch.must_relist or "", None
                watch.cursor.relisted(listing.revision, cluster)
                watch.deliver([Relisted(listing, reason)])
                self._begin(watch)
