"""The durable tier: snapshots that count are stored on disk, as checkpoints that Orbax can read.

The hosts write them, each what it has in memory, in the background; no shard passes the controller. When one is
published, a run can go back to it after every copy in memory is gone; the journal behind it is kept until the next one
is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from checkpoint import CheckpointError, Retention, Unfinished, begin, steps, tidy
from elastic.controller import history
from elastic.controller.arrays import Array
from elastic.controller.disk import Disk, in_words
from elastic.controller.file_writing import entries_of, write_files
from elastic.controller.hosts import Host
from elastic.controller.snapshots import Snapshot
from elastic.controller.status_report import StoredFacts
from elastic.controller.stored_arrays import layout

log = logging.getLogger(__name__)

_AGAIN_S = 5.0
"""Seconds from the beginning of one to that of the next at least, after a failure or when the journal is large."""

_WRITER = "elastic"
_KEEP = Retention(last=2)
"""The one to go back to; and the one before, in case that somebody damages it."""


@dataclass(frozen=True)
class Stored:
    """A snapshot on disk: its folder, the file of each digest, when it was (on the monotonic clock), how long it took
    in seconds, and how many bytes it has."""

    snapshot: Snapshot
    path: Path
    files: Mapping[bytes, Path]
    at: float
    seconds: float
    nbytes: int


class Durable:
    """Stores snapshots of one run under a directory that all its hosts see."""

    def __init__(self, root: Path, every_s: float, hosts: Mapping[str, Host]) -> None:
        self.root = root
        self.latest: Stored | None = None
        self.problem = ""
        """Why the last one could not be stored; empty if it could."""
        self.slow: Mapping[str, float] = {}
        """Hosts that take far longer than others to write what they were told to, and for how many seconds already."""
        self.storing: Snapshot | None = None
        self._every_s = every_s
        self._hosts = hosts
        self._began: float | None = None
        self._disk = Disk()

    def is_due(self, journal_is_large: bool) -> bool:
        """Whether a snapshot that stands is to be stored."""
        if self.storing is not None:
            return False
        if self._began is None:
            return True
        hurry = journal_is_large or self.problem
        return time.monotonic() - self._began >= (min(self._every_s, _AGAIN_S) if hurry else self._every_s)

    def facts(self, now: float, slow_readers: Sequence[str] = ()) -> StoredFacts:
        """What there is, at a time of the monotonic clock."""
        storing = self.storing is not None
        found = StoredFacts(
            str(self.root), storing=storing, problem=self.problem, slow=self.slow, slow_readers=slow_readers
        )
        if (latest := self.latest) is None:
            return found
        return replace(
            found,
            path=str(latest.path),
            operation=latest.snapshot.position,
            age=now - latest.at,
            nbytes=latest.nbytes,
            seconds=latest.seconds,
        )

    async def store(self, snapshot: Snapshot, arrays: Mapping[int, Array]) -> Stored | None:
        """Stores a snapshot, of which hosts keep what they have until this is done; None if that failed.

        `arrays` are the client's, by number. Why it failed is told in `problem`.
        """
        self.storing, self._began = snapshot, time.monotonic()
        unfinished: Unfinished | None = None
        try:
            entries, files = layout(snapshot.records.values(), arrays)
            unfinished = await self._disk.do(lambda: begin(self.root, snapshot.position, entries, _WRITER))
            await write_files(self._hosts, files, snapshot.homes, unfinished.path, self._tell_slow)
            extra = {"operation": snapshot.position}
            path = await self._disk.do(partial(unfinished.publish, entries_of(files), extra))
        except (CheckpointError, OSError) as error:
            self.problem = f"the snapshot at operation {snapshot.position} could not be stored: {in_words(error)}"
            log.error("%s", self.problem)
            if unfinished is not None:
                await self._disk.do(unfinished.abandon)
            return None
        finally:
            self.storing, self.slow = None, {}
        now = time.monotonic()
        where = {file.digest: path / file.name for file in files}
        size = sum(file.bytes for file in files)
        self.latest, self.problem = Stored(snapshot, path, where, now, now - self._began, size), ""
        return self.latest

    async def tidy(self) -> None:
        """Removes those that are not needed any more."""

        def remove() -> None:
            ours = [step.number for step in steps(self.root) if step.finished and step.ours]
            tidy(self.root, _KEEP.keeps(ours), _WRITER)

        try:
            await self._disk.do(remove)
        except (CheckpointError, OSError) as error:
            log.warning("old checkpoints in %s cannot be removed: %s", self.root, in_words(error))

    def _tell_slow(self, slow: Mapping[str, float]) -> None:
        for host in slow.keys() - self.slow.keys():
            history.tell("slow_disk", host=host, doing="write")
        self.slow = slow
