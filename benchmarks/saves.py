"""One side of checkpoints.py: steps on a state of some size, which is saved and loaded in one of several ways.

    python benchmarks/saves.py HOW MB ROUNDS DIRECTORY

HOW is `orbax` (Orbax's own asynchronous save, its restore) or `hosts` (under `elastic run`: the hosts write, and the
client reads what it needs). Prints a line of JSON: medians over the rounds. Runs in plain JAX, too, with `orbax`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

ARRAYS = 8
STEPS = 20


def make_state(mb: float) -> dict[str, jax.Array]:
    """Arrays that are split over all devices, of so many MB in all; noise, since equal bytes are written once."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
    count = max(1, round(mb * 1e6 / 4 / ARRAYS / jax.device_count()))
    noise = np.random.default_rng(0)
    return {
        f"a{number}": jax.device_put(
            noise.standard_normal((jax.device_count(), count), np.float32), NamedSharding(mesh, P("d"))
        )
        for number in range(ARRAYS)
    }


@jax.jit
def step(state: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return jax.tree.map(lambda x: x * 0.999 + 0.001, state)


def run_steps(state: dict[str, jax.Array], until: Callable[[], bool]) -> tuple[dict[str, jax.Array], list[float]]:
    """Steps, at least so many, until something is so; the seconds of each."""
    seconds: list[float] = []
    while len(seconds) < STEPS or not until():
        began = time.perf_counter()
        state = step(state)
        jax.block_until_ready(state)
        seconds.append(time.perf_counter() - began)
    return state, seconds


class Orbax:
    """Orbax as scripts use it."""

    def __init__(self, directory: Path) -> None:
        import orbax.checkpoint as ocp

        self._ocp = ocp
        self._checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
        self._directory = directory

    def begin(self, state: dict[str, jax.Array]) -> Callable[[], bool]:
        import threading

        self._checkpointer.save(self._directory / "1", args=self._ocp.args.PyTreeSave(state), force=True)
        waiting = threading.Thread(target=self._checkpointer.wait_until_finished)
        waiting.start()
        return lambda: not waiting.is_alive()

    def load(self, like: dict[str, jax.Array]) -> dict[str, jax.Array]:
        restore_args = self._ocp.checkpoint_utils.construct_restore_args(like)
        args = self._ocp.args.PyTreeRestore(like, restore_args=restore_args)
        restored: dict[str, jax.Array] = self._checkpointer.restore(self._directory / "1", args=args)
        return restored


class Hosts:
    """The hosts write; the client loads, each shard where it is to be."""

    def __init__(self, directory: Path) -> None:
        from elastic.host_saves import HostSaves

        self._saves = HostSaves()
        self._directory = directory

    def begin(self, state: dict[str, jax.Array]) -> Callable[[], bool]:
        shutil.rmtree(self._directory, ignore_errors=True)
        leaves = [((name,), value, None) for name, value in state.items()]
        return self._saves.save(self._directory, 1, "benchmark", leaves, {}).done

    def load(self, like: dict[str, jax.Array]) -> dict[str, jax.Array]:
        from checkpoint import load_manifest, of_slices, read_region

        folder = self._directory / "1"
        manifest = load_manifest(folder)

        def read(name: str, value: jax.Array) -> jax.Array:
            entry = manifest.array((name,))

            def region(index: tuple[slice, ...]) -> np.ndarray:
                return read_region(folder, manifest, entry, of_slices(index, value.shape))

            return jax.make_array_from_callback(value.shape, value.sharding, region)

        return {name: read(name, value) for name, value in like.items()}


def main() -> None:
    how, mb, rounds, directory = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    side: Any = {"orbax": Orbax, "hosts": Hosts}[how](directory)
    state = make_state(mb)
    state, _ = run_steps(state, lambda: True)
    found: dict[str, list[float]] = {"step": [], "step_while_saving": [], "blocked": [], "save": [], "load": []}
    for _ in range(rounds):
        state, seconds = run_steps(state, lambda: True)
        found["step"] += seconds
        began = time.perf_counter()
        saved = side.begin(state)
        found["blocked"].append(time.perf_counter() - began)
        expected = jnp.stack([jnp.sum(value) for value in state.values()])
        state_then, seconds = state, []
        while not saved():
            one = time.perf_counter()
            state = step(state)
            jax.block_until_ready(state)
            seconds.append(time.perf_counter() - one)
        found["save"].append(time.perf_counter() - began)
        found["step_while_saving"] += seconds
        began = time.perf_counter()
        loaded = side.load(state_then)
        jax.block_until_ready(loaded)
        found["load"].append(time.perf_counter() - began)
        assert jnp.array_equal(expected, jnp.stack([jnp.sum(value) for value in loaded.values()]))
        del loaded, state_then
    nbytes = sum(value.nbytes for value in state.values())
    print(json.dumps({"bytes": nbytes, **{name: statistics.median(v) for name, v in found.items() if v}}))


if __name__ == "__main__":
    main()
