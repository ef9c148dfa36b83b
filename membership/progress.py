"""Which executors stand still while their peers wait for them.

An executor raises its counter with each command that it carries out and, while it waits for peers or devices, in each
turn of the thread that waits. So a counter that does not move belongs to a process that is stopped or stuck in itself,
never to one with a long computation. That alone is no fault, since nobody may need it at the moment: it is one when a
peer waits for as long.

Agents send the counter with their heartbeats, and only heartbeats count here: while an agent is silent nothing is known
about its executor, and `phi` speaks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """What a heartbeat says about the host's executor."""

    generation: int
    """The world that the executor belongs to."""
    counter: int
    waiting: bool
    """Whether it waits for peers just now: in a collective, or for a shard that one of them sends."""


@dataclass(frozen=True, slots=True)
class Stall:
    """An executor that stands still, for how long (seconds), and a peer that waits."""

    still: float
    waiter: str


class World:
    """The counters of the executors of one generation. Times are seconds, and may only grow."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._moved: dict[str, tuple[int, float]] = {}
        """host -> (counter, when it was first seen)"""
        self._waiting: dict[str, float] = {}
        """host -> since when it waits; in the order of these times, since it is filled in the order of time"""
        self._told: set[str] = set()

    def __len__(self) -> int:
        return len(self._moved)

    def beat(self, host: str, progress: Progress, now: float) -> Stall | None:
        """Takes a heartbeat in. Returns a stall once, when the host's executor has stood still for too long."""
        if progress.waiting:
            self._waiting.setdefault(host, now)
        else:
            self._waiting.pop(host, None)
        counter, since = self._moved.get(host, (None, now))
        if counter != progress.counter:
            self._moved[host] = (progress.counter, now)
            self._told.discard(host)
            return None
        if now - since < self._patience or host in self._told:
            return None
        waiter = next((peer for peer in self._waiting if peer != host), None)
        if waiter is None or now - self._waiting[waiter] < self._patience:
            return None
        self._told.add(host)
        return Stall(now - since, waiter)

    def leave(self, host: str) -> None:
        """The host has no executor in this world any more, or nothing is known of it."""
        self._moved.pop(host, None)
        self._waiting.pop(host, None)
        self._told.discard(host)
