"""A script of Google's: `elastic_retry` of pathwaysutils, unmodified, under `elastic run --on-loss surface`."""

import importlib.util

import pytest

from tests.elastic.test_on_loss import LONG_S, agent_of
from tests.elastic.test_recovery import Killing, kill

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pathwaysutils") is None,
    reason="pathwaysutils is not installed; `pip install -e '.[test]'` does that",
)

# Data parallel over the slices that are there. The script itself keeps the state, after each step, as a numpy array.
# At step 10 it stays until a slice goes down, at step 20 until it may use all of them again.
TRAIN = """
import time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from pathwaysutils.elastic import manager

STEPS = 30
elastic = manager.Manager()
print("slices", {index: [d.id for d in devices] for index, devices in elastic.slice_to_devices.items()}, flush=True)
saved = {"step": 0, "w": np.zeros(4, np.float32)}
sizes = []

@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w - x.sum(1)) ** 2))(w)

@elastic.elastic_retry(minimum_slice_count=1, poll_interval=0.2)
def train():
    devices = [d for index in sorted(elastic.active_slice_indices) for d in elastic.slice_to_devices[index]]
    mesh = Mesh(np.array(devices), "data")
    w = jax.device_put(saved["w"], NamedSharding(mesh, P()))
    sizes.append(len(devices))
    print(f"attempt {len(sizes)} on {len(devices)} devices from step {saved['step']}", flush=True)
    while saved["step"] < STEPS:
        rng = np.random.default_rng(saved["step"])
        x = jax.device_put(rng.normal(size=(24, 4)).astype(np.float32), NamedSharding(mesh, P("data")))
        w = step(w, x)
        saved["w"] = np.asarray(w)
        saved["step"] += 1
        if saved["step"] == 10:
            print("step 10", flush=True)
        while sizes == [6] and saved["step"] == 10 or len(sizes) == 2 and saved["step"] == 20:
            if elastic.available_inactive_slices:
                raise manager.ScaleUpSignalError()
            jax.block_until_ready(step(w, x))  # Which fails when a slice goes down.
            time.sleep(0.01)
    return saved["w"]

w = train()
print("sizes", sizes, "trained", bool(np.allclose(w, 1, atol=0.2)), flush=True)
"""


def test_the_script_goes_on_with_the_slices_that_are_left_and_scales_up_when_the_host_is_back(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    with Killing(script, hosts=3, devices=2, options=("--on-loss", "surface")) as run:
        run.wait_for("step 10", LONG_S)
        kill(agent_of(run.role("executor")[1]))
        run.wait_for("attempt 2", LONG_S)
        run.snapshot()
        assert run.finish(LONG_S) == 0, run.text
        run.wait_until_gone(2)
    assert run.output[0] == "slices {0: [0, 1], 1: [2, 3], 2: [4, 5]}"
    attempts = [line for line in run.output if line.startswith("attempt")]
    assert attempts[0] == "attempt 1 on 6 devices from step 0"
    assert attempts[1] == "attempt 2 on 4 devices from step 10"
    assert attempts[2] == "attempt 3 on 6 devices from step 20"
    assert run.output[-1] == "sizes [6, 4, 6] trained True"
    assert "jax.errors.JaxRuntimeError: DATA_LOSS: virtual devices" in run.text
