"""What each side of a comparison runs: plain JAX that does one measurement at a time, as its driver asks.

The driver listens on a Unix socket. Each process that runs this script connects, says which process it is, and then
answers requests, a line of JSON each, until the driver hangs up. Where JAX runs as several processes, all of them get
every request (each must run the same programs), and the times that count are those of process 0.
"""

import functools
import json
import socket
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

HOST_BATCHES = 4  # different batches in the host's memory, fed by turns


def put(x: np.ndarray, sharding: jax.sharding.Sharding) -> jax.Array:
    """As `device_put`; with several processes, each puts the parts of its own devices."""
    if jax.process_count() == 1:
        return jax.device_put(x, sharding)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])


def loss_fn(params: dict[str, jax.Array], x_BxD: jax.Array) -> jax.Array:
    h_BxD = x_BxD
    for name in sorted(params):
        h_BxD = jnp.tanh(h_BxD @ params[name])
    return jnp.mean((h_BxD - x_BxD) ** 2)


def make_train_step(mesh: jax.sharding.Mesh) -> Callable[..., tuple[dict[str, jax.Array], jax.Array]]:
    """A step of gradient descent on a batch that is split over the devices.

    All gradients and the loss travel in one all-reduce, as data-parallel libraries bucket them: gloo reduces each array
    of its own in several milliseconds when 8 processes and threads share two cores, and short steps would be all that.
    """

    def step(params: dict[str, jax.Array], x_BxD: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        flat, unflatten = ravel_pytree(jax.value_and_grad(loss_fn)(params, x_BxD))
        loss, grads = unflatten(jax.lax.pmean(flat, "d"))
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), loss

    sharded = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("d")), out_specs=(P(), P()), check_vma=False)
    return jax.jit(sharded, donate_argnums=0)


