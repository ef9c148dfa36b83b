"""The watch over hosts and executors: who does not move any more is given up, and why.

A closed connection is noticed by whoever holds it. This is for those that keep their connections and do not move,
frozen or cut off, and for those whose devices fail a health check. What counts as too long is decided in
`membership.hosts`; here are the clock and the timer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable

from membership import Action, BackOff, Deregistered, Do, Heartbeat, Hosts, Registered, Settings, WrongResult

GiveUp = Callable[[str], None]
"""Called with the reason."""


_AT_ONCE = BackOff(first=1e-6, cap=1e-6)
"""Who is back is in use at once, and must not be in quarantine, where silence does not count. For how long a host with
bad devices stays away is for its agent to say, who knows it longer than any run does."""


_FINEST_S = 0.001
"""No timer is shorter: a deadline that sums have rounded to a moment ago may still lie ahead for `Hosts`."""


class Watch:
    """Watches agents and executors by their heartbeats; each under a name and an incarnation, a number that grows."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` has the clock and the timers; without it, the one that runs."""
        self.hosts = Hosts(Settings(back_off=_AT_ONCE))
        self._give_up: dict[tuple[str, int], GiveUp] = {}
        self._loop = loop or asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, name: str, incarnation: int, give_up: GiveUp) -> None:
        """Watches someone, who was heard just now; `give_up(reason)` is called if they do not move any more."""
        self._give_up[name, incarnation] = give_up
        self._feed(Registered(name, incarnation))
        self._feed(Heartbeat(name, incarnation))

    def end(self, name: str, incarnation: int) -> None:
        """Watches them no more."""
        if self._give_up.pop((name, incarnation), None) is not None:
            self._feed(Deregistered(name, incarnation))

    def silence(self, name: str, now: float) -> float | None:
        """Seconds since they were heard; None if they are not known."""
        return self.hosts.silence(name, now)[0] if name in self.hosts else None

    def heard(self, name: str, incarnation: int) -> None:
        """They move."""
        self._feed(Heartbeat(name, incarnation))

    def wrong_result(self, name: str, incarnation: int, check: str) -> None:
        """A health check of their devices failed: they are given up, though they move."""
        self._feed(WrongResult(name, incarnation, check))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _feed(self, event: Registered | Heartbeat | Deregistered | WrongResult) -> None:
        self._act(self.hosts.feed(event, self._loop.time()))
        self._set_timer()

    def _tick(self) -> None:
        self._timer = None
        self._act(self.hosts.tick(self._loop.time()))
        self._set_timer()

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if action.do is Do.FENCE:
                # Not at once: it may end the watch over others, which this loop is about.
                self._loop.call_soon(self._fence, action.cause.host, action.cause.incarnation, action.reason)

    def _fence(self, name: str, incarnation: int, reason: str) -> None:
        give_up = self._give_up.get((name, incarnation))
        if give_up is not None:
            give_up(reason)

    def _set_timer(self) -> None:
        due = self.hosts.due()
        if self._timer is None and due < math.inf:
            self._timer = self._loop.call_later(max(due - self._loop.time(), _FINEST_S), self._tick)
