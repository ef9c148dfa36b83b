"""Runs whose hosts are killed with SIGKILL: the script prints the same, to the last bit, as when nothing happens."""

import contextlib
import re
import signal
from pathlib import Path

import psutil
import pytest

from elastic import fault_points
from tests.elastic.processes import wait_gone
from tests.elastic.runs import Run, run_to_end

# Dropout, momentum, donated buffers, a batch of fresh bytes and a look at the loss in every step.
TRAIN = """
import os, sys, time
print("started", flush=True)
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
def place(values, *spec):
    return jax.device_put(values, NamedSharding(mesh, P(*spec)))
rng = np.random.default_rng(0)
params = {
    "in": place(rng.normal(0, 0.1, (16, 64)).astype(np.float32), None, "model"),
    "out": place(rng.normal(0, 0.1, (64, 4)).astype(np.float32), "model", None),
}
momentum = {
    "in": place(np.zeros((16, 64), np.float32), None, "model"),
    "out": place(np.zeros((64, 4), np.float32), "model", None),
}
key = jax.random.key(7)
def loss_of(params, x, y, key):
    hidden = jax.nn.relu(x @ params["in"])
    hidden = jnp.where(jax.random.bernoulli(key, 0.8, hidden.shape), hidden / 0.8, 0)
    return jnp.mean((hidden @ params["out"] - y) ** 2)
def step(params, momentum, key, x, y):
    key, dropout = jax.random.split(key)
    loss, grads = jax.value_and_grad(loss_of)(params, x, y, dropout)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 0.05 * m, params, momentum), momentum, key, loss
step = jax.jit(step, donate_argnums=(0, 1, 2))
for i in range(int(sys.argv[1])):
    x = rng.normal(size=(32, 16)).astype(np.float32)
    y = np.stack([x[:, :4].sum(1), *x[:, :3].T], 1)
    x, y = place(x, "data"), place(y, "data")
    if i == 0:
        print("compiling", flush=True)
    params, momentum, key, loss = step(params, momentum, key, x, y)
    print(f"step {i}: {float(loss).hex()}", flush=True)
    while i == 20 and len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):  # Somebody is to be killed first.
        time.sleep(0.01)
print(*(np.asarray(p).tobytes().hex()[:2000] for p in params.values()))
"""

# Each call must reach the client once, those in order also in their order, and get back what the first one returned.
CALLBACKS = """
import os, sys, time
print("started", flush=True)
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback
seen, noted, tickets = [], [], []
def ticket(i):
    tickets.append(int(i))
    return np.float32(len(tickets))
@jax.jit
def step(x, i):
    jax.debug.callback(lambda i, v: seen.append((int(i), float(v))), i, x[0])
    io_callback(lambda i: noted.append(int(i)), None, i, ordered=True)
    return x + io_callback(ticket, jax.ShapeDtypeStruct((), np.float32), i, ordered=True)
x = jax.device_put(np.zeros(4, np.float32), jax.devices()[-1])
for i in range(int(sys.argv[1])):
    if i == 0:
        print("compiling", flush=True)
    x = step(x, i)
    print(f"step {i}: {float(x[0])}", flush=True)
    while i == 20 and len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
jax.effects_barrier()
print(sorted(seen), noted, tickets)
"""

# Uploads and reads that go as files, copies from host to host, pieces and wholes, arrays in another kind of memory.
BYTES = """
import sys
print("started", flush=True)
import hashlib, jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
devices = jax.devices()
cut = NamedSharding(Mesh(np.array(devices), "d"), P("d"))
whole = NamedSharding(Mesh(np.array(devices), "d"), P())
kept = SingleDeviceSharding(devices[-1], memory_kind="pinned_host")
rng = np.random.default_rng(0)
add = jax.jit(lambda x, y: x + y, donate_argnums=0)
total = jax.device_put(np.zeros(1 << 18, np.float32), cut)
for i in range(int(sys.argv[1])):
    if i == 0:
        print("compiling", flush=True)
    x = jax.device_put(rng.normal(size=1 << 18).astype(np.float32), devices[i % 4])
    total = add(total, jax.device_put(x, cut))
    aside = jax.device_put(x, kept)
    back = jax.device_put(jax.device_put(total, whole), devices[-1 - i % 4])
    pieces = [np.asarray(shard.data) for shard in total.addressable_shards]
    seen = hashlib.sha256(b"".join(a.tobytes() for a in (*pieces, np.asarray(back), np.asarray(aside))))
    print(f"step {i}: {seen.hexdigest()}", flush=True)
"""

PROGRAMS = {"train": TRAIN, "callbacks": CALLBACKS, "bytes": BYTES}
STEPS = "40"


@pytest.fixture(scope="session")
def script(tmp_path_factory):
    """The path of a program."""
    directory = tmp_path_factory.mktemp("scripts")
    for name, text in PROGRAMS.items():
        (directory / f"{name}.py").write_text(text)
    return lambda name: directory / f"{name}.py"


@pytest.fixture(scope="session")
def undisturbed(script):
    """What a program prints when nothing happens to its four devices; found out once."""
    outputs = {}

    def output(name):
        if name not in outputs:
            run = run_to_end(script(name), STEPS, hosts=2, devices=2)
            assert run.process.returncode == 0, run.text
            outputs[name] = run.output
        return outputs[name]

    return output


def directory_of(run):
    """The run's directory of shared memory."""
    (script,) = run.role("script")
    return Path(script.environ()["ELASTIC_TOKEN_FILE"]).parent


