"""How soon a failure is known: a process killed, a process frozen, a cable pulled.

    python benchmarks/detection.py [--trials 50] [--kinds kill-agent,...] [--loaded-s 600] [--out detection.json]

A pool of hosts in network namespaces of this machine runs training.py. Again and again one of the hosts fails; the time
that counts goes from there until the controller has noticed, as `elastic health --json` tells. In the end, with
`--loaded-s`, nothing fails for so many seconds while other processes keep all cores busy: every loss that is told then
is a false alarm. Needs root, for the network.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
from sides import environment_of
from trainings import Training, TrainingFailed

from chaos import Network, NetworkError
from elastic import health, pool_secret
from membership import PASSWORD_FILE

HERE = Path(__file__).parent
ELASTIC = [sys.executable, "-m", "elastic.cli"]
KINDS = ("kill-executor", "kill-agent", "freeze-executor", "freeze-agent", "cut")
GOALS_MS = {"kill-executor": 100, "kill-agent": 100, "freeze-executor": 1000, "freeze-agent": 1000, "cut": 2000}
PATIENCE_S = 120.0

Report = dict[str, Any]


class Pool:
    """A membership server, and hosts that are started again when they were killed."""

    def __init__(self, names: list[str], network: Network, directory: Path) -> None:
        self.names, self.network, self._directory = names, network, directory
        secret = directory / "secret"
        secret.write_text(secrets.token_hex(32))
        secret.chmod(0o600)
        secrets_of_pool = {pool_secret.FILE: str(secret), PASSWORD_FILE: str(secret)}
        self.environment = {**environment_of("elastic", 0, 0), **secrets_of_pool}
        os.environ.update(secrets_of_pool)
        command = [sys.executable, "-m", "membership.server", "--listen", f"{network.gateway}:0", "--allow-remote"]
        self._server = subprocess.Popen(
            [*command, "--secret-file", str(secret)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None
        self.address = str(json.loads(self._server.stdout.readline())["address"])
        self._hosts: dict[str, subprocess.Popen[bytes]] = {}
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        """Starts a host, if it does not run."""
        running = self._hosts.get(name)
        if running is not None and running.poll() is None:
            return
        command = [*ELASTIC, "host", "--pool", self.address, "--id", name]
        command += ["--listen", f"{self.network.address(name)}:0"]
        with (self._directory / f"{name}.log").open("ab") as log:
            self._hosts[name] = subprocess.Popen(
                self.network.command(name, command),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def report(self) -> Report:
        return health.look(self.address)

    def stop(self) -> None:
        for host in self._hosts.values():
            with contextlib.suppress(ProcessLookupError):
                host.send_signal(signal.SIGCONT)
            host.kill()
            host.wait()
        self._server.kill()
        self._server.wait()


class Trials:
    """Failures of hosts of a run, one at a time."""

    def __init__(self, pool: Pool, training: Training) -> None:
        self._pool, self._training = pool, training
        self._next = 0

    def run(self, kind: str) -> float:
        """Has the next host fail; how many seconds passed until that was known."""
        report = self._until(lambda report: report["status"] == "healthy" and all(map(_works, report["hosts"])))
        name = self._pool.names[self._next % len(self._pool.names)]
        self._next += 1
        host = next(host for host in report["hosts"] if host["id"] == name)
        known = {failure["time"] for failure in report["failures"]}
        began = time.time()
        repair = self._fail(kind, name, host)
        try:
            report = self._until(lambda report: any(map(lost, new(report, known))))
        finally:
            repair()
        failure = next(filter(lost, new(report, known)))
        if failure["host"] != name:
            raise self._training.failed(f"was said to have lost {failure['host']}, but {name} failed: {failure}")
        return datetime.datetime.fromisoformat(failure["time"]).timestamp() - began

    def losses_within(self, seconds: float) -> list[Report]:
        """What is said to be lost while nothing fails."""
        known = {failure["time"] for failure in self._pool.report()["failures"]}
        until, found = time.monotonic() + seconds, []
        while time.monotonic() < until:
            time.sleep(min(5.0, max(0.0, until - time.monotonic())))
            self._check()
            found += [failure for failure in new(self._pool.report(), known) if lost(failure)]
            known |= {failure["time"] for failure in found}
        return found

    def _fail(self, kind: str, name: str, host: Report) -> Callable[[], None]:
        """Has a host fail; the result repairs it."""
        pid = host["executor_pid" if kind.endswith("executor") else "agent_pid"]
        if kind == "cut":
            self._pool.network.cut(name)
            return lambda: self._pool.network.heal(name)
        if kind.startswith("kill"):
            os.kill(pid, signal.SIGKILL)
            return lambda: self._restart(kind, name)
        os.kill(pid, signal.SIGSTOP)
        return lambda: _go_on(pid)

    def _restart(self, kind: str, name: str) -> None:
        if kind == "kill-agent":
            self._pool.start(name)

    def _until(self, condition: Callable[[Report], bool]) -> Report:
        give_up = time.monotonic() + PATIENCE_S
        while True:
            self._check()
            report = self._pool.report()
            if condition(report):
                return report
            if time.monotonic() > give_up:
                raise self._training.failed(f"did not come to what was waited for: {json.dumps(report)}")
            time.sleep(0.1)

    def _check(self) -> None:
        if self._training.process.poll() is not None:
            raise self._training.failed("ended")


def _works(host: Report) -> bool:
    return bool(host["virtual_devices"]) and host["executor_pid"] is not None


def _go_on(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def new(report: Report, known: set[str]) -> list[Report]:
    return [failure for failure in report["failures"] if failure["time"] not in known]


def lost(failure: Report) -> bool:
    return bool(failure["kind"] == "lost")


@contextlib.contextmanager
def all_cores_busy() -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    burning = [subprocess.Popen(command) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def run(args: argparse.Namespace, directory: Path) -> Report:
    result: Report = {
        "benchmark": "detection",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "settings": {name: value for name, value in vars(args).items() if name != "out"},
        "kinds": {},
    }
    print("  ".join(f"{name}: {value}" for name, value in result["machine"].items()))
    print(f"{'':18}{'trials':>8}{'median':>10}{'worst':>10}{'goal':>10}", flush=True)
    names = [f"h{index}" for index in range(args.hosts)]
    with Network(names) as network, contextlib.ExitStack() as stack:
        pool = Pool(names, network, directory)
        stack.callback(pool.stop)
        command = [*ELASTIC, "run", "--pool", pool.address, "--hosts", str(args.hosts), str(HERE / "training.py")]
        training = Training("elastic", command, pool.environment, directory)
        stack.callback(training.stop)
        training.start()
        training.wait_for_steps(20)
        trials = Trials(pool, training)
        for kind in args.kinds:
            seconds = sorted(trials.run(kind) for _ in range(args.trials))
            median, worst = statistics.median(seconds) * 1e3, seconds[-1] * 1e3
            result["kinds"][kind] = {"median_ms": median, "worst_ms": worst, "all_ms": [1e3 * one for one in seconds]}
            goal = f"{GOALS_MS[kind]:8} ms"
            print(f"{kind:18}{len(seconds):8}{median:7.0f} ms{worst:7.0f} ms{goal}", flush=True)
        if args.loaded_s:
            with all_cores_busy():
                alarms = trials.losses_within(args.loaded_s)
            result["false_alarms"] = alarms
            print(f"{len(alarms)} false alarms in {args.loaded_s:.0f} s with all cores busy")
            for alarm in alarms:
                print(f"  {alarm['host']}: {alarm['reason']}", flush=True)
    return result


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, choices=(2, 4, 8), default=4)
    parser.add_argument("--trials", type=int, default=50, help="of each kind (default: %(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="default: %(default)s")
    parser.add_argument("--loaded-s", type=float, default=0.0, help="seconds with all cores busy and no failure")
    parser.add_argument("--out", type=Path, help="also write all numbers as JSON")
    args = parser.parse_args(argv)
    args.kinds = [kind for kind in args.kinds.split(",") if kind]
    if unknown := set(args.kinds) - set(KINDS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(KINDS)}")
    if args.trials < 1:
        parser.error("there must be a trial")
    return args


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="detection-") as directory:
            result = run(args, Path(directory))
    except (TrainingFailed, NetworkError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
