"""What a failed gRPC call means: may it be repeated, and what does its caller have to know?

etcd tells failures apart by their texts, which are part of its API; codes alone do not say enough. Pure functions. Not
for: deciding when to repeat.
"""

from __future__ import annotations

from enum import Enum, auto

from grpc import StatusCode

from membership.errors import AuthError, Compacted, MembershipError, RequestRefused


class Failure(Enum):
    """What a failed call means.

    Members:
        LOST: no answer, or one that leaves open whether the request was applied.
        NOT_NOW: surely not applied; the same request may succeed soon, or at another endpoint.
        STALE_TOKEN: surely not applied; a new token is needed.
        REFUSED: surely not applied, and never will be.
    """

    LOST = auto()
    NOT_NOW = auto()
    STALE_TOKEN = auto()
    REFUSED = auto()


_NOT_NOW = frozenset(
    {
        # The member looks for its leader before it proposes anything, since all our calls carry `hasleader`.
        "etcdserver: no leader",
        "etcdserver: too many requests",
    }
)
_STALE_TOKEN = frozenset({"etcdserver: invalid auth token", "etcdserver: revision of auth store is old"})

# etcd sends these before it applies anything. All others, such as UNAVAILABLE, also come from a request on its way.
_DEFINITE = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.NOT_FOUND,
        StatusCode.ALREADY_EXISTS,
        StatusCode.PERMISSION_DENIED,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.OUT_OF_RANGE,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.UNAUTHENTICATED,
    }
)

_COMPACTED = "etcdserver: mvcc: required revision has been compacted"
_AUTH = {
    "etcdserver: authentication failed, invalid user ID or password": "the user or the password is wrong",
    "etcdserver: authentication is not enabled": "etcd has no users: write the address without user@",
    "etcdserver: user name is empty": "etcd asks for a user: write the address as etcd://user@host/pool",
    "etcdserver: permission denied": "the user has no right to these keys: grant its role the pool's prefix",
    "etcdserver: invalid auth token": "etcd does not accept the token that it gave, or asks for a user",
}


def failure(code: StatusCode, details: str) -> Failure:
    """What a call means that failed with this code and text."""
    if details in _NOT_NOW:
        return Failure.NOT_NOW
    if details in _STALE_TOKEN:
        return Failure.STALE_TOKEN
    return Failure.REFUSED if code in _DEFINITE else Failure.LOST


def refusal(what: str, endpoint: str, details: str) -> MembershipError:
    """The error for a request ``what`` that etcd refused with this text."""
    if details in _AUTH:
        return AuthError(f"{what} was refused by {endpoint}: {_AUTH[details]} ({details!r})")
    kind = Compacted if details == _COMPACTED else RequestRefused
    return kind(f"{what} was refused by {endpoint}: {details}")
