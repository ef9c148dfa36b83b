"""Blocks of stripes that an agent makes of others: parity of shards, and lost shards of what is left.

Both are the same work: one block of a stripe from any k others, which are read piece by piece, from the host's own
memory or from other hosts', so that nothing is ever held as a whole. A job is

    {"k", "m", "want": number of the block, "bytes": of it, "digest": of it, or empty if nobody knows it yet,
     "blocks": [[number, digest, bytes, [address, ...]], ...]}

with an empty address for the host's own memory. A block that is missing or was changed is named and not used again,
and another takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint import CheckpointError, Codec
from elastic import wire
from elastic.agent.blocks import PIECE, Connections, MissingError, Reader
from elastic.fault_points import reach
from elastic.handshake import HandshakeError
from elastic.host_memory import growing
from elastic.status import StatusError

_UNREACHABLE = (OSError, EOFError, HandshakeError, wire.FrameError, StatusError)


class MakingError(Exception):
    """A block cannot be made."""


@dataclass(frozen=True, slots=True)
class Source:
    """A block of the stripe at one place."""

    number: int
    digest: bytes
    size: int
    address: str

    def __str__(self) -> str:
        return f"block {self.digest.hex()} {f'at {self.address}' if self.address else 'here'}"


@dataclass(frozen=True)
class Job:
    """One block to make (see above)."""

    k: int
    m: int
    want: int
    size: int
    digest: bytes
    sources: Sequence[Source]

    @classmethod
    def of(cls, told: dict[str, Any]) -> Job:
        sources = [
            Source(number, digest, size, address)
            for number, digest, size, addresses in told["blocks"]
            for address in addresses
        ]
        # What is here costs least; of others the data, since parity has to be decoded.
        sources.sort(key=lambda source: (bool(source.address), source.number))
        return cls(told["k"], told["m"], told["want"], told["bytes"], told["digest"], sources)


class _SourceError(Exception):
    """A source cannot be used; `bad` if that is the block's fault and not the connection's."""

    def __init__(self, source: Source, bad: bool, why: str) -> None:
        super().__init__(f"{source}: {why}")
        self.source = source
        self.bad = bad


def carry_out(memory: Path, jobs: Sequence[dict[str, Any]], secret: bytes) -> dict[str, Any]:
    """Makes blocks; blocks the thread.

    The result tells the digest of each, empty if it could not be "made", "bad" blocks as [address, digest], and the
    first "problem".
    """
    made: list[bytes] = []
    maker = Maker(memory, secret)
    problem = None
    try:
        for job in jobs:
            try:
                made.append(maker.make(Job.of(job)))
                reach("parity")
            except (MakingError, CheckpointError, OSError) as error:
                made.append(b"")
                problem = problem or str(error)
    finally:
        maker.close()
    return {"made": made, "bad": maker.bad, "problem": problem}


class Maker:
    """Makes blocks one after the other, over the same connections."""

    def __init__(self, memory: Path, secret: bytes) -> None:
        self.bad: list[tuple[str, bytes]] = []
        """(address, digest) of blocks that were missing or changed."""
        self._memory = memory
        self._connections = Connections(secret)

    def close(self) -> None:
        self._connections.close()

    def make(self, job: Job) -> bytes:
        """Saves the block and returns its digest.

        Raises `MakingError` if too few others can be read, naming each that could not, `CheckpointError` if the codec
        is not installed, or `OSError` if there is no space.
        """
        codec = Codec(job.k, job.m)
        problems = [f"{source}: it was bad before" for source in job.sources if self._known(source)]
        left = [source for source in job.sources if not self._known(source)]
        while True:
            best: dict[int, Source] = {}
            for source in left:
                best.setdefault(source.number, source)
            if len(best) < job.k:
                what = f"block {job.digest.hex()}" if job.digest else "a parity block"
                raise MakingError(
                    f"{what} cannot be made: it needs {job.k} blocks of its stripe, and {len(best)} can be used; "
                    + "; ".join(problems)
                )
            try:
                return self._attempt(job, codec, list(best.values())[: job.k])
            except _SourceError as error:
                self._connections.close()  # What was asked for and not taken would come first.
                problems.append(str(error))
                left.remove(error.source)
                if error.bad:
                    self.bad.append((error.source.address, error.source.digest))

    def _known(self, source: Source) -> bool:
        return (source.address, source.digest) in self.bad

    def _attempt(self, job: Job, codec: Codec, sources: Sequence[Source]) -> bytes:
        readers = [(source, self._open(source)) for source in sources]
        longest = max(source.size for source in sources)
        with growing(self._memory) as file:
            self._ask(readers, 0)
            for start in range(0, longest, PIECE):
                if start + PIECE < longest:
                    self._ask(readers, start + PIECE)
                pieces = {source.number: self._take(source, reader) for source, reader in readers}
                made = codec.make(job.want, pieces, max(map(len, pieces.values())))
                file.add(made[: max(0, job.size - start)])
            for source, reader in readers:
                if not reader.good:
                    raise _SourceError(source, True, "it was changed")
            if job.digest and file.digest != job.digest:
                raise MakingError(f"{job.digest.hex()} is not what was made of {', '.join(map(str, sources))}")
            file.complete()
            return file.digest

    def _open(self, source: Source) -> Reader:
        try:
            channel = self._connections.to(source.address) if source.address else None
        except _UNREACHABLE as error:
            raise _unreachable(source, error) from None
        return Reader(source.digest, source.size, self._memory, channel)

    def _ask(self, readers: Sequence[tuple[Source, Reader]], start: int) -> None:
        for source, reader in readers:
            try:
                reader.ask(start)
            except _UNREACHABLE as error:
                raise _unreachable(source, error) from None

    def _take(self, source: Source, reader: Reader) -> wire.Bytes:
        try:
            return reader.take()
        except MissingError as error:
            raise _SourceError(source, True, f"it is missing: {error}") from None
        except _UNREACHABLE as error:
            raise _unreachable(source, error) from None


def _unreachable(source: Source, error: Exception) -> _SourceError:
    return _SourceError(source, False, str(error) or type(error).__name__)
