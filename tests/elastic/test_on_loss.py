"""`elastic run --on-loss`, with real processes: what becomes of a run when nobody can take a lost host's place."""

import pytest

from elastic.status_client import StatusClient
from tests.elastic.runs import run_to_end
from tests.elastic.test_recovery import STEPS, TRAIN, Killing, directory_of, kill

LONG_S = 180
"""Longer than anything takes on a busy machine."""


@pytest.fixture(scope="session")
def train(tmp_path_factory):
    path = tmp_path_factory.mktemp("scripts") / "train.py"
    path.write_text(TRAIN)
    return path


@pytest.fixture(scope="session")
def undisturbed(train):
    """What the script prints when nothing happens to its four devices."""
    run = run_to_end(train, STEPS, hosts=2, devices=2)
    assert run.process.returncode == 0, run.text
    return run.output


def agent_of(executor):
    return executor.parent().parent()


def wait_for_hosts(run, count):
    """Returns when so many hosts have joined the run, spares among them."""
    directory = directory_of(run)
    secret = bytes.fromhex((directory / "secret").read_text())
    with StatusClient(f"unix:{directory}/client.sock", secret, timeout_s=LONG_S) as asked:
        while len(asked.report()["hosts"]) < count:
            pass


@pytest.mark.parametrize("policy", ["spare", "wait"])
def test_a_spare_takes_over(train, undisturbed, tmp_path, policy):
    options = ("--spares", "1", "--on-loss", policy)
    with Killing(train, STEPS, str(tmp_path / "go on"), hosts=2, devices=2, options=options) as run:
        run.wait_for("step 20", LONG_S)
        wait_for_hosts(run, 3)
        kill(agent_of(run.role("executor")[1]))
        run.wait_for("4 virtual devices over 2 hosts; 2 devices to h", LONG_S)
        (tmp_path / "go on").touch()
        run.check(undisturbed, (1, 1))
        assert "the run waits" not in run.text


def test_to_wait_for_a_host_that_comes_back_leaves_the_numbers_as_they_are(train, undisturbed, tmp_path):
    with Killing(train, STEPS, str(tmp_path / "go on"), hosts=2, devices=2, options=("--on-loss", "wait")) as run:
        run.wait_for("step 20", LONG_S)
        kill(run.role("agent")[1])
        run.wait_for("the run waits: 2 of 4 virtual devices have no physical device left; h1 is gone", LONG_S)
        (tmp_path / "go on").touch()
        run.snapshot()
        assert run.finish(120) == 0, run.text
        run.wait_until_gone(2)
    assert run.output == undisturbed, run.text
    waits, goes_on = [line for line in run.errors if "was lost" in line]
    assert "was killed by SIGKILL; the run waits" in waits
    assert "; the run went on after" in goes_on
    assert "4 virtual devices over 2 hosts; nothing moves" in goes_on


def test_without_a_spare_the_run_ends_and_says_what_it_lacks(train, tmp_path):
    with Killing(train, STEPS, str(tmp_path / "go on"), hosts=2, devices=2, options=("--on-loss", "spare")) as run:
        run.wait_for("step 20", LONG_S)
        kill(run.role("agent")[1])
        run.wait_for("the run cannot go on")
        (tmp_path / "go on").touch()
        run.snapshot()
        assert run.finish() == 1
        run.wait_until_gone(2)
    [error] = [line for line in run.errors if line.startswith("elastic: error")]
    assert "host h1 was lost: its agent" in error
    assert "2 of 4 virtual devices have no physical device left; h1 is gone, and there is no spare" in error
    assert "UNAVAILABLE: host h1 was lost" in run.text
