"""Writers for the tests: what they write is known exactly, also where an answer got lost."""

from __future__ import annotations

import asyncio

from membership import Compare, Etcd, EtcdUnavailable, OutcomeUnknown, PutKey
from membership.watches import Watch

_AT_ONCE = 100


async def write_many(etcd: Etcd, prefix: str, first: int, count: int) -> list[int]:
    """Writes ``count`` numbers from ``first`` on to a key each, a revision each; returns them in revision order.

    The last one is written last.
    """
    written: list[tuple[int, int]] = []

    async def write(number: int) -> None:
        await write_surely(etcd, f"{prefix}{number}", number)
        kv = await etcd.get(f"{prefix}{number}")
        assert kv is not None
        written.append((kv.mod_revision, number))

    last = first + count - 1
    for begin in range(first, last, _AT_ONCE):
        await asyncio.gather(*(write(number) for number in range(begin, min(begin + _AT_ONCE, last))))
    await write(last)
    return [number for _, number in sorted(written)]


async def write_surely(etcd: Etcd, key: str, number: int) -> None:
    """Writes ``number`` to ``key`` exactly once, whatever happens. There must be no other writer."""
    while True:
        try:
            before = await etcd.get(key)
            if before is not None and before.value == b"%d" % number:
                return
            compare = Compare.unchanged(key, before.mod_revision if before else 0)
            await etcd.txn([compare], [PutKey(key, b"%d" % number)])
        except (EtcdUnavailable, OutcomeUnknown):
            continue


async def read_numbers(events: Watch, last: int) -> list[int]:
    """The numbers that a watch sees written, up to ``last``."""
    numbers: list[int] = []
    while not numbers or numbers[-1] != last:
        event = await anext(events)
        numbers.append(int(event.kv.value))  # type: ignore[union-attr]
    return numbers
