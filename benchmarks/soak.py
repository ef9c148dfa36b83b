"""Whether memory stays flat: a training loop of many steps through the platform, and each process's memory meanwhile.

    python benchmarks/soak.py [--steps 10000] [--out soak.json]

The loop uploads a batch, runs a donating step, reads the loss and makes a callback in each step, and compiles a new
program every hundred. Memory is what the kernel counts as a process's own (USS), in MiB, summed by role. Exit code 1 if
any role has grown by more than a tenth, and 8 MiB, from a third of the run to its end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

PROGRAM = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

steps = int(sys.argv[1])
mesh = Mesh(np.array(jax.devices()), "d")
rows, everywhere = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
w_HxH = jax.device_put(np.eye(128, dtype=np.float32), everywhere)
seen = []

@partial(jax.jit, donate_argnums=0)
def step(w_HxH, x_BxH):
    loss, g_HxH = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x_BxH @ w) - x_BxH) ** 2))(w_HxH)
    jax.debug.callback(lambda v: seen.append(float(v)), loss)
    return w_HxH - 0.1 * g_HxH, loss

rng = np.random.default_rng(0)
for i in range(steps):
    if len(sys.argv) > 2 and os.path.exists(sys.argv[2]):
        steps = i
        break
    x_BxH = jax.device_put(rng.standard_normal((64, 128), dtype=np.float32), rows)
    w_HxH, loss = step(w_HxH, x_BxH)
    value = float(loss)
    if i % 100 == 0:
        jax.jit(lambda a: a * i + 1)(loss).block_until_ready()
        print(i, flush=True)
jax.effects_barrier()
assert len(seen) == steps, len(seen)
print(steps, flush=True)
"""

_MODULES = {"elastic.controller": "controller", "elastic.agent": "agents", "elastic.executor.template": "executors"}
_GROWTH = 0.10
_GROWTH_MIB = 8.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the curve as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "loop.py"
        script.write_text(PROGRAM)
        pool = [f"--hosts={options.hosts}", f"--devices-per-host={options.devices_per_host}"]
        command = [sys.executable, "-m", "elastic.cli", "run", *pool, str(script), str(options.steps)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
            curve = _watch(launcher)
        code = launcher.returncode
    if code:
        return code
    print(f"{'step':>8}" + "".join(f"{role:>12}" for role in _roles(curve)) + f"{'seconds':>10}")
    for point in curve[:: max(1, len(curve) // 12)]:
        print(f"{point['step']:8}" + "".join(f"{point[role]:12.1f}" for role in _roles(curve)) + f"{point['s']:10.1f}")
    grown = _grown(curve)
    for role, (before, after) in grown.items():
        print(f"{role} have grown from {before:.1f} to {after:.1f} MiB")
    if options.out:
        options.out.write_text(json.dumps({"steps": options.steps, "curve": curve}, indent=1))
    return 1 if grown else 0


def _watch(launcher: subprocess.Popen[str]) -> list[dict[str, float]]:
    """A point for each line that the script prints: its step, and MiB by role."""
    curve: list[dict[str, float]] = []
    started = time.monotonic()
    assert launcher.stdout is not None
    for line in launcher.stdout:
        curve.append({"step": int(line), "s": time.monotonic() - started, **_memory(launcher.pid)})
    return curve


def _memory(pid: int) -> dict[str, float]:
    memory = dict.fromkeys([*_MODULES.values(), "client"], 0.0)
    for process in psutil.Process(pid).children(recursive=True):
        try:
            words = process.cmdline()
            role = next((role for module, role in _MODULES.items() if module in words), "client")
            memory[role] += process.memory_full_info().uss / 2**20
        except psutil.NoSuchProcess:
            continue
    return memory


def _roles(curve: list[dict[str, float]]) -> list[str]:
    return [key for key in curve[0] if key not in ("step", "s")]


def _grown(curve: list[dict[str, float]]) -> dict[str, tuple[float, float]]:
    """The roles that have grown too much since a third of the run, with (MiB then, MiB at the end)."""
    then, now = curve[len(curve) // 3], curve[-1]
    return {
        role: (then[role], now[role])
        for role in _roles(curve)
        if role != "client" and now[role] > then[role] * (1 + _GROWTH) and now[role] > then[role] + _GROWTH_MIB
    }


if __name__ == "__main__":
    sys.exit(main())
