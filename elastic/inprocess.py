"""`elastic.init`: a pool for this very process, as in a notebook.

The pool ends with the process, or when its `stop` is called. Not for: scripts, which need nothing of ours under
`elastic run`.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from elastic import client_environment as variables
from elastic.errors import UsageError

if TYPE_CHECKING:
    from elastic.local_pool import LocalPool
    from elastic.pool_events import PoolEvent

_log = logging.getLogger("elastic")
_current: tuple[tuple[object, ...], Pool] | None = None


class Pool(Protocol):
    """The pool that this process computes on."""

    @property
    def address(self) -> str:
        """Where its controller listens, such as ``grpc://unix:/dev/shm/elastic-0a1b2c3d/client.sock``."""

    def stop(self) -> None:
        """Ends the pool if this process started it; JAX cannot be used on it afterwards. May be called again."""


class AttachedPool:
    """A pool that someone else started: `elastic run`, or who set ``ELASTIC_CONTROLLER``."""

    def __init__(self, address: str) -> None:
        self.address = address

    def stop(self) -> None:
        """Does nothing: it is not ours to end."""


def init(
    hosts: int = 4,
    devices_per_host: int = 2,
    *,
    spares: int = 0,
    on_loss: str = "stack",
    listen: str | None = None,
    log_dir: str | os.PathLike[str] | None = None,
) -> Pool:
    """Starts a pool on this machine and makes it the devices of JAX in this process.

    To be called before the first use of JAX (importing it is fine). Called again with the same arguments it returns
    the same pool. Where a pool is there already - under `elastic run`, or with ``ELASTIC_CONTROLLER`` set - it starts
    none and that pool is used, whatever the arguments say.

    Args:
        hosts: how many hosts to simulate, each a set of processes of about 250 MB.
        devices_per_host: devices of each; ``jax.devices()`` shows their product.
        spares: how many hosts to simulate besides, which take over when others are lost.
        on_loss: what to do when a host is lost and no spare is left: ``stack``, ``spare``, ``wait`` or
            ``surface`` (see ``elastic run --help``).
        listen: ``HOST:PORT`` where other processes reach the controller, too.
        log_dir: a directory that keeps the logs of the pool's processes.

    Raises:
        UsageError: JAX is in use already, another pool runs in this process, or a setting cannot work.
        PoolError: the pool could not start; the text says why.
    """
    global _current
    log_dir = None if log_dir is None else Path(log_dir).resolve()
    settings = (hosts, devices_per_host, spares, on_loss, listen, log_dir)
    if _current is not None:
        known, pool = _current
        if known != settings:
            raise UsageError(
                f"elastic.init was called before with other arguments ({known[0]} hosts x {known[1]} devices); a "
                "process has one pool: use that one, or restart the process (the notebook's kernel)"
            )
        return pool
    address = os.environ.get(variables.CONTROLLER)
    if address:
        _log.info("elastic.init starts no pool: this process uses the one at %s", address)
        return AttachedPool(address)
    if _jax_is_in_use():
        raise UsageError(
            "JAX has chosen its devices already; call elastic.init before anything that uses them (jax.devices(), "
            "arrays, jit) - in a notebook, restart the kernel first"
        )
    from elastic.local_pool import LocalPool

    # Before jax is imported, if it is not yet, so that at exit the pool ends after JAX has let go of it.
    atexit.register(_stop_at_exit)
    pool = _OwnPool(LocalPool(hosts, devices_per_host, listen, log_dir, spares=spares, on_loss=on_loss))
    _current = (settings, pool)
    return pool


class _OwnPool:
    """A pool of this process, together with what is changed in the process for it."""

    def __init__(self, pool: LocalPool) -> None:
        self._pool = pool.start()
        self.address = pool.address
        settings = {**pool.environment, variables.LAUNCHER: str(os.getpid())}
        self._variables = {name: os.environ.get(name) for name in settings}
        self._jax_settings: dict[str, object] = {}
        os.environ.update(settings)
        jax = sys.modules.get("jax")
        if jax is not None:  # It has read these two from the environment when it was imported.
            platforms = variables.choose_platforms(jax.config.jax_platforms or "")
            for name, value in (("jax_platforms", platforms), ("jax_backend_target", self.address)):
                self._jax_settings[name] = jax.config._read(name)
                jax.config.update(name, value)
        pool.watch(_report)
        # Data loaders fork; a worker that outlives a killed process must not keep its pool alive.
        os.register_at_fork(after_in_child=pool.disown)

    def stop(self) -> None:
        global _current
        if _current is None or _current[1] is not self:
            return
        _current = None
        self._pool.stop()
        for name, value in self._variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for setting, before in self._jax_settings.items():
            sys.modules["jax"].config.update(setting, before)


def _report(event: PoolEvent) -> None:
    from elastic.pool_events import HostRecovered, RunWaits

    if isinstance(event, (HostRecovered, RunWaits)):
        print(f"elastic: {event}", file=sys.stderr)
        return
    print(f"elastic: error: {event}; this pool is gone: restart the process (the notebook's kernel)", file=sys.stderr)


def _stop_at_exit() -> None:
    if _current is not None:
        _current[1].stop()


def _jax_is_in_use() -> bool:
    # JAX has no public way to ask this without making a backend.
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())
