"""`elastic run --on-loss`, with real processes: what becomes of a run when nobody can take a lost host's place."""

import contextlib

import psutil
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


@contextlib.contextmanager
def status(run):
    directory = directory_of(run)
    secret = bytes.fromhex((directory / "secret").read_text())
    with StatusClient(f"unix:{directory}/client.sock", secret, timeout_s=LONG_S) as client:
        yield client


def wait_for_hosts(run, count):
    """Returns when so many hosts have joined the run, spares among them."""
    with status(run) as client:
        while len(client.report()["hosts"]) < count:
            pass


def agent_with(run, devices):
    """The agent of the host that has these virtual devices, and the host's name."""
    with status(run) as client:
        [host] = [host for host in client.report()["hosts"] if host["virtual_devices"] == devices]
    return psutil.Process(host["agent_pid"]), host["id"]


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


# It keeps arrays on each of two hosts and on both, and says what becomes of them; it waits for files before it goes on.
SURFACE = """
import os, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def wait_for(name):
    while not os.path.exists(os.path.join(sys.argv[1], name)):
        time.sleep(0.01)
def say(name, work):
    try:
        print(name, work(), flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(name, str(error).partition(": its")[0], flush=True)
devices = jax.devices()
print("slices", [device.slice_index for device in devices], flush=True)
both = NamedSharding(Mesh(np.array(devices), "d"), P("d"))
mine, theirs = (NamedSharding(Mesh(np.array(some), "d"), P("d")) for some in (devices[:2], devices[2:]))
total = jax.jit(lambda x: jnp.sum(x * x))
double = jax.jit(lambda x: x + x, donate_argnums=0)
x, y, z = (jax.device_put(np.arange(8.0, dtype=np.float32), where) for where in (both, mine, theirs))
for i in range(5):
    x, y, z = double(x), double(y), double(z)
say("before", lambda: [float(total(v)) for v in (x, y, z)])
wait_for("lost")
say("both", lambda: float(total(x)))
say("mine", lambda: float(total(y)))
say("theirs", lambda: np.asarray(z))
say("new on mine", lambda: float(total(jax.device_put(np.ones(4, np.float32), mine))))
dispatched = total(jax.device_put(np.ones(4, np.float32), theirs))
say("new on theirs", lambda: float(dispatched))
say("from theirs", lambda: float(total(jax.device_put(z, mine))))
wait_for("back")
say("mine", lambda: float(total(y)))
say("theirs", lambda: float(total(z)))
say("new on theirs", lambda: float(total(jax.device_put(np.ones(4, np.float32), theirs))))
say("new on both", lambda: float(total(jax.device_put(np.ones(8, np.float32), both))))
"""


def test_to_surface_a_loss_makes_errors_of_what_was_there_and_of_nothing_else(tmp_path):
    script = tmp_path / "surface.py"
    script.write_text(SURFACE)
    with Killing(script, str(tmp_path), hosts=2, devices=2, options=("--on-loss", "surface")) as run:
        run.wait_for("before", LONG_S)
        agent, host = agent_with(run, [2, 3])
        kill(agent)
        run.wait_for("2 of 4 virtual devices have no physical device left, which the client is told", LONG_S)
        (tmp_path / "lost").touch()
        run.wait_for("changed: it joined", LONG_S)
        (tmp_path / "back").touch()
        run.snapshot()
        assert run.finish(LONG_S) == 0, run.text
        run.wait_until_gone(2)
    told = [line for line in run.output if not line.startswith(("before", "slices"))]
    assert run.output[:2] == ["slices [0, 0, 1, 1]", "before [143360.0, 143360.0, 143360.0]"]
    lost = f"DATA_LOSS: virtual devices 2, 3 without a physical device since host {host} was lost"
    assert told[:4] == [f"both {lost}", "mine 143360.0", f"theirs {lost}", "new on mine 4.0"]
    assert told[4] in (f"new on theirs {lost}", "new on theirs 4.0")  # By then the host may have been back already.
    assert told[5] == f"from theirs {lost}"
    assert told[6:] == ["mine 143360.0", f"theirs {lost}", "new on theirs 4.0", "new on both 8.0"]
