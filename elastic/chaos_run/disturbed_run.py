"""A script that runs, with verbs for what happens to its hosts: for tests of one's own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from chaos import CHECKERS, FAULTS, AtTime, Evidence, History, Injection, Plan, Target, cannot_delay
from elastic.chaos_run.live_run import LiveRun
from elastic.chaos_run.proof import undisturbed
from elastic.chaos_run.verbs import Verbs
from elastic.errors import PoolError, UsageError


class DisturbedRun:
    """A script under `elastic run`, on hosts h0, h1 and so on of a pool of its own. Use it as a context manager.

    Each verb that takes `at` first waits until the script prints that step (`step 5 ...`), and raises `PoolError` if it
    ends before. One that would take the last copy of something waits until there is another, unless the plan allows it.
    Hosts that are killed come back by themselves.
    """

    def __init__(
        self,
        plan: Plan,
        script: Sequence[str],
        directory: Path,
        *,
        networks: bool = False,
        machines: bool = False,
        disk: bool = False,
    ) -> None:
        """With `networks` each host can be cut off, with `disk` what is stored is on a disk that can be full.

        Both need root. With `machines` etcd can fail by itself.
        """
        self._plan, self._script, self._directory = plan, script, directory
        self._run = LiveRun(plan, script, directory, "run", networks=networks, machines=machines, disk=disk)
        self._verbs = Verbs(self._run)
        self._numbers = itertools.count(1)
        self._lasting: dict[str, int] = {}
        """The fault of each host that stands still or is cut off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()
        (self._directory / "run.jsonl").write_text(self._run.history.text())

    # What happens to hosts

    def kill(self, *hosts: str, what: str = "host", at: int | None = None) -> None:
        """Kills the "agent", the "executor" or both ("host") of hosts, all at once."""
        self._do(f"kill-{what}", hosts, at=at)

    def freeze(self, *hosts: str, what: str = "host", at: int | None = None) -> None:
        """Stops the "agent", the "executor" or both ("host") of hosts, until `thaw`."""
        number = self._do(f"freeze-{what}", hosts, lasts=math.inf, at=at)
        self._lasting |= dict.fromkeys(hosts, number)

    def cut(self, *hosts: str, what: str = "all", at: int | None = None) -> None:
        """Cuts hosts off, until `heal`; of a run that was started with `networks`.

        Off "all" others, or only what comes "in" or goes "out"; or off "peers", "controller" or "etcd" only.
        """
        if self._run.network is None:
            raise UsageError("hosts can only be cut off in a run with networks=True")
        number = self._do("cut" if what == "all" else f"cut-{what}", hosts, lasts=math.inf, at=at)
        self._lasting |= dict.fromkeys(hosts, number)

    def heal(self, *hosts: str, at: int | None = None) -> None:
        """Lets hosts go on that were frozen or cut off, and those that were so together with them."""
        self._wait_for_step(at)
        for host in hosts:
            self._verbs.take_back(self._lasting.pop(host, 0))

    thaw = heal

    def delay(self, host: str, by: float = 0.1, seconds: float = 10.0, at: int | None = None) -> None:
        """Has all that a host sends and gets take longer, for so many seconds; of a run with `networks`."""
        if self._run.network is None:
            raise UsageError("messages can only be delayed in a run with networks=True")
        if (why := cannot_delay()) is not None:
            raise UsageError(why)
        self._do("delay", (host,), lasts=seconds, by=by, at=at)

    def recycle_address(self, host: str, at: int | None = None) -> None:
        """Kills a host, and has one of another name come up at its address; of a run with `networks`."""
        if self._run.network is None:
            raise UsageError("hosts only have addresses of their own in a run with networks=True")
        self._do("recycle-address", (host,), at=at)

    def hit_etcd(self, what: str, seconds: float = 5.0, at: int | None = None) -> None:
        """Does something to etcd for so many seconds: "kill-leader", "kill", "freeze" or "compact".

        Of a run that was started with `machines` or `networks`.
        """
        if self._run.pool is None:
            raise UsageError("etcd can only fail by itself in a run with machines=True")
        verb, _, leader = what.partition("-")
        self._do(f"{verb}-etcd{'-leader' if leader else ''}", (), lasts=seconds, at=at)

    def slow(self, host: str, share: float = 0.5, seconds: float = 5.0, at: int | None = None) -> None:
        """Gives a host's executor only a share of its time, for so many seconds."""
        self._do("slow", (host,), lasts=seconds, share=share, at=at)

    def preempt(self, host: str, seconds: float = 20.0, at: int | None = None) -> None:
        """Tells a host to leave, and kills it if it is still there after so many seconds."""
        self._do("preempt", (host,), lasts=seconds, at=at)

    def die(self, point: str, at: int | None = None) -> None:
        """Kills the next process that comes to a point, such as "snapshot" or "collective"."""
        self._do("die", (), point=point, at=at)

    def hit_disk(self, what: str, seconds: float = 10.0, at: int | None = None) -> None:
        """Has the disk with checkpoints be "full" or "read-only" for so many seconds; of a run with `disk`."""
        if self._run.stored is None or self._run.stored.disk is None:
            raise UsageError("only a run with disk=True and checkpoint_every has a disk of its own")
        self._do(f"disk-{what}", (), lasts=seconds, at=at)

    def slow_disk(self, host: str, seconds: float = 10.0, at: int | None = None) -> None:
        """Has every file of a checkpoint take a host four seconds longer to write or read, for so many seconds."""
        if self._run.stored is None:
            raise UsageError("only a run with checkpoint_every has anything on disk")
        self._do("disk-slow", (host,), lasts=seconds, at=at)

    def press_memory(self, host: str, seconds: float = 5.0, at: int | None = None) -> None:
        """Leaves a host no space for copies of arrays, for so many seconds."""
        self._do("memory-pressure", (host,), lasts=seconds, at=at)

    def rot(self, what: str, *hosts: str, at: int | None = None) -> None:
        """Changes a bit of each "copy", or block of "parity", in hosts' memory; or of each file of a "checkpoint".

        Waits until there is one. Only who restores from it finds it, so kill a host next.
        """
        if what == "checkpoint" and self._run.stored is None:
            raise UsageError("only a run with checkpoint_every has anything on disk")
        if what == "parity" and not self._plan.protect.startswith("parity"):
            raise UsageError("only a run with protect='parity=K+M' has parity")
        self._do(f"rot-{what}", hosts, at=at)

    def flip_bit(self, host: str, device: int = 0, at: int | None = None) -> None:
        """Flips a bit of an array that a device of a host is about to use; of a run with `verify_every`."""
        if not self._plan.verify_every:
            raise UsageError("only a run with verify_every finds a flipped bit")
        self._do("flip-bit", (host,), device=device, at=at)

    def _do(self, fault: str, hosts: Sequence[str], *, at: int | None, **how: Any) -> int:
        """Does a fault as soon as it can be done; its number. Raises `UsageError` if it never can, or `PoolError`."""
        self._check(fault, hosts)
        self._wait_for_step(at)
        injection = Injection(next(self._numbers), fault, AtTime(0.0), tuple(hosts), **how)
        if self._hinders(injection):
            self._wait_until_possible(injection)
        if why := self._verbs.do(injection):  # At once, so that two that follow each other hit the same moment.
            raise PoolError(f"{injection} could not be done: {why}")
        return injection.number

    def _check(self, fault: str, hosts: Sequence[str]) -> None:
        if fault not in FAULTS:
            raise UsageError(f"there is no {fault!r}; there are {', '.join(FAULTS)}")
        if unknown := [host for host in hosts if host not in self._plan.host_names]:
            raise UsageError(f"there is no host {unknown[0]!r}; the pool has {', '.join(self._plan.host_names)}")
        if bool(hosts) != (FAULTS[fault].target is Target.HOST):
            raise UsageError(f"{fault} {'hits no host' if hosts else 'hits a host'}: {FAULTS[fault].explanation}")

    def _hinders(self, injection: Injection) -> str:
        """Why a fault cannot be done now, or would take the last copy of something; empty if all is well."""
        names, copies = " and ".join(injection.hosts) or "whoever comes there", self._run.copies
        if not set(injection.hosts) <= copies.members:
            return f"{names} did not take part"
        if not self._plan.allow_data_loss and not copies.survive(injection):
            return f"no others held all that {names} did"
        return self._verbs.prevents(injection)

    def _wait_until_possible(self, injection: Injection) -> None:
        why = ""

        def possible() -> bool:
            nonlocal why
            why = self._hinders(injection)
            return not why

        try:
            self.wait_until(possible, str(injection))
        except PoolError as error:
            raise PoolError(f"{injection} could not be done, since {why}; {error}") from None

    # What the run makes of it

    def wait_for_step(self, step: int, patience_s: float = 60.0) -> None:
        """Returns when the script has printed a step. Raises `PoolError` if it does not come."""
        self.wait_until(
            lambda: any((line_step or -1) >= step for line_step in self._steps()), f"step {step}", patience_s
        )

    def wait_for_recoveries(self, count: int, patience_s: float = 60.0) -> None:
        """Returns when the run has gone on after so many losses. Raises `PoolError` if it does not."""
        self.wait_until(lambda: self._recoveries() >= count, f"{count} recoveries", patience_s)

    def wait_until(self, condition: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
        """Returns when something is so. Raises `PoolError` if the run ends before, or after that time."""
        self._run.wait_until(condition, what, patience_s)
        self._verbs.look()

    def finish(self) -> int:
        """Waits for the script's end; its exit code."""
        while self._run.alive:
            self._run.look()
            self._verbs.look()
        return self._run.finish()

    @property
    def history(self) -> History:
        """All that has happened (see `chaos.history`)."""
        return self._run.history

    @property
    def output(self) -> list[str]:
        """The lines that the script has printed."""
        return [event["line"] for event in self._run.history.of("output")]

    def problems(self) -> list[str]:
        """What breaks a promise, compared with a run of the same script to which nothing happens; made now."""
        evidence = Evidence(self._plan, undisturbed(self._plan, self._script, self._directory, "clean"), self.history)
        return [
            f"{found.name}: {one}" for found in (checker(evidence) for checker in CHECKERS) for one in found.problems
        ]

    def _steps(self) -> list[int | None]:
        return [event["step"] for event in self._run.events if event.kind == "output"]

    def _recoveries(self) -> int:
        return sum(event.kind == "recovered" and event["kind"] == "lost" for event in self._run.events)

    def _wait_for_step(self, step: int | None) -> None:
        if step is not None:
            self.wait_for_step(step)