class Killing(Run):
    """A run with a record of its end: the same output as without any loss, and nothing is left of it."""

    def check(self, expected, losses):
        """Waits for the end; `losses` is how many losses, at least and at most, the launcher has told of."""
        self.snapshot()
        assert self.finish(120) == 0, self.text
        self.wait_until_gone(2)
        assert self.output == expected, self.text
        told = [line for line in self.errors if "was lost" in line]
        assert losses[0] <= len(told) <= losses[1], self.text
        assert all(re.search(r"host h\d was lost: .*; the run went on after [\d.]+ s: ", line) for line in told), told
        assert "differs" not in self.text


def kill(*processes):
    """Of several, the first one's death may have ended the world, and with it the others, before it is their turn."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    wait_gone([process.pid for process in processes])


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("victim", ["executor", "agent"])
def test_a_script_does_not_notice_that_a_host_is_killed(script, undisturbed, program, victim, tmp_path):
    expected = undisturbed(program)
    with Killing(script(program), STEPS, str(tmp_path / "go"), hosts=2, devices=2) as run:
        run.wait_for("step 10")
        directory = directory_of(run)
        kill(run.role(victim)[1])
        (tmp_path / "go").touch()
        run.check(expected, (1, 1))
    assert not directory.exists()


@pytest.mark.parametrize("victims", [("executor", "executor"), ("agent", "executor")], ids="-".join)
def test_two_may_be_killed_at_once(script, undisturbed, victims, tmp_path):
    expected = undisturbed("train")
    with Killing(script("train"), STEPS, str(tmp_path / "go"), hosts=4, devices=1) as run:
        run.wait_for("step 10")
        kill(run.role(victims[0])[0], run.role(victims[1])[-1])
        (tmp_path / "go").touch()
        run.check(expected, (1, 2))


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_may_be_killed_while_the_run_recovers_from_another(script, undisturbed, program, tmp_path):
    expected = undisturbed(program)
    with Killing(script(program), STEPS, str(tmp_path / "go"), hosts=4, devices=1) as run:
        run.wait_for("step 10")
        executor, agent = run.role("executor")[0], run.role("agent")[2]
        kill(executor)
        kill(agent)
        (tmp_path / "go").touch()
        run.check(expected, (1, 2))


@pytest.mark.parametrize("victim", ["executor", "agent"])
def test_one_that_freezes_is_done_without(script, undisturbed, tmp_path, victim):
    expected = undisturbed("train")
    with Killing(script("train"), STEPS, str(tmp_path / "go on"), hosts=2, devices=2) as run:
        run.wait_for("step 20")
        run.role(victim)[1].send_signal(signal.SIGSTOP)
        run.wait_for("was lost")
        (tmp_path / "go on").touch()
        run.check(expected, (1, 1))


@pytest.mark.parametrize("fault", ["wrong-result", "crash"])
def test_one_that_computes_wrongly_is_done_without(script, undisturbed, tmp_path, fault):
    expected = undisturbed("train")
    point = (tmp_path, fault_points.DEVICE_CHECK, "h1")
    environment = {"ELASTIC_CHECK_EVERY": "0.1", fault_points.DIRECTORY: str(tmp_path)}
    with Killing(script("train"), STEPS, str(tmp_path / "go on"), hosts=2, devices=2, environment=environment) as run:
        run.wait_for("step 20")
        fault_points.arm(*point, fault)
        run.wait_for("host h1 was lost: a health check of its devices failed: device 1 c")
        fault_points.disarm(*point)
        (tmp_path / "go on").touch()
        run.check(expected, (1, 1))
        # It lives, and passes its checks now, but nobody used it again.
        assert not [line for line in run.errors if "changed: it joined" in line]


def test_a_host_may_be_killed_after_the_membership_server_was(script, undisturbed):
    """No world is formed before it is back: nobody could say which one counts."""
    expected = undisturbed("train")
    with Killing(script("train"), STEPS, hosts=2, devices=2) as run:
        run.wait_for("step 10")
        kill(*run.role("membership"), run.role("executor")[0])
        run.check(expected, (1, 1))


@pytest.mark.parametrize("line", ["started", "compiling"])
def test_one_may_be_killed_before_the_first_step(script, undisturbed, line):
    expected = undisturbed("train")
    with Killing(script("train"), STEPS, hosts=2, devices=2) as run:
        run.wait_for(line)
        kill(run.role("executor")[0])
        run.check(expected, (1, 1))


def test_the_only_executor_of_a_run_may_be_killed(script, undisturbed):
    """The arrays are in the memory of its host."""
    expected = undisturbed("train")
    with Killing(script("train"), STEPS, hosts=1, devices=4) as run:
        for number in (5, 20):
            run.wait_for(f"step {number}")
            kill(*run.role("executor"))
        run.check(expected, (2, 2))


def test_a_host_that_was_killed_comes_back_and_takes_over_when_the_others_are_killed(script, undisturbed, tmp_path):
    expected = undisturbed("train")
    with Killing(script("train"), STEPS, str(tmp_path / "go on"), hosts=2, devices=2) as run:
        run.wait_for("step 20")
        first, second = run.role("agent")
        kill(first)
        run.wait_for("changed: it joined")
        kill(second)
        run.wait_until(lambda: sum("was lost" in line for line in run.errors) == 2)
        (tmp_path / "go on").touch()
        run.check(expected, (2, 2))
