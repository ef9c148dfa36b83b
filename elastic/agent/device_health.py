"""Whether a host's devices compute as they should: when they are checked, and what follows from how that went.

Now and then a process of its own runs a small known program on all of them (`executor.device_check`). A wrong result,
an error, or no answer makes the host unfit: nobody is to use it until its back-off is over and it passes a check.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from elastic.agent.beats import BEAT_S
from elastic.agent.template import CheckListener, Exit
from membership import WRONG_RESULT_WEIGHT, BackOff, Conduct

VARIABLE = "ELASTIC_CHECK_EVERY"
"""The environment variable that says how many seconds lie between two checks; with 0 there are none."""

EVERY_S = 30.0
"""Unless it says otherwise."""

_SHARE = 0.0008
"""Of a core, at most, for checks, unless somebody says how often they are wanted: what is idle costs nothing much."""

PATIENCE_S = 10.0
"""How long a device may take to answer; see `Patience`."""


def every_of(environment: Mapping[str, str]) -> float | None:
    """The seconds between two checks that somebody asks for, if anybody does. Raises `ValueError`."""
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{VARIABLE}={text!r} is no number of seconds; give 0 for no health checks of devices")
    return seconds


def pause(every: float | None, cpu_s: float) -> float:
    """Seconds from one check to the next, after one that used a processor for so long."""
    return max(EVERY_S, cpu_s / _SHARE) if every is None else every


class Round:
    """One check, from what is heard of it. A device answers after those before it."""

    def __init__(self, devices: int) -> None:
        self.verdict: str | None = None
        """What is wrong with a device, in words; empty if all are well; None while, or if, nobody knows."""
        self.over = False
        self.cpu_s = 0.0
        self.changed = asyncio.Event()
        self._devices = devices
        self._well = 0

    def checked(self, device: int, problem: str) -> None:
        """A device has answered."""
        if self.verdict is None:
            self._well += 1
            self.verdict = problem or ("" if self._well == self._devices else None)
        self.changed.set()

    def ended(self, exit: Exit, cpu_s: float) -> None:
        """The process is gone. Who was killed from outside, or never started, says nothing about devices."""
        if self.verdict is None and exit.by_itself:
            self.verdict = f"device {self._well} cannot compute: the process that checked it {exit.reason}"
        self.over, self.cpu_s = True, cpu_s
        self.changed.set()

    def silent(self, seconds: float) -> None:
        """Nothing was heard for so long."""
        if self.verdict is None:
            several = self._well == 0 and self._devices > 1
            who = "its devices have" if several else f"device {self._well} has"
            self.verdict = f"{who} not answered for {seconds:g} s"


class Patience:
    """Tells a device that does not answer from a machine that has too much to do.

    Silence counts while the check's process does not use a processor: who is only kept waiting for one gets it now and
    then. It is counted in beats, not read from a clock, since a machine that stood still had no beats. And what a check
    may use of a processor without an answer is bounded, for one that waits by asking again and again.
    """

    def __init__(self, seconds: float) -> None:
        self._beats = seconds / BEAT_S
        self._most_ns = round(seconds * 1e9)
        self._used_ns = self._at_answer_ns = 0
        self._still = 0

    def answered(self) -> None:
        """Something was heard."""
        self._at_answer_ns, self._still = self._used_ns, 0

    def beat(self, used_ns: int) -> bool:
        """Another beat without a word, and what the process has used of a processor so far; whether that is enough."""
        self._still = self._still + 1 if used_ns == self._used_ns else 0
        self._used_ns = used_ns
        return self._still >= self._beats or used_ns - self._at_answer_ns > self._most_ns


class Checker(Protocol):
    """Who carries checks out: the agent's `Template`."""

    imported: bool

    def check(self, devices: int, listener: CheckListener) -> None: ...

    def end_check(self) -> None: ...

    def check_used_ns(self) -> int: ...


class DeviceHealth:
    """Has the devices of a host checked, and keeps what came of it."""

    def __init__(
        self,
        devices: int,
        checker: Checker,
        every: float | None,
        *,
        passed: Callable[[], None],
        failed: Callable[[], None],
        back_off: BackOff | None = None,
        patience: float = PATIENCE_S,
    ) -> None:
        """`passed()` and `failed()` are called after each check that said something."""
        self.unfit = ""
        """Why the host must not be used for now, in words; empty if it may be."""
        self._checked: float | None = None
        self._devices = devices
        self._checker = checker
        self._every = every
        self._passed = passed
        self._failed = failed
        self._back_off = back_off or BackOff()
        self._patience = patience
        self._conduct = Conduct()

    def age(self) -> float | None:
        """Seconds since all devices passed a check; None if they never did."""
        return None if self._checked is None else time.monotonic() - self._checked

    def found_wrong(self, what: str) -> None:
        """Somebody else has found out that its devices computed something wrongly."""
        self._take(what, time.monotonic())

    async def keep(self) -> None:
        """Checks again and again; ends only by being cancelled."""
        if self._every == 0:
            return
        # Hosts that start together, as those of one machine do, take turns.
        await asyncio.sleep(pause(self._every, 0) * random.uniform(0.5, 1))
        first = True
        while True:
            cpu_s = 0.0
            if self._checker.imported:
                round = await self._check()
                # The first one compiles the program, which counts as a part of the start.
                cpu_s, first = 0.0 if first else round.cpu_s, False
            await asyncio.sleep(pause(self._every, cpu_s))

    async def _check(self) -> Round:
        round = Round(self._devices)
        self._checker.check(self._devices, round)
        patience, told = Patience(self._patience), False
        while not round.over:
            round.changed.clear()
            try:
                # Not wait_for, which before Python 3.12 may lose a cancellation.
                async with asyncio.timeout(BEAT_S):
                    await round.changed.wait()
                patience.answered()
            except TimeoutError:
                if patience.beat(self._checker.check_used_ns()):
                    round.silent(self._patience)
            if round.verdict is not None and not told:
                self._take(round.verdict, time.monotonic())
                told = True
            if round.verdict:
                self._checker.end_check()
        return round

    def _take(self, verdict: str, now: float) -> None:
        if verdict:
            self.unfit = verdict
            self._conduct = self._conduct.failed(self._back_off, now, WRONG_RESULT_WEIGHT)
            self._failed()
            return
        self._checked = now
        if now >= self._conduct.until:
            self.unfit = ""
            self._conduct = self._conduct.well(now)
        self._passed()
