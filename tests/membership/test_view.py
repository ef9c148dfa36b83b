"""The view of a watch's keys, against a twin that keeps every past."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from membership import Added, Change, Changed, Delete, KeyValue, Listing, Put, Relisted, Removed, View
from membership.cursor import Event


@dataclass
class Store:
    """A store that remembers what it held at each revision."""

    contents: list[dict[str, KeyValue]] = field(default_factory=lambda: [{}])

    @property
    def now(self) -> dict[str, KeyValue]:
        return self.contents[-1]

    def put(self, key: str) -> Event:
        revision, before = len(self.contents), self.now.get(key)
        created, version = (before.create_revision, before.version + 1) if before else (revision, 1)
        kv = KeyValue(key, b"%d" % revision, created, revision, version)
        self.contents.append(self.now | {key: kv})
        return Put(kv)

    def delete(self, key: str) -> Event:
        self.contents.append({name: kv for name, kv in self.now.items() if name != key})
        return Delete(key, len(self.contents) - 1)

    def relist(self) -> Event:
        return Relisted(Listing(tuple(self.now.values()), len(self.contents) - 1), "it was missed")


def difference(before: dict[str, KeyValue], after: dict[str, KeyValue]) -> set[Change]:
    """What is different between two contents, by looking at every key."""
    found: set[Change] = set()
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            found.add(Added(new))
        elif old is not None and new is None:
            found.add(Removed(old))
        elif old is not None and new is not None and old != new:
            same = old.create_revision == new.create_revision
            found |= {Changed(new, old)} if same else {Removed(old), Added(new)}
    return found


steps = st.lists(st.tuples(st.sampled_from(["put", "delete", "miss"]), st.sampled_from("abc")), max_size=40)


@given(steps)
def test_it_holds_what_the_store_holds_and_tells_every_difference(steps: list[tuple[str, str]]) -> None:
    store, view, missed = Store(), View(), True
    for what, key in steps:
        if what == "miss":
            missed = True
            continue
        event = store.put(key) if what == "put" else store.delete(key)
        if missed:
            # Some events were not seen, so the watch says what is there instead.
            if what == "delete":
                continue
            event, missed = store.relist(), False
        before = dict(view.contents)
        changes = view.apply(event)
        assert view.contents == store.now
        assert view.revision == len(store.contents) - 1
        assert set(changes) == difference(before, store.now)
        assert len(changes) == len(set(changes))


def test_a_key_that_was_made_anew_unseen_is_removed_before_it_is_added() -> None:
    old, new = KeyValue("a", b"", 2, 2, 1), KeyValue("a", b"", 5, 5, 1)
    view = View()
    view.apply(Put(old))
    assert view.apply(Relisted(Listing((new,), 5), "it was missed")) == (Removed(old), Added(new))


def test_what_a_listing_shows_unchanged_is_no_change() -> None:
    kv = KeyValue("a", b"", 2, 2, 1)
    view = View()
    view.apply(Put(kv))
    assert view.apply(Relisted(Listing((kv,), 9), "it was missed")) == ()
    assert view.revision == 9
