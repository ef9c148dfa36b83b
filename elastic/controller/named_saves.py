"""Checkpoints that the client asks for: trees of arrays, as they are at one point of the stream, with a step's number.

The client marks the point by running a program of a known name (`elastic.host_saves`) with the arrays as its
arguments; then it says, over a connection of its own, what they are called and where they go. At the mark the hosts
keep the shards apart; they write them later, in the background. Nothing of it waits, and no shard passes the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from checkpoint import ArrayEntry, CheckpointError, begin, write_durably
from elastic import wire
from elastic.commands import Command
from elastic.controller.arrays import Array
from elastic.controller.disk import Disk, in_words
from elastic.controller.file_writing import entries_of, write_files
from elastic.controller.hosts import CopyError, Host
from elastic.controller.journal import Answer
from elastic.controller.stored_arrays import StoredFile, put_together
from elastic.host_memory import digest_of
from elastic.status import StatusError

log = logging.getLogger(__name__)

MARK = "jit_elastic_mark"
"""The program whose arguments are marked (see `elastic.host_saves`)."""

ROLE = "saves"
"""Of the client's connection. It sends [save, first mark, how many marks, directory, step, writer, leaves, extra] and
the values of what is no array of the hosts, one behind the other. Leaves, in the order of the marked arrays, are [path,
random keys' implementation or None, None], or [path, None, [dtype, shape, bytes]]. The answer is [save, path of the
step's folder, bytes, ""] or [save, "", 0, why it could not be saved]."""

Ask = Callable[[tuple[int, ...], Command, Sequence[Any], Answer], None]


@dataclass(eq=False)
class _Mark:
    """Arrays as they were at one point of the stream.

    Attributes:
        waiting: devices that have not yet kept what they were asked to.
        records: array -> device -> record.
        homes: by digest, the hosts that keep the bytes.
    """

    number: int
    arrays: Sequence[Array]
    waiting: int = 0
    records: dict[int, dict[int, list[Any]]] = field(default_factory=dict)
    homes: dict[bytes, set[str]] = field(default_factory=dict)
    problem: str = ""
    kept: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class _Wanted:
    """What the client asks for (see `ROLE`)."""

    marks: range
    root: Path
    step: int
    writer: str
    leaves: Sequence[Any]
    extra: Mapping[str, Any]
    payload: bytes


class NamedSaves:
    """Those of one run; its clients come one after the other."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        ask: Ask,
        host_of: Callable[[int], str],
        start: Callable[[Any], asyncio.Task[None]],
    ) -> None:
        """`ask` is the run's; `host_of(device)` says where a virtual device is now, `start(work)` does something in
        the background."""
        self._hosts = hosts
        self._ask = ask
        self._host_of = host_of
        self._start = start
        self._first, self._last = 1, 0
        """The numbers of this client's first mark, and of the last that there was."""
        self._left = 0
        """How many clients have left."""
        self._marked = asyncio.Event()
        self._marks: dict[int, _Mark] = {}
        self._disk = Disk()

    def mark(self, arrays: Sequence[Array]) -> None:
        """The client's program has come to a mark. Raises `StatusError` if arrays cannot be kept apart."""
        asked: dict[int, list[int]] = {}
        try:
            for array in arrays:
                for device in self._keepers(array):
                    asked.setdefault(device, []).append(array.number)
        except StatusError as error:
            self.mark_failed(error.message)
            raise
        mark = self._new_mark(arrays)
        mark.waiting = len(asked)
        if not asked:
            mark.kept.set()
        for device, numbers in asked.items():
            arguments = [mark.number, device, numbers]
            self._ask((device,), Command.HOLD, arguments, partial(self._kept, mark, device))

    def mark_failed(self, why: str) -> None:
        """The client's program could not be run, and so has not come to the mark that it was to be."""
        mark = self._new_mark(())
        mark.problem = why
        mark.kept.set()

    def _new_mark(self, arrays: Sequence[Array]) -> _Mark:
        self._last += 1
        self._marked.set()
        mark = self._marks[self._last] = _Mark(self._last, arrays)
        return mark

    def serve_client(self, link: wire.Link) -> None:
        """Takes over a client's connection in the role `ROLE`."""

        def received(message: Any, payload: wire.Bytes) -> None:
            match message:
                case [int(save), int(first), int(count), str(root), int(step), str(writer), list(leaves), dict(extra)]:
                    numbers = range(self._first + first, self._first + first + count)
                    wanted = _Wanted(numbers, Path(root), step, writer, leaves, extra, bytes(payload))
                    self._start(self._save(link, save, wanted))
                case _:
                    raise wire.FrameError("it is no save")

        link.redirect(received, lambda _: None)

    def forget(self) -> None:
        """The client has left: nobody will ask for what it has marked and not asked for yet."""
        for number in list(self._marks):
            self._start(self._let_go(number))
        self._first = self._last + 1
        self._left += 1
        self._marked.set()

    def _keepers(self, array: Array) -> list[int]:
        """Devices whose shards make an array up, with a second one of another host for each part that has one."""
        parts: dict[Any, list[int]] = {}
        for device, part in zip(array.devices, array.sharding.parts(array.shape), strict=True):
            parts.setdefault(part, []).append(device)
        keepers = []
        for devices in parts.values():
            first = devices[0]
            keepers.append(first)
            keepers += [other for other in devices if self._host_of(other) != self._host_of(first)][:1]
        return keepers

    def _kept(self, mark: _Mark, device: int, error: StatusError | None, records: Any, _: wire.Bytes) -> None:
        if error is not None:
            mark.problem = error.message
        else:
            host = self._host_of(device)
            for record in records:
                mark.records.setdefault(record[0], {})[device] = record
                mark.homes.setdefault(record[-1], set()).add(host)
        mark.waiting -= 1
        if not mark.waiting:
            mark.kept.set()

    async def _save(self, link: wire.Link, save: int, wanted: _Wanted) -> None:
        path, size, problem = "", 0, ""
        left = self._left
        # Marks come another way than what asks for them, on which requests may have to wait.
        while left == self._left and wanted.marks and self._last < wanted.marks[-1]:
            self._marked.clear()
            await self._marked.wait()
        try:
            written, size = await self._write([self._marks[number] for number in wanted.marks], wanted)
            path = str(written)
        except KeyError:
            problem = "the arrays were not marked"
        except (CheckpointError, OSError) as error:
            problem = in_words(error)
            log.warning("step %d could not be saved in %s: %s", wanted.step, wanted.root, problem)
        finally:
            for number in wanted.marks:
                self._start(self._let_go(number))
        link.send(wire.frame([save, path, size, problem]))

    async def _write(self, marks: Sequence[_Mark], wanted: _Wanted) -> tuple[Path, int]:
        """Writes and publishes; the step's folder and its bytes."""
        for mark in marks:
            await mark.kept.wait()
            if mark.problem:
                raise CheckpointError(mark.problem)
        entries, of_marks, small = _files(marks, wanted)
        unfinished = await self._disk.do(lambda: begin(wanted.root, wanted.step, entries, wanted.writer))
        try:
            await self._disk.do(lambda: _write_small(unfinished.path, small))
            for mark, files in zip(marks, of_marks, strict=True):
                await write_files(self._hosts, files, mark.homes, unfinished.path, lambda _: None, mark=mark.number)
            files = [file for of_mark in of_marks for file in of_mark]
            everything = entries_of([*files, *(file for file, _ in small)])
            path = await self._disk.do(lambda: unfinished.publish(everything, wanted.extra))
        except BaseException:
            await self._disk.do(unfinished.abandon)
            raise
        return path, sum(file.bytes for file in everything.values())

    async def _let_go(self, number: int) -> None:
        mark = self._marks.pop(number, None)
        if mark is None:
            return
        await mark.kept.wait()
        for host in [self._hosts[id] for homes in mark.homes.values() for id in homes if id in self._hosts]:
            try:
                await host.let_go(number)
            except CopyError as error:
                log.warning("%s", error)


def _files(
    marks: Sequence[_Mark], wanted: _Wanted
) -> tuple[list[ArrayEntry], list[list[StoredFile]], list[tuple[StoredFile, bytes]]]:
    """The checkpoint's arrays, the files of each mark, and files with their content.

    Raises `CheckpointError` if it is not known how an array is divided, or the client's message does not fit.
    """
    arrays = ((number, array) for number, mark in enumerate(marks) for array in mark.arrays)
    entries: list[ArrayEntry] = []
    of_marks: list[list[StoredFile]] = [[] for _ in marks]
    small: list[tuple[StoredFile, bytes]] = []
    begin_at = 0
    for keys, key_implementation, values in wanted.leaves:
        path = tuple(keys)
        if values is not None:
            dtype, shape, size = values
            entry = ArrayEntry(path, dtype, tuple(shape), tuple(length or 1 for length in shape))
            data = wanted.payload[begin_at : begin_at + size]
            begin_at += size
            small += ((StoredFile(name, digest_of(data), size), data) for name in entry.files())
        else:
            number, array = next(arrays, (0, None))
            records = marks[number].records.get(array.number, {}) if array is not None else {}
            found = put_together(path, array, records, key_implementation) if array is not None else None
            if found is None:
                raise CheckpointError(f"it is not known how the array {'.'.join(map(str, path))} is divided")
            entry, files = found
            of_marks[number] += files
        entries.append(entry)
    return entries, of_marks, small


def _write_small(folder: Path, files: Sequence[tuple[StoredFile, bytes]]) -> None:
    for file, data in files:
        write_durably(folder / file.name, data)
