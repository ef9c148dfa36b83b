"""What the function of a `jax.experimental.buffer_callback` is given, in the client.

On plain JAX these are views of XLA's buffers. Here the bytes have come from a host, and what the function writes goes
back to it; the interface is that of `jaxlib._jax.ffi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ExecutionContext:
    """Where in an execution the call happens: on the CPU, always when the program runs."""

    stage: Any

    @property
    def stream(self) -> int:
        """As on plain JAX on CPUs, an error."""
        from jax.errors import JaxRuntimeError

        raise JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")


class Buffer:
    """An argument (read-only) or a result (to be written) of a buffer callback."""

    def __init__(self, values: np.ndarray, writeable: bool) -> None:
        self._values = values.copy() if writeable else values.view()
        self._values.flags.writeable = self._writeable = writeable

    @property
    def shape(self) -> tuple[int, ...]:
        return self._values.shape

    @property
    def dtype(self) -> np.dtype:
        return self._values.dtype

    @property
    def ndim(self) -> int:
        return self._values.ndim

    @property
    def writeable(self) -> bool:
        return self._writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and dtype != self.dtype:
            return self._values.astype(dtype)
        return self._values.copy() if copy else self._values

    def __dlpack__(self, **wishes: Any) -> Any:
        try:
            return self._values.__dlpack__(**wishes)
        except BufferError:  # A reader that cannot be told of read-only memory gets memory of its own.
            return self._values.copy().__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._values.__dlpack_device__()
        return device


def call(function: Any, values: Sequence[Any], writeable: Sequence[bool]) -> list[np.ndarray]:
    """Calls the function of a buffer callback; the result is what it left in the buffers that it may write."""
    from jaxlib._jax import ffi

    buffers = [Buffer(array, may_write) for array, may_write in zip(values, writeable, strict=True)]
    function(ExecutionContext(ffi.ExecutionStage.EXECUTE), *buffers)
    return [np.asarray(buffer) for buffer in buffers if buffer.writeable]
