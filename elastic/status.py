"""Status codes as data: how an error of a host, of XLA or of ours travels to the client.

The codes are those of absl and gRPC. An error that belongs to an array is a `StatusError` kept in its place, and is
raised in the script only where the script looks at the array, as on plain JAX.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """The canonical codes; XLA's messages begin with their names."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StatusError(Exception):
    """A request, or the computation of an array, failed with a code and a text for the user."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        try:
            self.code = Code(code)
        except ValueError:
            self.code = Code.UNKNOWN
        self.message = message

    def __repr__(self) -> str:
        return f"StatusError({self.code.name}: {self.message})"


def status_of(error: BaseException) -> StatusError:
    """The status of any exception; XLA's put the name of the code before a colon."""
    if isinstance(error, StatusError):
        return error
    text = str(error)
    name, colon, rest = text.partition(":")
    if colon and name in Code.__members__ and name != Code.OK.name:
        return StatusError(Code[name], rest.lstrip())
    if isinstance(error, MemoryError):
        return StatusError(Code.RESOURCE_EXHAUSTED, text or "out of memory")
    if isinstance(error, (ValueError, TypeError)):
        return StatusError(Code.INVALID_ARGUMENT, text)
    return StatusError(Code.INTERNAL, f"{type(error).__name__}: {text}")
