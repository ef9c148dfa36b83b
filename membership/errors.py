"""The errors that membership raises on purpose, and when.

    MembershipError             anything below; catch this to catch them all
    ├── AddressError            the pool's address, or a setting that belongs to it, cannot be used
    ├── AuthError               etcd does not know this user, its password, or its right to that key
    ├── RequestRefused          etcd answered that this request cannot be done
    │   └── Compacted           it asks for a revision that etcd no longer keeps
    ├── EtcdUnavailable         no endpoint answered in time; the request was surely not applied
    ├── OutcomeUnknown          the answer to a write got lost: it was applied once, or not at all
    ├── LeaseLost               the lease is gone or must be taken for gone: whoever holds it is fenced
    ├── AlreadyThere            another process holds this name in the pool, and lives
    └── Fenced                  another controller has this run: nothing that this one does counts any more

``definite`` says of each class whether the request was surely not applied. Only then may a write simply be repeated;
after an `OutcomeUnknown`, read first, or make the write a transaction whose compares fail the second time.

No error of gRPC or of the operating system leaves the package. A `CannotHappenError` is none of these: it is a fault of
this program, and nobody catches it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class MembershipError(Exception):
    """Any error that membership raises on purpose.

    Attributes:
        definite: the request was surely not applied.
    """

    definite: ClassVar[bool] = True


class AddressError(MembershipError, ValueError):
    """A pool's address, or a setting that belongs to it, cannot be used; nothing was sent."""


class AuthError(MembershipError):
    """etcd does not know this user, its password, or its right to that key."""


class RequestRefused(MembershipError):
    """etcd answered that this request cannot be done; repeating it gives the same answer."""


class Compacted(RequestRefused):
    """The request asks for a revision that etcd no longer keeps: read the newest one."""


class EtcdUnavailable(MembershipError):
    """No endpoint answered in time; the request was surely not applied.

    Attributes:
        what: the request, in words.
        seconds: for how long it was tried.
        tried: {endpoint: what happened there}.
    """

    def __init__(self, what: str, seconds: float, tried: Mapping[str, str]) -> None:
        super().__init__(what, seconds, tried)
        self.what, self.seconds, self.tried = what, seconds, tried

    def __str__(self) -> str:
        return (
            f"{self.what} failed: no etcd endpoint served it within {self.seconds:g} s. {_each(self.tried)} "
            "Check that etcd runs there and that this machine may reach it."
        )


class OutcomeUnknown(MembershipError):
    """The answer to a write got lost on its way: the write was applied once, or will be yet, or never.

    Attributes:
        what: the request, in words.
        tried: {endpoint: what happened there}.
    """

    definite = False

    def __init__(self, what: str, tried: Mapping[str, str]) -> None:
        super().__init__(what, tried)
        self.what, self.tried = what, tried

    def __str__(self) -> str:
        return (
            f"{self.what} may or may not have been applied: it was sent, but no answer came. {_each(self.tried)} "
            "Read the key before you repeat it, or write with compares."
        )


class LeaseLost(MembershipError):
    """The lease is gone, or must be taken for gone: its keys may be deleted and others may hold what it stood for.

    Attributes:
        lease: the lease's id.
        reason: how that was noticed, in words.
    """

    def __init__(self, lease: int, reason: str) -> None:
        super().__init__(lease, reason)
        self.lease, self.reason = lease, reason

    def __str__(self) -> str:
        return f"lease {self.lease:x} is lost: {self.reason}"


class AlreadyThere(MembershipError):
    """Another process holds this name in the pool, and lives."""


class Fenced(MembershipError):
    """Another controller has this run, or has raised its generation: nothing that this one does counts any more."""


class CannotHappenError(RuntimeError):
    """An event that no host in this state can cause: a fault of this program. The text holds the host's history."""


def _each(tried: Mapping[str, str]) -> str:
    return " ".join(f"{endpoint}: {what}." for endpoint, what in tried.items())
