"""What a training loop tells its user: lines on stderr, and on a terminal a bar with the last metrics that are known.

Never waits for a metric.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elastic.cli import console
from elastic.cli.health_text import size

_EVERY_S = 0.2
"""Seconds between two looks at the metrics."""


class Progress:
    """Of the steps of one loop."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bar: Any = None
        self._task: Any = None
        self._began = (0.0, 0)
        self._looked = 0.0

    def open(self, done: int, steps: int | None) -> None:
        """Shows the bar, on a terminal."""
        if not console.is_terminal():
            return
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            "step {task.completed}" + ("" if steps is None else "/{task.total}"),
            progress.BarColumn(),
            "{task.fields[rate]} {task.fields[metrics]}",
            progress.TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._began = (time.monotonic(), done)
        self._task = self._bar.add_task("", total=steps, completed=done, rate="", metrics="")
        self._bar.start()

    def step(self, done: int, metrics: Any) -> None:
        now = time.monotonic()
        if self._bar is None or now - self._looked < _EVERY_S:
            return
        self._looked = now
        since, first = self._began
        rate = f"{(done - first) / (now - since):.1f} steps/s" if now > since else ""
        self._bar.update(self._task, completed=done, rate=rate, **known(metrics))

    def close(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
            self._bar.stop()
            self._bar = None

    def resumed(self, step: int) -> None:
        console.note(f"goes on after step {step}, from {self._directory / str(step)}")

    def skipped(self, why: str) -> None:
        console.note(f"passed over: {why}")

    def saved(self, step: int, written: int, seconds: float) -> None:
        console.note(f"step {step} is saved: {self._directory / str(step)}, {size(written)} in {seconds:.2f} s")

    def note(self, text: str) -> None:
        console.note(text)

    def warn(self, text: str) -> None:
        console.error(text)


def known(metrics: Any) -> Mapping[str, str]:
    """The field "metrics" of the bar, from those single numbers that are computed already; empty if there is none."""
    named = metrics if isinstance(metrics, Mapping) else {"": metrics}
    shown = [
        f"{name} {float(value):.4g}".strip()
        for name, value in named.items()
        if np.ndim(value) == 0 and getattr(value, "is_ready", lambda: True)() and not isinstance(value, str)
    ]
    return {"metrics": "  ".join(shown)} if shown else {}
