"""The life of one host as a state machine: (host, event, now) -> (host, actions), without clock and I/O.

Nothing is measured here (`phi`, `progress`), and nothing is weighed against other hosts (`hosts`). Identity is (id,
incarnation): a `Host` is one incarnation, and events of another never come here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from membership.errors import CannotHappenError
from membership.events import (
    Action,
    Deregistered,
    Do,
    DrainRequested,
    Event,
    ExecutorStalled,
    Heartbeat,
    LeaseLost,
    QuarantineOver,
    Registered,
    Replaced,
    Resumed,
    SilenceConfirmed,
    Silent,
    StreamClosed,
    WrongResult,
)


class State(enum.StrEnum):
    """Where a host stands. The values are what `elastic health` shows."""

    JOINING = "joining"
    """Registered or let in again; used from its next heartbeat on."""
    HEALTHY = "healthy"
    """Heard in its usual rhythm: virtual devices may be placed on it."""
    SUSPECT = "suspect"
    """Silent for longer than its rhythm explains; asked for a sign of life, nothing taken from it yet."""
    FROZEN = "frozen"
    """Connected, but it does not move: silent, or its executor stands still while peers wait. Fenced."""
    DRAINING = "draining"
    """It will leave: it serves what it holds until that is elsewhere, and gets nothing new."""
    DEAD = "dead"
    """This incarnation is gone for good. Its words count no more, even if it should speak again."""
    QUARANTINED = "quarantined"
    """Alive, but not used until its back-off is over."""


@dataclass(frozen=True, slots=True)
class Change:
    """A line of a host's history. `at` in the caller's monotonic seconds."""

    at: float
    before: State | None
    after: State
    reason: str

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.before or 'unknown'} -> {self.after}: {self.reason}"


HISTORY = 16
"""How many of its last changes a host remembers."""


@dataclass(frozen=True, slots=True)
class Host:
    """One incarnation of a host. `history` may begin with changes of earlier ones."""

    id: str
    incarnation: int
    state: State
    reason: str
    since: float
    history: tuple[Change, ...]

    def told(self) -> str:
        """The history as lines of text."""
        return "\n".join(f"  {change}" for change in self.history)


def register(event: Registered, now: float, held: bool, history: tuple[Change, ...] = ()) -> Host:
    """A host that just registered: joining, or quarantined if its back-off still holds it back."""
    state = State.QUARANTINED if held else State.JOINING
    change = Change(now, history[-1].after if history else None, state, event.words())
    return Host(event.host, event.incarnation, state, change.reason, now, _longer(history, change))


def step(host: Host, event: Event, now: float) -> tuple[Host, tuple[Action, ...]]:
    """What the host is after an event, and what is to be done.

    Raises `CannotHappenError` for an event that is derived from the host's own state and does not fit to it.
    """
    try:
        then = _TABLE[host.state][type(event)]
    except KeyError:
        raise CannotHappenError(
            f"host {host.id}, incarnation {host.incarnation}: {type(event).__name__} ({event.words()}) cannot happen "
            f"to a host that is {host.state}. Its history:\n{host.told()}"
        ) from None
    if then is None:
        return host, ()
    state, *todo = then
    reason = event.words()
    return _become(host, state, reason, now), tuple(Action(do, event, reason) for do in todo)


def _become(host: Host, state: State, reason: str, now: float) -> Host:
    history = _longer(host.history, Change(now, host.state, state, reason))
    return replace(host, state=state, reason=reason, since=now, history=history)


def _longer(history: tuple[Change, ...], change: Change) -> tuple[Change, ...]:
    return (*history[-(HISTORY - 1) :], change)


_J, _H, _S, _F, _DR, _D, _Q = State

_Then = tuple[State, *tuple[Do, ...]] | None
"""The next state and what to do; None if the event changes nothing."""

_TABLE: dict[State, dict[type[Event], _Then]] = {
    # Silence is suspicious only where a rhythm was heard, so a host that never answers is given up at once.
    _J: {
        Heartbeat: (_H, Do.USE),
        Silent: (_D, Do.FENCE),
        StreamClosed: (_D, Do.FENCE),
        DrainRequested: (_DR, Do.EVACUATE),
        LeaseLost: (_D, Do.FENCE),
        WrongResult: (_Q, Do.FENCE),
        Deregistered: (_D, Do.LEFT),
        Replaced: (_D, Do.FENCE),
    },
    _H: {
        Heartbeat: None,
        Silent: (_S, Do.PROBE),
        ExecutorStalled: (_F, Do.FENCE),
        StreamClosed: (_D, Do.FENCE),
        DrainRequested: (_DR, Do.EVACUATE),
        LeaseLost: (_D, Do.FENCE),
        WrongResult: (_Q, Do.FENCE),
        Deregistered: (_D, Do.LEFT),
        Replaced: (_D, Do.FENCE),
    },
    _S: {
        Resumed: (_H,),
        SilenceConfirmed: (_F, Do.FENCE),
        StreamClosed: (_D, Do.FENCE),
        DrainRequested: (_DR, Do.EVACUATE),
        LeaseLost: (_D, Do.FENCE),
        WrongResult: (_Q, Do.FENCE),
        Deregistered: (_D, Do.LEFT),
        Replaced: (_D, Do.FENCE),
    },
    # Fenced already: nothing that follows asks for another recovery.
    _F: {
        Heartbeat: None,
        Resumed: (_Q,),
        StreamClosed: (_D,),
        DrainRequested: (_DR,),
        LeaseLost: (_D,),
        WrongResult: (_Q,),
        Deregistered: (_D,),
        Replaced: (_D,),
    },
    # A host that leaves is given no second chance, and its going is no failure.
    _DR: {
        Heartbeat: None,
        SilenceConfirmed: (_D, Do.FENCE),
        ExecutorStalled: (_DR, Do.FENCE),
        StreamClosed: (_D, Do.LEFT),
        DrainRequested: None,
        LeaseLost: (_D, Do.LEFT),
        WrongResult: (_Q, Do.FENCE),
        Deregistered: (_D, Do.LEFT),
        Replaced: (_D, Do.LEFT),
    },
    # What is decided stays decided; the rest of a death (stream, lease) arrives in any order.
    _D: dict.fromkeys((Heartbeat, StreamClosed, DrainRequested, LeaseLost, WrongResult, Deregistered, Replaced)),
    _Q: {
        Heartbeat: None,
        QuarantineOver: (_J,),
        StreamClosed: (_D,),
        DrainRequested: (_DR,),
        LeaseLost: (_D,),
        WrongResult: (_Q,),
        Deregistered: (_D,),
        Replaced: (_D,),
    },
}
