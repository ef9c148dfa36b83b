"""Blocks of stripes that one host reads from another's memory in pieces.

The reader opens a connection in the role "blocks" and sends [digest, start, bytes] for each piece; the other agent
answers [] + the piece, or [why it cannot be read]. Nothing is kept of a connection, and who reads a block to its end
checks its digest.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import xxhash

from elastic import calling, host_memory, wire

ROLE = "blocks"

PIECE = 1 << 20
"""Bytes; small enough that serving one does not hold up an agent's heartbeats."""

PATIENCE_S = 5.0
"""How long a piece may take: who takes longer is stuck or far too slow, and is treated as if it were gone."""


def serve(memory: Path, link: wire.Link) -> None:
    """Takes over a connection in the role "blocks"."""

    def received(message: Any, _: wire.Bytes) -> None:
        match message:
            case [bytes(digest), int(start), int(size)] if start >= 0 and 0 <= size <= PIECE:
                try:
                    data = host_memory.piece(memory, digest, start, size)
                except OSError as error:
                    link.send(wire.frame([error.strerror]))
                else:
                    link.send(wire.frame_header([], len(data)))
                    link.send(data)
            case _:
                raise wire.FrameError("it is no piece of a block")

    link.redirect(received, lambda _: None)


class Connections:
    """To agents of other hosts, opened when they are needed."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._channels: dict[str, wire.Channel] = {}

    def to(self, address: str) -> wire.Channel:
        """Raises what `calling.dial` raises."""
        if address not in self._channels:
            self._channels[address] = calling.dial(address, self._secret, {"role": ROLE}, PATIENCE_S)
        return self._channels[address]

    def close(self) -> None:
        """Closes all, with what is still on its way."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


class MissingError(Exception):
    """A host does not have a block, or not in full."""


class Reader:
    """A block that is read in pieces, each asked for before it is taken."""

    def __init__(self, digest: bytes, size: int, memory: Path, channel: wire.Channel | None) -> None:
        """Without a channel it is read from the host's own memory."""
        self.size = size
        self._wanted = digest
        self._memory = memory
        self._channel = channel
        self._asked: deque[tuple[int, int]] = deque()
        self._digest = xxhash.xxh3_128()

    def ask(self, start: int) -> None:
        """Asks for the piece that begins at `start`. Raises `OSError`."""
        size = max(0, min(PIECE, self.size - start))
        self._asked.append((start, size))
        if size and self._channel is not None:
            self._channel.send([self._wanted, start, size])

    def take(self) -> wire.Bytes:
        """The first piece that was asked for and not taken; empty behind the end.

        Raises `MissingError`, or `OSError`, `EOFError` and `FrameError` if the other host cannot be heard.
        """
        start, size = self._asked.popleft()
        if not size:
            return b""
        data: wire.Bytes
        if self._channel is not None:
            answer, data = self._channel.receive()
            if answer:
                raise MissingError(str(answer[0]))
        else:
            try:
                data = host_memory.piece(self._memory, self._wanted, start, size)
            except OSError as error:
                raise MissingError(error.strerror) from None
        if len(data) != size:
            raise MissingError(f"it ends after {start + len(data)} of {self.size} bytes")
        self._digest.update(data)
        return data

    @property
    def good(self) -> bool:
        """Whether all that was taken is the block."""
        return self._digest.digest() == self._wanted
