"""Silent data corruption on demand: one bit of an array that a program is about to take is another than it was.

What `elastic.fault_points` arms under `flip-bit`, with "DEVICE SEED" as its text: a number among the host's virtual
devices (of those that the program runs on), and what array and bit are drawn from; each may be left out.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

import jax
import numpy as np

from elastic.executor.store import Binding, Store, Value
from elastic.fault_points import FLIP_BIT, armed, take

log = logging.getLogger(__name__)


def flip_if_armed(store: Store, arguments: Sequence[int], binding: Binding) -> None:
    """Changes a shard of one of the arrays, if that is wanted on this host and any of them has a bit."""
    text = armed(FLIP_BIT)
    if text is None:
        return
    values = ((number, store.get(number)) for number in arguments)
    arrays = {number: value for number, value in values if value.error is None and not value.deleted}
    device, seed, *_ = [*(int(word) for word in text.split()), 0, 0]
    on = binding.local[device % len(binding.local)]
    shards = {number: value.shard(on) for number, value in arrays.items()}
    sizes = {number: shard.nbytes for number, shard in shards.items() if shard.nbytes}
    if sizes and take(FLIP_BIT):
        lot = random.Random(seed)
        (number,) = lot.choices(list(sizes), list(sizes.values()))
        bit = lot.randrange(8 * sizes[number])
        store.set(number, _with(arrays[number], on, flipped(shards[number], bit)))
        log.warning("bit %d of array %d on virtual device %d was flipped", bit, number, on)


def flipped(shard: jax.Array, bit: int) -> jax.Array:
    """The shard with one other bit, in its place."""
    data = np.array(shard)
    data.reshape(-1).view(np.uint8)[bit // 8] ^= 1 << bit % 8
    return jax.device_put(data, shard.format)


def _with(value: Value, device: int, shard: jax.Array) -> Value:
    return Value(shards={**value.shards(), device: shard})
