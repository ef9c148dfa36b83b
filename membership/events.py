"""What can be noticed about a host, and what can be done about it: words shared by detectors, `host_state` and shells.

An event speaks of one incarnation of a host, and says in words what was noticed; these are the reason of all that
follows. An action carries the event that is its cause.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from membership.progress import Progress, Stall


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was noticed about one incarnation of a host."""

    host: str
    incarnation: int

    def words(self) -> str:
        """What was noticed, as the reason of what follows."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Registered(Event):
    """The incarnation registered itself. A newer one replaces all older."""

    def words(self) -> str:
        return f"registered as incarnation {self.incarnation}"


@dataclass(frozen=True, slots=True)
class Heartbeat(Event):
    """The host was heard: a heartbeat, or the answer to a probe. `progress` is None while it has no executor."""

    progress: Progress | None = None

    def words(self) -> str:
        return "heard"


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The host moves again after it was suspect or frozen; `after` is the standstill in seconds."""

    after: float

    def words(self) -> str:
        return f"moves again after {self.after:.2f} s"


@dataclass(frozen=True, slots=True)
class StreamClosed(Event):
    """The connection to the host ended: what machines do when a process dies, in milliseconds."""

    reason: str

    def words(self) -> str:
        return f"its stream closed: {self.reason}"


@dataclass(frozen=True, slots=True)
class Silent(Event):
    """The detector's suspicion; `silence` in seconds, `expected` says what was usual."""

    silence: float
    expected: str

    def words(self) -> str:
        return f"silent for {self.silence:.2f} s; {self.expected}"


@dataclass(frozen=True, slots=True)
class SilenceConfirmed(Event):
    """It stayed silent for the time that a suspect is given, with its connection open."""

    silence: float

    def words(self) -> str:
        return f"connected but silent for {self.silence:.2f} s"


@dataclass(frozen=True, slots=True)
class ExecutorStalled(Event):
    """The agent is heard, but its executor does not move while a peer waits for it."""

    stall: Stall

    def words(self) -> str:
        return f"its executor has not moved for {self.stall.still:.2f} s while {self.stall.waiter} waits"


@dataclass(frozen=True, slots=True)
class DrainRequested(Event):
    """The host said that it will leave, as on SIGTERM."""

    reason: str

    def words(self) -> str:
        return f"asked to be drained: {self.reason}"


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """etcd dropped the host's lease: it expired or was revoked. The slow truth."""

    def words(self) -> str:
        return "its lease is gone from etcd"


@dataclass(frozen=True, slots=True)
class WrongResult(Event):
    """A health check of the host's devices gave a wrong number, an error or nothing; `check` says which."""

    check: str

    def words(self) -> str:
        return f"a health check of its devices failed: {self.check}"


@dataclass(frozen=True, slots=True)
class QuarantineOver(Event):
    """The host's back-off has passed."""

    def words(self) -> str:
        return "its back-off is over"


@dataclass(frozen=True, slots=True)
class Deregistered(Event):
    """The host took its own registration back."""

    def words(self) -> str:
        return "deregistered itself"


@dataclass(frozen=True, slots=True)
class Replaced(Event):
    """A newer incarnation of the host registered, so this one cannot be alive."""

    by: int

    def words(self) -> str:
        return f"replaced by its incarnation {self.by}"


class Do(enum.StrEnum):
    """What a change of a host asks for."""

    USE = "use"
    """It may be given virtual devices, at the next snapshot."""
    PROBE = "probe"
    """Ask it for a sign of life by another way than its heartbeats."""
    FENCE = "fence"
    """It failed: revoke its lease, raise the generation, go on without it."""
    EVACUATE = "evacuate"
    """Move what it holds elsewhere; it still helps."""
    LEFT = "left"
    """It is gone as announced: if it still held anything, go on without it."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do, and the event that is its cause."""

    do: Do
    cause: Event
    reason: str
