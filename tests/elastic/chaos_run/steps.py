"""A script of small steps, for real runs under faults: STEPS PAUSE [SIZE [FILE]].

Each step takes PAUSE seconds at least, but none once there is the FILE. SIZE is that of its state.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

sharding = NamedSharding(jax.make_mesh((jax.device_count(),), ("d",)), P("d"))
size = int(sys.argv[3]) if len(sys.argv) > 3 else 48
state = jax.device_put(np.arange(size, dtype=np.float32), sharding)


@jax.jit
def step(state, i):
    return state * 1.01 - state.mean() + i, state.std()


@jax.jit
def announce(i):
    jax.debug.callback(lambda i: print("callback", i, flush=True), i)


for i in range(int(sys.argv[1])):
    state, spread = step(state, i)
    print(f"step {i} loss {float(spread)}", flush=True)
    announce(i)
    if len(sys.argv) < 5 or not Path(sys.argv[4]).exists():
        time.sleep(float(sys.argv[2]))
print(np.asarray(state).tobytes().hex())
