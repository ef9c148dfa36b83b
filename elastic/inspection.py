"""`jax.debug.inspect_array_sharding`: a function of the client that XLA calls while it partitions a program.

JAX puts the function's address into the program. Here the program is compiled in another process, so each address is
replaced by the number of a host callback, which takes the sharding as a serialized OpSharding (an array of bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

CALL = "InspectSharding"
"""The custom call that holds the address."""

PREFIX = b"elastic:"
"""What stands there instead, with a number behind it."""

Inspector = Callable[[Any], Any]


class Inspections:
    """The client's inspectors by their addresses. JAX keeps an inspector alive while its program may be compiled."""

    def __init__(self) -> None:
        self._inspectors: dict[bytes, Inspector] = {}

    def install(self) -> None:
        """Makes JAX tell of each inspector whose address it takes."""
        from jax._src.lib import xla_client

        encode = xla_client.encode_inspect_sharding_callback

        def encode_and_note(inspector: Inspector) -> bytes:
            address: bytes = encode(inspector)
            self._inspectors[address] = inspector
            return address

        xla_client.encode_inspect_sharding_callback = encode_and_note

    def replace(self, module: Any, number_of: Callable[[Inspector], int]) -> None:
        """Replaces the addresses in a module by numbers; `number_of` is given functions that take serialized
        shardings."""
        from jaxlib.mlir import ir

        if not self._inspectors:
            return
        for operation in custom_calls(module, CALL):
            inspector = self._inspectors.pop(config_of(operation), None)
            if inspector is not None:
                number = number_of(_taking_bytes(inspector))
                with module.context:
                    operation.attributes["backend_config"] = ir.StringAttr.get(PREFIX + str(number).encode())


def custom_calls(module: Any, target: str) -> Iterator[Any]:
    """The operations of a StableHLO module that call this target."""
    from jaxlib.mlir import ir

    found: list[Any] = []

    def look(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            name = ir.StringAttr(operation.attributes["call_target_name"]).value
            if name == target:
                found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return iter(found)


def config_of(operation: Any) -> bytes:
    """The configuration of a custom call, or nothing."""
    from jaxlib.mlir import ir

    if "backend_config" not in operation.attributes:
        return b""
    config: bytes = ir.StringAttr(operation.attributes["backend_config"]).value_bytes
    return config


def _taking_bytes(inspector: Inspector) -> Callable[[np.ndarray], tuple[()]]:
    def inspect(serialized: np.ndarray) -> tuple[()]:
        from jaxlib import _hlo

        proto = _hlo.OpSharding()
        proto.ParseFromString(serialized.tobytes())
        inspector(_hlo.HloSharding.from_proto(proto))
        return ()

    return inspect
