"""Plays with a pool that verifies, and what tests ask it for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from elastic.commands import Command
from elastic.controller.findings import VerifiedFacts
from elastic.controller.journal import Journal
from tests.elastic.controller.played import PlayedPool, with_hosts


def verified(play: Callable[[PlayedPool], Awaitable[None]], **how: Any) -> None:
    """Plays a test on a pool whose every snapshot is verified."""
    with_hosts(play, verify_every=1, **how)


async def held_up(pool: PlayedPool, command: Command) -> asyncio.Task[None]:
    """Verifying that has begun, and of which three executors hold a command back."""
    pool.hold(command)
    verifying = asyncio.create_task(pool.verify())
    await pool.until_held(command, 3)
    return verifying


def facts(pool: PlayedPool) -> VerifiedFacts:
    """How verifying stands."""
    verifying = pool.run._verifying
    assert verifying is not None
    return verifying.facts(0.0)


def journal(pool: PlayedPool) -> Journal:
    return pool.run._line.journal
