"""Training loops whose hosts are killed again and again at points that are chosen, beside the same loops undisturbed.

    python -m tests.elastic.loop_kills [--kinds data,sharded,tensor,pipeline] [--steps 200] [--every 5]

After every so many steps one process dies: an executor while it compiles, in a collective, between two operations, in a
snapshot, in a recovery from another's death; or an agent, and with it all of a host, also while copies are sent. What
the loop prints, its losses, parameters, optimizer state and keys among it, must be the same to the last bit. Exit code
1 if it is not.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from elastic import fault_points
from tests.elastic.processes import wait_gone
from tests.elastic.runs import Run, run_to_end

SCRIPT = Path(__file__).with_name("training_loop.py")
KINDS = ("data", "sharded", "tensor", "pipeline")
DEATHS = ("kill-executor", "collective", "compile", "snapshot", "restore", "kill-agent", "copies")
"""Faults between two operations, and points at which a process dies, in the words of `elastic chaos`."""


def deaths_of(kind: str) -> tuple[str, ...]:
    """How processes may die in this loop; where every device holds everything, no copies are sent."""
    return DEATHS if kind != "data" else DEATHS[:-1]


OPTIONS = ("--snapshot-budget=0.5",)  # Often, so that there are some to die in.


def undisturbed(kind: str, steps: int, hosts: int = 4) -> list[str]:
    """What the loop prints when nothing happens."""
    run = run_to_end(SCRIPT, kind, str(steps), timeout_s=600, hosts=hosts, devices=1, options=OPTIONS)
    assert run.process.returncode == 0, run.text
    return run.output


class KilledLoop:
    """A loop that goes as far as it is let, and processes that die when they are told to."""

    def __init__(self, kind: str, steps: int, directory: Path, hosts: int = 4) -> None:
        self._steps, self._directory = steps, directory
        self._pace = directory / "pace"
        self._pace.write_text("0")
        self.deaths = 0
        self.run = Run(
            SCRIPT,
            *(kind, str(steps), str(self._pace)),
            hosts=hosts,
            devices=1,
            options=OPTIONS,
            environment={fault_points.DIRECTORY: str(directory)},
        )

    def go_to(self, step: int) -> None:
        """Has the loop finish a step, and stop before the next one."""
        self._allow(step)
        self.run.wait_for(f"step {step} ", 120)

    def die(self, death: str, step: int) -> None:
        """Has a process die, at once or at a point that it comes to on the way to a step."""
        told = self._losses()
        if death in fault_points.POINTS:
            fault_points.arm(self._directory, death)
        if death in ("kill-executor", "kill-agent", "restore"):  # To restore something, something must be lost.
            executors = self.run.role("executor")
            victim = executors[self.deaths % len(executors)]
            if death == "kill-agent":
                victim = victim.parents()[1]  # By way of the template: of a host that takes part.
            victim.kill()
            wait_gone([victim.pid])
        self._allow(step)
        self.run.wait_until(lambda: self._losses() > told, 120, f"the death {death}")
        self.deaths += 1
        self.run.wait_for(f"step {step} ", 120)
        left = [path.name for path in self._directory.iterdir() if path != self._pace]
        assert not left, f"nobody died at {left}"

    def finish(self) -> list[str]:
        self._allow(self._steps)
        self.run.snapshot()
        assert self.run.finish(120) == 0, self.run.text
        self.run.wait_until_gone(2)
        return self.run.output

    def _allow(self, step: int) -> None:
        new = self._pace.with_name("new")
        new.write_text(str(step))
        new.rename(self._pace)

    def _losses(self) -> int:
        return sum("was lost" in line for line in self.run.errors)


def killed(kind: str, steps: int, every: int, deaths: Iterator[str], hosts: int = 4) -> tuple[list[str], int]:
    """What the loop prints when a process dies after every so many steps, and how many did."""
    with tempfile.TemporaryDirectory(prefix="loop-") as directory:
        loop = KilledLoop(kind, steps, Path(directory), hosts)
        with loop.run:
            for step in range(every - 1, steps - every, every):
                loop.go_to(step)
                loop.die(next(deaths), step + every)
            return loop.finish(), loop.deaths


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--deaths", help=f"some of {','.join(DEATHS)}; default: all that the loop comes by")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=5)
    args = parser.parse_args()
    differ = False
    for kind in args.kinds.split(","):
        expected = undisturbed(kind, args.steps)
        began = time.monotonic()
        ways = args.deaths.split(",") if args.deaths else deaths_of(kind)
        output, deaths = killed(kind, args.steps, args.every, itertools.cycle(ways))
        wrong = [line for line, other in zip(output, expected, strict=True) if line != other]
        verdict = f"{len(wrong)} lines differ, first {wrong[0]!r}" if wrong else "bit-equal"
        print(f"{kind:10}{deaths:4} deaths in {time.monotonic() - began:6.1f} s  {verdict}", flush=True)
        differ |= bool(wrong)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
