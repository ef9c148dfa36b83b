"""Tasks that nobody waits for any more, since others were faster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


def leave(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Lets them end by themselves; what they raise is of no interest."""
    for task in tasks:
        task.add_done_callback(_ended)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # Else asyncio logs that nobody has looked at it.
