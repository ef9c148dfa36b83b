"""A small decoder-only transformer that learns Python's own source code, character by character. Plain JAX.

Fully sharded over a 2-D mesh made from all devices: matrices, their Adam moments and the batch are split over "fsdp",
heads and hidden units over "tensor" too; only the small vectors of the norms are whole everywhere. Names end in shapes:
B batch, T positions, V characters, D width, L layers, N heads, K width of a head, F hidden units of the MLP.
"""

import argparse
import functools
import hashlib
import heapq
import inspect
import random
import statistics
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

B, T, V, D, L, N, K, F = 24, 64, 96, 96, 2, 4, 24, 384
SHAPES_AND_SPECS = {
    "embed_VxD": ((V, D), P(None, "fsdp")),
    "position_TxD": ((T, D), P(None, "fsdp")),
    "norm_LxD": ((L, D), P()),
    "qkv_LxDx3xNxK": ((L, D, 3, N, K), P(None, "fsdp", None, "tensor", None)),
    "out_LxNxKxD": ((L, N, K, D), P(None, "tensor", None, "fsdp")),
    "mlp_norm_LxD": ((L, D), P()),
    "up_LxDxF": ((L, D, F), P(None, "fsdp", "tensor")),
    "down_LxFxD": ((L, F, D), P(None, "tensor", "fsdp")),
    "last_norm_D": ((D,), P()),
}


def python_text() -> np.ndarray:
    """Source code of a few standard modules as numbers below V: printable ASCII, and the end of a line."""
    text = "".join(inspect.getsource(module) for module in (argparse, heapq, random, statistics, textwrap))
    codes = np.frombuffer(text.encode("ascii", "ignore"), np.uint8)
    return np.where((codes >= 32) & (codes < 127), codes - 31, 0).astype(np.int32)


def init(key):
    """Parameters, and Adam's state: first and second moments, the step, and the key that dropout is drawn from."""
    init_key, dropout_key = jax.random.split(key)
    params = {}
    for name, (shape, _) in SHAPES_AND_SPECS.items():
        init_key, key = jax.random.split(init_key)
        params[name] = jnp.ones(shape) if "norm" in name else jax.random.normal(key, shape) * 0.05
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, (zeros, zeros, jnp.zeros((), jnp.int32), dropout_key)


def norm(x_BxTxD, scale_D):
    return x_BxTxD * jax.lax.rsqrt(jnp.mean(x_BxTxD**2, axis=-1, keepdims=True) + 1e-6) * scale_D


def dropout(key, x, rate):
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def predict(params, in_BxT, key, rate):
    """Logits of the next character at every position."""
    embed_VxD = jax.lax.with_sharding_constraint(params["embed_VxD"], P())  # gathered once for both of its uses
    x_BxTxD = embed_VxD[in_BxT] + params["position_TxD"]
    may_see_TxT = jnp.tril(jnp.ones((T, T), bool))

    def layer(x_BxTxD, weights_and_key):
        w, key = weights_and_key
        attention_key, mlp_key = jax.random.split(key)
        x_BxTxD = jax.lax.with_sharding_constraint(x_BxTxD, P("fsdp"))
        q, k, v = jnp.einsum("btd,dcnk->cbntk", norm(x_BxTxD, w["norm_LxD"]), w["qkv_LxDx3xNxK"])
        scores_BxNxTxT = jnp.einsum("bntk,bnsk->bnts", q, k) * K**-0.5
        probs_BxNxTxT = jax.nn.softmax(jnp.where(may_see_TxT, scores_BxNxTxT, -1e9))
        heads_BxNxTxK = jnp.einsum("bnts,bnsk->bntk", probs_BxNxTxT, v)
        x_BxTxD += dropout(attention_key, jnp.einsum("bntk,nkd->btd", heads_BxNxTxK, w["out_LxNxKxD"]), rate)
        hidden_BxTxF = jax.nn.gelu(norm(x_BxTxD, w["mlp_norm_LxD"]) @ w["up_LxDxF"])
        return x_BxTxD + dropout(mlp_key, hidden_BxTxF @ w["down_LxFxD"], rate), None

    layers = {name: param for name, param in params.items() if "_L" in name}
    x_BxTxD, _ = jax.lax.scan(layer, x_BxTxD, (layers, jax.random.split(key, L)))
    return norm(x_BxTxD, params["last_norm_D"]) @ embed_VxD.T


def loss_fn(params, text_BxT1, key, rate):
    logprobs_BxTxV = jax.nn.log_softmax(predict(params, text_BxT1[:, :-1], key, rate))
    return -jnp.mean(jnp.take_along_axis(logprobs_BxTxV, text_BxT1[:, 1:, None], axis=-1))


def adam(params, m, v, t, grads, rate=3e-3, b1=0.9, b2=0.98, eps=1e-8):
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, grads)
    scale = rate * jnp.minimum(1, t / 20) * jnp.sqrt(1 - b2**t) / (1 - b1**t)
    return jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps), params, m, v), m, v


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20, help="print a line every so many steps")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--digest", action="store_true", help="print a sha-256 of all losses and the final parameters")
    args = parser.parse_args()

    tensor = 2 if jax.device_count() % 2 == 0 else 1
    auto = jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((jax.device_count() // tensor, tensor), ("fsdp", "tensor"), axis_types=(auto, auto))
    sharded = {name: NamedSharding(mesh, spec) for name, (_, spec) in SHAPES_AND_SPECS.items()}
    batch_sharding, replicated = NamedSharding(mesh, P("fsdp")), NamedSharding(mesh, P())
    shardings = (sharded, (sharded, sharded, replicated, replicated))

    @functools.partial(jax.jit, donate_argnums=(0, 1), out_shardings=(*shardings, replicated))
    def train_step(params, state, text_BxT1):
        m, v, t, key = state
        loss, grads = jax.value_and_grad(loss_fn)(params, text_BxT1, jax.random.fold_in(key, t), args.dropout)
        params, m, v = adam(params, m, v, t + 1, grads)
        return params, (m, v, t + 1, key), loss

    rng, text = np.random.default_rng(args.seed), python_text()
    print(f"{len(text):,} characters, mesh {dict(mesh.shape)} of {jax.devices()[0].platform} devices")
    losses, unread, start = [], [], time.time()
    with jax.set_mesh(mesh):
        params, state = jax.jit(init, out_shardings=shardings)(jax.random.key(args.seed))
        for step in range(1, args.steps + 1):
            at_B = rng.integers(0, len(text) - T - 1, B)
            text_BxT1 = jax.device_put(text[at_B[:, None] + np.arange(T + 1)], batch_sharding)
            params, state, loss = train_step(params, state, text_BxT1)
            unread.append(loss)  # reading a loss waits for its step: only now and then
            if step % args.every == 0 or step in (1, args.steps):
                losses += [float(loss) for loss in unread]
                mean = np.mean(losses[-len(unread) :])
                print(f"step {step:4}  loss {mean:.4f}  {time.time() - start:5.1f} s", flush=True)
                unread = []
    if args.digest:
        sha = hashlib.sha256(np.array(losses).tobytes())
        for name in sorted(params):
            sha.update(np.asarray(params[name]).tobytes())
        print(f"digest: {sha.hexdigest()}")


if __name__ == "__main__":
    main()