class Workload:
    """The measurements. Each public method is a request; it returns what JSON can hold, times in seconds."""

    def __init__(self) -> None:
        mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        self.split = NamedSharding(mesh, P("d"))
        self.replicated = NamedSharding(mesh, P())
        self.train_step = make_train_step(mesh)
        self.one_device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        self.rng = np.random.default_rng(0)
        self.params: dict[str, jax.Array] = {}
        self.batches: list[np.ndarray] = []
        self.batch: jax.Array | None = None
        self.step = 0
        self.state: jax.Array
        self.change: Callable[[jax.Array, jax.Array], jax.Array]

    def set_up(self, width: int, depth: int, batch: int, feed: bool) -> dict[str, Any]:
        """An MLP of `depth` layers of `width` x `width`. With `feed`, each step gets a new batch from the host."""
        start = time.perf_counter()
        self.rng, self.step = np.random.default_rng(0), 0
        self.batches = [self.rng.standard_normal((batch, width), np.float32) for _ in range(HOST_BATCHES)]
        self.batch = None if feed else put(self.batches[0], self.split)

        @functools.partial(jax.jit, out_shardings=self.replicated)
        def init(key: jax.Array) -> dict[str, jax.Array]:
            keys = jax.random.split(key, depth)
            return {f"w{i:02}_DxD": jax.random.normal(keys[i], (width, width)) * width**-0.5 for i in range(depth)}

        self.params = init(jax.random.key(0))
        first = self.steps(1)
        return {"seconds": time.perf_counter() - start, "loss": first["loss"]}

    def steps(self, count: int) -> dict[str, Any]:
        """`count` steps one after the other; the loss of the last, to the last bit."""
        start = time.perf_counter()
        loss: jax.Array | float = float("nan")
        for _ in range(count):
            x_BxD = self.batch
            if x_BxD is None:
                x_BxD = put(self.batches[self.step % HOST_BATCHES], self.split)
            self.params, loss = self.train_step(self.params, x_BxD)
            self.step += 1
        jax.block_until_ready(loss)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "loss": float(loss).hex()}

    def add_state(self, megabytes: float) -> dict[str, Any]:
        """More state, in MB (10^6 bytes), split over all devices, which `timed_steps` changes in every step."""
        count = max(1, round(megabytes * 1e6 / 4 / jax.device_count()))
        self.state = put(self.rng.standard_normal((jax.device_count(), count), np.float32), self.split)
        self.change = jax.jit(lambda state, loss: state * 0.999 + loss, donate_argnums=0)
        return {}

    def timed_steps(self, count: int) -> dict[str, Any]:
        """The times of `count` steps, reading the loss in each, as a training script does."""
        seconds, value = [], float("nan")
        for _ in range(count):
            start = time.perf_counter()
            x_BxD = put(self.batches[self.step % HOST_BATCHES], self.split)
            self.params, loss = self.train_step(self.params, x_BxD)
            self.state = self.change(self.state, loss)
            value = float(loss)
            self.step += 1
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "loss": value.hex()}

    def chain(self, devices: str, count: int) -> dict[str, Any]:
        """`count` small programs, each on the result of the one before."""
        f, x = self._small(devices)
        if x is None:
            return {"seconds": 0.0}
        f(f(x)).block_until_ready()
        start = time.perf_counter()
        for _ in range(count):
            x = f(x)
        x.block_until_ready()
        return {"seconds": time.perf_counter() - start}

    def latency(self, what: str, devices: str, count: int) -> dict[str, Any]:
        """The median time of `execute`, `read` (execute and read a scalar), or `upload`, waiting for each."""
        f, x = self._small(devices)
        if x is None:
            return {"seconds": 0.0}
        total = jax.jit(lambda x: x[0, 0] + 1, out_shardings=self.one_device if devices == "one" else self.replicated)
        sharding, host_x = x.sharding, np.zeros(x.shape, np.float32)
        actions: dict[str, Callable[[], object]] = {
            "execute": lambda: f(x).block_until_ready(),
            "read": lambda: float(total(x)),
            "upload": lambda: put(host_x, sharding).block_until_ready(),
        }
        return {"seconds": statistics.median(_timed(actions[what], count))}

    def upload(self, megabytes: int, count: int) -> dict[str, Any]:
        """From numpy into an array that is split over all devices, and waiting for it."""
        host_x = self._host_array(megabytes)
        return {"seconds": statistics.median(_timed(lambda: put(host_x, self.split).block_until_ready(), count))}

    def read(self, megabytes: int, count: int) -> dict[str, Any]:
        """From an array that is split over all devices into numpy; of several processes, each reads its part."""
        x, seconds = put(self._host_array(megabytes), self.split), []
        fresh = jax.jit(lambda x, i: x + i)
        for i in range(count + 1):
            y = fresh(x, i).block_until_ready()  # an array that was read before remembers its value
            start = time.perf_counter()
            if jax.process_count() == 1:
                np.asarray(y)
            else:
                for shard in y.addressable_shards:
                    np.asarray(shard.data)
            seconds.append(time.perf_counter() - start)
        return {"seconds": statistics.median(seconds[1:])}

    def _small(self, devices: str) -> tuple[Callable[[jax.Array], jax.Array], jax.Array | None]:
        """x + 1 and an x on `one` device or split over `all`; no x in the processes that have no part in it."""
        f = jax.jit(lambda x: x + 1)
        if devices == "one":
            mine = jax.process_index() == 0
            return f, jax.device_put(np.zeros((8, 8), np.float32), self.one_device) if mine else None
        return f, put(np.zeros((jax.device_count(), 8), np.float32), self.split)

    def _host_array(self, megabytes: int) -> np.ndarray:
        return self.rng.standard_normal((jax.device_count(), megabytes * 2**18 // jax.device_count()), np.float32)


def _timed(action: Callable[[], object], count: int) -> list[float]:
    """Times of `count` calls, in seconds, after one that does not count."""
    seconds = []
    for _ in range(count + 1):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def serve(address: str) -> None:
    """Answers the driver's requests until it hangs up."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(address)
        stream = link.makefile("rw", encoding="utf-8")

        def send(message: dict[str, Any]) -> None:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

        workload = Workload()
        devices = jax.devices()
        send({"process": jax.process_index(), "devices": len(devices), "platform": devices[0].platform})
        for line in stream:
            request = json.loads(line)
            try:
                send({"result": getattr(workload, request["call"])(**request["args"])})
            except Exception:
                send({"error": traceback.format_exc()})


if __name__ == "__main__":
    serve(sys.argv[1])
