"""Whether anything grows or is left behind while hosts are killed again and again.

    python benchmarks/kill_soak.py [--kills 1000] [--every 1.0] [--seed S] [--out kill_soak.json]

The program is that of soak.py, on a pool of hosts of which one loses its executor, or in one of ten cases its agent,
after every so many seconds. Shown are the memory that is each process's own (USS), in MiB by role, the open descriptors
of controller, agents and launcher, the files in the run's directory of shared memory and their MiB. Exit code 1 if what
belongs to controller, launcher, membership server or shared memory has grown by more than a tenth and 8 MiB from a
third of the run to its end, if the script failed, or if a process or a directory is left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from soak import PROGRAM

from elastic import health

_ROLES = {
    "elastic.controller": "controller",
    "elastic.agent": "agents",
    "elastic.executor.template": "executors",
    "membership.server": "membership",
}
_MUST_NOT_GROW = ("controller", "launcher", "membership", "shared")
_GROWTH, _GROWTH_MIB = 0.10, 8.0
_PATIENCE_S = 60.0
_AGAIN_S = 5.0


class Soak:
    """A run that goes on until it is told to end, and its processes."""

    def __init__(self, hosts: int, devices_per_host: int, directory: Path) -> None:
        script = directory / "loop.py"
        script.write_text(PROGRAM)
        self._end = directory / "end"
        self._base = directory / "pools"
        self._base.mkdir()
        self._errors = directory / "errors"
        pool = [f"--hosts={hosts}", f"--devices-per-host={devices_per_host}"]
        with self._errors.open("w") as errors:
            self.launcher = subprocess.Popen(
                [sys.executable, "-m", "elastic.cli", "run", *pool, str(script), str(10**9), str(self._end)],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "ELASTIC_RUN_BASE": str(self._base)},
                text=True,
            )
        assert self.launcher.stdout is not None
        self.launcher.stdout.readline()  # Its first step.
        [self.run_directory] = self._base.iterdir()

    def processes(self) -> Iterator[tuple[str, psutil.Process]]:
        """Each process of the run with its role."""
        yield "launcher", psutil.Process(self.launcher.pid)
        for process in psutil.Process(self.launcher.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                words = process.cmdline()
                yield next((role for module, role in _ROLES.items() if module in words), "client"), process

    def losses(self) -> int:
        return self._errors.read_text().count("was lost")

    def kill(self, lot: random.Random) -> None:
        """Kills an agent, or a member of the world, and waits until the run has gone on.

        An agent is only killed when all arrays are in the memory of two hosts: what is shown is that nothing grows, not
        how much can be lost at once. Who was killed may have had no part in the run any more, or not yet: then another
        one dies.
        """
        told = self.losses()
        give_up = time.monotonic() + _PATIENCE_S
        wanted = "agents" if lot.random() < 0.1 else "executors"
        while wanted == "agents" and not self._may_lose_a_host():
            self._wait(give_up)
        while self.losses() == told:
            victims = [process for role, process in self.processes() if role == wanted and _works(process)]
            if victims:
                with contextlib.suppress(psutil.NoSuchProcess):
                    lot.choice(victims).kill()
            again = time.monotonic() + _AGAIN_S
            while self.losses() == told and time.monotonic() < again:
                self._wait(give_up)

    def measure(self) -> dict[str, float]:
        """MiB by role, descriptors, and what lies in shared memory."""
        found = dict.fromkeys(["launcher", "client", *_ROLES.values(), "descriptors"], 0.0)
        for role, process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                found[role] += process.memory_full_info().uss / 2**20
                found["descriptors"] += process.num_fds() if role in ("controller", "agents", "launcher") else 0
        files = [path for path in self.run_directory.rglob("*") if path.is_file()]
        sizes = []
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                sizes.append(path.stat().st_blocks * 512)
        return {**found, "files": float(len(files)), "shared": sum(sizes) / 2**20}

    def finish(self) -> list[str]:
        """Ends the run; what is wrong with how it ended."""
        pids = [process.pid for _, process in self.processes()]
        self._end.touch()
        assert self.launcher.stdout is not None
        self.launcher.stdout.read()
        code = self.launcher.wait(_PATIENCE_S)
        _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=2)
        problems = [f"the launcher's exit code is {code}"] if code else []
        problems += [f"process {process.pid} is left" for process in alive]
        problems += [f"{self.run_directory} is left"] if self.run_directory.exists() else []
        return problems

    def _may_lose_a_host(self) -> bool:
        snapshot = health.look(base=self._base)["snapshot"]
        return snapshot is not None and snapshot["copies"] >= 2

    def _wait(self, give_up: float) -> None:
        if self.launcher.poll() is not None or time.monotonic() > give_up:
            tail = "\n".join(self._errors.read_text().splitlines()[-20:])
            raise SystemExit(f"the run does not go on:\n{tail}")
        time.sleep(0.02)


def _works(process: psutil.Process) -> bool:
    """Whether a controller is connected to it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(link.status == psutil.CONN_ESTABLISHED for link in process.net_connections("tcp"))
    return False


def grown(curve: list[dict[str, float]]) -> list[str]:
    then, now = curve[len(curve) // 3], curve[-1]
    return [
        f"{name} has grown from {then[name]:.1f} to {now[name]:.1f} MiB"
        for name in _MUST_NOT_GROW
        if now[name] > then[name] * (1 + _GROWTH) and now[name] > then[name] + _GROWTH_MIB
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two kills, about (default 1)")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--out", type=Path, help="write the curve as JSON")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    print(f"seed {args.seed}", flush=True)
    lot = random.Random(args.seed)
    curve: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="soak", dir="/dev/shm") as directory:
        soak = Soak(args.hosts, args.devices_per_host, Path(directory))
        try:
            for number in range(args.kills + 1):
                if number % max(1, args.kills // 20) == 0:
                    curve.append({"kills": number, **soak.measure()})
                    if number == 0:
                        print("".join(f"{name:>12}" for name in curve[0]))
                    print("".join(f"{value:12.1f}" for value in curve[-1].values()), flush=True)
                if number < args.kills:
                    time.sleep(args.every * lot.uniform(0.5, 1.5))
                    soak.kill(lot)
            problems = soak.finish() + grown(curve)
        finally:
            soak.launcher.terminate()
            soak.launcher.wait()
    for problem in problems:
        print(problem)
    if args.out:
        args.out.write_text(json.dumps({"seed": args.seed, "curve": curve, "problems": problems}, indent=1) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
