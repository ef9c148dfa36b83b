"""Why the embedded server refuses a request: etcd's codes and texts, by which clients tell refusals apart."""

from __future__ import annotations

from grpc import StatusCode


class Refusal(Exception):
    """The request is refused, and nothing was changed."""

    def __init__(self, code: StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def no_key() -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, "etcdserver: key is not provided")


def duplicate_key() -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request")


def too_many_operations() -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, "etcdserver: too many operations in txn request")


def too_large() -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large")


def compacted() -> Refusal:
    return Refusal(StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")


def future_revision() -> Refusal:
    return Refusal(StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")


def no_lease() -> Refusal:
    return Refusal(StatusCode.NOT_FOUND, "etcdserver: requested lease not found")


def lease_exists() -> Refusal:
    return Refusal(StatusCode.FAILED_PRECONDITION, "etcdserver: lease already exists")


def no_users() -> Refusal:
    return Refusal(StatusCode.FAILED_PRECONDITION, "etcdserver: authentication is not enabled")


def wrong_password() -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID or password")


def no_token() -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty")


def wrong_token() -> Refusal:
    return Refusal(StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")


def unsupported(what: str) -> Refusal:
    return Refusal(StatusCode.UNIMPLEMENTED, f"the embedded server does not support {what}: use a real etcd")
