"""A plan: which faults hit a run, when, and what pool it has. Plain data; `plan_text` reads and writes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.faults import FAULTS, Fault, Target

STEP = r"\b(?:step|epoch|iter|iteration)\s*[:=#]?\s*(\d+)"
"""How a line that a script prints tells its step, unless the plan says otherwise; upper or lower case."""

EVENTS = (
    *("lost", "generation", "restored", "recovered", "snapshot", "joined", "gone", "compared", "corruption"),
    *("stored", "not_stored"),
)
"""Events of a history that a fault may wait for."""


LONGEST_DELAY_S = 0.5
"""A host whose messages take longer gives no sign of life for so long that it may be given up."""

EMBEDDED = "embedded"
ETCDS = (EMBEDDED, "1", "3")
"""What may serve a pool: the embedded server, or a real etcd of so many members."""


@dataclass(frozen=True)
class AtStep:
    """When the script has printed that it finished a step."""

    step: int


@dataclass(frozen=True)
class AtTime:
    """So many seconds after the script has read its first value."""

    seconds: float


@dataclass(frozen=True)
class AtEvent:
    """When the history tells an event for the `count`-th time since the script has read its first value."""

    event: str
    count: int = 1


@dataclass(frozen=True)
class Every:
    """Every so many seconds, at most `times` times."""

    seconds: float
    times: int | None = None


@dataclass(frozen=True)
class Poisson:
    """At random: independent of what was before, with so many seconds between two on average (MTBF)."""

    mtbf: float
    times: int | None = None


Moment = AtStep | AtTime | AtEvent
"""One time."""

When = Moment | Every | Poisson


@dataclass(frozen=True)
class PlannedFault:
    """A line of a plan.

    Attributes:
        fault: its name in the catalogue.
        hosts: those that are hit, all at once; empty if they are drawn, or if the fault is not addressed to hosts.
        count: how many are drawn.
        lasts: seconds until it is taken back.
        point: where a process dies.
        share: of its time, that a slow process gets.
        by: seconds that a delayed message takes longer.
        device: of its host, that computes wrongly; None for the first.
    """

    fault: str
    when: When
    hosts: tuple[str, ...] = ()
    count: int = 1
    lasts: float | None = None
    point: str | None = None
    share: float = 0.5
    by: float = 0.1
    device: int | None = None


@dataclass(frozen=True)
class Injection:
    """A fault whose hosts and moment are known. `number` counts those of a run."""

    number: int
    fault: str
    when: Moment
    hosts: tuple[str, ...] = ()
    lasts: float | None = None
    point: str | None = None
    share: float = 0.5
    by: float = 0.1
    device: int | None = None

    @property
    def kind(self) -> Fault:
        return FAULTS[self.fault]

    @property
    def must_be_noticed(self) -> bool:
        return self.kind.noticed and (self.lasts is None or self.lasts >= self.kind.noticeable)

    def __str__(self) -> str:
        where = f" {'+'.join(self.hosts)}" if self.hosts else ""
        return f"{self.fault}{where}" + (f" in {self.point}" if self.point else "")


@dataclass(frozen=True)
class Plan:
    """Faults, and the pool that they hit.

    Attributes:
        etcd: what serves the pool: the embedded server, or a real etcd of one or three members.
        protect: how arrays are protected against the loss of hosts, as of `elastic run`.
        checkpoint_every: seconds after which the run stores its arrays on disk; 0 if it does not.
        verify_every: one in so many intervals between snapshots is verified by the run; 0 if it verifies nothing.
        seed: repeats what is drawn; None to have one chosen.
        until: seconds after which nothing is drawn any more; None for the whole run.
        allow_data_loss: the run may fail, as long as nothing that it said before was wrong.
        step: the pattern of a printed line that tells a step, with one group.
        notice_within: seconds within which a fault must be noticed.
        recover_within: seconds within which the run must go on after that.
        patience: seconds without any event after which the run counts as one that hangs, and is ended.
    """

    name: str = "plan"
    description: str = ""
    hosts: int = 4
    devices_per_host: int = 2
    spares: int = 0
    on_loss: str = "stack"
    snapshot_budget: float = 0.1
    etcd: str = EMBEDDED
    protect: str = "copies=2"
    checkpoint_every: float = 0.0
    verify_every: int = 0
    seed: int | None = None
    until: float | None = None
    allow_data_loss: bool = False
    step: str = STEP
    notice_within: float = 5.0
    recover_within: float = 60.0
    patience: float = 300.0
    faults: tuple[PlannedFault, ...] = field(default=())

    @property
    def host_names(self) -> tuple[str, ...]:
        """All hosts of the pool, spares last."""
        return tuple(f"h{index}" for index in range(self.hosts + self.spares))

    @property
    def needs_networks(self) -> bool:
        """Whether each host must stand in a network of its own."""
        return any(FAULTS[planned.fault].changes_pool for planned in self.faults)

    @property
    def needs_delays(self) -> bool:
        """Whether messages between them must take longer."""
        return any(planned.fault == "delay" for planned in self.faults)

    @property
    def needs_machine_pool(self) -> bool:
        """Whether the pool must be one whose hosts and etcd are started one by one, as on machines of their own."""
        hits_etcd = any(FAULTS[planned.fault].target is Target.ETCD for planned in self.faults)
        return self.needs_networks or hits_etcd or self.etcd != EMBEDDED

    @property
    def needs_disk(self) -> bool:
        """Whether the run's checkpoints must be on a disk of their own."""
        return any(FAULTS[planned.fault].changes_disk for planned in self.faults)

    @property
    def drawn(self) -> bool:
        """Whether anything in it is left to chance."""
        return any(
            isinstance(planned.when, Poisson) or (FAULTS[planned.fault].target.value == "host" and not planned.hosts)
            for planned in self.faults
        )
