"""The elastic training platform for JAX: unmodified programs on a pool of hosts, as if it were one machine.

Scripts need nothing from here: ``elastic run train.py`` starts a pool and runs them on it. A notebook calls `init`
before its first use of JAX. `wrap` makes a training loop that saves its state and goes on from it. Importing this
package imports no JAX.
"""

from typing import TYPE_CHECKING, Any

from elastic.errors import CheckpointError, ElasticError, HostLostError, PoolError, UsageError
from elastic.inprocess import Pool, init

if TYPE_CHECKING:
    from elastic.loop import wrap

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "ElasticError",
    "HostLostError",
    "Pool",
    "PoolError",
    "UsageError",
    "__version__",
    "init",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name == "wrap":  # Not sooner, since it imports JAX.
        from elastic.loop import wrap

        return wrap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
