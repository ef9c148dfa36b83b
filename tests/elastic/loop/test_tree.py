"""States of many forms, saved and restored in this process, onto other devices too."""

import dataclasses
import subprocess
import sys
from collections import namedtuple
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import checkpoint
from elastic.errors import CheckpointError
from elastic.loop import tree
from elastic.loop.kept_steps import KeptSteps
from elastic.loop.saver import WRITER, ClientSaver

Moments = namedtuple("Moments", ["mu", "nu"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A module with parts that are no arrays: a function among the leaves, and a name beside them."""

    weight: object
    activation: object
    name: str = dataclasses.field(metadata={"static": True}, default="layer")


@pytest.fixture
def save(tmp_path):
    """Saves a state; what gives it back, in the form and place of another."""

    def saved(state):
        leaves = tree.leaves_of(state)
        saver = ClientSaver(tmp_path, KeptSteps(tmp_path, WRITER, checkpoint.Retention(), set()))
        path = saver.begin(1, leaves, {}).result(60).path
        manifest = checkpoint.load_manifest(path)
        read = partial(checkpoint.read_region, path, manifest)
        return lambda like: tree.restore(like, manifest, tree.kinds_of(leaves), read)

    return saved


def bits(value):
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return str(jax.random.key_impl(value)), np.asarray(jax.random.key_data(value)).tobytes()
    return np.asarray(value).dtype, np.asarray(value).tobytes()


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert type(a) is type(b)
        assert a is b if callable(a) else bits(a) == bits(b)
        assert getattr(a, "weak_type", None) == getattr(b, "weak_type", None)
        assert getattr(a, "committed", None) == getattr(b, "committed", None)


STATES = {
    "dictionaries, lists and tuples": lambda: {"a": [jnp.arange(3), (jnp.ones(2), None)], "b": {}},
    "a single array": lambda: jnp.arange(4.0),
    "named tuples": lambda: (Moments(jnp.ones(2), jnp.zeros(2)), jnp.int32(3)),
    "modules with functions": lambda: Layer(jnp.ones((2, 3)), jax.nn.relu),
    "Python's numbers": lambda: {"i": 3, "f": 0.1, "b": True, "c": 1 + 2j},
    "arrays of numpy": lambda: {"f": np.linspace(0, 1, 5), "i": np.arange(3, dtype=np.int64)},
    "weak types": lambda: {"w": jnp.asarray(0.1), "many": jnp.full(3, 0.1), "strong": jnp.float32(0.1)},
    "small types": lambda: [jnp.arange(4).astype(t) for t in (jnp.bfloat16, jnp.int4, jnp.float8_e4m3fn, bool)],
    "empty arrays": lambda: jnp.zeros((0, 3)),
    "typed keys": lambda: {"one": jax.random.key(1), "many": jax.random.split(jax.random.key(2), 3)},
    "raw keys": lambda: jax.random.PRNGKey(5),
    "keys of another kind": lambda: jax.random.key(1, impl="rbg"),
    "integers as names": lambda: {0: jnp.ones(1), 1: jnp.zeros(1)},
    "committed arrays": lambda: jax.device_put(jnp.ones(2), jax.devices()[0]),
    "committed keys": lambda: jax.device_put(jax.random.key(3), jax.devices()[0]),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_restored_as_it_was(save, name):
    state = STATES[name]()
    blank = jax.tree.map(lambda leaf: leaf if callable(leaf) else leaf * 0 if not _is_key(leaf) else leaf, state)
    same(save(state)(blank), state)


def _is_key(leaf):
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def test_numbers_that_became_arrays_stay_arrays(save):
    state = jax.jit(lambda s: {"count": s["count"] + 1, "rate": s["rate"] * 0.5})({"count": 0, "rate": 0.1})
    same(save(state)({"count": 0, "rate": 0.1}), state)


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        ({"w": jnp.ones(3), "b": jnp.ones(2)}, r"w had the shape \(2,\) and has \(3,\) now"),
        ({"w": jnp.ones(2, jnp.bfloat16), "b": jnp.ones(2)}, "w had the type float32 and has bfloat16 now"),
        ({"w": jnp.ones(2)}, "b is not in the state now"),
        ({"w": jnp.ones(2), "b": jnp.ones(2), "c": jnp.ones(2)}, "c was not saved"),
        ({"w": jax.random.key(0), "b": jnp.ones(2)}, r"w was numbers and is random keys \(threefry2x32\) now"),
    ],
)
def test_a_state_of_another_form_is_refused_with_the_difference(save, now, difference):
    restore = save({"w": jnp.ones(2), "b": jnp.ones(2)})
    with pytest.raises(CheckpointError, match=f"the saved state has another form: {difference}"):
        restore(now)


def test_arrays_that_are_no_numbers_are_refused():
    with pytest.raises(CheckpointError, match="names cannot be saved: its type is <U1"):
        tree.leaves_of({"names": np.array(["a", "b"])})


def test_ml_dtypes_of_numpy_are_numbers():
    (leaf,) = tree.leaves_of(np.ones(2, ml_dtypes.bfloat16))
    assert leaf.kind is tree.Kind.NUMPY


RESHARD = """
import sys
from functools import partial
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import checkpoint
from elastic.loop import tree
from elastic.loop.kept_steps import KeptSteps
from elastic.loop.saver import WRITER, ClientSaver

def state(shape, spec, fill):
    mesh = jax.make_mesh(shape, ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    w = jax.device_put(jnp.arange(64.0).reshape(8, 8) * fill, NamedSharding(mesh, spec))
    keys = jax.device_put(jax.random.split(jax.random.key(fill), 8), NamedSharding(mesh, P("a")))
    return {"w": w, "keys": keys, "on one": jnp.float32(fill)}

given = state((2, 4), P("a", "b"), 1)
leaves = tree.leaves_of(given)
root = Path(sys.argv[1])
kept = KeptSteps(root, WRITER, checkpoint.Retention(), set())
path = ClientSaver(root, kept).begin(1, leaves, {}).result(60).path
manifest = checkpoint.load_manifest(path)
assert manifest.array(("w",)).chunk == (4, 2)
assert len(list((path / "state" / "w" / "c").rglob("?"))) == 2 + 8, "each shard is one file"
for shape, spec in (((4, 2), P("b", "a")), ((8, 1), P("a")), ((1, 8), P()), ((2, 4), P(None, ("b", "a")))):
    like = state(shape, spec, 0)
    regions = []
    def read(entry, region):
        regions.append((entry.name, region))
        return checkpoint.read_region(path, manifest, entry, region)
    restored = tree.restore(like, manifest, {}, read)
    assert len(regions) == len(set(regions)), "each part is read once"
    assert restored["w"].sharding == like["w"].sharding and restored["keys"].sharding == like["keys"].sharding
    assert np.array_equal(restored["w"], given["w"])
    assert np.array_equal(jax.random.key_data(restored["keys"]), jax.random.key_data(given["keys"]))
    assert not restored["on one"].committed
print("resharded")
"""


def test_a_state_is_restored_onto_other_meshes_part_by_part(tmp_path, monkeypatch):
    for name, value in {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", RESHARD, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.stdout == "resharded\n", done.stderr
