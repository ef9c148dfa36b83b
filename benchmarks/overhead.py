"""What the platform costs when nothing fails: the same programs through it and on plain JAX, in one run.

    python benchmarks/overhead.py [--quick] [--out overhead.json]

Three sides run one script (workload.py): `multi-process` is plain JAX with one process a host (`jax.distributed` and
gloo), `elastic` is `elastic run` with the same hosts and devices, and `one-process` is plain JAX with all devices in
one process. All live at the same time, only one works at a time, and they take turns in short blocks, so that what
else the machine does hits all alike. The training step gets the size with which multi-process needs the wanted time.
"""

import argparse
import datetime
import json
import math
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
from sides import Side, SideFailed

SIDES = ("multi-process", "elastic", "one-process")
DEPTH, BATCH = 2, 256
OPERATIONS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("chained programs, one device", "1/s", "chain", {"devices": "one"}),
    ("chained programs, all devices", "1/s", "chain", {"devices": "all"}),
    ("execute and wait, one device", "ms", "latency", {"what": "execute", "devices": "one"}),
    ("execute and wait, all devices", "ms", "latency", {"what": "execute", "devices": "all"}),
    ("execute and read a scalar, one device", "ms", "latency", {"what": "read", "devices": "one"}),
    ("execute and read a scalar, all devices", "ms", "latency", {"what": "read", "devices": "all"}),
    ("upload and wait, one device", "ms", "latency", {"what": "upload", "devices": "one"}),
    ("upload and wait, all devices", "ms", "latency", {"what": "upload", "devices": "all"}),
    ("upload 64 MiB", "MB/s", "upload", {"megabytes": 64}),
    ("read 64 MiB", "MB/s", "read", {"megabytes": 64}),
]


def step_ms(side: Side, count: int) -> float:
    return float(side.call("steps", count=count)["seconds"]) / count * 1e3


def find_width(side: Side, wanted_ms: float, feed: bool) -> int:
    """The width of the network whose step takes about `wanted_ms` on this side, or the smallest there is."""
    width, tried = max(16, round(110 * math.sqrt(wanted_ms) / 16) * 16) if wanted_ms > 10 else 16, {}
    count = max(2, min(30, round(300 / wanted_ms)))
    for _ in range(3):
        side.call("set_up", width=width, depth=DEPTH, batch=BATCH, feed=feed)
        step_ms(side, 1)
        tried[width] = min(step_ms(side, count) for _ in range(2))  # what else the machine does only makes it slower
        scale = math.sqrt(wanted_ms / tried[width])
        if 0.9 < scale < 1.1:
            break
        width = min(4096, max(16, round(width * min(4, max(0.25, scale)) / 16) * 16))
        if width in tried:
            break
    return min(tried, key=lambda width: abs(math.log(tried[width] / wanted_ms)))


def measure_steps(sides: list[Side], wanted_ms: float, blocks: int, block_s: float, feed: bool) -> dict[str, Any]:
    """Step times of all sides for one size, in milliseconds, and the loss that each reached."""
    width = find_width(sides[0], wanted_ms, feed)
    size = {"width": width, "depth": DEPTH, "batch": BATCH, "feed": feed}
    set_up_s = {side.name: side.call("set_up", **size)["seconds"] for side in sides}
    count = max(2, min(200, round(block_s * 1e3 / wanted_ms)))
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    losses: dict[str, str] = {}
    for side in sides:
        side.call("steps", count=count)
    for block in range(blocks):
        for side in sides if block % 2 == 0 else reversed(sides):
            result = side.call("steps", count=count)
            times[side.name].append(result["seconds"] / count * 1e3)
            losses[side.name] = result["loss"]
    return {
        "wanted_ms": wanted_ms,
        **size,
        "steps_per_block": count,
        "set_up_s": set_up_s,
        "median_ms": {name: statistics.median(values) for name, values in times.items()},
        "blocks_ms": times,
        "ratio": ratio(times),
        "loss": losses,
        "bit_equal": losses["elastic"] == losses["multi-process"]
        if {"elastic", "multi-process"} <= set(losses)
        else None,
    }


def ratio(times: dict[str, list[float]]) -> float | None:
    """The median over the blocks of elastic's time to that of the multi-process block beside it."""
    if not {"elastic", "multi-process"} <= set(times):
        return None
    return statistics.median(a / b for a, b in zip(times["elastic"], times["multi-process"], strict=True))


