"""Bits that are flipped in real processes: a run that verifies finds them, names the host, and ends up right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos import parse_line
from elastic import fault_points
from elastic.controller import history
from tests.elastic.processes import wait_until
from tests.elastic.runs import Run, run_to_end

SCRIPT = Path(__file__).with_name("training_loop.py")
STEPS = 24
OPTIONS = ("--verify-every=1", "--snapshot-budget=0.5")


def test_a_bit_that_flips_is_found_and_the_numbers_end_up_right(tmp_path: Path) -> None:
    undisturbed = run_to_end(SCRIPT, "data", str(STEPS), hosts=4, devices=1)
    pace, points, told = tmp_path / "pace", tmp_path / "points", tmp_path / "history"
    points.mkdir()
    pace.write_text("12")
    environment = {fault_points.DIRECTORY: str(points), history.FILE: str(told)}
    with Run(
        SCRIPT, "data", str(STEPS), str(pace), hosts=4, devices=1, options=OPTIONS, environment=environment
    ) as run:
        run.wait_for("step 11 ")
        fault_points.arm(points, fault_points.FLIP_BIT, "h2", "0 7")
        pace.write_text("14")
        wait_until(lambda: '"event": "corruption"' in told.read_text(), 60)
        pace.write_text(str(STEPS))
        assert run.finish(120) == 0
        assert "host h2 was lost: it computed wrongly between operations" in run.text
        wrong = [index for index, line in enumerate(run.output) if line != undisturbed.output[index]]
        # Steps up to 14 may have been read before they were known to be wrong; what comes behind them is right.
        assert all(run.output[index].startswith(("step 12 ", "step 13 ", "step 14 ")) for index in wrong)


def history_of(directory: Path, kind: str, devices: int, until: Callable[[str], bool], *options: str) -> str:
    """What a loop on two hosts tells that waits after half of its steps until it has told something.

    What it prints must be what it prints when nothing is verified.
    """
    undisturbed = run_to_end(SCRIPT, kind, str(STEPS), hosts=2, devices=devices)
    told, pace = directory / "history", directory / "pace"
    pace.write_text("12")
    with Run(
        *(SCRIPT, kind, str(STEPS), str(pace)),
        hosts=2,
        devices=devices,
        options=(*OPTIONS, *options),
        environment={history.FILE: str(told)},
    ) as run:
        run.wait_for("step 11 ")
        wait_until(lambda: until(told.read_text()), 60)
        pace.write_text(str(STEPS))
        assert run.finish(120) == 0
        assert run.output == undisturbed.output
    return told.read_text()


@pytest.mark.parametrize("kind", ["sharded", "pipeline"])
def test_of_a_run_in_which_nobody_is_wrong_nothing_is_said(kind: str, tmp_path: Path) -> None:
    told = history_of(tmp_path, kind, 2, lambda told: told.count('"event": "verified_snapshot"') > 2)
    assert '"event": "corruption"' not in told
    assert '"event": "lost"' not in told


def test_what_is_stored_was_verified_before(tmp_path: Path) -> None:
    store = (f"--checkpoint={tmp_path / 'stored'}", "--checkpoint-every=0.5")
    told = history_of(tmp_path, "sharded", 1, lambda told: '"event": "stored"' in told, *store)
    events = [parse_line(line) for line in told.splitlines()]
    verified = {event["number"]: event.at for event in events if event.kind == "verified_snapshot"}
    stored = [event for event in events if event.kind == "stored"]
    assert all(verified[event["number"]] <= event.at for event in stored)
