"""All hosts that a controller watches: what they send goes in, what is to be done about them comes out.

    actions = hosts.feed(event, now)     an event of the outside: registration, heartbeat, closed stream, ...
    actions = hosts.tick(now)            what time alone brings: silences, ends of quarantines
    hosts.due()                          when the next tick is due; a loop sleeps until then

Measures (rhythm, progress, conduct) are kept here, one for each host, and turned into the events of `host_state`, which
decides. No clock, no I/O, no thread. Times are monotonic seconds. Made for 10,000 hosts: a heartbeat costs O(1), and a
tick only touches hosts that are due.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from membership.backoff import BackOff, Conduct
from membership.errors import CannotHappenError
from membership.events import (
    Action,
    Do,
    Event,
    ExecutorStalled,
    Heartbeat,
    QuarantineOver,
    Registered,
    Replaced,
    Resumed,
    SilenceConfirmed,
    Silent,
    WrongResult,
)
from membership.host_state import Change, Host, State, register, step
from membership.observer import ObservedTime
from membership.phi import Rhythm, Sensitivity
from membership.progress import Progress, World

_NOTHING: tuple[Action, ...] = ()
WRONG_RESULT_WEIGHT = 8.0
"""A machine that computes wrongly is worse than one that stops: one wrong result counts as so many failures."""


@dataclass(frozen=True)
class Settings:
    """How hosts are watched. Times in seconds."""

    sensitivity: Sensitivity = field(default_factory=Sensitivity)
    confirm: float = 0.15
    """How long a suspect may answer the probe. With `Sensitivity.longest` this bounds the time to notice a host that
    is frozen or cut off: below a second."""
    join: float = 10.0
    """How long after its registration a host may stay unheard."""
    executor_patience: float = 1.0
    """How long an executor may stand still, and a peer wait for it."""
    tick: float = 0.1
    """The loop ticks at least so often."""
    allowance: float = 0.25
    """Between two looks of the observer no more than this counts as silence of a host."""
    forget: float = 3600.0
    """How long a dead host is still shown, and its conduct remembered."""
    back_off: BackOff = field(default_factory=BackOff)

    def __post_init__(self) -> None:
        if not 0 < self.tick <= self.allowance < self.sensitivity.pause:
            raise ValueError(
                f"an observer ticks more often than it allows, and allows less than the pause it forgives a host: "
                f"tick {self.tick} <= allowance {self.allowance} < pause {self.sensitivity.pause}"
            )


class _Watched:
    """One host with its measures. `since` and `queued` are observed times."""

    __slots__ = ("conduct", "generation", "hold", "host", "queued", "rhythm", "since", "stuck")

    def __init__(self, host: Host, conduct: Conduct, rhythm: Rhythm, since: float) -> None:
        self.host = host
        self.conduct = conduct
        self.rhythm = rhythm
        self.since = since
        self.hold = 0.0
        """How long its back-off lasted still when it came to its state."""
        self.queued = math.inf
        """Its entry in the queue; never later than its deadline."""
        self.generation: int | None = None
        """The world it reports progress in."""
        self.stuck: Progress | None = None
        """The progress at which its executor stalled, while the host is frozen for that."""


class Hosts:
    """The hosts of a pool, by id."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.dropped: Counter[str] = Counter()
        """Events that came too late or too early, by why."""
        self.last_drop = ""
        """The last of them in words, with both incarnations."""
        self._time = ObservedTime(self.settings.allowance)
        self._observed = -math.inf
        self._watched: dict[str, _Watched] = {}
        self._worlds: dict[int, World] = {}
        self._queue: list[tuple[float, str]] = []

    def __iter__(self) -> Iterator[Host]:
        return (watched.host for watched in self._watched.values())

    def __getitem__(self, id: str) -> Host:
        return self._watched[id].host

    def __contains__(self, id: str) -> bool:
        return id in self._watched

    def words(self, id: str, now: float) -> str:
        """Why the host is in its state, with what holds it back. Raises `KeyError` for an unknown host."""
        watched = self._watched[id]
        host = watched.host
        if host.state is State.QUARANTINED:
            return f"{host.reason}; {watched.conduct.words(self.settings.back_off, now)}"
        return host.reason

    def silence(self, id: str, now: float) -> tuple[float, float]:
        """(seconds since the host was heard, phi of that). Raises `KeyError` for an unknown host."""
        rhythm = self._watched[id].rhythm
        observed = now - self._time.missed
        return max(0.0, observed - rhythm.heard), rhythm.phi(observed)

    # Events

    def feed(self, event: Event, now: float) -> tuple[Action, ...]:
        """Takes an event of the outside in. Events of other incarnations than the present are counted and dropped."""
        self._observed = observed = self._time.look(now)
        watched = self._watched.get(event.host)
        if type(event) is Registered:
            return self._register(event, watched, now)
        if watched is None or watched.host.incarnation != event.incarnation or watched.host.state is State.DEAD:
            self._drop(event, watched)
            return _NOTHING
        if type(event) is Heartbeat:
            return self._heard(watched, event, observed, now)
        return self._apply(watched, event, now)

    def _register(self, event: Registered, old: _Watched | None, now: float) -> tuple[Action, ...]:
        actions = _NOTHING
        history: tuple[Change, ...] = ()
        conduct = Conduct()
        if old is not None:
            if event.incarnation <= old.host.incarnation:
                self._drop(event, old)
                return _NOTHING
            actions = self._apply(old, Replaced(old.host.id, old.host.incarnation, event.incarnation), now)
            history, conduct = old.host.history, old.conduct
        host = register(event, now, conduct.until > now, history)
        rhythm = Rhythm(self.settings.sensitivity, self._observed)
        watched = self._watched[event.host] = _Watched(host, conduct, rhythm, self._observed)
        watched.hold = max(0.0, conduct.until - now)
        self._schedule(watched)
        return actions

    def _drop(self, event: Event, watched: _Watched | None) -> None:
        if watched is None:
            why, known = "unknown host", "it is not registered"
        else:
            host = watched.host
            known = f"incarnation {host.incarnation} is {host.state}"
            if event.incarnation == host.incarnation:
                why = "dead" if host.state is State.DEAD else "repeated"
            else:
                why = "older incarnation" if event.incarnation < host.incarnation else "newer incarnation"
        self.dropped[why] += 1
        self.last_drop = (
            f"{type(event).__name__} of host {event.host}, incarnation {event.incarnation}, was dropped: {known}"
        )

    def _heard(self, watched: _Watched, event: Heartbeat, observed: float, now: float) -> tuple[Action, ...]:
        rhythm, state, progress = watched.rhythm, watched.host.state, event.progress
        silence = observed - rhythm.heard
        rhythm.beat(observed)
        if state is State.HEALTHY or state is State.DRAINING:
            if rhythm.deadline < watched.queued:
                self._schedule(watched)
            return self._progressed(watched, progress, observed, now) if progress else _NOTHING
        if state is State.JOINING:
            # The wait for the first heartbeat is no part of the rhythm.
            watched.rhythm = Rhythm(self.settings.sensitivity, observed)
            return self._apply(watched, event, now)
        if state is State.SUSPECT or (state is State.FROZEN and (watched.stuck is None or progress != watched.stuck)):
            after = silence if watched.stuck is None else observed - watched.since
            return self._apply(watched, Resumed(event.host, event.incarnation, after), now)
        return _NOTHING

    def _progressed(self, watched: _Watched, progress: Progress, observed: float, now: float) -> tuple[Action, ...]:
        host = watched.host
        if watched.generation != progress.generation:
            self._leave_world(watched)
            watched.generation = progress.generation
            self._worlds.setdefault(progress.generation, World(self.settings.executor_patience))
        stall = self._worlds[progress.generation].beat(host.id, progress, observed)
        if stall is None:
            return _NOTHING
        actions = self._apply(watched, ExecutorStalled(host.id, host.incarnation, stall), now)
        if watched.host.state is State.FROZEN:
            watched.stuck = progress
        return actions

    def _leave_world(self, watched: _Watched) -> None:
        if watched.generation is None:
            return
        world = self._worlds[watched.generation]
        world.leave(watched.host.id)
        if not len(world):
            del self._worlds[watched.generation]
        watched.generation = None

    def _apply(self, watched: _Watched, event: Event, now: float) -> tuple[Action, ...]:
        """The one place where a host changes; what is measured of it follows its state."""
        before = watched.host
        watched.host, actions = step(before, event, now)
        if watched.host is before:
            return _NOTHING
        state, rule = watched.host.state, self.settings.back_off
        if any(action.do is Do.FENCE for action in actions):
            weight = WRONG_RESULT_WEIGHT if isinstance(event, WrongResult) else 1.0
            watched.conduct = watched.conduct.failed(rule, now, weight)
        if state is State.HEALTHY:
            watched.conduct = watched.conduct.well(now)
        else:
            watched.conduct = watched.conduct.unwell(now)
        if state is not State.HEALTHY and state is not State.DRAINING:
            self._leave_world(watched)
        watched.stuck = None
        watched.since = self._observed
        watched.hold = max(0.0, watched.conduct.until - now)
        self._schedule(watched)
        return actions

    # Time

    def tick(self, now: float) -> tuple[Action, ...]:
        """What follows from the time. To be called when `due` says, and first of all when the loop wakes up."""
        self._observed = observed = self._time.look(now)
        actions: list[Action] = []
        while (watched := self._first()) is not None and watched.queued <= observed:
            heapq.heappop(self._queue)
            watched.queued = math.inf
            if watched.host.state is State.DEAD:
                del self._watched[watched.host.id]
            else:
                actions += self._apply(watched, self._timed_out(watched), now)
        return tuple(actions)

    def due(self) -> float:
        """When `tick` is to be called next: at the next deadline, or when the observer must show that it runs.

        Infinite while there is no host.
        """
        first = self._first()
        if first is None:
            return math.inf if not self._watched else self._time.real(self._observed + self.settings.tick)
        return self._time.real(min(first.queued, self._observed + self.settings.tick))

    def _first(self) -> _Watched | None:
        """The host with the earliest deadline, which then is exactly `queued`.

        Deadlines move with every heartbeat, the queue does not: an entry says that a host is not due before, and is
        put right when it comes to the front.
        """
        while self._queue:
            at, id = self._queue[0]
            watched = self._watched.get(id)
            if watched is not None and watched.queued == at:
                deadline = self._deadline(watched)
                if deadline <= at:
                    return watched
                watched.queued = deadline
                if deadline < math.inf:
                    heapq.heapreplace(self._queue, (deadline, id))
                    continue
            heapq.heappop(self._queue)
        return None

    def _schedule(self, watched: _Watched) -> None:
        deadline = self._deadline(watched)
        if deadline < watched.queued:
            watched.queued = deadline
            heapq.heappush(self._queue, (deadline, watched.host.id))

    def _deadline(self, watched: _Watched) -> float:
        match watched.host.state:
            case State.HEALTHY:
                return watched.rhythm.deadline
            case State.SUSPECT | State.DRAINING:
                return watched.rhythm.deadline + self.settings.confirm
            case State.JOINING:
                return watched.since + self.settings.join
            case State.QUARANTINED:
                return watched.since + watched.hold
            case State.FROZEN:
                return math.inf
            case State.DEAD:
                return watched.since + self.settings.forget

    def _timed_out(self, watched: _Watched) -> Event:
        host = watched.host
        silence = self._observed - watched.rhythm.heard
        match host.state:
            case State.HEALTHY:
                mean, deviation = watched.rhythm.measured()
                usual = f"it is heard every {mean:.2f} s, with a deviation of {deviation:.2f} s"
                return Silent(host.id, host.incarnation, silence, usual)
            case State.JOINING:
                return Silent(
                    host.id, host.incarnation, self._observed - watched.since, "not heard at all since it joined"
                )
            case State.QUARANTINED:
                return QuarantineOver(host.id, host.incarnation)
            case _:
                return SilenceConfirmed(host.id, host.incarnation, silence)

    def validate(self) -> None:
        """Checks what must always hold, for tests. Raises `CannotHappenError` with the host's history."""
        entries = set(self._queue)
        for id, watched in self._watched.items():
            host, state = watched.host, watched.host.state
            held = {
                "its last change leads to its state": host.history[-1].after is state,
                "its id is its key": host.id == id,
                "its deadline is queued": watched.queued <= self._deadline(watched),
                "its place in the queue exists": watched.queued == math.inf or (watched.queued, id) in entries,
                "only a healthy host earns good conduct": (state is State.HEALTHY)
                == (watched.conduct.healthy_since is not None),
                "only a host in use is in a world": watched.generation is None
                or (state in (State.HEALTHY, State.DRAINING) and watched.generation in self._worlds),
                "only a frozen host is stuck": watched.stuck is None or state is State.FROZEN,
            }
            broken = [rule for rule, holds in held.items() if not holds]
            if broken:
                raise CannotHappenError(f"host {id} breaks: {', '.join(broken)}. Its history:\n{host.told()}")
        generations = {watched.generation for watched in self._watched.values()} - {None}
        if self._worlds.keys() != generations:
            raise CannotHappenError(f"worlds {sorted(self._worlds)} are kept, hosts are in {generations}")
