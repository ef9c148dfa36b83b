"""Training that can be ended at any step and goes on where it was, on a mesh of another shape too. Plain JAX and Orbax.

A small network learns another one's answers. Every few steps an Orbax `CheckpointManager` writes parameters, Adam's
moments and the step while training goes on; a start with the same directory restores the newest of these. Wants
`pip install orbax-checkpoint`. Names end in shapes: B batch, D inputs, F hidden units, O outputs.
"""

import argparse
import functools
import hashlib
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

B, D, F, O = 256, 8, 256, 4  # noqa: E741
SHAPES_AND_SPECS = {
    "up_DxF": ((D, F), P("fsdp", "tensor")),
    "bias_F": ((F,), P("tensor")),
    "down_FxO": ((F, O), P(("tensor", "fsdp"))),
}


def init(key):
    """Parameters, their first and second moments, and the number of steps done."""
    params = {}
    for name, (shape, _) in SHAPES_AND_SPECS.items():
        key, this = jax.random.split(key)
        params[name] = jax.random.normal(this, shape) * shape[0] ** -0.5
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"params": params, "m": zeros, "v": zeros, "step": jnp.zeros((), jnp.int32)}


def predict(params, x_BxD):
    return jnp.tanh(x_BxD @ params["up_DxF"] + params["bias_F"]) @ params["down_FxO"]


def batch(step):
    """The batch of a step, the same in every run; the answers come from a network that nobody trains."""
    x_BxD = np.random.default_rng(step).normal(size=(B, D)).astype(np.float32)
    teacher_DxO = np.random.default_rng(0).normal(size=(D, O)).astype(np.float32)
    return x_BxD, np.sin(x_BxD @ teacher_DxO / 2)


def train_step(state, x_BxD, y_BxO, rate=1e-2, b1=0.9, b2=0.99, eps=1e-8):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((predict(p, x_BxD) - y_BxO) ** 2))(state["params"])
    t = state["step"] + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["v"], grads)
    scale = rate * jnp.sqrt(1 - b2**t) / (1 - b1**t)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps), state["params"], m, v)
    return {"params": params, "m": m, "v": v, "step": t}, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path, help="where checkpoints are kept")
    parser.add_argument("--steps", type=int, default=100, help="how many steps there are in all")
    parser.add_argument("--every", type=int, default=10, help="save, and print a line, every so many steps")
    parser.add_argument("--tensor", type=int, default=2, help="devices along the second axis of the mesh")
    args = parser.parse_args()

    auto = jax.sharding.AxisType.Auto
    shape = (jax.device_count() // args.tensor, args.tensor)
    mesh = jax.make_mesh(shape, ("fsdp", "tensor"), axis_types=(auto, auto))
    sharded = {name: NamedSharding(mesh, spec) for name, (_, spec) in SHAPES_AND_SPECS.items()}
    shardings = {"params": sharded, "m": sharded, "v": sharded, "step": NamedSharding(mesh, P())}
    create = functools.partial(jax.jit(init, out_shardings=shardings), jax.random.key(0))
    step_fn = jax.jit(train_step, donate_argnums=0, out_shardings=(shardings, NamedSharding(mesh, P())))

    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=args.every)
    with ocp.CheckpointManager(args.directory.absolute(), options=options) as manager:
        if manager.latest_step() is None:
            state = create()
            print(f"from the beginning, mesh {dict(mesh.shape)} of {jax.devices()[0].platform} devices")
        else:
            abstract = jax.tree.map(
                lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
                jax.eval_shape(create),
                shardings,
            )
            state = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(abstract))
            print(f"from step {int(state['step'])}, mesh {dict(mesh.shape)} of {jax.devices()[0].platform} devices")
        start = time.time()
        for step in range(int(state["step"]) + 1, args.steps + 1):
            state, loss = step_fn(state, *jax.device_put(batch(step), NamedSharding(mesh, P("fsdp"))))
            # Returns once the state is copied to this process; files are written while the next steps run.
            if manager.save(step, args=ocp.args.StandardSave(state)):
                print(f"step {step:4}  loss {float(loss):.6f}  {time.time() - start:5.1f} s", flush=True)
    values = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)]
    print(f"digest: {hashlib.sha256(b''.join(values)).hexdigest()}")


if __name__ == "__main__":
    main()
