"""All hosts of a run are killed at once: it goes on from what is stored, when hosts are back."""

from __future__ import annotations

from pathlib import Path

import checkpoint
from elastic import fault_points
from tests.elastic.processes import wait_gone, wait_until
from tests.elastic.runs import Run, run_to_end

SCRIPT = Path(__file__).with_name("training_loop.py")
STEPS = 30


def stored(directory: Path) -> list[int]:
    """The positions of the snapshots that a run has stored there."""
    return [step.number for run in directory.glob("*") for step in checkpoint.steps(run) if step.finished]


def test_when_all_hosts_are_killed_the_script_sees_nothing_and_its_numbers_stay(tmp_path: Path) -> None:
    undisturbed = run_to_end(SCRIPT, "sharded", str(STEPS), hosts=2, devices=2)
    pace, directory = tmp_path / "pace", tmp_path / "stored"
    pace.write_text("10")
    options = ("--checkpoint", str(directory), "--checkpoint-every=0.5")
    with Run(SCRIPT, "sharded", str(STEPS), str(pace), hosts=2, devices=2, options=options) as run:
        run.wait_for("step 10 ")
        wait_until(lambda: stored(directory))
        pace.write_text("15")
        run.wait_for("step 15 ")
        agents = run.role("agent")
        for agent in agents:
            agent.kill()
        wait_gone([agent.pid for agent in agents])
        pace.write_text(str(STEPS))
        assert run.finish(120) == 0
        assert run.output == undisturbed.output
        assert "the run waits" in run.text
    (newest,) = [max(stored(directory))]
    (folder,) = directory.glob(f"*/{newest}")
    assert checkpoint.verify(folder) == []


def test_an_agent_that_dies_while_it_writes_costs_nothing(tmp_path: Path) -> None:
    undisturbed = run_to_end(SCRIPT, "sharded", str(STEPS), hosts=2, devices=2)
    points, directory = tmp_path / "points", tmp_path / "stored"
    points.mkdir()
    fault_points.arm(points, "store")
    options = ("--checkpoint", str(directory), "--checkpoint-every=0.5")
    environment = {fault_points.DIRECTORY: str(points)}
    pace = tmp_path / "pace"
    pace.write_text("10")
    with Run(
        SCRIPT, "sharded", str(STEPS), str(pace), hosts=2, devices=2, options=options, environment=environment
    ) as run:
        run.wait_for("step 10 ")
        wait_until(lambda: not list(points.iterdir()) and stored(directory))
        pace.write_text(str(STEPS))
        assert run.finish(120) == 0
        assert run.output == undisturbed.output
        assert "was lost" in run.text
