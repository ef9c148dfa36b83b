"""What a failed call means."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from membership import AuthError, Compacted, RequestRefused
from membership.failures import Failure, failure, refusal


@pytest.mark.parametrize(
    ("code", "details", "meaning"),
    [
        (StatusCode.UNAVAILABLE, "etcdserver: no leader", Failure.NOT_NOW),
        (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", Failure.NOT_NOW),
        (StatusCode.UNAVAILABLE, "etcdserver: leader changed", Failure.LOST),
        (StatusCode.UNAVAILABLE, "etcdserver: request timed out", Failure.LOST),
        (StatusCode.UNAVAILABLE, "Socket closed", Failure.LOST),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Failure.LOST),
        (StatusCode.CANCELLED, "", Failure.LOST),
        (StatusCode.UNKNOWN, "raft proposal dropped", Failure.LOST),
        (StatusCode.INTERNAL, "", Failure.LOST),
        (StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", Failure.STALE_TOKEN),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old", Failure.STALE_TOKEN),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request", Failure.REFUSED),
        (StatusCode.NOT_FOUND, "etcdserver: requested lease not found", Failure.REFUSED),
        (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", Failure.REFUSED),
    ],
)
def test_only_what_was_surely_not_applied_is_called_so(code: StatusCode, details: str, meaning: Failure) -> None:
    assert failure(code, details) is meaning


@pytest.mark.parametrize("code", [code for code in StatusCode if code is not StatusCode.OK])
def test_every_code_means_something(code: StatusCode) -> None:
    assert failure(code, "") in (Failure.LOST, Failure.REFUSED)


@pytest.mark.parametrize(
    ("details", "kind", "advice"),
    [
        ("etcdserver: user name is empty", AuthError, "etcd://user@host/pool"),
        ("etcdserver: authentication is not enabled", AuthError, "without user@"),
        ("etcdserver: authentication failed, invalid user ID or password", AuthError, "password is wrong"),
        ("etcdserver: permission denied", AuthError, "grant"),
        ("etcdserver: mvcc: required revision has been compacted", Compacted, "compacted"),
        ("etcdserver: mvcc: database space exceeded", RequestRefused, "database space exceeded"),
    ],
)
def test_a_refusal_says_what_to_do(details: str, kind: type[Exception], advice: str) -> None:
    error = refusal("writing 'a'", "h1:2379", details)
    assert type(error) is kind
    assert "writing 'a' was refused by h1:2379" in str(error)
    assert advice in str(error)
