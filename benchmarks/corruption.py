"""How many flipped bits are found by a run that verifies its results, how many alarms are false, and what it costs.

    python benchmarks/corruption.py [--quick] [--flips 100] [--clean 100] [--every 1] [--out corruption.json]

Three parts, each one long training (training.py) on a pool of this machine.
Flips: one bit of an array of one device is changed at a time, and what comes of it is waited for. A host that is
quarantined is replaced while the next bit is changed already, as long as three others are there to tell who was wrong.
A flip that is not found is harmless if no loss differs from those of a run without flips, on one host, where nothing is
verified. With `--every` above 1 some are missed, as they may be.
Clean: nothing happens; each comparison that finds something is a false alarm.
Cost: steps a second without verifying and with each N in turn, several times.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
from trainings import ElasticTraining, TrainingFailed

from chaos import Event, parse_line
from elastic import fault_points
from elastic.chaos_run.tail import Tail
from elastic.controller import history

PATIENCE_S = 300.0
ENOUGH_HOSTS = 3
"""To say by majority who was wrong."""
MISSED_AFTER = 3
"""Verified intervals after which a flip that was not found will not be."""
COSTS = (1, 2, 4, 8, 16)


class Verified(ElasticTraining):
    """A training that verifies its results, with what it tells of that; bits of it can be flipped."""

    def __init__(self, args: argparse.Namespace, every: int, directory: Path) -> None:
        self.points = Path(tempfile.mkdtemp(prefix="points-", dir=directory))
        self._history = self.points / "history.jsonl"
        self._history.touch()
        os.environ |= {fault_points.DIRECTORY: str(self.points), history.FILE: str(self._history)}
        settings = {"verify_every": every, "snapshot_budget": args.snapshot_budget}
        super().__init__(args.hosts, args.devices_per_host, [], directory, **settings)
        self._tail = Tail(self._history)
        self.events: list[Event] = []

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Waits until something is so by what the history tells; the condition's value."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            self.events += map(parse_line, self._tail.lines())
            if value := condition():
                return value
            if time.monotonic() > give_up or self.process.poll() is not None:
                raise self.failed(f"did not come to {what}")
            time.sleep(0.02)

    def of(self, *kinds: str, since: int = 0) -> list[Event]:
        """The events of these kinds, from one on."""
        return [event for event in self.events[since:] if event.kind in kinds]

    def members(self) -> dict[str, int]:
        """The hosts that take part, and the pids of their agents."""
        found: dict[str, int] = {}
        for event in self.of("joined", "gone", "left"):
            if event.kind == "joined":
                found[event.host] = event["pid"]
            else:
                found.pop(event.host, None)
        return found

    def owners(self) -> set[str]:
        """The hosts that virtual devices are on."""
        worlds = self.of("generation")
        return set(worlds[-1]["owners"]) if worlds else set()

    def flip(self, host: str, device: int, seed: int) -> dict[str, Any]:
        """Flips a bit, and waits for what comes of it."""
        since = len(self.events)
        point = (self.points, fault_points.FLIP_BIT, host)
        fault_points.arm(*point, f"{device} {seed}")
        self.until(lambda: not fault_points.is_armed(*point), "the flip")
        began, step = time.monotonic(), self.steps[-1].number

        def verdict() -> Event | None:
            found = self.of("corruption", since=since)
            # The first that was verified may have been of what was computed before.
            passed = self.of("verified_snapshot", since=since)[MISSED_AFTER:]
            return found[0] if found else passed[0] if passed else None

        event = self.until(verdict, "a verdict")
        named = event.facts.get("host", "") if event.kind == "corruption" else ""
        return {
            "host": host,
            "found": event.kind == "corruption",
            "named": named,
            "went_back": event.facts.get("goes_back", False),
            "seconds": event.at - began,
            "from_step": step,
        }

    def replace(self, host: str) -> None:
        """Has a host that was quarantined replaced: the run will use it when it has come back."""
        self.until(lambda: host not in self.members(), f"the loss of {host}")
        pids = [event["pid"] for event in self.of("joined") if event.host == host]
        os.kill(pids[-1], signal.SIGKILL)

    def until_verified(self) -> None:
        """Waits until what has been computed until now is verified, by and large: an interval that begins with what
        is computed again is a long one."""
        since = len(self.events)
        self.until(lambda: self.of("verified_snapshot", since=since), "a verified snapshot")


def flips(args: argparse.Namespace, directory: Path, lot: random.Random) -> tuple[list[dict[str, Any]], Verified]:
    """Flips bits, one after the other."""
    training, found = Verified(args, args.every, directory), []
    try:
        training.start()
        for number in range(1, args.flips + 1):
            training.until(lambda: len(training.owners()) >= min(ENOUGH_HOSTS, args.hosts), "enough hosts")
            host = lot.choice(sorted(training.owners()))
            flip = training.flip(host, lot.randrange(args.devices_per_host), lot.randrange(1 << 30))
            found.append(flip)
            what = f"found, {flip['named'] or 'nobody'} named" if flip["found"] else "not found"
            print(f"{number:5}  {host}: {what} after {flip['seconds']:.1f} s", flush=True)
            if flip["named"]:
                training.replace(flip["named"])
            if flip["found"]:
                training.until_verified()
            flip["to_step"] = training.steps[-1].number
        training.wait_for_steps(20)  # All of which must be right.
        return found, training
    finally:
        training.stop()


def clean(args: argparse.Namespace, directory: Path) -> tuple[int, int]:
    """(comparisons, those that found something) when nothing happens."""
    training = Verified(args, args.every, directory)
    try:
        training.start()
        while (compared := len(training.of("compared"))) < args.clean:
            training.until(lambda now=compared: len(training.of("compared")) > now, "the next comparison")
        return compared, len(training.of("corruption"))
    finally:
        training.stop()


def right_losses(args: argparse.Namespace, directory: Path, last: int) -> dict[int, str]:
    """The loss of each step up to one, to the last bit."""
    training = ElasticTraining(1, args.hosts * args.devices_per_host, [], directory, snapshot_budget=0)
    try:
        training.start()
        while training.steps[-1].number < last:
            training.wait_for_steps(min(100, last - training.steps[-1].number))
        return {step.number: step.loss for step in training.steps}
    finally:
        training.stop()


def cost(args: argparse.Namespace, directory: Path) -> dict[int, list[dict[str, float]]]:
    """Steps a second, by how many snapshots one is verified; 0 for none."""
    found: dict[int, list[dict[str, float]]] = {}
    for _ in range(args.rounds):
        for every in (0, *COSTS):
            training = Verified(args, every, directory)
            try:
                training.start()
                if every:
                    training.until(lambda training=training: training.of("compared"), "a comparison")
                began, before = time.monotonic(), len(training.steps)
                time.sleep(args.seconds)
                seconds = time.monotonic() - began
                rate = (len(training.steps) - before) / seconds
                training.until(lambda: True, "its history")
                compared = [event for event in training.of("compared") if event.at > began]
                sums = {"comparisons": len(compared), "took_s": sum(event["seconds"] for event in compared)}
                found.setdefault(every, []).append({"steps_per_s": rate, **sums})
                print(f"N = {every:2}: {rate:6.1f} steps/s, {len(compared)} comparisons", flush=True)
            finally:
                training.stop()
    return found


def judged(found: list[dict[str, Any]], training: Verified, losses: dict[int, str]) -> dict[str, Any]:
    """What the flips come to."""
    right = [step for step in training.steps if losses.get(step.number) == step.loss]
    wrong = {step.number for step in training.steps} - {step.number for step in right}
    for flip in found:
        flip["harmful"] = any(flip["from_step"] - 5 <= step <= flip["to_step"] for step in wrong)
    harmful = [flip for flip in found if flip["found"] or flip["harmful"]]
    last = max((flip["to_step"] for flip in found), default=0)
    return {
        "flips": len(found),
        "harmless": len(found) - len(harmful),
        "found": sum(flip["found"] for flip in found),
        "missed": sum(not flip["found"] for flip in harmful),
        "named_rightly": sum(flip["found"] and flip["named"] == flip["host"] for flip in found),
        "named_nobody": sum(flip["found"] and not flip["named"] for flip in found),
        "named_wrongly": sum(flip["found"] and flip["named"] not in ("", flip["host"]) for flip in found),
        "other_alarms": len(training.of("corruption")) - sum(flip["found"] for flip in found),
        "seconds_to_find": statistics.median([flip["seconds"] for flip in found if flip["found"]] or [0.0]),
        "wrong_losses_read": len(wrong),
        "of_steps": last,
        "right_at_the_end": not any(step > last - 1 for step in wrong),
    }


def run(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = {
        "benchmark": "corruption",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "settings": {name: value for name, value in vars(args).items() if name != "out"},
    }
    print(f"seed {args.seed}", flush=True)
    if args.flips:
        began = time.monotonic()
        found, training = flips(args, directory, random.Random(args.seed))
        print(f"{len(found)} flips took {time.monotonic() - began:.0f} s", flush=True)
        losses = right_losses(args, directory, training.steps[-1].number)
        report["flips"], report["trials"] = judged(found, training, losses), found
    if args.clean:
        began = time.monotonic()
        compared, alarms = clean(args, directory)
        print(f"{compared} comparisons took {time.monotonic() - began:.0f} s, {alarms} false alarms", flush=True)
        report["clean"] = {"comparisons": compared, "false_alarms": alarms}
    if args.rounds:
        rates = cost(args, directory)
        plain = statistics.median(one["steps_per_s"] for one in rates[0])
        report["cost"] = {
            every: {"steps_per_s": rate, "of_plain": rate / plain, "rounds": rounds}
            for every, rounds in rates.items()
            for rate in [statistics.median(one["steps_per_s"] for one in rounds)]
        }
    return report


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=1)
    parser.add_argument("--flips", type=int, help="bits that are flipped (default 100; with --quick 3)")
    parser.add_argument("--clean", type=int, help="comparisons when nothing happens (default 100; with --quick 3)")
    parser.add_argument("--every", type=int, default=1, help="of how many intervals one is verified (default 1)")
    parser.add_argument("--snapshot-budget", type=float, default=0.1, help="the share of the time that saving may take")
    parser.add_argument("--rounds", type=int, help="how often the cost is measured (default 3; with --quick 1)")
    parser.add_argument("--seconds", type=float, help="for how long each time (default 20; with --quick 5)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="repeats the lots")
    parser.add_argument("--quick", action="store_true", help="a rough answer in about two minutes")
    parser.add_argument("--out", type=Path, help="also write all numbers as JSON")
    args = parser.parse_args(argv)
    for name, usual, quick in (("flips", 100, 3), ("clean", 100, 3), ("rounds", 3, 1), ("seconds", 20.0, 5.0)):
        if getattr(args, name) is None:
            setattr(args, name, quick if args.quick else usual)
    return args


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="corruption-") as directory:
            report = run(args, Path(directory))
    except TrainingFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(json.dumps({key: report[key] for key in ("flips", "clean", "cost") if key in report}, indent=1))
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    missed = report.get("flips", {}).get("missed", 0) if args.every == 1 else 0
    return 1 if missed or report.get("clean", {}).get("false_alarms", 0) else 0


if __name__ == "__main__":
    sys.exit(main())
