"""Scripts that ask JAX for the CPU, and that were started on a pool of CPUs: they get the pool.

`elastic run` sets JAX_PLATFORMS, but a script may override that with `jax.config.update("jax_platforms", "cpu")` or
choose with "jax_platform_name", and it would compute in its own process without a word. Only the process that the pool
was started for is led to it: a script's own child processes may have good reasons to stay away. Not for: explicit
`jax.devices("cpu")`, which is the CPU backend of this process; JAX itself runs callbacks there.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

from elastic import client_environment as variables

_POOL_IS = "cpu"
"""The platform of every pool today, and the name under which a script may ask for it."""


def is_the_script(environment: Mapping[str, str]) -> bool:
    """Whether the pool was started for this very process: by `elastic run`, or by itself with `elastic.init`."""
    by_run = environment.get(variables.SCRIPT_OF) == str(os.getppid())
    return by_run or environment.get(variables.LAUNCHER) == str(os.getpid())


def lead_to_pool() -> None:
    """Makes JAX's default backend the pool; to be called before JAX makes its first backend."""
    import jax

    platforms = variables.choose_platforms(jax.config.jax_platforms or "")
    if platforms != jax.config.jax_platforms:
        jax.config.update("jax_platforms", platforms)
    from jax._src import xla_bridge

    if xla_bridge._PLATFORM_NAME.value != _POOL_IS:
        return
    pool = next(name for name in platforms.split(",") if variables.names_a_pool(name))
    jax.config.update("jax_platform_name", pool)
    if _default_is_being_chosen(xla_bridge):
        _rename_once(xla_bridge, pool)


def _default_is_being_chosen(xla_bridge: Any) -> bool:
    """Whether a call of `get_backend` for the default backend, which has read the setting already, led to this one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not xla_bridge._get_backend_uncached.__code__:
        frame = frame.f_back
    return frame is not None and frame.f_back is not None and frame.f_back.f_locals.get("platform") is None


def _rename_once(xla_bridge: Any, pool: str) -> None:
    """Makes that call go on with the pool's name: this function is what it does with the name next."""
    canonicalize = xla_bridge.canonicalize_platform
    thread = threading.get_ident()

    def rename(platform: str) -> Any:
        if threading.get_ident() != thread:
            return canonicalize(platform)
        xla_bridge.canonicalize_platform = canonicalize
        return canonicalize(pool)

    xla_bridge.canonicalize_platform = rename
