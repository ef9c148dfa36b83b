"""The errors that elastic raises on purpose, and when.

    ElasticError              anything below; catch this to catch them all
    ├── UsageError            a setting cannot work (0 hosts, a taken port, JAX already in use): change it
    ├── CheckpointError       a state could not be saved, or no saved one can be used
    └── PoolError             the pool could not start, or its controller cannot be reached or is gone
        └── HostLostError     a host of the pool died, and the run could not go on without it

Every text says what happened and what to do about it. Errors of the user's own program (a shape that does not fit, a
mesh larger than the pool) are not here: they arrive as the exceptions that plain JAX raises for them.
"""

from __future__ import annotations


class ElasticError(Exception):
    """Any error that elastic raises on purpose."""


class UsageError(ElasticError, ValueError):
    """A setting cannot work; nothing was started."""


class CheckpointError(ElasticError, RuntimeError):
    """A state could not be saved, or no saved one can be used; which file of which step, and why."""


class PoolError(ElasticError, RuntimeError):
    """The pool could not start, or its controller cannot be reached or is gone."""


class HostLostError(PoolError):
    """A host of the pool died, and the run could not go on without it.

    Attributes:
        host: the host's id, such as ``h2``.
        reason: how its death was noticed, in words.
        detected_by: who noticed it and by what; empty if that is not known.
        by_itself: whether it was a process that ended of its own accord, as XLA's do over programs they cannot stand.
        why_not: why the run cannot go on without it; empty if the reason says it all.
    """

    def __init__(
        self, host: str, reason: str, detected_by: str = "", by_itself: bool = False, why_not: str = ""
    ) -> None:
        super().__init__(f"host {host} was lost: {reason}{why_not and '; '}{why_not}")
        self.host = host
        self.reason = reason
        self.detected_by = detected_by
        self.by_itself = by_itself
        self.why_not = why_not

    def __reduce__(self) -> tuple[type[HostLostError], tuple[str, str, str, bool, str]]:
        return type(self), (self.host, self.reason, self.detected_by, self.by_itself, self.why_not)
