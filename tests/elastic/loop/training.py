"""A training that goes on where it was, for tests: dropout, Adam, a rate that falls, arrays in parts on all devices.

    python training.py DIRECTORY STEPS DATA [die=N | wait=N:FILE | raise=N]

Prints for each step its loss, to the bit, and the id that it has used, and at the end a digest of the state. DATA is
a name in `sources.py`; each id is a batch. Saves every 3 steps, and does not go on before that is durable. At step N it
is killed, waits for a file to appear, or raises.
"""

import functools
import hashlib
import os
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import elastic
from tests.elastic.loop.sources import ONCE, REPEATED

WIDTH, SAVE_EVERY = 16, 3


def loss_of(w, x, key):
    hidden = jnp.tanh(x @ w["in"])
    hidden = jnp.where(jax.random.bernoulli(key, 0.8, hidden.shape), hidden / 0.8, 0)
    return jnp.mean((hidden @ w["out"] - x) ** 2)


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, id):
    key, dropout = jax.random.split(state["key"])
    x = jax.random.normal(jax.random.fold_in(jax.random.key(0), id), (8, WIDTH))
    loss, grads = jax.value_and_grad(loss_of)(state["w"], x, dropout)
    t = state["t"] + 1
    rate = 0.02 * 0.9**t
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], grads)
    w = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), state["w"], m, v)
    return {"w": w, "m": m, "v": v, "t": t, "key": key}, {"loss": loss, "id": id}


def initial():
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    place = lambda x, *spec: jax.device_put(x, NamedSharding(mesh, P(*spec)))  # noqa: E731
    keys = jax.random.split(jax.random.key(1))
    w = {
        "in": place(jax.random.normal(keys[0], (WIDTH, WIDTH)), None, "d"),
        "out": place(jax.random.normal(keys[1], (WIDTH, WIDTH)), "d", None),
    }
    zeros = lambda: jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype), x.sharding), w)  # noqa: E731
    return {"w": w, "m": zeros(), "v": zeros(), "t": place(jnp.float32(0)), "key": place(jax.random.key(2))}


def digest(state):
    state = {**state, "key": jax.random.key_data(state["key"])}
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))).hexdigest()


def main(directory, steps, data, fault="none=0"):
    fault, _, at = fault.partition("=")
    at, _, file = at.partition(":")
    loop = elastic.wrap(train_step, checkpoint=directory, save_every=SAVE_EVERY)
    for step, metrics in loop(initial(), {**REPEATED, **ONCE}[data](), steps=int(steps)):
        print(f"step {step} {float(metrics['loss']).hex()} id {int(metrics['id'])}", flush=True)
        while step % SAVE_EVERY == 1 and step > SAVE_EVERY and loop.saved_step != step - 1:
            assert loop.save_error is None
            time.sleep(0.001)
        if step != int(at):
            continue
        if fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "raise":
            raise ValueError("as it was asked to")
        print("waits", flush=True)
        while not os.path.exists(file):
            time.sleep(0.001)
    print(digest(loop.state))


if __name__ == "__main__":
    main(*sys.argv[1:])
