"""Has hosts write the files of a checkpoint, in parallel, each what it has; who is slow does not hold up the others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from checkpoint import CheckpointError, Dispatch, FileEntry, FileToWrite
from elastic.controller.hosts import CopyError, Host
from elastic.controller.left_tasks import leave
from elastic.controller.stored_arrays import StoredFile

log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""How often somebody looks whether a host is slow."""


def entries_of(files: Sequence[StoredFile]) -> dict[str, FileEntry]:
    """What a manifest says of files."""
    return {file.name: FileEntry(file.bytes, file.digest.hex()) for file in files}


async def write_files(
    hosts: Mapping[str, Host],
    files: Sequence[StoredFile],
    homes: Mapping[bytes, set[str]],
    folder: Path,
    slow: Callable[[Mapping[str, float]], None],
    *,
    mark: int | None = None,
) -> None:
    """Has all files written into a folder. Raises `CheckpointError` if one cannot be.

    `hosts` are those that live, kept up to date; `homes` says who has which copy, in its memory or among what it keeps
    under a mark. `slow(hosts)` is told again and again which are slow, and for how many seconds already.
    """
    digests = {file.name: file.digest for file in files}
    known = set(hosts)
    dispatch = Dispatch(FileToWrite(file.name, file.bytes, frozenset(homes[file.digest] & known)) for file in files)
    orders: dict[asyncio.Task[None], str] = {}
    while not dispatch.finished:
        now = time.monotonic()
        for host in known - hosts.keys():
            known.discard(host)
            dispatch.gone(host)
        for host, names in dispatch.orders(known, now).items():
            order = [(digests[name], str(folder / name)) for name in names]
            orders[asyncio.ensure_future(hosts[host].store_files(order, mark))] = host
        if dispatch.problem or not orders:
            raise CheckpointError(dispatch.problem or "hosts were lost, and nobody else has all that is to be written")
        done, _ = await asyncio.wait(orders, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            host = orders.pop(task)
            try:
                task.result()
                dispatch.written(host, time.monotonic())
            except CopyError as error:
                dispatch.refused(host, str(error))
        late = dispatch.slow(time.monotonic())
        for host in late:
            log.info("host %s is slow to write; others do what they can of it", host)
        slow(late)
    leave(orders)  # Of hosts for which others have done it meanwhile.
