"""How much of a run's work is done while hosts are being killed, of what is done when none is.

    python benchmarks/goodput.py [--quick] [--every 15] [--seconds 120] [--victim executor|agent] [--out goodput.json]

One run with the platform (training.py on a pool). Windows of time take turns: in one nothing happens, the next begins
with the SIGKILL of a process chosen by lot. Goodput is the rate of steps in the windows with kills, to that in those
without; so what else the machine does hits both alike. A step that is lost or made twice is an error.

Beside it, torchft's: a small training of as many replica groups on gloo, of which one is killed at a time, counted in
the same way; it loses a step at most, but what it computes depends on when groups die. `--torchft PYTHON` names an
interpreter that has torchft; by default it is this one, and the peer is skipped if it has not.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import psutil
from trainings import HERE, ElasticTraining, Step, Training, TrainingFailed, load

GOAL = 0.9
HOSTS_WAIT_S = 5.0


class TorchftTraining(Training):
    """The peer: replica groups of torchft, of which each that dies is started again."""

    def __init__(self, python: str, replicas: int, directory: Path) -> None:
        command = [python, str(HERE / "peers" / "torchft_training.py"), "--replicas", str(replicas)]
        super().__init__("torchft", command, {**psutil.Process().environ(), "OMP_NUM_THREADS": "1"}, directory)

    def start(self) -> None:
        super().start()
        self.wait_for_steps(20)

    def victims(self) -> list[int]:
        """The replica groups that may be killed: all but the first, whose steps are counted."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            words = child.cmdline()
            if "--replica" in words and words[words.index("--replica") + 1] != "0":
                found.append(child.pid)
        return found


def kill_one(training: Training, victim: str, lot: random.Random) -> None:
    if isinstance(training, TorchftTraining):
        psutil.Process(lot.choice(training.victims())).kill()
        return
    assert isinstance(training, ElasticTraining)
    hosts = {agent: executors for agent, (executors, _) in training.hosts().items() if executors}
    agent, executors = lot.choice(sorted(hosts.items()))
    psutil.Process(agent if victim == "agent" else executors[0]).kill()


def measure(training: Training, args: argparse.Namespace, lot: random.Random) -> dict[str, Any]:
    """Windows without and with a kill by turns; the steps in each, and what they come to."""
    if isinstance(training, ElasticTraining):
        training.wait_until_whole(HOSTS_WAIT_S)
    windows = []
    for turn in range(2 * max(1, round(args.seconds / args.every))):
        killed = bool(turn % 2)
        began = time.monotonic()
        if killed:
            kill_one(training, args.victim, lot)
        time.sleep(max(0.0, began + args.every - time.monotonic()))
        ended = time.monotonic()
        if training.process.poll() is not None:
            raise training.failed("ended")
        steps = [step for step in training.after(began) if step.finished <= ended]
        windows.append({"killed": killed, "steps": len(steps), "seconds": ended - began, "load": load()})
        print(
            f"{training.name:10}{'a kill' if killed else 'none':>8}{len(steps):8} steps in {ended - began:5.1f} s"
            f"  load {load()}",
            flush=True,
        )
    rates = {
        killed: sum(w["steps"] for w in windows if w["killed"] is killed)
        / sum(w["seconds"] for w in windows if w["killed"] is killed)
        for killed in (False, True)
    }
    return {
        "windows": windows,
        "steps_per_s": {"undisturbed": rates[False], "killed": rates[True]},
        "goodput": rates[True] / rates[False] if rates[False] else 0.0,
        "lost_or_repeated": irregular(training.steps),
    }


def irregular(steps: list[Step]) -> int:
    """How many steps do not follow the one before."""
    return sum(b.number != a.number + 1 for a, b in itertools.pairwise(steps))


def has_torchft(python: str) -> bool:
    found = subprocess.run([python, "-c", "import torchft"], stdin=subprocess.DEVNULL, capture_output=True)
    return found.returncode == 0


def run(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = {
        "benchmark": "goodput",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "settings": {name: value for name, value in vars(args).items() if name != "out"},
        "sides": {},
    }
    print("  ".join(f"{name}: {value}" for name, value in report["machine"].items()))
    print(f"seed {args.seed}", flush=True)
    trainings: list[Training] = [ElasticTraining(args.hosts, args.devices_per_host, [], directory)]
    if has_torchft(args.torchft):
        trainings.append(TorchftTraining(args.torchft, args.hosts, directory))
    else:
        print(f"torchft is skipped: {args.torchft} cannot import it (pip install torchft, and give --torchft PYTHON)")
    for training in trainings:
        try:
            training.start()
            report["sides"][training.name] = measure(training, args, random.Random(args.seed))
        except TrainingFailed as error:
            if isinstance(training, ElasticTraining):
                raise
            print(f"torchft is skipped: {error}")
        finally:
            training.stop()
    return report


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--every", type=float, help="seconds from kill to kill (default 15; with --quick 8)")
    parser.add_argument("--seconds", type=float, help="of kills; as long again without (default 120; with --quick 24)")
    parser.add_argument("--victim", choices=["executor", "agent"], default="executor")
    parser.add_argument("--torchft", default=sys.executable, metavar="PYTHON", help="an interpreter that has torchft")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="repeats the lots")
    parser.add_argument("--quick", action="store_true", help="a rough answer in about a minute")
    parser.add_argument("--out", type=Path, help="also write all numbers as JSON")
    args = parser.parse_args(argv)
    args.every = args.every or (8 if args.quick else 15)
    args.seconds = args.seconds or (24 if args.quick else 120)
    if args.every <= 0 or args.hosts < 2:
        parser.error("there must be time between kills, and at least two hosts")
    return args


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="goodput-") as directory:
            report = run(args, Path(directory))
    except TrainingFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    for name, side in report["sides"].items():
        rates = side["steps_per_s"]
        print(
            f"{name}: goodput {side['goodput']:.1%} with a kill every {args.every:g} s ({rates['killed']:.1f} of "
            f"{rates['undisturbed']:.1f} steps/s), {side['lost_or_repeated']} steps lost or made twice"
        )
    print(f"elastic is to reach {GOAL:.0%} and to lose none")
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if report["sides"]["elastic"]["lost_or_repeated"] else 0


if __name__ == "__main__":
    sys.exit(main())
