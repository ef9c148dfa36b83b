"""Running test files of JAX or of what is built on it, and comparing two runs of one file. No verdicts here: those are
`report.py`'s.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.kills import Kills

FILES = [
    "pjit",
    "shard_map",
    "pmap",
    "array",
    "random",
    "python_callback",
    "export",
    "mutable_array",
    "linalg_sharding",
    "jaxpr_effects",
    "debugging_primitives",
    "colocated_python",
    "transfer_guard",
    "buffer_callback",
    "layout",
    "error_check",
    "debug_nans",
    "aot",
    "pickle",
    "multi_device",
    "shard_alike",
    "memories",
    "string_array",
    "garbage_collection_guard",
    "device",
    "stack",
    "multibackend",
    "heap_profiler",
    "clear_backends",
]
"""The test files that concern devices, shardings and transfers; the others test tracing, which stays in the client."""

QUICK = [
    "array",
    "multi_device",
    "debugging_primitives",
    "python_callback",
    "pickle",
    "transfer_guard",
    "mutable_array",
]
"""What runs in a few minutes."""

_SECONDS_PER_TEST = 120


@dataclass
class Outcome:
    """How one file's tests ended."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """Test -> the first line of its error."""
    skipped: set[str] = field(default_factory=set)
    seconds: float = 0.0
    crashed: bool = False
    """The process died before the file's end."""
    kills: int = 0
    """Executors that were killed meanwhile."""


def path_of(name: str) -> str:
    """Where a test file is in its checkout: JAX's go by name, those of other projects by their path."""
    return name if name.endswith(".py") else f"tests/{name}_test.py"


def run_file(
    checkout: Path, name: str, pool: tuple[int, int] | None, limit_s: float, kill_every_s: float = 0.0
) -> Outcome:
    """Runs one test file of a checkout on a pool of (hosts, devices per host), or on plain CPU if that is None.

    With `kill_every_s`, an executor of the pool is killed after every so many seconds.
    """
    pytest = Path(sys.executable).with_name("pytest")
    environment = {**os.environ, "JAX_NUM_GENERATED_CASES": "1", "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}
    environment["NPROC"] = "18"  # Plain JAX hangs in collectives with fewer threads than two a device.
    command = [str(pytest), path_of(name), "-q", "-p", "no:cacheprovider", f"--timeout={_SECONDS_PER_TEST}"]
    if pool is not None:
        hosts, devices = pool
        launcher = [sys.executable, "-m", "elastic.cli", "run", f"--hosts={hosts}", f"--devices-per-host={devices}"]
        command = [*launcher, *command]
        environment["JAX_PLATFORMS"] = "elastic,cpu"
        del environment["JAX_NUM_CPU_DEVICES"]
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        with subprocess.Popen(
            [*command, f"--junitxml={report}"],
            cwd=checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            killing = Kills(process.pid, kill_every_s) if pool is not None and kill_every_s else None
            with killing or contextlib.nullcontext():
                try:
                    process.wait(limit_s)
                except subprocess.TimeoutExpired:
                    process.terminate()
        outcome = read_report(report) if report.exists() else Outcome(crashed=True)
        outcome.kills = killing.count if killing is not None else 0
        return outcome


def read_report(path: Path) -> Outcome:
    """The outcome in a JUnit report of pytest."""
    suite = next(ElementTree.parse(path).getroot().iter("testsuite"))
    outcome = Outcome(seconds=float(suite.get("time", "0")))
    for case in suite.iter("testcase"):
        test = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        failure = case.find("failure")
        if failure is None:
            failure = case.find("error")
        if failure is not None:
            outcome.failed[test] = (failure.get("message") or "").strip().split("\n")[0][:200]
        elif case.find("skipped") is not None:
            outcome.skipped.add(test)
        else:
            outcome.passed.add(test)
    return outcome
