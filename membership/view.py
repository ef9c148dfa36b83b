"""What the keys of a watch hold now, kept from its events, and what each event changes. Pure; without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from membership.cursor import Delete, Event, Put, Relisted
from membership.kv import KeyValue


@dataclass(frozen=True, slots=True)
class Added:
    """A key is there that was not, or that was deleted and made anew."""

    kv: KeyValue


@dataclass(frozen=True, slots=True)
class Changed:
    """A key was written; ``before`` is what it held when it was last seen."""

    kv: KeyValue
    before: KeyValue


@dataclass(frozen=True, slots=True)
class Removed:
    """A key is gone; ``before`` is what it held when it was last seen."""

    before: KeyValue


Change = Added | Changed | Removed


class View:
    """The contents of one watch.

    Attributes:
        revision: up to which the contents are known; 0 before the first event.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._contents: dict[str, KeyValue] = {}

    @property
    def contents(self) -> Mapping[str, KeyValue]:
        """{key: what it holds}; follows the view."""
        return MappingProxyType(self._contents)

    def apply(self, event: Event) -> tuple[Change, ...]:
        """Takes in the next event of the watch, and tells what is different now.

        A key that was deleted and made anew unseen is a `Removed` and an `Added`: it is not the same thing.
        """
        self.revision = event.revision
        match event:
            case Put(kv):
                return self._put(kv)
            case Delete(key):
                return self._delete(key)
            case Relisted(listing):
                listed = {kv.key for kv in listing.kvs}
                gone = [key for key in self._contents if key not in listed]
                return (
                    *(change for key in gone for change in self._delete(key)),
                    *(change for kv in listing.kvs for change in self._put(kv)),
                )

    def _put(self, kv: KeyValue) -> tuple[Change, ...]:
        before = self._contents.get(kv.key)
        self._contents[kv.key] = kv
        if before is None:
            return (Added(kv),)
        if before.create_revision != kv.create_revision:
            return Removed(before), Added(kv)
        return () if before.mod_revision == kv.mod_revision else (Changed(kv, before),)

    def _delete(self, key: str) -> tuple[Change, ...]:
        before = self._contents.pop(key, None)
        return () if before is None else (Removed(before),)
