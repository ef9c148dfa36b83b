"""What a comparison with plain JAX says: counts a file, and the tests that pass there and not here, waived or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.suite import Outcome

WAIVERS = Path(__file__).with_name("waivers.txt")


@dataclass(frozen=True)
class Comparison:
    """One file on plain CPU and through the platform."""

    name: str
    plain: Outcome
    ours: Outcome
    waivers: dict[str, str]

    @property
    def kept(self) -> int:
        """How many of the tests that pass on plain CPU pass here too."""
        return len(self.plain.passed & self.ours.passed)

    @property
    def lost(self) -> dict[str, str]:
        """The tests that pass on plain CPU but not here, with what happened; the waived ones are not among them."""
        return {
            test: self.ours.failed.get(test, "skipped" if test in self.ours.skipped else "did not run")
            for test in sorted(self.plain.passed - self.ours.passed)
            if f"{self.name}:{test}" not in self.waivers
        }

    def row(self) -> str:
        """One line of the table."""
        plain, ours = self.plain, self.ours
        counts = f"{len(plain.passed):6} {len(plain.failed):4} {len(plain.skipped):4}   "
        counts += f"{len(ours.passed):6} {len(ours.failed):4} {len(ours.skipped):4}   "
        waived = len(plain.passed - ours.passed) - len(self.lost)
        return f"{Path(self.name).stem[:22]:22} {counts} {self.kept:6} {len(self.lost):5} {waived:6}" + (
            "  crashed" * ours.crashed
        )

    def as_json(self) -> dict[str, Any]:
        def counts(outcome: Outcome) -> dict[str, Any]:
            return {
                "passed": len(outcome.passed),
                "failed": len(outcome.failed),
                "skipped": len(outcome.skipped),
                "seconds": outcome.seconds,
                "crashed": outcome.crashed,
            }

        return {
            "file": self.name,
            "plain": counts(self.plain),
            "elastic": counts(self.ours),
            "kept": self.kept,
            "lost": self.lost,
        }


HEADER = (
    f"{'':22} {'plain JAX':^18}  {'elastic':^18}\n"
    f"{'file':22} {'passed':>6} {'fail':>4} {'skip':>4}   {'passed':>6} {'fail':>4} {'skip':>4}   "
    f" {'kept':>6} {'lost':>5} {'waived':>6}"
)


def share(comparisons: list[Comparison]) -> float:
    """Which part of what passes on plain CPU, without what is waived, passes here; 1 if nothing is expected."""
    kept = sum(comparison.kept for comparison in comparisons)
    expected = kept + sum(len(comparison.lost) for comparison in comparisons)
    return kept / expected if expected else 1.0


def read_waivers(text: str) -> dict[str, str]:
    """`FILE:CLASS.TEST  reason` a line, comments with #. Raises `ValueError` for a line without a reason."""
    waivers = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        test, _, reason = line.expandtabs(1).partition(" ")
        if ":" not in test or not reason.strip():
            raise ValueError(f"line {number}: FILE:CLASS.TEST and a reason are wanted, not {line!r}")
        waivers[test] = reason.strip()
    return waivers
