"""Training that can be ended at any step and goes on where it was: `elastic.wrap` around a plain JAX training step.

A small network learns scikit-learn's handwritten digits, with dropout and a learning rate that falls. End it as you
like, with Ctrl-C or kill -9, and start it again: it ends in the same bits as if nothing had happened. Names end in
shapes: B batch, F features (8x8 pixels), H hidden units, C classes.
"""

import argparse
import hashlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from sklearn.datasets import load_digits

import elastic

F, H, C, B = 64, 240, 10, 120


def init(key):
    """All that changes from step to step: parameters, momentum, the key of the dropout, the number of steps."""
    key_in, key_out, key = jax.random.split(key, 3)
    params = {
        "w_FxH": jax.random.normal(key_in, (F, H)) * (2 / F) ** 0.5,
        "w_HxC": jax.random.normal(key_out, (H, C)) * (1 / H) ** 0.5,
    }
    return {"params": params, "m": jax.tree.map(jnp.zeros_like, params), "key": key, "t": jnp.zeros((), jnp.int32)}


def loss_fn(params, x_BxF, y_B, key):
    hidden_BxH = jax.nn.relu(x_BxF @ params["w_FxH"])
    hidden_BxH = jnp.where(jax.random.bernoulli(key, 0.8, hidden_BxH.shape), hidden_BxH / 0.8, 0)
    logprobs_BxC = jax.nn.log_softmax(hidden_BxH @ params["w_HxC"])
    return -jnp.mean(jnp.take_along_axis(logprobs_BxC, y_B[:, None], axis=1))


def train_step(state, batch):
    key, dropout = jax.random.split(state["key"])
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], *batch, dropout)
    rate = 0.1 * 0.998 ** state["t"]
    m = jax.tree.map(lambda m, g: 0.9 * m + g, state["m"], grads)
    params = jax.tree.map(lambda p, m: p - rate * m, state["params"], m)
    return {"params": params, "m": m, "key": key, "t": state["t"] + 1}, {"loss": loss}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="where checkpoints are kept")
    parser.add_argument("--steps", type=int, default=600, help="how many steps there are in all")
    args = parser.parse_args()

    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    split, replicated = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
    weights = {"w_FxH": NamedSharding(mesh, P(None, "d")), "w_HxC": split}
    shardings = {"params": weights, "m": weights, "key": replicated, "t": replicated}
    step_fn = jax.jit(train_step, donate_argnums=0, out_shardings=(shardings, {"loss": replicated}))
    data = load_digits()
    x, y = (data.data / 16).astype(np.float32), data.target.astype(np.int32)

    def batches(epoch):
        order = np.random.default_rng(epoch).permutation(len(x))
        for at in range(0, len(x) - B + 1, B):
            some_B = order[at : at + B]
            yield jax.device_put((x[some_B], y[some_B]), split)

    state = jax.jit(init, out_shardings=shardings)(jax.random.key(0))
    loop = elastic.wrap(step_fn, checkpoint=args.directory, save_every=50)
    for step, metrics in loop(state, batches, steps=args.steps):
        if step % 50 == 0:
            print(f"step {step:4}  loss {float(metrics['loss']):.4f}", flush=True)
    values = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(loop.state["params"])]
    print(f"digest: {hashlib.sha256(b''.join(values)).hexdigest()}")


if __name__ == "__main__":
    main()
