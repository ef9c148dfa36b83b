"""Trains a small network on scikit-learn's handwritten digits, on every device that JAX shows. Plain JAX.

The batch is split over the devices, and so are the parameters and the state of Adam (as in FSDP): each device keeps one
part of the hidden layer. Names end in shapes: B batch, F features (8x8 pixels), H hidden units, C classes, N images.
"""

import argparse
import functools
import hashlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from sklearn.datasets import load_digits

F, H, C = 64, 240, 10  # 240 is divisible by most numbers of devices
TEST = 360


def init(key):
    """Parameters, and Adam's state: a first and a second moment for each parameter, and the number of steps."""
    key_in, key_out = jax.random.split(key)
    params = {
        "w_FxH": jax.random.normal(key_in, (F, H)) * (2 / F) ** 0.5,
        "b_H": jnp.zeros(H),
        "w_HxC": jax.random.normal(key_out, (H, C)) * (1 / H) ** 0.5,
        "b_C": jnp.zeros(C),
    }
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, (zeros, zeros, jnp.zeros(()))


def predict(params, x_BxF):
    hidden_BxH = jax.nn.relu(x_BxF @ params["w_FxH"] + params["b_H"])
    return hidden_BxH @ params["w_HxC"] + params["b_C"]


def loss_fn(params, x_BxF, y_B):
    logprobs_BxC = jax.nn.log_softmax(predict(params, x_BxF))
    return -jnp.mean(jnp.take_along_axis(logprobs_BxC, y_B[:, None], axis=1))


def adam(params, state, grads, rate=2e-3, b1=0.9, b2=0.99, eps=1e-8):
    m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, grads)
    scale = rate * jnp.sqrt(1 - b2**t) / (1 - b1**t)
    return jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps), params, m, v), (m, v, t)


def digest(params):
    """A hash of the exact bits of all parameters: two runs with one digest ended in the same numbers."""
    sha = hashlib.sha256()
    for name in sorted(params):
        sha.update(np.asarray(params[name]).tobytes())
    return sha.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=120, help="divisible by the number of devices")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--digest", action="store_true", help="print a sha-256 of the final parameters")
    args = parser.parse_args()

    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = {"w_FxH": P(None, "d"), "b_H": P("d"), "w_HxC": P("d", None), "b_C": P()}
    params_sharding = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    batch_sharding, replicated = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
    shardings = (params_sharding, (params_sharding, params_sharding, replicated))

    @functools.partial(jax.jit, donate_argnums=(0, 1), out_shardings=(*shardings, replicated))
    def train_step(params, state, x_BxF, y_B):
        loss, grads = jax.value_and_grad(loss_fn)(params, x_BxF, y_B)
        return *adam(params, state, grads), loss

    @jax.jit
    def accuracy(params, x_NxF, y_N):
        return jnp.mean(jnp.argmax(predict(params, x_NxF), axis=1) == y_N)

    rng = np.random.default_rng(args.seed)
    data = load_digits()
    order_N = rng.permutation(len(data.target))
    x_NxF, y_N = (data.data[order_N] / 16).astype(np.float32), data.target[order_N].astype(np.int32)
    x_test, y_test = jax.device_put((x_NxF[:TEST], y_N[:TEST]), replicated)
    x_NxF, y_N = x_NxF[TEST:], y_N[TEST:]

    print(f"{len(x_NxF)} images to train on, {TEST} to test, {jax.device_count()} {jax.devices()[0].platform} devices")
    params, state = jax.jit(init, out_shardings=shardings)(jax.random.key(args.seed))
    start, loss = time.time(), float("nan")
    for epoch in range(1, args.epochs + 1):
        order_N = rng.permutation(len(x_NxF))
        for at in range(0, len(order_N) - args.batch + 1, args.batch):
            some_B = order_N[at : at + args.batch]
            x_BxF, y_B = jax.device_put((x_NxF[some_B], y_N[some_B]), batch_sharding)
            params, state, loss = train_step(params, state, x_BxF, y_B)
        if epoch % 5 == 0 or epoch in (1, args.epochs):
            right = float(accuracy(params, x_test, y_test))
            print(f"epoch {epoch:3}  loss {float(loss):.4f}  test accuracy {right:6.2%}  {time.time() - start:5.1f} s")
    print(f"test accuracy: {float(accuracy(params, x_test, y_test)):.2%}")
    if args.digest:
        print(f"digest: {digest(params)}")


if __name__ == "__main__":
    main()
