"""Orbax itself loads what we write, without any code of ours."""

import os
import subprocess
import sys

from tests.checkpoint.saving import save

LOAD = """
import sys
from pathlib import Path
import jax
import numpy as np
import orbax.checkpoint as v0
from jax.sharding import NamedSharding, PartitionSpec as P
from orbax.checkpoint import v1
from tests.checkpoint.saving import arrays

root = Path(sys.argv[1])
given = {path: (values, implementation) for path, _, values, implementation in arrays(7)}

def tree(leaf):
    made = {path: leaf(*value) for path, value in given.items()}
    named = {path[0]: value for path, value in made.items() if len(path) == 1}
    return {"params": {"w": made["params", "w"], "b": made["params", "b"]},
            "opt": [{"mu": made["opt", 0, "mu"]}, made["opt", 1]], **named}

def path_of(keys):
    return tuple(getattr(key, "key", getattr(key, "idx", None)) for key in keys)

def check(loaded):
    found = {path_of(keys): value for keys, value in jax.tree_util.tree_flatten_with_path(loaded)[0]}
    assert found.keys() == given.keys(), found.keys()
    for path, value in found.items():
        expected, implementation = given[path]
        if implementation and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            assert str(jax.random.key_impl(value)) == implementation
            value = jax.random.key_data(value)
        assert value.dtype == expected.dtype and value.shape == expected.shape, path
        assert np.asarray(value).tobytes() == expected.tobytes(), path

everywhere = NamedSharding(jax.make_mesh((2,), ("d",)), P())
def template(values, implementation):
    if implementation:
        shape, dtype = values.shape[:-1], jax.random.key(0, impl=implementation).dtype
    else:
        shape, dtype = values.shape, values.dtype
    return jax.ShapeDtypeStruct(shape, dtype, sharding=everywhere)

jax.config.update("jax_enable_x64", True)
manager = v0.CheckpointManager(root, item_names=("state",))
assert manager.all_steps() == [7], manager.all_steps()
check(manager.restore(7, args=v0.args.Composite(state=v0.args.StandardRestore()))["state"])
print("CheckpointManager")
check(v1.load_pytree(root / "7", tree(template)))
print("load_pytree")
assert v1.training.Checkpointer(root).latest.step == 7
check(v1.training.Checkpointer(root).load_pytree(7, tree(template)))
print("Checkpointer")
"""


def test_orbax_loads_every_kind_of_array(tmp_path):
    save(tmp_path, 7)
    (tmp_path / ".elastic-lock").touch()  # As `elastic.wrap` leaves it.
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2"}
    command = [sys.executable, "-c", LOAD, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["CheckpointManager", "load_pytree", "Checkpointer"]
