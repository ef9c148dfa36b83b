"""Training loops of four kinds, plain JAX: each prints its losses, and digests of all that it ends with.

    python training_loop.py data|sharded|tensor|pipeline STEPS [PACE]

A small network, whose WIDTH, BATCH and LAYERS may come from the environment, with dropout, Adam and a new batch in each
step, on all devices, by whose number they must be divisible. Every fifth step compiles a program that no step before
has used. With PACE, a file that holds a number, no step begins beyond that number. It waits for STEP_S seconds in each
step, if they are in the environment.
"""

import functools
import hashlib
import os
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, BATCH, LAYERS = (
    int(os.environ.get(name, default)) for name, default in (("WIDTH", 32), ("BATCH", 16), ("LAYERS", 4))
)
STEP_S = float(os.environ.get("STEP_S", "0"))
NEWS = 5  # Steps between two programs that are new.


def init(key):
    keys = jax.random.split(key, LAYERS)
    return jnp.stack([jax.random.normal(k, (WIDTH, WIDTH)) * WIDTH**-0.5 for k in keys])


def dropout(key, x):
    return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)


def layer(w, x, key):
    return dropout(key, jnp.tanh(x @ w)) + x


def loss_of(params, x, y, key):
    for i in range(LAYERS):
        x = layer(params[i], x, jax.random.fold_in(key, i))
    return jnp.mean((x - y) ** 2)


def pipelined_loss_of(mesh):
    """The layers are on the devices one behind the other; the batch passes them in pieces, by ppermute."""
    stages = mesh.devices.size
    pieces = BATCH // stages

    def on_each(params, x, y, key):
        stage = jax.lax.axis_index("d")
        waiting = x.reshape(stages, pieces, WIDTH)
        passed = jnp.zeros((pieces, WIDTH))
        done = jnp.zeros_like(waiting)
        for tick in range(2 * stages - 1):
            here = jnp.where(stage == 0, waiting[min(tick, stages - 1)], passed)
            for i in range(LAYERS // stages):
                here = layer(params[i], here, jax.random.fold_in(jax.random.fold_in(key, tick), stage * LAYERS + i))
            if tick >= stages - 1:
                done = done.at[tick - stages + 1].set(here)
            passed = jax.lax.ppermute(here, "d", [(i, (i + 1) % stages) for i in range(stages)])
        error = jnp.mean((done.reshape(BATCH, WIDTH) - y) ** 2)
        return jax.lax.psum(jnp.where(stage == stages - 1, error, 0.0), "d")

    return jax.shard_map(on_each, mesh=mesh, in_specs=(P("d"), P(), P(), P()), out_specs=P(), check_vma=False)


KINDS = {  # How parameters and batches lie on the devices.
    "data": (P(), P("d")),
    "sharded": (P(None, "d"), P("d")),
    "tensor": (P(None, None, "d"), P()),
    "pipeline": (P("d"), P()),
}


def adam(params, grads, m, v, t):
    m = 0.9 * m + 0.1 * grads
    v = 0.999 * v + 0.001 * grads**2
    return params - 1e-2 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v


def main(kind, steps, pace):
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    of_params, of_batch = (NamedSharding(mesh, spec) for spec in KINDS[kind])
    loss_fn = pipelined_loss_of(mesh) if kind == "pipeline" else loss_of

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, x, y):
        key, mask = jax.random.split(state["key"])
        loss, grads = jax.value_and_grad(loss_fn)(state["params"], x, y, mask)
        t = state["t"] + 1
        params, m, v = adam(state["params"], grads, state["m"], state["v"], t)
        return {"params": params, "m": m, "v": v, "t": t, "key": key}, loss

    params = jax.jit(init, out_shardings=of_params)(jax.random.key(0))
    like_params = lambda: jax.device_put(np.zeros((LAYERS, WIDTH, WIDTH), np.float32), of_params)  # noqa: E731
    state = {"params": params, "m": like_params(), "v": like_params(), "t": jnp.float32(0), "key": jax.random.key(1)}
    rng = np.random.default_rng(0)
    for i in range(steps):
        while pace and int(pace.read_text() or 0) < i:
            time.sleep(0.005)
        time.sleep(STEP_S)
        x = rng.standard_normal((BATCH, WIDTH), np.float32)
        state, loss = step(state, jax.device_put(x, of_batch), jax.device_put(np.roll(x, 1, axis=1), of_batch))
        line = f"step {i} {float(loss).hex()}"
        if i % NEWS == NEWS - 1:
            line += f" {float(jax.jit(lambda params, i=i: jnp.sum(params**2) / i)(state['params'])).hex()}"
        print(line, flush=True)
    state["key"] = jax.random.key_data(state["key"])
    for name, value in sorted(state.items()):
        print(name, hashlib.sha256(np.asarray(value).tobytes()).hexdigest())
    print("steps were traced", step._cache_size(), "times")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
