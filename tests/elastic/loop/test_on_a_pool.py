"""A resumable loop on a pool whose hosts die at the end of an epoch, and at the beginning of the next."""

from pathlib import Path

import pytest

import checkpoint
from tests.elastic.loop.sources import SIZE
from tests.elastic.processes import wait_gone
from tests.elastic.runs import Run

SCRIPT = Path(__file__).with_name("training.py")
STEPS = str(2 * SIZE)
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the training prints when nothing happens."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with Run(SCRIPT, str(directory / "c"), STEPS, "loader", hosts=2, devices=1, environment=ENVIRONMENT) as run:
        assert run.finish(120) == 0, run.text
    return run.output


@pytest.mark.parametrize(("victims", "step"), [("a host", SIZE), ("all hosts", SIZE + 1)])
def test_hosts_die_and_the_numbers_and_ids_stay(undisturbed, tmp_path, victims, step):
    go_on = tmp_path / "go on"
    stored = ("--checkpoint", str(tmp_path / "stored"), "--checkpoint-every=1")
    with Run(
        SCRIPT,
        *(str(tmp_path / "c"), STEPS, "loader", f"wait={step}:{go_on}"),
        hosts=2,
        devices=1,
        options=stored if victims == "all hosts" else (),
        environment=ENVIRONMENT,
    ) as run:
        run.wait_for("waits", 120)
        agents = run.role("agent")
        killed = agents if victims == "all hosts" else agents[:1]
        for agent in killed:
            agent.kill()
        wait_gone([agent.pid for agent in killed])
        go_on.touch()
        assert run.finish(120) == 0, run.text
    assert [line for line in run.output if line != "waits"] == undisturbed
    assert "was lost" in run.text
    assert max(step.number for step in checkpoint.steps(tmp_path / "c") if step.finished) == int(STEPS)
    assert checkpoint.verify(tmp_path / "c" / STEPS) == []
