"""What happens to a pool that its launcher is told of, in the words in which it tells the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elastic.errors import HostLostError


@dataclass(frozen=True)
class HostRecovered:
    """The run went on without the client's noticing, after a host or its executor died, or with other hosts.

    Attributes:
        lost: whether something died.
        plan: what was done, in words.
        seconds: from when it was noticed until the run went on.
        phases: where these seconds went, by name and in order.
        operations_replayed: how many the new world was told again.
    """

    host: str
    reason: str
    lost: bool
    plan: str
    seconds: float
    phases: Mapping[str, float] = field(default_factory=dict)
    operations_replayed: int = 0

    def __str__(self) -> str:
        what = f"host {self.host} {'was lost' if self.lost else 'changed'}: {self.reason}" if self.host else self.reason
        return f"{what}; the run went on after {self.seconds:.2f} s: {self.plan}"

    @property
    def phases_text(self) -> str:
        """The phases in words."""
        phases = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in self.phases.items())
        return f"{phases}; {self.operations_replayed} operations replayed"


@dataclass(frozen=True)
class RunWaits:
    """A host died, and the run waits for another one: the client waits with it, and sees no error."""

    host: str
    reason: str
    what: str

    def __str__(self) -> str:
        return f"host {self.host} was lost: {self.reason}; the run waits: {self.what}"


@dataclass(frozen=True)
class HostLost:
    """A host died, which ends this run: the client's next operations fail with an error that names it.

    `why_not`: why the run cannot go on without it, if there is more to say.
    """

    host: str
    reason: str
    why_not: str = ""

    def __str__(self) -> str:
        return str(HostLostError(self.host, self.reason, why_not=self.why_not))


@dataclass(frozen=True)
class ControllerDied:
    """The controller died, which ends this run: the client's connection is gone."""

    reason: str

    def __str__(self) -> str:
        return f"the controller {self.reason}"


PoolEvent = HostRecovered | RunWaits | HostLost | ControllerDied
