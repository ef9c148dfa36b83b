"""What a proof found, as plain data: verdicts, costs, outages, curves."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chaos.checkers import CHECKERS, Evidence, Verdict
from chaos.history import History
from chaos.ledger import Ledger, ledger
from chaos.outages import Mttr, Outage, by_fault, outages
from chaos.plan import Plan

_NUMBER = r"[-+]?(?:0x[0-9a-f]+(?:\.[0-9a-f]*)?p[-+]?\d+|\d+\.\d+(?:e[-+]?\d+)?|nan|inf)"
_LOSS = re.compile(rf"loss\s*[:=]?\s*({_NUMBER})", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.])({_NUMBER})(?!\w)", re.IGNORECASE)

Curve = list[tuple[int, float]]
"""(step, value), in the order in which they were printed."""


@dataclass(frozen=True)
class Report:
    """What two runs of a script, one of them under a plan, have shown.

    Attributes:
        curves: what the script printed of each step, without and with faults.
    """

    plan: Plan
    script: Sequence[str]
    verdicts: Sequence[Verdict]
    clean: History
    chaos: History
    ledger: Ledger
    outages: Sequence[Outage]
    mttr: Sequence[Mttr]
    curves: tuple[Curve, Curve]

    @classmethod
    def of(cls, plan: Plan, clean: History, chaos: History, script: Sequence[str]) -> Report:
        evidence = Evidence(plan, clean, chaos)
        found = outages(chaos, plan.notice_within)
        return cls(
            plan,
            script,
            [checker(evidence) for checker in CHECKERS],
            clean,
            chaos,
            ledger(chaos),
            found,
            by_fault(found),
            (curve(clean), curve(chaos)),
        )

    @property
    def held(self) -> bool:
        """Whether every check held."""
        return all(verdict.held for verdict in self.verdicts)

    @property
    def slowdown(self) -> float:
        """How many times as long the script took under the plan."""
        plain = self.clean.ended - self.clean.began
        return (self.chaos.ended - self.chaos.began) / plain if plain > 0 else 1.0

    @property
    def clean_goodput(self) -> float:
        """Of the run to which nothing happened."""
        return ledger(self.clean).goodput

    def data(self) -> dict[str, Any]:
        """The report for programs. Times are seconds."""
        return {
            "held": self.held,
            "plan": self.plan.name,
            "seed": self.plan.seed,
            "script": list(self.script),
            "checks": [
                {
                    "name": verdict.name,
                    "held": verdict.held,
                    "looked_at": verdict.looked_at,
                    "problems": list(verdict.problems),
                    "remarks": list(verdict.remarks),
                }
                for verdict in self.verdicts
            ],
            "faults": [dataclasses.asdict(outage) for outage in self.outages],
            "mttr": [dataclasses.asdict(row) for row in self.mttr],
            "goodput": round(self.ledger.goodput, 4),
            "clean_goodput": round(self.clean_goodput, 4),
            "seconds": {entry: round(seconds, 3) for entry, seconds in self.ledger.seconds.items()},
            "clean_s": round(self.clean.ended - self.clean.began, 3),
            "chaos_s": round(self.chaos.ended - self.chaos.began, 3),
            "generations": len(self.chaos.of("generation")),
            "snapshots": len(self.chaos.of("snapshot")),
        }

    def json(self) -> str:
        return json.dumps(self.data(), indent=1) + "\n"


def curve(history: History) -> Curve:
    """What the script printed of its steps: the number behind the word loss, else the first with a point in it."""
    points = []
    for event in history.of("output"):
        if event["step"] is not None and (found := _LOSS.search(event["line"]) or _ANY.search(event["line"])):
            points.append((int(event["step"]), number(found[1])))
    return points


def number(text: str) -> float:
    """A number as programs print it, hexadecimal ones too."""
    return float.fromhex(text) if "0x" in text.lower() else float(text)
