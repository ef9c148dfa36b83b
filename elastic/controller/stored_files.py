"""Files on disk from which hosts may take what nobody's memory has any more, and which of them are no good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from elastic.controller import history
from elastic.controller.file_reading import Read, read_files
from elastic.controller.hosts import Host
from elastic.controller.stripes import Digest, Homes


class StoredFiles:
    """What is stored, by digest; empty in a run that stores nothing."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        """`hosts` are those that live; the run keeps it up to date."""
        self.paths: Mapping[Digest, Path] = {}
        self.slow_readers: set[str] = set()
        """Hosts for which others read, at this moment."""
        self._bad: dict[Digest, str] = {}
        """What could not be read, and why."""
        self._hosts = hosts

    def has(self, digest: Digest) -> bool:
        """Whether it is there, and was not found to be bad."""
        return digest in self.paths and digest not in self._bad

    def why_bad(self, digests: Iterable[Digest]) -> list[str]:
        """What is wrong with those of these that are bad, a text for each."""
        return [self._bad[digest] for digest in digests if digest in self._bad]

    async def read(self, reads: list[Read], homes: Homes) -> None:
        """Has hosts read files, and notes in `homes` that they have them, or that these are bad.

        Raises `CopyError` if a host is lost, or cannot keep what it has read.
        """

        def came(host: str, digest: Digest) -> None:
            homes.setdefault(digest, set()).add(host)

        def slow(host: str) -> None:
            if host not in self.slow_readers:
                history.tell("slow_disk", host=host, doing="read")
            self.slow_readers.add(host)

        try:
            bad = await read_files(self._hosts, reads, came, slow)
        finally:
            self.slow_readers.clear()
        for digest, why in bad.items():
            history.tell("bad_file", digest=digest, why=why)
        self._bad |= bad
