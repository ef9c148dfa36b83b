"""The commands of pools that stay, as a user gives them, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from elastic.run_directory import RunDirectory
from tests.elastic.hosts import Command
from tests.elastic.status_contract import check_report

SCRIPT = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
print(len(jax.devices()), "devices", flush=True)
sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
x = jax.device_put(np.arange(24.0, dtype=np.float32), sharding)
step = jax.jit(lambda a: a - a.sum() / 24 + 1)
for i in range(int(sys.argv[1])):
    x = step(x)
    float(x[0])
    if i == 3:
        print("running", flush=True)
print("done", flush=True)
"""
FOREVER = str(10**9)


class Up:
    """The commands, on a place for pools of its own; `down` at the end."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.environment = {**os.environ, "ELASTIC_RUN_BASE": str(base)}
        for name in ("ELASTIC_SECRET_FILE", "ELASTIC_SECRET"):
            self.environment.pop(name, None)
        self.script = base / "script.py"
        self.script.write_text(SCRIPT)

    def __call__(self, *arguments: str, timeout_s: float = 90, **variables: str) -> tuple[int, str]:
        """(exit code, what it printed)."""
        done = subprocess.run(
            [sys.executable, "-m", "elastic.cli", *arguments],
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout

    def run(self, *arguments: str) -> Command:
        return Command("run", "--pool", "local", *arguments, environment=self.environment)

    def report(self) -> dict[str, Any]:
        code, text = self("health", "--json")
        report = json.loads(text)
        check_report(report)
        assert code == ["healthy", "degraded", "down"].index(report["status"])
        return report

    @property
    def directory(self) -> RunDirectory:
        [found] = [path for path in self.base.glob("elastic-*") if (path / "kind").read_text() == "background"]
        return RunDirectory(found)

    def wait_until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first report that fulfils a condition; a busy machine may make a host suspect for a moment."""
        while not condition(report := self.report()):
            pass
        return report

    def supervisor(self) -> psutil.Process:
        return psutil.Process(int((self.directory.path / "owner").read_text().split()[0]))
