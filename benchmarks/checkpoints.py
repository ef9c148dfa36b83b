"""What saves cost, beside Orbax on plain JAX, and how long a run stands still after each kind of loss.

    python benchmarks/checkpoints.py [--quick] [--mb 200] [--state-mb 50] [--out checkpoints.json]

Saves: the same arrays, split over all devices, are saved while steps go on, and loaded again: by plain JAX in one
process with Orbax, by a script on a pool that uses Orbax itself, and by the hosts of a pool, which is what
`elastic.wrap` does. Blocked is the time until the script may go on. Files go to `--directory`, on a disk if the figures
are to mean something.

Losses: training.py on four hosts, with a state of `--state-mb` MB that every step changes. One process, one host, two
hosts at once, or all of them get SIGKILL; the time is that of the longest gap between two steps then. Copies and parity
are what snapshots take of the hosts' memory. Then the script itself gets SIGKILL, or all there is on the machine, and
is started again: training.py with `elastic.wrap`. The time is that from the kill to the first step that had not been
made before. Exit code 1 if a loss of the training is not that of an undisturbed one.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import psutil
from sides import command_of, environment_of
from trainings import ElasticTraining, TrainingFailed, load

from elastic.status_client import StatusClient

HERE = Path(__file__).parent
SAVES = (("one-process", "orbax"), ("elastic", "orbax"), ("elastic", "hosts"))
HOSTS_WAIT_S = 30.0


def save_and_load(args: argparse.Namespace, directory: Path) -> list[dict[str, Any]]:
    """A row for each way to save."""
    rows = []
    for number, (side, how) in enumerate(SAVES):
        folder = directory / str(number)
        command = [*command_of(side, args.hosts, args.devices_per_host), str(HERE / "saves.py")]
        command += [how, str(args.mb), str(args.rounds), str(folder)]
        environment = environment_of(side, args.hosts, args.devices_per_host)
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise TrainingFailed(f"{side} with {how} failed:\n{done.stderr[-3000:]}")
        row = {"side": side, "how": how, **json.loads(done.stdout.splitlines()[-1])}
        rows.append(row)
        rate = row["bytes"] / 1e6
        print(
            f"{side:12}{how:8} blocked {row['blocked'] * 1e3:7.1f} ms   save {row['save']:6.2f} s "
            f"({rate / row['save']:5.0f} MB/s)   load {row['load']:6.2f} s ({rate / row['load']:5.0f} MB/s)   "
            f"step {row['step'] * 1e3:6.1f} ms, while saving {row['step_while_saving'] * 1e3:6.1f} ms   load {load()}",
            flush=True,
        )
    return rows


def kill_executor(training: ElasticTraining) -> list[int]:
    return [next(executors[0] for executors, _ in training.hosts().values() if executors)]


def kill_hosts(count: int) -> Callable[[ElasticTraining], list[int]]:
    return lambda training: list(training.hosts())[:count]


LOSSES: dict[str, tuple[str, Callable[[ElasticTraining], list[int]], dict[str, Any]]] = {
    "executor": ("an executor", kill_executor, {}),
    "host": ("a host", kill_hosts(1), {}),
    "host-parity": ("a host, parity=3+1", kill_hosts(1), {"protect": "parity=3+1"}),
    "two-hosts": ("two hosts, parity=2+2", kill_hosts(2), {"protect": "parity=2+2"}),
    "all": ("all hosts, stored", kill_hosts(1000), {"checkpoint": None, "checkpoint_every": 5.0}),
}


def lose(name: str, args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Kills again and again; seconds that the run stood still each time."""
    what, victims, settings = LOSSES[name]
    if "checkpoint" in settings:
        settings = {**settings, "checkpoint": directory / "stored"}
    training = ElasticTraining(
        args.hosts, args.devices_per_host, ["--state-mb", str(args.state_mb)], directory, **settings
    )
    gaps, snapshot = [], {}
    try:
        training.start()
        for _ in range(args.kills):
            training.wait_until_whole(HOSTS_WAIT_S)
            training.wait_for_steps(10)
            snapshot = report(training, settings)
            before = training.steps[-1]
            killed = time.monotonic()
            for pid in victims(training):
                psutil.Process(pid).kill()
            training.wait_for(lambda at=killed: len(training.after(at)) >= 5, "5 steps after a kill")  # type: ignore[misc]
            training.wait_for_steps(5)
            finished = [before.finished, *(step.finished for step in training.after(before.finished))]
            gaps.append(max(b - a for a, b in itertools.pairwise(finished)))
    finally:
        training.stop()
    row = {
        "loss": name,
        "gaps_s": gaps,
        "snapshot": snapshot,
        "steps": len(training.steps),
        "losses": {step.number: step.loss for step in training.steps},
    }
    print(
        f"{what:24} median {statistics.median(gaps):6.2f} s  worst {max(gaps):6.2f} s  of {len(gaps)}   snapshot of "
        f"{snapshot['bytes'] / 1e6:.1f} MB, copies {snapshot['copies_bytes'] / 1e6:.1f} MB, "
        f"parity {snapshot['parity_bytes'] / 1e6:.1f} MB   load {load()}",
        flush=True,
    )
    return row


