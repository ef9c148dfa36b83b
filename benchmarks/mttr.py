"""How long a run stands still when a host's process is killed, beside restarting it from its last checkpoint.

    python benchmarks/mttr.py [--quick] [--victim executor|agent|any] [--state-mb MB] [--out mttr.json]

Two sides run training.py, one at a time and by turns: `elastic` on a pool, and `checkpoints`, which is plain JAX with
one process a host that saves with Orbax (in memory, to its advantage) and is started again when a process dies. In
both, a process chosen by lot gets SIGKILL at a time chosen by lot. The time that counts goes from the kill to the end
of the first step that the run could only finish because it had recovered: a loss that was already on its way does not
count, and of a run with checkpoints neither do the steps that it makes a second time. Exit code 1 if a loss differs
from that of a run that nobody disturbed.

With `--state-mb` the state is large, and restoring it takes as long as memory is slow: what is measured is printed
beside what this machine needs for as many bytes.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
import psutil
from trainings import CheckpointTraining, ElasticTraining, Step, Training, TrainingFailed, differences, load

from elastic import host_memory

GOALS = {"median_s": 0.5, "worst_s": 2.0, "ratio": 20.0}
VICTIMS = ("executor", "agent")
HOSTS_WAIT_S = 8.0
"""How long the next kill waits for hosts to come back, before it hits a smaller pool."""


def kill_elastic(training: ElasticTraining, wanted: str, gap_s: float, lot: random.Random) -> dict[str, Any]:
    """Kills one process of a run with the platform; what that cost, in seconds."""
    lost = sum(event.lost for event in training.recoveries)
    training.wait_until_whole(HOSTS_WAIT_S)
    time.sleep(gap_s * lot.uniform(0.5, 1.5))
    hosts = training.wait_until_whole(HOSTS_WAIT_S)
    agent, (executors, _) = lot.choice(sorted(hosts.items()))
    victim = lot.choice(VICTIMS) if wanted == "any" else wanted
    killed = time.monotonic()
    psutil.Process(agent if victim == "agent" else executors[0]).kill()
    training.wait_for(lambda: sum(event.lost for event in training.recoveries) > lost, "a recovery")
    training.wait_for(lambda: len(training.after(killed)) >= 3, "steps after the kill")
    event = [event for event in training.recoveries if event.lost][lost]
    index, recovered = longest_gap(training, killed, 3)
    return {
        "victim": victim,
        "host": event.host,
        "hosts": len(hosts),
        "step": training.steps[index].number,
        "outage_s": recovered.finished - killed,
        "recovery_s": event.seconds,
        "phases_s": dict(event.phases),
        "operations_replayed": event.operations_replayed,
        "load": load(),
    }


def kill_checkpoints(training: CheckpointTraining, gap_s: float, lot: random.Random) -> dict[str, Any]:
    """Kills one process of a run with checkpoints; what that cost, in seconds."""
    training.wait_for_steps(3)
    time.sleep(gap_s * lot.uniform(0.5, 1.5))
    before = len(training.steps)
    killed = time.monotonic()
    psutil.Process(lot.choice(training.processes())).kill()

    def restarted() -> int | None:
        """The index of the first step of the new world: it takes longer than any step to come."""
        for index in range(before, len(training.steps)):
            if training.steps[index].finished - max(killed, training.steps[index - 1].finished) > 1.0:
                return index
        return None

    def caught_up() -> Step | None:
        first = restarted()
        if first is None:
            return None
        reached = max(step.number for step in training.steps[:first])
        return next((step for step in training.steps[first:] if step.number > reached), None)

    training.wait_for(lambda: caught_up() is not None, "the first new step after a restart")
    recovered, first = caught_up(), restarted()
    assert recovered is not None
    assert first is not None
    return {
        "victim": "process",
        "step": recovered.number,
        "outage_s": recovered.finished - killed,
        "first_step_s": training.steps[first].finished - killed,
        "steps_repeated": recovered.number - training.steps[first].number,
        "load": load(),
    }


def longest_gap(training: Training, killed: float, among: int) -> tuple[int, Step]:
    """Of the first steps that finished after the kill, the one that took longest: that was interrupted."""
    first = len(training.steps) - len(training.after(killed))
    index = max(
        range(first, min(first + among, len(training.steps))),
        key=lambda index: training.steps[index].finished - training.steps[index - 1].finished,
    )
    return index, training.steps[index]


def needed_for_restore_s(state_mb: float, hosts: int) -> float:
    """How long the hosts of this machine need to map, check and copy so much of their own memory, all at once."""
    data = np.random.default_rng(0).standard_normal(8 << 20).tobytes()
    digest = host_memory.digest_of(data)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        host_memory.save(Path(directory), digest, data)
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            np.frombuffer(host_memory.read(Path(directory), digest), np.uint8).copy()
            seconds.append(time.perf_counter() - began)
    at_once = min(hosts, len(os.sched_getaffinity(0)))
    return state_mb * 1e6 / len(data) * statistics.median(seconds) / at_once


def step_ms(training: Training) -> float:
    times = [step.finished for step in training.steps]
    return statistics.median(b - a for a, b in itertools.pairwise(times)) * 1e3


def summary(kills: list[dict[str, Any]]) -> dict[str, Any]:
    outages = sorted(kill["outage_s"] for kill in kills)
    phases: dict[str, list[float]] = {}
    for kill in kills:
        for name, seconds in kill.get("phases_s", {}).items():
            phases.setdefault(name, []).append(seconds)
        if "recovery_s" in kill:
            phases.setdefault("notice, work done again, first step", []).append(kill["outage_s"] - kill["recovery_s"])
    return {
        "kills": len(kills),
        "median_s": statistics.median(outages),
        "p90_s": outages[min(len(outages) - 1, round(0.9 * len(outages)))],
        "worst_s": outages[-1],
        "phases_median_s": {name: statistics.median(values) for name, values in phases.items()},
    }


def print_kill(number: int, side: str, kill: dict[str, Any]) -> None:
    line = f"{number:5}  {side:12}{kill['victim']:10}{kill['outage_s'] * 1e3:9.0f} ms  load {kill['load']:5.1f}  "
    if "phases_s" in kill:
        line += ", ".join(f"{name} {seconds * 1e3:.0f}" for name, seconds in kill["phases_s"].items())
        line += f" ms, {kill['operations_replayed']} operations replayed, {kill['hosts']} hosts"
    else:
        line += f"first step after {kill['first_step_s']:.1f} s, {kill['steps_repeated']} steps made twice"
    print(line, flush=True)


def run(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Kills in both sides by turns, then repeats the run without; prints as it goes."""
    deadline = time.monotonic() + args.limit_s
    lot = random.Random(args.seed)
    report: dict[str, Any] = {
        "benchmark": "mttr",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "settings": {name: value for name, value in vars(args).items() if name != "out"},
    }
    print("  ".join(f"{name}: {value}" for name, value in report["machine"].items()))
    print(f"seed {args.seed}", flush=True)
    script = ["--state-mb", str(args.state_mb)]
    kills: dict[str, list[dict[str, Any]]] = {"elastic": [], "checkpoints": []}
    steps: dict[str, list[Step]] = {"elastic": [], "checkpoints": []}
    step_times: dict[str, list[float]] = {"elastic": [], "checkpoints": []}
    for turn in range(args.turns):
        for side, wanted in (("elastic", args.kills), ("checkpoints", args.peer_kills)):
            share = wanted * (turn + 1) // args.turns - wanted * turn // args.turns
            if not share or time.monotonic() > deadline:
                continue
            training: ElasticTraining | CheckpointTraining
            if side == "elastic":
                training = ElasticTraining(args.hosts, args.devices_per_host, script, directory)
            else:
                training = CheckpointTraining(args.hosts, args.devices_per_host, script, args.save_every, directory)
            try:
                training.start()
                for _ in range(share):
                    if time.monotonic() > deadline:
                        break
                    if isinstance(training, ElasticTraining):
                        kill = kill_elastic(training, args.victim, args.gap_s, lot)
                    else:
                        kill = kill_checkpoints(training, args.gap_s, lot)
                    kills[side].append(kill)
                    print_kill(len(kills[side]), side, kill)
            except TrainingFailed as error:
                if side == "elastic":
                    raise
                report["peer_failed"] = str(error)
                print(f"the side with checkpoints is left out from here on: {error}")
                args.peer_kills = 0
            finally:
                steps[side] += training.steps
                if len(training.steps) > 1:
                    step_times[side].append(step_ms(training))
                training.stop()
    if args.state_mb:
        report["needed_for_restore_s"] = needed_for_restore_s(args.state_mb, args.hosts)
    report["kills"] = kills
    report["summary"] = {side: summary(found) for side, found in kills.items() if found}
    report["step_ms"] = {side: statistics.median(found) for side, found in step_times.items() if found}
    reference = undisturbed(args, script, max(step.number for side in steps.values() for step in side), directory)
    report["differences"] = {side: differences(found, reference) for side, found in steps.items()}
    report["steps"] = {side: len(found) for side, found in steps.items()}
    if len(report["summary"]) == 2:
        medians = {side: found["median_s"] for side, found in report["summary"].items()}
        report["ratio"] = medians["checkpoints"] / medians["elastic"]
    return report


