"""A small data-parallel training run, plain JAX, that says when each step has finished and what its loss was.

    python benchmarks/training.py [--steps N] [--state-mb MB] [--checkpoints DIR --save-every K [--wrap]]

A network of 100,000 parameters with momentum and dropout, a new batch from the host and the loss read in each step.
Each step prints `step NUMBER LOSS_IN_HEX SECONDS`, where the seconds are those of the machine's monotonic clock, which
all processes share. With `--checkpoints` it continues from the last Orbax checkpoint there and saves every K steps:
what a script without the platform does against failures; with `--wrap` it has `elastic.wrap` do that. Runs in one
process, in several, and under `elastic run`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

WIDTHS = (128, 256, 256, 10)
BATCH = 256
KEEP = 0.9

State = dict[str, Any]


def init_state(state_mb: float) -> State:
    """Parameters, momenta, a key, and an array of `state_mb` MB that every step changes."""
    keys = jax.random.split(jax.random.PRNGKey(0), len(WIDTHS))
    params = [
        jax.random.normal(key, (rows, columns)) * rows**-0.5
        for key, rows, columns in zip(keys, WIDTHS, WIDTHS[1:], strict=False)
    ]
    # Noise, so that no two parts are equal: equal bytes are saved once.
    count = max(1, round(state_mb * 1e6 / 4 / jax.device_count()))
    bulk = np.random.default_rng(1).standard_normal((jax.device_count(), count), np.float32)
    return {
        "params": [np.asarray(p) for p in params],
        "momenta": [np.zeros(p.shape, np.float32) for p in params],
        "key": np.asarray(keys[-1]),
        "bulk": bulk,
    }


def shardings(mesh: jax.sharding.Mesh) -> State:
    """Everything is on all devices, but the bulk is split over them."""
    everywhere = NamedSharding(mesh, P())
    layers = [everywhere] * (len(WIDTHS) - 1)
    return {"params": layers, "momenta": layers, "key": everywhere, "bulk": NamedSharding(mesh, P("d"))}


def put(x: Any, sharding: jax.sharding.Sharding) -> jax.Array:
    """As `device_put`; with several processes, each puts the parts of its own devices."""
    if jax.process_count() == 1:
        return jax.device_put(x, sharding)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """The data of a step: x of BATCH x WIDTHS[0], and labels."""
    rng = np.random.default_rng([2, step])
    x_BxD = rng.standard_normal((BATCH, WIDTHS[0]), np.float32)
    return x_BxD, np.abs(x_BxD[:, : WIDTHS[-1]]).argmax(1).astype(np.int32)


def loss_fn(params: list[jax.Array], key: jax.Array, x_BxD: jax.Array, y_B: jax.Array) -> jax.Array:
    h_BxD = x_BxD
    for layer, w_DxD in enumerate(params[:-1]):
        h_BxD = jax.nn.relu(h_BxD @ w_DxD)
        kept = jax.random.bernoulli(jax.random.fold_in(key, layer), KEEP, h_BxD.shape)
        h_BxD = jnp.where(kept, h_BxD / KEEP, 0)
    logits_BxC = jax.nn.log_softmax(h_BxD @ params[-1])
    return -jnp.mean(jnp.take_along_axis(logits_BxC, y_B[:, None], 1))


def make_step(mesh: jax.sharding.Mesh) -> Callable[[State, jax.Array, jax.Array], tuple[State, jax.Array]]:
    """A step of gradient descent with momentum; all gradients and the loss travel in one all-reduce."""

    def step(state: State, x_BxD: jax.Array, y_B: jax.Array) -> tuple[State, jax.Array]:
        key, dropout = jax.random.split(state["key"])
        dropout = jax.random.fold_in(dropout, jax.lax.axis_index("d"))
        found = jax.value_and_grad(loss_fn)(state["params"], dropout, x_BxD, y_B)
        flat, unflatten = ravel_pytree(found)
        loss, grads = unflatten(jax.lax.pmean(flat, "d"))
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, state["momenta"], grads)
        params = jax.tree.map(lambda p, m: p - 0.05 * m, state["params"], momenta)
        bulk = state["bulk"] * 0.999 + loss
        return {"params": params, "momenta": momenta, "key": key, "bulk": bulk}, loss

    specs = {"params": P(), "momenta": P(), "key": P(), "bulk": P("d")}
    sharded = jax.shard_map(step, mesh=mesh, in_specs=(specs, P("d"), P("d")), out_specs=(specs, P()), check_vma=False)
    return jax.jit(sharded, donate_argnums=0)


def run_wrapped(
    train_step: Callable[[State, int], tuple[State, jax.Array]], state: State, options: argparse.Namespace
) -> None:
    """Trains in `elastic.wrap`, from the newest checkpoint on."""
    import elastic

    loop = elastic.wrap(train_step, checkpoint=options.checkpoints, save_every=options.save_every)
    for step, loss in loop(state, range(options.steps), steps=options.steps):
        print("step", step - 1, float(loss).hex(), time.monotonic(), flush=True)  # It counts those that are done.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1 << 40)
    parser.add_argument("--state-mb", type=float, default=0)
    parser.add_argument("--checkpoints", help="a directory for Orbax checkpoints")
    parser.add_argument("--save-every", type=int, default=100, metavar="K")
    parser.add_argument("--wrap", action="store_true")
    options = parser.parse_args()
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    placed = shardings(mesh)
    state = jax.tree.map(put, init_state(options.state_mb), placed)
    train_step, split = make_step(mesh), NamedSharding(mesh, P("d"))
    if options.wrap:
        run_wrapped(lambda state, number: train_step(state, *(put(x, split) for x in batch(number))), state, options)
        return
    manager: Any = None
    first = 0
    if options.checkpoints:
        import orbax.checkpoint as ocp

        manager = ocp.CheckpointManager(
            options.checkpoints,
            options=ocp.CheckpointManagerOptions(save_interval_steps=options.save_every, max_to_keep=2),
        )
        found = manager.latest_step()
        if found is not None:
            # The same as a user does; the arrays above give shapes and shardings.
            state = manager.restore(
                found, args=ocp.args.StandardRestore(jax.tree.map(ocp.utils.to_shape_dtype_struct, state))
            )
            first = found + 1
    for step in range(first, options.steps):
        x_BxD, y_B = batch(step)
        state, loss = train_step(state, put(x_BxD, split), put(y_B, split))
        value = float(loss)
        if jax.process_index() == 0:
            print("step", step, value.hex(), time.monotonic(), flush=True)
        if manager is not None and step % options.save_every == 0:
            manager.save(step, args=ocp.args.StandardSave(state))
    if manager is not None:
        manager.wait_until_finished()


if __name__ == "__main__":
    main()