def measure_operation(
    sides: list[Side], row: tuple[str, str, str, dict[str, Any]], rounds: int, quick: bool
) -> dict[str, Any]:
    """One line of the second table: median of a few rounds for each side."""
    name, unit, call, args = row
    count = {"chain": 500 if quick else 2000, "latency": 20 if quick else 50}.get(call, 1 if quick else 3)
    values: dict[str, list[float]] = {side.name: [] for side in sides}
    for index in range(rounds):
        for side in sides if index % 2 == 0 else reversed(sides):
            seconds = side.call(call, count=count, **args)["seconds"]
            per_s = (count if call == "chain" else args.get("megabytes", 0) * 2**20 / 1e6) / seconds
            values[side.name].append(seconds * 1e3 if unit == "ms" else per_s)
    return {"name": name, "unit": unit, "median": {name: statistics.median(v) for name, v in values.items()}}


def print_steps_head(sides: list[Side], hosts: int, devices_per_host: int) -> None:
    print(f"\nstep time in ms, {hosts} hosts x {devices_per_host} devices, median of the blocks", flush=True)
    print(f"{'wanted':>8}{'width':>8}" + "".join(f"{side.name:>16}" for side in sides) + f"{'ratio':>9}  losses")


def print_steps(row: dict[str, Any], sides: list[Side]) -> None:
    times = "".join(f"{row['median_ms'][side.name]:16.2f}" for side in sides)
    ratio_text = f"{row['ratio']:8.3f}x" if row["ratio"] else f"{'-':>9}"
    equal = {True: "bit-equal", False: f"DIFFER: {row['loss']}", None: "-"}[row["bit_equal"]]
    print(f"{row['wanted_ms']:8g}{row['width']:8}{times}{ratio_text}  {equal}", flush=True)


def print_operation(row: dict[str, Any], sides: list[Side]) -> None:
    cells = ""
    for side in sides:
        value = row["median"][side.name]
        cells += f"{value:16.3f}" if row["unit"] == "ms" else f"{value:16,.0f}"
    print(f"{row['name']:40}{row['unit']:>6}{cells}", flush=True)


def run(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Starts all sides, measures, prints as it goes, and stops all sides whatever happens."""
    script = Path(__file__).with_name("workload.py")
    names = [name for name in SIDES if name not in args.skip_peer]
    sides = [Side(name, args.hosts, args.devices_per_host, script, directory) for name in names]
    patience_s = 0.0
    report: dict[str, Any] = {
        "benchmark": "overhead",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "settings": {name: value for name, value in vars(args).items() if name != "out"} | {"sides": names},
    }
    print("  ".join(f"{name}: {value}" for name, value in report["machine"].items()))
    try:
        for side in sides:
            side.start()
            print(f"{side.name} is up after {side.start_s:.1f} s", flush=True)
        report["start_s"] = {side.name: side.start_s for side in sides}
        print_steps_head(sides, args.hosts, args.devices_per_host)
        report["steps"] = []
        for wanted_ms in args.steps_ms:
            row = measure_steps(sides, wanted_ms, args.blocks, 0.5 if args.quick else 0.8, args.feed)
            report["steps"].append(row)
            print_steps(row, sides)
        print(f"\n{'one operation at a time':46}" + "".join(f"{side.name:>16}" for side in sides))
        report["operations"] = []
        for operation in OPERATIONS:
            row = measure_operation(sides, operation, 1 if args.quick else 3, args.quick)
            report["operations"].append(row)
            print_operation(row, sides)
        print("(plain JAX on CPUs shares memory with numpy: most of its uploads and reads copy nothing)")
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
    parser.add_argument("--steps-ms", help="wanted step times (default 5,20,100,500; with --quick 20,100)")
    parser.add_argument("--blocks", type=int, help="turns of each side for each size (default 5; with --quick 3)")
    parser.add_argument("--quick", action="store_true", help="a rough answer in under a minute")
    parser.add_argument(
        "--no-feed", dest="feed", action="store_false", help="reuse one batch; do not upload one a step"
    )
    parser.add_argument("--skip-peer", action="append", default=[], choices=SIDES, metavar="|".join(SIDES))
    parser.add_argument("--out", type=Path, help="also write all numbers as JSON")
    args = parser.parse_args(argv)
    try:
        args.steps_ms = [
            float(part) for part in (args.steps_ms or ("20,100" if args.quick else "5,20,100,500")).split(",")
        ]
    except ValueError:
        parser.error("--steps-ms takes numbers with commas between them, such as 5,20,100")
    args.blocks = args.blocks or (3 if args.quick else 5)
    if min(args.hosts, args.devices_per_host, args.blocks, *args.steps_ms) <= 0:
        parser.error("hosts, devices, blocks and step times must be above zero")
    if BATCH % (args.hosts * args.devices_per_host):
        parser.error(f"the batch of {BATCH} does not divide by {args.hosts} x {args.devices_per_host} devices")
    if len(set(args.skip_peer)) == len(SIDES):
        parser.error("all sides are skipped")
    return args


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="overhead-") as directory:
            report = run(args, Path(directory))
    except SideFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(row["bit_equal"] is False for row in report["steps"]) else 0


if __name__ == "__main__":
    sys.exit(main())
