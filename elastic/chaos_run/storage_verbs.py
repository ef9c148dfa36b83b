"""The faults of storage, as they are done to a run: of its disk, of its checkpoints, and of the memory of its hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path

from chaos import Disk, DiskError, Injection
from elastic import fault_points, host_memory
from elastic.chaos_run.live_run import LiveRun
from elastic.chaos_run.rot import rot

_SLOW_S = 4.0
"""For so much longer a slow disk takes for each file."""

_AGAIN_S = 0.1
"""How often a disk is made full or read-only again: what was being written may have prevented it, and what was removed
has made room."""


class StorageVerbs:
    """Does faults to a run; `lasts(injection, undo)` has one taken back when its time is over."""

    def __init__(self, run: LiveRun, lasts: Callable[[Injection, Callable[[], None]], None]) -> None:
        self._run = run
        self._lasts = lasts

    @property
    def does(self) -> Mapping[str, Callable[[Injection], None]]:
        """What does each, by its name."""
        return {
            "disk-full": partial(self._change_disk, methodcaller("fill")),
            "disk-read-only": partial(self._change_disk, methodcaller("protect")),
            "disk-slow": partial(self._arm, fault_points.SLOW_DISK, str(_SLOW_S)),
            "memory-pressure": partial(self._arm, fault_points.FULL_MEMORY, ""),
            "rot-copy": self._rot,
            "rot-parity": self._rot,
            "rot-checkpoint": self._rot,
        }

    def prevents(self, injection: Injection) -> str:
        """Why a fault would hit nothing, in words; empty if it would, or if it is none of these."""
        return "there was nothing of the kind" if injection.kind.rots and not self._files(injection) else ""

    def _change_disk(self, change: Callable[[Disk], None], injection: Injection) -> None:
        assert self._run.stored is not None, "the run stores nothing"
        disk = self._run.stored.disk
        assert disk is not None, "its checkpoints are on no disk of their own"
        over = False

        def again() -> None:
            if not over:
                with contextlib.suppress(DiskError):
                    change(disk)
                self._run.after(_AGAIN_S, again)

        def stop() -> None:
            nonlocal over
            over = True
            disk.heal()

        again()
        self._lasts(injection, stop)

    def _arm(self, point: str, how: str, injection: Injection) -> None:
        def disarm() -> None:
            for host in injection.hosts:
                fault_points.disarm(self._run.points, point, host)

        for host in injection.hosts:
            fault_points.arm(self._run.points, point, host, how)
        self._lasts(injection, disarm)

    def _rot(self, injection: Injection) -> None:
        rot(self._files(injection), injection.number)

    def _files(self, injection: Injection) -> list[Path]:
        """Those that a fault changes."""
        if injection.fault == "rot-checkpoint":
            return self._run.stored.newest_files() if self._run.stored is not None else []
        holds = next((event for event in reversed(self._run.events) if event.kind == "holds"), None)
        parity = set(holds["parity"]) if holds is not None else set()
        memories = [memory for host in injection.hosts if (memory := self._run.memory(host)) is not None]
        copies = [memory / digest.hex() for memory in memories for digest in host_memory.contents(memory)]
        return [file for file in copies if (file.name in parity) == (injection.fault == "rot-parity")]
