"""Work on a disk, in a thread that holds up neither the event loop nor the end of the process, slow as disks may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from elastic.daemon_threads import DaemonThreads

T = TypeVar("T")


def in_words(error: Exception) -> str:
    """What went wrong on a disk, without the numbers that kernels have for it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


class Disk:
    """Does one thing after the other."""

    def __init__(self) -> None:
        self._thread = DaemonThreads(1, "disk")

    def do(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Calls `work()`; the result is its result, or what it raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            if not done.done():
                done.set_exception(error) if error is not None else done.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            result, failure = None, None
            try:
                result = work()
            except Exception as error:
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, failure)

        self._thread.submit(call)
        return done
