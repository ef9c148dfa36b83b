"""The arguments and results of a host callback as one description and one piece of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from elastic.dtypes import numpy_dtype
from elastic.wire import Bytes


def pack(values: Sequence[Any]) -> tuple[list[Any], bytes]:
    """([[dtype, shape] or None], bytes) of array-like values; None, which stands for a token, stays None."""
    arrays = [None if value is None else np.asarray(value) for value in values]
    description = [None if array is None else [array.dtype.name, list(array.shape)] for array in arrays]
    return description, b"".join(array.tobytes() for array in arrays if array is not None)


def unpack(description: Sequence[Any], data: Bytes) -> tuple[np.ndarray | None, ...]:
    """The values again; read-only views of `data` where that is possible."""
    values: list[np.ndarray | None] = []
    start = 0
    for described in description:
        if described is None:
            values.append(None)
            continue
        name, shape = described
        dtype = numpy_dtype(name)
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype, count, start).reshape(shape) if count else np.empty(shape, dtype)
        array.flags.writeable = False
        values.append(array)
        start += array.nbytes
    return tuple(values)
