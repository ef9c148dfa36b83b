"""What snapshots cost while nothing fails: the same training with them and without, in one run.

    python benchmarks/snapshots.py [--quick] [--sizes 100x100,20x10] [--out snapshots.json]

Two pools run one script (workload.py): `elastic` as it is, and `without snapshots`, which is `--snapshot-budget 0`.
They live at the same time, only one works at a time, and they take turns. A size is MSxMB: the time of a step, and the
state that every step changes. Since a snapshot is taken only every few seconds, a turn is long, and the ratio is that
of all the time of two turns beside each other; the median step and the slowest show where it goes.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
from overhead import BATCH, DEPTH, find_width
from sides import Side, SideFailed

SIDES = ("without snapshots", "elastic")
GOAL = 1.05


def measure(sides: list[Side], step_ms: float, state_mb: float, turns: int, turn_s: float) -> dict[str, Any]:
    """Times of steps in milliseconds, of both sides, for one size."""
    width = find_width(sides[0], step_ms, True)
    for side in sides:
        side.call("set_up", width=width, depth=DEPTH, batch=BATCH, feed=True)
        side.call("add_state", megabytes=state_mb)
    count = max(5, round(turn_s * 1e3 / step_ms))
    times: dict[str, list[list[float]]] = {side.name: [] for side in sides}
    losses: dict[str, str] = {}
    for turn in range(turns + 1):
        for side in sides if turn % 2 == 0 else reversed(sides):
            result = side.call("timed_steps", count=count if turn else 5)
            losses[side.name] = result["loss"]
            if turn:  # The first is to get warm.
                times[side.name].append([seconds * 1e3 for seconds in result["seconds"]])
    steps = {name: list(itertools.chain.from_iterable(found)) for name, found in times.items()}
    pairs = zip(times["elastic"], times["without snapshots"], strict=True)
    ratios = [sum(saved) / sum(bare) for saved, bare in pairs]
    return {
        "wanted_ms": step_ms,
        "state_mb": state_mb,
        "width": width,
        "steps_per_turn": count,
        "mean_ms": {name: statistics.mean(found) for name, found in steps.items()},
        "median_ms": {name: statistics.median(found) for name, found in steps.items()},
        "slowest_ms": {name: max(found) for name, found in steps.items()},
        "turns_ms": {name: [statistics.mean(turn) for turn in turns] for name, turns in times.items()},
        "ratios": ratios,
        "ratio": statistics.median(ratios),
        "bit_equal": len(set(losses.values())) == 1,
        "load": round(os.getloadavg()[0], 1),
    }


def print_row(row: dict[str, Any]) -> None:
    for name in SIDES:
        print(
            f"{row['wanted_ms']:6g}{row['state_mb']:7g}  {name:20}{row['mean_ms'][name]:9.2f}"
            f"{row['median_ms'][name]:9.2f}{row['slowest_ms'][name]:10.1f}",
            end="\n" if name != SIDES[-1] else "",
        )
    ratios = ", ".join(f"{ratio:.3f}" for ratio in sorted(row["ratios"]))
    losses = "bit-equal" if row["bit_equal"] else "DIFFER"
    print(f"   {row['ratio']:.3f}x (turns: {ratios})  losses {losses}, load {row['load']}", flush=True)


def run(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Starts both sides, measures, prints as it goes, and stops both whatever happens."""
    script = Path(__file__).with_name("workload.py")
    sides = [Side(name, args.hosts, args.devices_per_host, script, directory) for name in SIDES]
    report: dict[str, Any] = {
        "benchmark": "snapshots",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "settings": {name: value for name, value in vars(args).items() if name != "out"},
        "rows": [],
    }
    print("  ".join(f"{name}: {value}" for name, value in report["machine"].items()), flush=True)
    patience_s = 0.0
    try:
        for side in sides:
            side.start()
        head = f"{'ms':>6}{'MB':>7}  {'side':20}{'mean ms':>9}{'median':>9}{'slowest':>10}"
        print(f"{head}   elastic / without (to reach: {GOAL}x)")
        for step_ms, state_mb in args.sizes:
            row = measure(sides, step_ms, state_mb, args.turns, args.turn_s)
            report["rows"].append(row)
            print_row(row)
        patience_s = 5.0
    finally:
        for side in sides:
            side.hang_up()
        for side in sides:
            side.stop(patience_s)
    return report


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--sizes", default="100x100,20x10", help="MSxMB, with commas between (default 100x100,20x10)")
    parser.add_argument("--turns", type=int, help="turns of each side for each size (default 5; with --quick 2)")
    parser.add_argument("--turn-s", type=float, help="seconds of a turn, about (default 12; with --quick 5)")
    parser.add_argument("--quick", action="store_true", help="a rough answer in about a minute")
    parser.add_argument("--out", type=Path, help="also write all numbers as JSON")
    args = parser.parse_args(argv)
    try:
        args.sizes = [tuple(map(float, size.split("x"))) for size in args.sizes.split(",")]
        if any(len(size) != 2 or min(size) <= 0 for size in args.sizes):
            raise ValueError
    except ValueError:
        parser.error("--sizes takes pairs of a time in ms and a size in MB, such as 100x100,20x10")
    args.turns = args.turns or (2 if args.quick else 5)
    args.turn_s = args.turn_s or (5 if args.quick else 12)
    return args


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="snapshots-") as directory:
            report = run(args, Path(directory))
    except SideFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(row["bit_equal"] for row in report["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
