"""What the embedded server tells the watches on one stream."""

from __future__ import annotations

from membership.proto import etcd_pb2 as pb
from membership.server.store import Store
from membership.server.watch_session import BATCH, WatchSession


def store_with(writes: int) -> Store:
    store = Store(identity=1)
    for number in range(writes):
        store.put(pb.PutRequest(key=b"a/%d" % number, value=b"v"))
    return store


def create(
    watch_id: int, start: int, key: bytes = b"a/", end: bytes = b"a0", previous: bool = False
) -> pb.WatchRequest:
    request = pb.WatchCreateRequest(
        key=key, range_end=end, start_revision=start, watch_id=watch_id, prev_kv=previous, progress_notify=True
    )
    return pb.WatchRequest(create_request=request)


def revisions(message: pb.WatchResponse) -> list[int]:
    return [event.kv.mod_revision for event in message.events]


def test_old_events_come_in_batches_that_carry_the_stores_revision() -> None:
    session = WatchSession(store_with(2 * BATCH + 1))
    session.request(create(5, 2))
    created, *batches = session.messages()
    assert created.created
    assert [len(batch.events) for batch in batches] == [BATCH, BATCH, 1]
    assert [number for batch in batches for number in revisions(batch)] == list(range(2, 2 * BATCH + 3))
    assert {batch.header.revision for batch in batches} == {2 * BATCH + 2}
    assert {batch.watch_id for batch in batches} == {5}
    assert list(session.messages()) == []


def test_a_watch_without_a_revision_begins_now() -> None:
    store = store_with(3)
    session = WatchSession(store)
    session.request(create(0, 0))
    (created,) = session.messages()
    store.put(pb.PutRequest(key=b"a/x"))
    (news,) = session.messages()
    assert news.watch_id == created.watch_id != 0
    assert revisions(news) == [5]


def test_only_who_asks_learns_what_was_there_before() -> None:
    store = store_with(1)
    store.put(pb.PutRequest(key=b"a/0", value=b"w"))
    session = WatchSession(store)
    session.request(create(1, 3))
    session.request(create(2, 3, previous=True))
    _, _, without, with_previous = session.messages()
    assert not without.events[0].HasField("prev_kv")
    assert with_previous.events[0].prev_kv.value == b"v"
    # What is told to one is not taken from the others.
    session.request(create(3, 3, previous=True))
    assert list(session.messages())[1].events[0].prev_kv.value == b"v"


def test_a_watch_that_needs_what_is_compacted_is_ended_with_what_is_left() -> None:
    store = store_with(10)
    store.compact(pb.CompactionRequest(revision=6))
    session = WatchSession(store)
    session.request(create(1, 5))
    session.request(create(2, 6))
    _, _, ended, whole = session.messages()
    assert (ended.watch_id, ended.canceled, ended.compact_revision) == (1, True, 6)
    assert revisions(whole) == [6, 7, 8, 9, 10, 11]
    store.put(pb.PutRequest(key=b"a/x"))
    assert [message.watch_id for message in session.messages()] == [2]


def test_a_watch_that_is_ended_hears_nothing_more() -> None:
    store = store_with(1)
    session = WatchSession(store)
    session.request(create(1, 3))
    list(session.messages())
    session.request(pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=1)))
    store.put(pb.PutRequest(key=b"a/x"))
    (ended,) = session.messages()
    assert ended.canceled
    assert not ended.compact_revision


def test_an_id_that_is_taken_is_refused_and_its_owner_goes_on() -> None:
    store = store_with(1)
    session = WatchSession(store)
    session.request(create(1, 2))
    session.request(create(1, 2))
    first, second, events = session.messages()
    assert (first.canceled, second.canceled) == (False, True)
    assert "already exists" in second.cancel_reason
    assert revisions(events) == [2]


def test_progress_is_told_behind_all_events_that_it_speaks_of() -> None:
    session = WatchSession(store_with(3))
    session.request(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
    session.request(create(1, 2))
    *_, events, progress = session.messages()
    assert revisions(events) == [2, 3, 4]
    assert (progress.watch_id, progress.header.revision, list(progress.events)) == (-1, 4, [])


def test_what_happens_while_messages_are_taken_comes_too() -> None:
    store = store_with(1)
    session = WatchSession(store)
    session.request(create(1, 2))
    seen: list[int] = []
    for message in session.messages():
        seen += revisions(message)
        if store.history.revision < 5:
            store.put(pb.PutRequest(key=b"a/x"))
    assert seen == [2, 3, 4, 5]
