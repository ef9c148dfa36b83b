"""The journal: what was sent to the hosts since the last snapshot, in order, so that another world can be told again.

Plain data; sends nothing. Commands name arrays, programs and virtual devices, never hosts, so an entry means the same
to every world.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.host_memory import digest_of
from elastic.shared_files import map_file
from elastic.status import StatusError

NAME_FILES = frozenset({Command.PUT, Command.READ})
"""Commands that may name a file, as their last argument."""

Answer = Callable[[StatusError | None, Any, wire.Bytes], None]
"""Called once with (error or None, result, payload)."""

_QUESTIONS = frozenset({Command.READ, Command.WAIT, Command.TEXT, Command.COST, Command.HOLD})
"""Commands that change no array: once answered they need not be told again."""

_ENTRY_BYTES = 300
"""About what an entry takes in memory besides its bytes."""


@dataclass(slots=True, eq=False)
class Entry:
    """One command as it was sent.

    Attributes:
        devices: the virtual devices whose owners get it.
        header: the encoded message; the payload goes behind it.
        request: the number that its answers carry, 0 if none is wanted.
        answer: who waits for the answer; None once it is given.
        program: the number of the program that it is about, 0 if there is none.
        file: a file of shared memory that the command names and the entry keeps.
        seen: the digest of what a read gave the client; a replay has to give the same.
    """

    devices: tuple[int, ...]
    command: Command
    header: bytes
    payload: wire.Bytes = b""
    request: int = 0
    answer: Answer | None = None
    program: int = 0
    file: str | None = None
    file_bytes: int = 0
    seen: bytes | None = None

    @property
    def nbytes(self) -> int:
        return _ENTRY_BYTES + len(self.header) + len(self.payload) + self.file_bytes

    @property
    def settled(self) -> bool:
        """Whether a new world need not hear of it."""
        return self.answer is None and self.command in _QUESTIONS

    def message(self) -> list[Any]:
        """The command as it was before it was encoded."""
        message: list[Any] = wire.unpack_header(self.header)
        return message

    def without_file(self) -> tuple[bytes, wire.Bytes]:
        """The header and payload for a host of another machine: what is a file for the others, it gets as bytes.

        Of commands whose last argument is a path. Raises `OSError` if the file is not there.
        """
        *message, path = self.message()
        if path is None:
            return self.header, self.payload
        data = map_file(self.file) if self.file is not None else self.payload
        digest = [digest_of(data)] if self.file is not None else []
        return wire.frame_header([*message, None, *digest], len(data)), data

    def discard(self) -> None:
        """Removes the file. Who has mapped it keeps the bytes."""
        if self.file is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.file)


@dataclass(slots=True)
class Journal:
    """The entries that may have to be told again. Positions count all entries of a run.

    Usually these are the entries since the last snapshot. Where snapshots are stored durably or verified, those since
    the last that was are kept, too, and a replay begins somewhere among them.
    """

    entries: deque[Entry] = field(default_factory=deque)
    start: int = 0
    """The position of the first entry."""
    replay_from: int = 0
    """The position at which a replay begins."""
    nbytes: int = 0
    replay_nbytes: int = 0
    """Of the entries from there on."""

    @property
    def end(self) -> int:
        """The position that the next entry gets."""
        return self.start + len(self.entries)

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._grow(entry.nbytes)

    def to_replay(self) -> list[Entry]:
        """The entries that a new world has to be told."""
        return list(itertools.islice(self.entries, self.replay_from - self.start, None))

    def between(self, start: int, end: int) -> list[Entry]:
        """The entries from one position to before another, as far as they are kept."""
        return list(itertools.islice(self.entries, max(start - self.start, 0), max(end - self.start, 0)))

    def replay_starts(self, position: int) -> None:
        """A snapshot has what lies before a position."""
        self.replay_from = position
        self.replay_nbytes = sum(entry.nbytes for entry in self.to_replay())

    def rewind(self) -> None:
        """A replay begins at the first entry."""
        self.replay_from, self.replay_nbytes = self.start, self.nbytes

    def replace(self, entry: Entry, command: Command, header: bytes) -> None:
        """Has an entry say something else, without a payload."""
        before = entry.nbytes
        entry.command, entry.header, entry.payload = command, header, b""
        self._grow(entry.nbytes - before)

    def waiting_before(self, position: int) -> list[Entry]:
        """The entries before a position that wait for an answer."""
        before = itertools.islice(self.entries, max(position - self.start, 0))
        return [entry for entry in before if entry.answer is not None]

    def trim(self, position: int) -> list[Entry]:
        """Forgets what lies before a position, removes its files, and returns it."""
        if position > self.replay_from:
            self.replay_starts(position)
        trimmed = []
        while self.start < position:
            entry = self.entries.popleft()
            self.start += 1
            self.nbytes -= entry.nbytes
            entry.discard()
            trimmed.append(entry)
        return trimmed

    def _grow(self, nbytes: int) -> None:
        self.nbytes += nbytes
        self.replay_nbytes += nbytes
