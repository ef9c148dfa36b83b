"""The faults of the network, as they are done to a run whose hosts stand in networks of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial

from chaos import FAULTS, Injection, Network, NetworkError, ways
from elastic.chaos_run.live_run import LiveRun
from elastic.errors import PoolError


class NetworkVerbs:
    """Does faults to a run; `lasts(injection, undo)` has one taken back when its time is over."""

    def __init__(self, run: LiveRun, lasts: Callable[[Injection, Callable[[], None]], None]) -> None:
        self._run = run
        self._lasts = lasts
        self._delayed: set[str] = set()

    @property
    def does(self) -> Mapping[str, Callable[[Injection], None]]:
        """What does each, by its name."""
        cuts = (name for name in FAULTS if name == "cut" or name.startswith("cut-"))
        return {**dict.fromkeys(cuts, self._cut), "delay": self._delay}

    def prevents(self, injection: Injection) -> str:
        """Why a fault cannot be done, in words; empty if it can, or if it is none of these."""
        both = self._delayed.intersection(injection.hosts) if injection.fault == "delay" else ()
        return f"{', '.join(sorted(both))} was delayed already" if both else ""

    @property
    def _network(self) -> Network:
        assert self._run.network is not None, "the run has no networks"
        return self._run.network

    def _cut(self, injection: Injection) -> None:
        cut = [way for host in injection.hosts for way in ways(injection.fault, host, self._run.host_names)]
        self._network.sever(cut)
        self._lasts(injection, partial(self._network.mend, cut))

    def _delay(self, injection: Injection) -> None:
        """Delays all of the hosts, or raises `NetworkError`."""
        with contextlib.ExitStack() as stack:
            for host in injection.hosts:
                self._network.delay(host, injection.by)
                stack.callback(self._hasten, host)
                self._delayed.add(host)
            self._lasts(injection, stack.pop_all().close)

    def _hasten(self, host: str) -> None:
        self._delayed.discard(host)
        try:
            self._network.hasten(host)
        except NetworkError as error:
            raise PoolError(str(error)) from error
