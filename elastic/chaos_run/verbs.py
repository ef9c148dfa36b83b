"""The faults, as they are done to the processes of a run."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

from chaos import FAULTS, Injection, NetworkError, Target
from elastic import fault_points
from elastic.chaos_run.live_run import LiveRun
from elastic.chaos_run.network_verbs import NetworkVerbs
from elastic.chaos_run.storage_verbs import StorageVerbs
from elastic.errors import PoolError
from membership import MembershipError

_SLICE_S = 0.05
"""Of a slow process, how long it runs and stands still, taken together."""

_FLAP_S = 1.5
"""How long a flapping host stands still, and then goes on."""


class Verbs:
    """Does faults to a run, and takes them back when their time is over."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._armed: dict[str, list[tuple[Injection, float]]] = {}
        """Deaths at points that have not happened, and when that was last known."""
        self._undo: dict[int, Callable[[], None]] = {}
        """How faults that last are taken back, by number."""
        self._network = NetworkVerbs(run, self._lasts)
        self._storage = StorageVerbs(run, self._lasts)
        self._does: dict[str, Callable[[Injection], None]] = {
            "kill-executor": self._kill,
            "kill-agent": self._kill,
            "kill-host": self._kill,
            "freeze-executor": self._freeze,
            "freeze-agent": self._freeze,
            "freeze-host": self._freeze,
            "zombie": self._freeze,
            "flap": self._flap,
            "slow": self._slow,
            "preempt": self._preempt,
            **self._network.does,
            "recycle-address": self._recycle,
            **{fault.name: self._hit_etcd for fault in FAULTS.values() if fault.target is Target.ETCD},
            "die": self._arm,
            "flip-bit": self._flip,
            **self._storage.does,
            "kill-controller": lambda _: self._run.who.signal([self._run.who.controller()], signal.SIGKILL),
            "kill-client": lambda _: self._run.who.signal([self._run.who.client()], signal.SIGKILL),
        }

    def do(self, injection: Injection) -> str:
        """Does a fault now, or tells why it cannot be done; the reason, empty if it was done.

        One that waits for its point is told when it has come.
        """
        if why := self.prevents(injection):
            self.skip(injection, why)
            return why
        began = self._run.now
        try:
            self._does[injection.fault](injection)
        except (PoolError, MembershipError, NetworkError) as error:
            self.skip(injection, str(error))
            return str(error)
        if injection.point is None:
            self._tell(injection, began)
        return ""

    def prevents(self, injection: Injection) -> str:
        """Why a fault cannot be done now, in words; empty if it can."""
        if missing := [host for host in injection.hosts if not self._targets(injection.fault, host)]:
            return f"{', '.join(missing)} had no such process then"
        return self._network.prevents(injection) or self._storage.prevents(injection)

    def take_back(self, number: int) -> None:
        """Takes a fault back before its time; does nothing if it was taken back."""
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()
            self._run.tell("reverted", number=number)

    def skip(self, injection: Injection, why: str) -> None:
        self._run.tell("skipped", number=injection.number, fault=injection.fault, hosts=injection.hosts, why=why)

    def look(self) -> None:
        """Tells of deaths at points that have come, as of the look before: else their effects may seem to be first."""
        now = self._run.now
        for point, waiting in self._armed.items():
            if waiting and not fault_points.is_armed(self._run.points, point):
                injection, seen = waiting.pop(0)
                self._tell(injection, seen)
                if waiting:
                    fault_points.arm(self._run.points, point)
            self._armed[point] = [(one, now) for one, _ in waiting]

    def give_up(self) -> None:
        """Tells of deaths at points to which nobody came."""
        for waiting in self._armed.values():
            for injection, _ in waiting:
                self.skip(injection, f"no process came to the point {injection.point!r}")

    def _tell(self, injection: Injection, at: float | None = None) -> None:
        self._run.tell(
            "injected",
            at,
            number=injection.number,
            fault=injection.fault,
            hosts=injection.hosts,
            lasts=injection.lasts,
            must_be_noticed=injection.must_be_noticed,
        )

    def _targets(self, fault: str, host: str) -> list[int]:
        """The processes of a host that a fault is done to; none if not all of them are there."""
        agent, executor = self._run.who.agent(host), self._run.who.executor(host)
        wanted = {
            "kill-executor": [executor],
            "freeze-executor": [executor],
            "slow": [executor],
            # An agent takes its executor along; a host that has none yet is hit as well.
            "kill-host": [agent, executor] if executor else [agent],
            "recycle-address": [agent, executor] if executor else [agent],
            "freeze-host": [agent, executor] if executor else [agent],
            "zombie": [agent, executor] if executor else [agent],
        }.get(fault, [agent])
        return [pid for pid in wanted if pid is not None] if None not in wanted else []

    def _all_targets(self, injection: Injection) -> list[int]:
        return [pid for host in injection.hosts for pid in self._targets(injection.fault, host)]

    def _kill(self, injection: Injection) -> None:
        self._run.who.signal(self._all_targets(injection), signal.SIGKILL)

    def _freeze(self, injection: Injection) -> None:
        pids = self._all_targets(injection)
        self._run.who.signal(pids, signal.SIGSTOP)
        self._lasts(injection, partial(self._run.who.signal, pids, signal.SIGCONT))

    def _flap(self, injection: Injection) -> None:
        self._by_turns(injection, _FLAP_S, _FLAP_S)

    def _slow(self, injection: Injection) -> None:
        self._by_turns(injection, _SLICE_S * (1 - injection.share), _SLICE_S * injection.share)

    def _by_turns(self, injection: Injection, still_s: float, going_s: float) -> None:
        """Has processes stand still and go on, over and over."""
        pids = self._all_targets(injection)
        over = False

        def turn(number: signal.Signals) -> None:
            if not over:
                stops = number == signal.SIGSTOP
                self._run.who.signal(pids, number)
                other = signal.SIGCONT if stops else signal.SIGSTOP
                self._run.after(still_s if stops else going_s, partial(turn, other))

        def stop() -> None:
            nonlocal over
            over = True
            self._run.who.signal(pids, signal.SIGCONT)

        turn(signal.SIGSTOP)
        self._lasts(injection, stop)

    def _preempt(self, injection: Injection) -> None:
        pids = self._all_targets(injection)
        self._run.who.signal(pids, signal.SIGTERM)
        self._lasts(injection, partial(self._run.who.signal, pids, signal.SIGKILL))

    def _recycle(self, injection: Injection) -> None:
        assert self._run.pool is not None, "the run has no pool of machines"
        self._kill(injection)
        for host in injection.hosts:
            self._run.pool.replace(host)

    def _hit_etcd(self, injection: Injection) -> None:
        """Does a fault to etcd. Raises `PoolError` or `MembershipError` if it cannot say whom it hits."""
        assert self._run.pool is not None, "the run has no pool of machines"
        etcd = self._run.pool.etcd
        match injection.fault:
            case "kill-etcd-leader":
                etcd.kill_leader()
            case "kill-etcd":
                etcd.kill()
            case "freeze-etcd":
                etcd.freeze()
            case "compact-etcd":
                etcd.compact()
                etcd.freeze()
        self._lasts(injection, etcd.start_again if injection.fault.startswith("kill") else etcd.thaw)

    def _flip(self, injection: Injection) -> None:
        for host in injection.hosts:
            fault = f"{injection.device or 0} {injection.number}"
            fault_points.arm(self._run.points, fault_points.FLIP_BIT, host, fault)

    def _arm(self, injection: Injection) -> None:
        point, now = str(injection.point), self._run.now
        waiting = self._armed.setdefault(point, [])
        if not waiting:
            fault_points.arm(self._run.points, point)
        waiting.append((injection, now))
        self._run.tell("armed", number=injection.number, point=point)

    def _lasts(self, injection: Injection, undo: Callable[[], None]) -> None:
        self._undo[injection.number] = undo
        self._run.after(injection.lasts or 0.0, partial(self.take_back, injection.number))
