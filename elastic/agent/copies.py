"""Copies of snapshots that go from one host's memory to another's, from agent to agent.

The sender opens a connection in the role "copies" and sends [digest] + bytes for each, then []; the receiver answers []
when it has saved all, or [text of what went wrong].
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from elastic import calling, wire
from elastic.agent.work_meter import WorkMeter
from elastic.fault_points import reach
from elastic.handshake import HandshakeError
from elastic.host_memory import digest_of, read, save
from elastic.status import StatusError

ROLE = "copies"

_ALIVE_S = 5
"""How long nothing may be heard of the other machine: a thread that sends must not wait for one that is cut off."""


def send(memory: Path, digests: Sequence[bytes], address: str, secret: bytes) -> dict[str, Any]:
    """Sends copies to the agent at an address; blocks. The result has the "problem", None if there was none, and under
    "bad" the copies that are not here, or not whole."""
    bad: list[bytes] = []
    try:
        channel = calling.dial(address, secret, {"role": ROLE}, alive_s=_ALIVE_S)
        try:
            for digest in digests:
                bad = [digest]
                data = read(memory, digest)
                bad = []
                channel.send([digest], data)
                reach("copies")
            channel.send([])
            answer: list[str] = channel.receive()[0]
            return {"problem": answer[0] if answer else None, "bad": []}
        finally:
            channel.close()
    except StatusError as error:
        return {"problem": error.message, "bad": bad}
    except (OSError, EOFError, HandshakeError, wire.FrameError) as error:
        return {"problem": str(error) or type(error).__name__, "bad": []}


class Receiver:
    """Saves what other agents send."""

    def __init__(self, memory: Path, meter: WorkMeter) -> None:
        self._memory = memory
        self._meter = meter
        # In a thread, so that a large copy does not hold up heartbeats; in one, so that the end comes last.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="copies")
        self._loop = asyncio.get_running_loop()

    def serve(self, link: wire.Link) -> None:
        """Takes over a connection in the role "copies"."""
        problems: list[str] = []
        work = contextlib.ExitStack()
        work.enter_context(self._meter)

        def saved() -> None:
            work.close()
            link.send(wire.frame(problems[:1]))

        def received(message: Any, payload: wire.Bytes) -> None:
            match message:
                case [bytes(digest)]:
                    self._thread.submit(self._save, digest, payload, problems.append)
                case []:
                    self._thread.submit(self._loop.call_soon_threadsafe, saved)
                case _:
                    raise wire.FrameError("it is no copy")

        link.redirect(received, lambda _: work.close())

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _save(self, digest: bytes, data: wire.Bytes, failed: Callable[[str], None]) -> None:
        try:
            if digest_of(data) != digest:
                failed(f"the copy {digest.hex()} was changed on its way")
            else:
                save(self._memory, digest, data)
        except OSError as error:
            failed(f"the copy {digest.hex()} cannot be saved: {error}")
