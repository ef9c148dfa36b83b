"""The elastic training platform for JAX: unmodified programs on a pool of hosts, as if it were one machine.

Scripts need nothing from here: ``elastic run train.py`` starts a pool and runs them on it. A notebook calls `init`
before its first use of JAX. Importing this package imports no JAX.
"""

from elastic.errors import ElasticError, HostLostError, PoolError, UsageError
from elastic.inprocess import Pool, init

__version__ = "0.1.0"

__all__ = ["ElasticError", "HostLostError", "Pool", "PoolError", "UsageError", "__version__", "init"]
