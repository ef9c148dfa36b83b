"""The changes of a run's world, as they are told to launchers and shown by `elastic health`. Plain data."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from elastic.controller.replay import Verification
from elastic.instants import now_text

MOST = 100
"""Changes that are remembered."""


@dataclass(frozen=True)
class Recovered:
    """A change of the world and what was done. Times in seconds.

    Attributes:
        kind: "lost" if a host or its executor was, "moved" if the run only went on with other hosts, "corrected" if it
            went back because arrays were wrong (`host` is empty if nobody can say whose fault it was), "failed" if it
            could not go on.
        plan: the new placement, in words.
        phases: from when it was noticed on: "fence", "world", "load", "restore", "replay".
        detected_by: who noticed it and by what.
        detect: from the last sign of life until it was noticed.
        verified: whether what was replayed gave what was seen before; None if nothing was compared.
        time: when it was noticed, RFC 3339.
    """

    kind: str
    host: str
    reason: str
    plan: str
    phases: Mapping[str, float]
    operations_replayed: int
    detected_by: str = ""
    detect: float = 0.0
    verified: bool | None = None
    time: str = field(default_factory=now_text)

    @property
    def total(self) -> float:
        """From when it was noticed until the run went on."""
        return sum(self.phases.values())


class Changes:
    """The last changes of a run, the newest last."""

    def __init__(self) -> None:
        self._last: deque[tuple[Recovered, Verification]] = deque(maxlen=MOST)

    def add(self, change: Recovered, verification: Verification | None = None) -> None:
        """`verification` is of the replay that belongs to the change; it goes on for a while."""
        self._last.append((change, verification or Verification()))

    def told(self) -> list[Recovered]:
        """All, with what is known now of their verification."""
        return [replace(change, verified=_verified(verification)) for change, verification in self._last]


def _verified(verification: Verification) -> bool | None:
    if verification.different:
        return False
    return True if verification.equal and not verification.waiting else None
