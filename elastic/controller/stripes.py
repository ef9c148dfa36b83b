"""Parity of a snapshot's shards in the memory of hosts: which host makes which block of what, and what was bad.

`checkpoint` decides which shards form a stripe, agents compute; here are the orders between the two. Blocks are named
by the digest of their content, as shards are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from checkpoint import Block, Protection, Stripe, rebuildable, stripes
from elastic.controller import history
from elastic.controller.hosts import CopyError, Host, Made

log = logging.getLogger(__name__)

Digest = bytes
Homes = dict[Digest, set[str]]
"""Content -> the hosts that hold it."""

Ways = dict[tuple[str, str], list[Digest]]
"""(from host, to host) -> what goes that way."""


class Protected(Protocol):
    """A snapshot, as far as it matters here."""

    @property
    def homes(self) -> Homes: ...
    @property
    def stripes(self) -> Sequence[Stripe]: ...


@dataclass(frozen=True)
class _Order:
    """One block to make, and on which host."""

    stripe: Stripe
    number: int
    host: str


class Parity:
    """Makes parity blocks, and lost shards of them."""

    def __init__(self, hosts: Mapping[str, Host], protection: Protection) -> None:
        """`hosts` are those that live; the run keeps it up to date."""
        self.protection = protection
        self._hosts = hosts
        self._bad: dict[Digest, list[str]] = {}
        """Blocks that were found to be bad, and the hosts on which they were."""

    async def protect(
        self,
        shards: Mapping[Digest, tuple[int, int, int]],
        homes: Homes,
        before: Protected,
        domains: Mapping[str, str],
        copy: Callable[[Ways, Homes], Awaitable[None]],
    ) -> tuple[Stripe, ...]:
        """Has shards protected, content -> (array, device, bytes); notes in `homes` what is then where. The stripes.

        `homes` are the hosts that have shards in any case, `before` is the snapshot that counts, with its copies, and
        `domains` are hosts that may be used. Raises `CopyError`, and what `copy` raises.
        """
        sizes = {digest: size for digest, (_, _, size) in sorted(shards.items(), key=lambda item: item[1][:2])}
        parity = {block.name: before.homes.get(block.name, set()) for old in before.stripes for block in old.parity}
        kept_by = {digest: before.homes.get(digest, set()) - homes[digest] for digest in shards}
        chosen = stripes(sizes, {**parity, **homes}, kept_by, before.stripes, domains, self.protection)
        log.info("parity: %s", chosen.reason)
        for digest in chosen.copied:
            homes[digest].update(self._living(kept_by[digest]))
        for stripe in chosen.kept:
            for block in stripe.parity:
                homes.setdefault(block.name, set()).update(self._living(parity[block.name]))
        ways: Ways = {}
        for digest, hosts in chosen.copies.items():
            for to in hosts:
                ways.setdefault((self._living(homes[digest])[0], to), []).append(digest)
        await copy(ways, homes)
        return (*chosen.kept, *await self._encode(chosen.new, homes, before.homes))

    async def _encode(self, new: Sequence[Stripe], homes: Homes, before: Homes) -> list[Stripe]:
        """Has the parity of stripes made and notes where it is; the stripes with its names."""
        orders = [_Order(stripe, number, block.host) for stripe in new for number, block in _parity_of(stripe)]
        names, problem = await self._make(orders, homes, before)
        if problem:
            words = self.bad_of({block.name for order in orders for block in order.stripe.data}, ())
            raise CopyError(f"{problem}; {words}")
        made: list[Stripe] = []
        for stripe in new:
            blocks = (replace(block, name=names[_Order(stripe, at, block.host)]) for at, block in _parity_of(stripe))
            made.append(replace(stripe, parity=tuple(blocks)))
        return made

    def rebuildable(self, found: Sequence[Stripe], homes: Homes, back: Iterable[str] = ()) -> Mapping[Digest, Stripe]:
        """Contents that can be made of others, and of which stripe; also by hosts that are to come `back`."""
        return rebuildable(found, homes, self._hosts.keys() | set(back))

    async def rebuild(self, at: Mapping[Digest, str], found: Mapping[Digest, Stripe], homes: Homes) -> None:
        """Has contents made again, each at a host, and notes where they are.

        Blocks that are found to be bad are taken out of `homes`; what could not be made because of them is not there
        then. Raises `CopyError` if it failed for another reason.
        """
        orders = [_Order(found[digest], _number_of(digest, found[digest]), host) for digest, host in at.items()]
        await self._make(orders, homes)

    def note_bad(self, digest: Digest, host: str, *of: Homes) -> None:
        """A host's copy of a content is missing or was changed; it counts no more."""
        for homes in of:
            homes.get(digest, set()).discard(host)
        hosts = self._bad.setdefault(digest, [])
        if host not in hosts:
            hosts.append(host)
            log.error("%s", _words(digest, host))
            history.tell("bad_copy", host=host, digest=digest)

    def bad_of(self, lost: set[Digest], found: Iterable[Stripe]) -> str:
        """Which copies of contents, and which blocks that could have given them back, were bad, in words."""
        of_stripes = (stripe.blocks for stripe in found if any(block.name in lost for block in stripe.data))
        names = lost.union(block.name for blocks in of_stripes for block in blocks)
        return "; ".join(_words(name, host) for name in sorted(names) for host in self._bad.get(name, ()))

    def forget_bad(self) -> None:
        """Another snapshot counts: what was bad before is of no interest any more."""
        self._bad.clear()

    async def _make(self, orders: Sequence[_Order], homes: Homes, *others: Homes) -> tuple[dict[_Order, Digest], str]:
        """Has blocks made, all hosts at once, and notes them in `homes`; (those that are there, why others are not).

        What is bad is taken out of `others`, too. Raises `CopyError` if nothing was bad where one could not be made.
        """
        of_hosts: dict[str, list[_Order]] = {}
        for order in orders:
            of_hosts.setdefault(order.host, []).append(order)
        outcomes = await asyncio.gather(
            *(self._make_at(host, told, homes) for host, told in of_hosts.items()), return_exceptions=True
        )
        names: dict[_Order, Digest] = {}
        problem = ""
        failures: list[BaseException] = []
        for (host, told), outcome in zip(of_hosts.items(), outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failures.append(outcome)
                continue
            for address, digest in outcome.bad:
                self.note_bad(digest, self._host_at(address) or host, homes, *others)
            if outcome.problem:
                problem = f"host {host}: {outcome.problem}"
                log.warning("%s", problem)
                if not outcome.bad:
                    failures.append(CopyError(problem))
            for order, digest in zip(told, outcome.digests, strict=True):
                if digest:
                    names[order] = digest
                    homes.setdefault(digest, set()).add(host)
        if failures:
            raise failures[0]
        return names, problem

    async def _make_at(self, host: str, orders: Sequence[_Order], homes: Homes) -> Made:
        if host not in self._hosts:
            raise CopyError(f"host {host} was lost")
        return await self._hosts[host].make_blocks([self._job(order, homes) for order in orders])

    def _job(self, order: _Order, homes: Homes) -> dict[str, Any]:
        """As agents want it (see `elastic.agent.parity`)."""
        stripe, wanted = order.stripe, order.stripe.blocks[order.number]
        blocks = [
            [number, block.name, block.size, self._addresses(homes.get(block.name, set()), order.host)]
            for number, block in enumerate(stripe.blocks)
            if block.name and number != order.number
        ]
        shape = {"k": len(stripe.data), "m": len(stripe.parity), "want": order.number}
        return {**shape, "bytes": wanted.size, "digest": wanted.name, "blocks": blocks}

    def _addresses(self, holders: set[str], here: str) -> list[str]:
        return ["" if id == here else self._hosts[id].address for id in self._living(holders)]

    def _living(self, ids: set[str]) -> list[str]:
        return sorted(id for id in ids if id in self._hosts)

    def _host_at(self, address: str) -> str | None:
        return next((id for id, host in self._hosts.items() if host.address == address), None)


def _parity_of(stripe: Stripe) -> Iterable[tuple[int, Block]]:
    """The parity blocks by their numbers."""
    return enumerate(stripe.parity, len(stripe.data))


def _words(digest: Digest, host: str) -> str:
    return f"the copy {digest.hex()} on host {host} is bad"


def _number_of(digest: Digest, stripe: Stripe) -> int:
    return next(number for number, block in enumerate(stripe.blocks) if block.name == digest)
