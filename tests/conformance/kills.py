"""Executors of a run that are killed now and then, while it goes on."""

from __future__ import annotations

import contextlib
import random
import threading

import psutil

from tests.elastic.runs import role_of


class Kills:
    """Kills an executor of a run, chosen by lot, after every so many seconds, until the `with` block is left.

    Attributes:
        count: how many were killed.
    """

    def __init__(self, launcher: int, every_s: float) -> None:
        """`launcher` is the pid of `elastic run`."""
        self.count = 0
        self._launcher, self._every_s = launcher, every_s
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._play, name="kills", daemon=True)

    def __enter__(self) -> Kills:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _play(self) -> None:
        while not self._ends.wait(self._every_s):
            with contextlib.suppress(psutil.NoSuchProcess):
                processes = psutil.Process(self._launcher).children(recursive=True)
                executors = [process for process in processes if role_of(process) == "executor"]
                if executors:
                    random.choice(executors).kill()
                    self.count += 1
