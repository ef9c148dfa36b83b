"""Has hosts read stored copies into their memory; one that is slow to read is helped by those that are done.

Who has read all that it wants reads for the host that still wants most, and sends it the copy. What comes first counts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elastic.controller.hosts import CopyError, Host
from elastic.controller.left_tasks import leave

log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""How often somebody looks whether a host can be helped."""

_PATIENCE_S = 2.0
"""For so long each host reads for itself."""


@dataclass(frozen=True)
class Read:
    """A copy that a host is to have, of so many bytes, and the file that has it."""

    host: str
    digest: bytes
    bytes: int
    path: Path


async def read_files(
    hosts: Mapping[str, Host],
    reads: Iterable[Read],
    came: Callable[[str, bytes], None],
    slow: Callable[[str], None],
) -> dict[bytes, str]:
    """Has all files read; by digest, what is wrong with those that could not be.

    Raises `CopyError` if a host is lost, or cannot keep what it has read.

    `hosts` are those that live, kept up to date. `came(host, digest)` is called for each copy that a host has then,
    `slow(host)` when others begin to help one.
    """
    began = time.monotonic()
    wanted = {(read.host, read.digest): read for read in reads}
    bad: dict[bytes, str] = {}
    tasks = {asyncio.ensure_future(_fetch(hosts, read.host, read)): (read.host, read) for read in wanted.values()}
    helped: set[tuple[str, bytes]] = set()
    while wanted:
        done, _ = await asyncio.wait(tasks, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            reader, read = tasks.pop(task)
            error = task.exception()
            if error is None:
                came(reader, read.digest)
                came(read.host, read.digest)
                wanted.pop((read.host, read.digest), None)
            elif not isinstance(error, CopyError) or read.host not in hosts:
                raise error
            elif reader == read.host:
                if read.digest not in error.bad:
                    raise error  # The file may be good; the host had no space for what it read.
                log.error("%s", error)
                bad[read.digest] = str(error)
                wanted.pop((read.host, read.digest), None)
        if time.monotonic() - began < _PATIENCE_S:
            continue
        busy = {reader for reader, _ in tasks.values()} | {host for host, _ in wanted}
        for helper in hosts.keys() - busy:
            left = [read for key, read in wanted.items() if key not in helped]
            if not left:
                break
            neediest = Counter(read.host for read in left).most_common(1)[0][0]
            read = next(read for read in reversed(left) if read.host == neediest)
            helped.add((read.host, read.digest))
            slow(read.host)
            tasks[asyncio.ensure_future(_fetch(hosts, helper, read))] = helper, read
    leave(tasks)
    return bad


async def _fetch(hosts: Mapping[str, Host], reader: str, read: Read) -> None:
    """One host reads a copy, for itself or for another."""
    for host in (reader, read.host):
        if host not in hosts:
            raise CopyError(f"host {host} was lost")
    await hosts[reader].fetch_file(read.digest, read.bytes, str(read.path))
    if reader != read.host:
        await hosts[reader].send_copies([read.digest], hosts[read.host])
