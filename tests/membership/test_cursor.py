"""Where a watch stands after each kind of message: the rules of resuming, without a server."""

from __future__ import annotations

from membership import Delete, KeyValue, Put
from membership.cursor import Cursor, MustRelist, Refused
from membership.kv import KeyRange
from membership.proto import etcd_pb2 as pb

STORE = 7


def message(*revisions: int, store: int = STORE, now: int = 1_000_000, **fields: object) -> pb.WatchResponse:
    """A message with an event at each of the revisions; the header says that the store is at ``now``."""
    events = [pb.Event(kv=pb.KeyValue(key=b"a", mod_revision=revision)) for revision in revisions]
    header = pb.ResponseHeader(cluster_id=store, revision=now)
    return pb.WatchResponse(header=header, events=events, **fields)  # type: ignore[arg-type]


def cursor(next_revision: int) -> Cursor:
    return Cursor(KeyRange.prefix("a"), next_revision)


def test_it_resumes_behind_the_last_event_and_never_behind_the_stores_revision() -> None:
    at = cursor(5)
    at.receive(message(5, 6, 9, now=5_000))
    assert at.next_revision == 10


def test_the_message_that_a_watch_is_created_does_not_advance_it() -> None:
    at = cursor(5)
    assert at.receive(message(created=True, now=5_000)) == ()
    assert at.next_revision == 5


def test_an_empty_progress_message_advances_it_to_the_stores_revision() -> None:
    at = cursor(5)
    assert at.receive(message(now=5_000)) == ()
    assert at.next_revision == 5_001


def test_progress_never_takes_it_back() -> None:
    at = cursor(5)
    at.receive(message(8))
    at.receive(message(now=6))
    assert at.next_revision == 9


def test_an_event_that_was_seen_is_not_told_again() -> None:
    at = cursor(5)
    at.receive(message(5, 6))
    assert at.receive(message(6, 7)) == (Put(KeyValue("a", b"", 0, 7, 0)),)


def test_a_compaction_makes_it_list_again_from_the_listings_revision_on() -> None:
    at = cursor(5)
    outcome = at.receive(message(canceled=True, compact_revision=90))
    assert isinstance(outcome, MustRelist)
    assert "from revision 5 on" in outcome.reason
    assert "90" in outcome.reason
    at.relisted(100, STORE)
    assert at.next_revision == 101


def test_another_store_makes_it_list_again_even_if_that_is_far_ahead() -> None:
    at = cursor(5)
    at.receive(message(created=True))
    assert isinstance(at.receive(message(created=True, store=STORE + 1)), MustRelist)
    at.relisted(3, STORE + 1)
    assert at.receive(message(4, store=STORE + 1)) != ()


def test_a_watch_that_is_ended_without_a_compaction_is_refused() -> None:
    assert cursor(5).receive(message(canceled=True, cancel_reason="no")) == Refused("no")


def test_events_tell_all_that_etcd_tells() -> None:
    kv = pb.KeyValue(key=b"a\xff", value=b"v", create_revision=3, mod_revision=9, version=4, lease=11)
    before = pb.KeyValue(key=b"a\xff", value=b"u", create_revision=3, mod_revision=8, version=3)
    gone = pb.KeyValue(key=b"a\xff", mod_revision=10)
    reply = message()
    reply.events.add(kv=kv, prev_kv=before)
    reply.events.add(type=pb.Event.DELETE, kv=gone, prev_kv=kv)
    key = "a\udcff"
    assert cursor(5).receive(reply) == (
        Put(KeyValue(key, b"v", 3, 9, 4, 11), previous=KeyValue(key, b"u", 3, 8, 3)),
        Delete(key, 10, previous=KeyValue(key, b"v", 3, 9, 4, 11)),
    )
