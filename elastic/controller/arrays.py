"""The array table: what the controller knows of an array, as plain data. Its bytes are on the hosts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from elastic.controller.shardings import Shape, Sharding
from elastic.dtypes import NUMPY_OF_KIND
from elastic.status import Code, StatusError

NOWHERE = 0
"""The number of an array that no host has."""


class Lifetime:
    """Whether buffers were deleted or donated; shared by all arrays that stand on them.

    A piece of an array (one shard taken out) has a lifetime of its own inside its whole's: deleting the whole deletes
    the piece, and a whole that misses a piece counts as deleted, its other pieces do not.
    """

    __slots__ = ("_damaged", "_deleted", "_whole")

    def __init__(self, whole: Lifetime | None = None) -> None:
        self._whole = whole
        self._deleted = False
        self._damaged = False

    @property
    def deleted(self) -> bool:
        return self._damaged or self._gone

    @property
    def _gone(self) -> bool:
        """Deleted itself, or as a part of something that was."""
        return self._deleted or (self._whole is not None and self._whole._gone)

    def delete(self) -> None:
        self._deleted = True
        whole = self._whole
        while whole is not None:
            whole._damaged = True
            whole = whole._whole


@dataclass(slots=True, eq=False)
class Array:
    """One array of the client.

    Attributes:
        number: names it towards the hosts; never used twice in a run. `NOWHERE` if they need not know of it.
        kind: element type, a number of DTypeProto.Kind.
        shape: of the whole array.
        error: what went wrong instead; such an array exists on no host.
    """

    number: int
    kind: int
    shape: Shape
    sharding: Sharding
    lifetimes: tuple[Lifetime, ...] = field(default_factory=lambda: (Lifetime(),))
    error: StatusError | None = None

    @property
    def devices(self) -> tuple[int, ...]:
        return self.sharding.devices

    @property
    def nbytes(self) -> int:
        """Of the whole array; 0 for a kind without bytes of a fixed size."""
        dtype = NUMPY_OF_KIND.get(self.kind)
        return math.prod(self.shape) * dtype.itemsize if dtype is not None else 0

    @property
    def deleted(self) -> bool:
        return any(lifetime.deleted for lifetime in self.lifetimes)

    def delete(self) -> None:
        for lifetime in self.lifetimes:
            lifetime.delete()

    def check(self) -> None:
        """Raises the array's error, or INVALID_ARGUMENT if it was deleted or donated."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self.deleted:
            raise StatusError(Code.INVALID_ARGUMENT, "Array has been deleted or donated.")


class ArrayTable:
    """The client's handles and the arrays they name."""

    def __init__(self) -> None:
        self._arrays: dict[int, Array | StatusError] = {}

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, handle: int) -> bool:
        return handle in self._arrays

    def add(self, handle: int, array: Array) -> None:
        self._arrays[handle] = array

    def fail(self, handle: int, error: StatusError) -> None:
        """Makes a handle hold an error, instead of an array if it named one: whoever uses it gets that."""
        if not isinstance(self._arrays.get(handle), StatusError):
            self._arrays[handle] = error

    def get(self, handle: int) -> Array:
        """The array of a handle. Raises the error that it holds, or NOT_FOUND."""
        found = self._arrays.get(handle)
        if isinstance(found, Array):
            return found
        if found is not None:
            raise found.with_traceback(None)
        raise StatusError(Code.NOT_FOUND, f"there is no array with the handle {handle}")

    def usable(self, handle: int) -> Array:
        """The array of a handle, if it has bytes to work with. Raises its error otherwise (see `Array.check`)."""
        array = self.get(handle)
        array.check()
        return array

    def remove(self, handle: int) -> Array | None:
        """Forgets a handle; its array, if it named one."""
        found = self._arrays.pop(handle, None)
        return found if isinstance(found, Array) else None

    def arrays(self) -> Iterable[Array]:
        return (array for array in self._arrays.values() if isinstance(array, Array))
