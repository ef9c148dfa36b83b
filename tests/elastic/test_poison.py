"""A program that ends plain JAX's process is an error in its results, and the script computes on.

The array claims to be larger than the shards that it was made of. XLA refuses it, or dies of the refusal where two
devices of a process are concerned, as on plain JAX.
"""

import pytest

from tests.elastic.runs import run_to_end

SCRIPT = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
double = jax.jit(lambda x: (x * 2).sum())
right = jax.device_put(np.arange(8, dtype=np.float32), sharding)
print("before:", float(double(right)), flush=True)

shards = [jax.device_put(np.ones(1, np.float32), device) for device in jax.devices()]
wrong = jax._src.array.ArrayImpl(
    jax.core.ShapedArray((80000,), np.float32), sharding, shards, committed=True, _skip_checks=True
)
try:
    print("no error:", float(double(wrong)))
except jax.errors.JaxRuntimeError as error:
    print("error:", " ".join(str(error).split()), flush=True)

print("shards:", [float(shard[0]) for shard in shards])
print("after:", float(double(right + 1)))
"""


@pytest.mark.parametrize(("hosts", "devices"), [(2, 1), (1, 2)], ids=["refused", "fatal"])
def test_a_program_that_gets_shards_of_the_wrong_size_is_an_error_and_the_script_computes_on(tmp_path, hosts, devices):
    script = tmp_path / "poison.py"
    script.write_text(SCRIPT)
    run = run_to_end(script, hosts=hosts, devices=devices)
    assert run.process.returncode == 0, run.text
    before, error, shards, after = run.output
    assert before == "before: 56.0"
    assert error.startswith("error: "), run.text
    assert "incompatible size" in error or "the program ended the process that ran it" in error
    assert shards == "shards: [1.0, 1.0]"
    assert after == "after: 72.0"
