"""The ready-made plans on training loops of four kinds, or on a script of one's own.

    python -m tests.elastic.chaos_run.every_plan [--plans smoke,soak] [--kinds data,pipeline] [--out DIR]
    python -m tests.elastic.chaos_run.every_plan --out DIR -- SCRIPT ARGS

Each run prints a line: what it was, what it cost, and what did not hold. Its report is in a directory of its own. Exit
code 1 if a check failed anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos import ready_made
from elastic.cli.chaos import find
from tests.elastic.loop_kills import KINDS, SCRIPT

SECONDS = {"smoke": 30, "soak": 120, "preemptions": 120, "partitions": 180, "storage": 110, "silent-corruption": 70}
"""For so long at least a script has to run so that all of a plan is done, or enough of one that draws."""

STEP_S = 0.2
"""What a step of a loop waits."""


def run(plan: str, script: Sequence[str], out: Path, options: Sequence[str]) -> dict[str, Any] | None:
    """The report; None if there is none, since the run could not be made."""
    devices = find(plan).hosts  # One each.
    sizes = {"WIDTH": 32 * devices, "BATCH": 4 * devices, "LAYERS": devices, "STEP_S": STEP_S}
    command = [sys.executable, "-m", "elastic.cli", "chaos", "run", plan, "--json", f"--out={out}", *options, "--"]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "progress").open("w") as progress:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": progress, "text": True}
        done = subprocess.run(
            [*command, *script],
            env=os.environ | {name: str(size) for name, size in sizes.items()},
            check=False,
            **pipes,
        )
    report: dict[str, Any] | None = json.loads(done.stdout) if done.stdout else None
    return report


def summary(report: dict[str, Any]) -> str:
    """What happened, on one line, and what did not hold."""
    noticed = sum(fault["noticed"] is not None for fault in report["faults"])
    worst = max((kind["worst"] for kind in report["mttr"] if kind["worst"] is not None), default=0.0)
    problems = [f"{check['name']}: {problem}" for check in report["checks"] for problem in check["problems"]]
    figures = f"{len(report['faults'])} faults, {noticed} noticed, {report['generations']} generations"
    times = f"{report['clean_s']:.0f} s, {report['chaos_s']:.0f} s with faults; worst outage {worst:.1f} s"
    return f"{figures}; {times}; {'; '.join(problems) or 'every check held'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", default=",".join(ready_made()), help="default: all of them")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of training loops; default: all of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="default: a new directory")
    parser.add_argument("script", nargs="*", metavar="SCRIPT ARGS", help="instead of the training loops")
    args = parser.parse_args()
    out = args.out or Path(tempfile.mkdtemp(prefix="every-plan-"))
    failed = False
    for plan in args.plans.split(","):
        steps = round(SECONDS.get(plan, 120) / STEP_S)
        loops = {kind: [str(SCRIPT), kind, str(steps)] for kind in args.kinds.split(",")}
        scripts = {Path(args.script[0]).stem: args.script} if args.script else loops
        for name, script in scripts.items():
            report = run(plan, script, out / plan / name, [f"--seed={args.seed}", "--devices-per-host=1"])
            failed |= report is None or not report["held"]
            said = "it could not be run" if report is None else summary(report)
            print(f"{plan:18} {name:10} {said}", flush=True)
    print(f"the reports are in {out}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