def script_dies(training: ElasticTraining) -> None:
    """The pool lives on, and the script is started again on it."""
    training.process.kill()
    training.process.wait()
    training.start_script()


def machine_dies(training: ElasticTraining) -> None:
    """Everything dies, and is started again."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # It has died of the ones before.
            process.kill()
    training.stop()
    training.start_again()


RESTARTS = {
    "script": ("the script", script_dies),
    "machine": ("everything", machine_dies),
}


def resume(name: str, args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Kills the script again and again; seconds until it made its first new step."""
    what, die = RESTARTS[name]
    script = ["--state-mb", str(args.state_mb), "--wrap", "--checkpoints", str(directory / f"wrapped-{name}")]
    training = ElasticTraining(args.hosts, args.devices_per_host, [*script, "--save-every", "20"], directory)
    waits, repeated = [], []
    try:
        training.start()
        for _ in range(args.kills):
            training.wait_for_steps(50)
            reached = training.steps[-1].number
            killed = time.monotonic()
            die(training)
            training.wait_for(lambda at=reached: training.steps[-1].number > at + 5, "a step that is new")  # type: ignore[misc]
            again = training.after(killed)
            waits.append(next(step.finished for step in again if step.number > reached) - killed)
            repeated.append(sum(step.number <= reached for step in again))
    finally:
        training.stop()
    print(
        f"{what + ', started again':24} median {statistics.median(waits):6.2f} s  worst {max(waits):6.2f} s  of "
        f"{len(waits)}   {statistics.median(repeated):.0f} steps made again   load {load()}",
        flush=True,
    )
    losses = {step.number: step.loss for step in training.steps}
    changed = sum(losses[step.number] != step.loss for step in training.steps)
    return {"loss": name, "waits_s": waits, "steps_repeated": repeated, "losses": losses, "changed": changed}


def report(training: ElasticTraining, settings: dict[str, Any]) -> dict[str, Any]:
    """What health says of the snapshot, once there is one that is protected, and stored if it is to be."""
    while True:
        directory = training.pool.directory.path
        secret = bytes.fromhex((directory / "secret").read_text(encoding="ascii").strip())
        with StatusClient(f"unix:{directory / 'client.sock'}", secret) as client:
            found = client.report()
        stored = (found.get("checkpoint") or {}).get("path") or "checkpoint" not in settings
        if found["snapshot"] and found["snapshot"]["bytes"] and stored:
            snapshot: dict[str, Any] = found["snapshot"]
            return snapshot
        training.wait_for_steps(1)


def run(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "benchmark": "checkpoints",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "settings": {name: str(value) for name, value in vars(args).items() if name != "out"},
    }
    print("  ".join(f"{name}: {value}" for name, value in found["machine"].items()), flush=True)
    found["saves"] = save_and_load(args, directory)
    found["losses"] = [lose(name, args, directory) for name in args.kinds if name in LOSSES]
    found["restarts"] = [resume(name, args, directory) for name in args.kinds if name in RESTARTS]
    rows = [*found["losses"], *found["restarts"]]
    longest: dict[int, str] = max((row["losses"] for row in rows), key=len, default={})
    for row in rows:
        row["different"] = [step for step, loss in row.pop("losses").items() if longest[step] != loss]
    return found


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--mb", type=float, default=200, help="of arrays that are saved (default: %(default)s)")
    parser.add_argument("--state-mb", type=float, default=50, help="of the training (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="saves of each side (default 5; with --quick 2)")
    parser.add_argument("--kills", type=int, help="of each kind (default 5; with --quick 1)")
    kinds = ",".join([*LOSSES, *RESTARTS])
    parser.add_argument("--kinds", default=kinds, help="default: %(default)s", type=lambda t: t.split(","))
    parser.add_argument("--directory", type=Path, help="where files go; by default where temporary files do")
    parser.add_argument("--quick", action="store_true", help="a rough answer in about two minutes")
    parser.add_argument("--out", type=Path, help="also write all numbers as JSON")
    args = parser.parse_args(argv)
    if unknown := set(args.kinds) - LOSSES.keys() - RESTARTS.keys():
        parser.error(f"there is no kind {', '.join(sorted(unknown))}; there are {kinds}")
    args.rounds = args.rounds or (2 if args.quick else 5)
    args.kills = args.kills or (1 if args.quick else 5)
    return args


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=args.directory) as directory:
            found = run(args, Path(directory))
    except TrainingFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    different = sum(len(row["different"]) for row in found["losses"] + found["restarts"])
    different += sum(row["changed"] for row in found["restarts"])
    print(f"{different} losses differ between the runs; all steps they share should be bit-equal")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