def undisturbed(args: argparse.Namespace, script: list[str], last: int, directory: Path) -> dict[int, str]:
    """The losses of all steps when nothing is killed."""
    print(f"the same {last + 1} steps without a kill ...", flush=True)
    training = ElasticTraining(args.hosts, args.devices_per_host, [*script, "--steps", str(last + 1)], directory)
    try:
        training.start()
        training.wait_for(lambda: bool(training.steps) and training.steps[-1].number == last, "its end", args.limit_s)
    finally:
        training.stop()
    return {step.number: step.loss for step in training.steps}


def print_report(report: dict[str, Any]) -> None:
    print(f"\n{'':14}{'kills':>7}{'median':>10}{'p90':>10}{'worst':>10}{'step ms':>10}  losses")
    for side, found in report["summary"].items():
        bad = report["differences"][side]
        losses = f"{len(bad)} DIFFER, first in step {min(bad)}" if bad else "bit-equal"
        print(
            f"{side:14}{found['kills']:7}{found['median_s']:9.3f}s{found['p90_s']:9.3f}s{found['worst_s']:9.3f}s"
            f"{report['step_ms'][side]:10.1f}  {losses} ({report['steps'][side]} steps)"
        )
    found = report["summary"].get("elastic")
    if found:
        print("medians: " + ", ".join(f"{name} {s * 1e3:.0f} ms" for name, s in found["phases_median_s"].items()))
        met = found["median_s"] < GOALS["median_s"] and found["worst_s"] < GOALS["worst_s"]
        print(f"median below {GOALS['median_s']} s and worst below {GOALS['worst_s']} s: {'yes' if met else 'no'}")
    if "needed_for_restore_s" in report and found:
        took, needed = found["phases_median_s"].get("restore", 0.0), report["needed_for_restore_s"]
        print(f"restoring {report['settings']['state_mb']:g} MB took {took:.2f} s; memory alone needs {needed:.2f} s")
    if "ratio" in report:
        print(
            f"restarting from a checkpoint takes {report['ratio']:.1f} times as long (to reach: {GOALS['ratio']:.0f})"
        )


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--kills", type=int, help="of the run with the platform (default 50; with --quick 5)")
    parser.add_argument(
        "--peer-kills", type=int, help="of the run with checkpoints (default 6; with --quick 1); 0: none"
    )
    parser.add_argument("--turns", type=int, help="how often each side is started (default 3; with --quick 1)")
    parser.add_argument("--victim", choices=[*VICTIMS, "any"], default="executor")
    parser.add_argument("--gap-s", type=float, default=1.0, help="mean time before a kill, all being well (default 1)")
    parser.add_argument("--save-every", type=int, default=50, metavar="K", help="steps a checkpoint (default 50)")
    parser.add_argument("--state-mb", type=float, default=0, help="more state, in MB, which every step changes")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="repeats the lots")
    parser.add_argument("--limit-s", type=float, default=1200, help="no kill after this time (default 1200)")
    parser.add_argument("--quick", action="store_true", help="a rough answer in about a minute")
    parser.add_argument("--out", type=Path, help="also write all numbers as JSON")
    args = parser.parse_args(argv)
    args.kills = (5 if args.quick else 50) if args.kills is None else args.kills
    args.peer_kills = (1 if args.quick else 6) if args.peer_kills is None else args.peer_kills
    args.turns = args.turns or (1 if args.quick else 3)
    if args.kills < 1 or args.peer_kills < 0 or args.hosts < 2:
        parser.error("at least one kill, of at least two hosts")
    return args


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="mttr-") as directory:
            report = run(args, Path(directory))
    except TrainingFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print_report(report)
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(report["differences"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
