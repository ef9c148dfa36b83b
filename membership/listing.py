"""Reads all keys of a range as they were together at one revision, in pages."""

from __future__ import annotations

from membership.api import RANGE
from membership.calls import Caller
from membership.errors import Compacted
from membership.kv import KeyRange, KeyValue, Listing
from membership.proto import etcd_pb2 as pb

PAGE = 1000
"""Keys in one answer: what etcd sends at once must fit its memory and ours."""


async def read_listing(caller: Caller, keys: KeyRange) -> tuple[Listing, int]:
    """The listing of ``keys``, and the id of the store it comes from. Raises as `Caller.call`."""
    while True:
        try:
            return await _pages(caller, keys)
        except Compacted:  # Between two pages; the first of a new try reads the newest revision.
            continue


async def _pages(caller: Caller, keys: KeyRange) -> tuple[Listing, int]:
    kvs: list[KeyValue] = []
    first, revision = keys.first, 0
    while True:
        request = pb.RangeRequest(key=first, range_end=keys.end, limit=PAGE, revision=revision)
        page = await caller.call(RANGE, request, f"listing {keys}")
        kvs.extend(KeyValue.from_wire(kv) for kv in page.kvs)
        revision = revision or page.header.revision
        if not page.more:
            return Listing(tuple(kvs), revision), page.header.cluster_id
        first = page.kvs[-1].key + b"\0"
