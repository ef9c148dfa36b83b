"""Which hosts there are, agreed on through etcd: a client that loses nothing, leases, watches, and an embedded server.

`Etcd` is the client of a real etcd and of ``python -m membership.server`` alike. Nothing here knows what the keys mean.
"""

import membership.forking  # noqa: F401  Before anything that imports gRPC.

# isort: split
from membership.address import PoolAddress, Tls
from membership.calls import Timing
from membership.cursor import Delete, Event, Put, Relisted
from membership.errors import (
    AddressError,
    AlreadyThere,
    AuthError,
    CannotHappenError,
    Compacted,
    EtcdUnavailable,
    Fenced,
    LeaseLost,
    MembershipError,
    OutcomeUnknown,
    RequestRefused,
)
from membership.etcd import Etcd, MemberStatus
from membership.kv import KeyValue, Listing
from membership.leases import Lease
from membership.transactions import Compare, DeleteKey, DeletePrefix, GetKey, PutKey, TxnResult
from membership.view import Added, Change, Changed, Removed, View
from membership.watches import Watch

__all__ = [
    "Added",
    "AddressError",
    "AlreadyThere",
    "AuthError",
    "CannotHappenError",
    "Change",
    "Changed",
    "Compacted",
    "Compare",
    "Delete",
    "DeleteKey",
    "DeletePrefix",
    "Etcd",
    "EtcdUnavailable",
    "Event",
    "Fenced",
    "GetKey",
    "KeyValue",
    "Lease",
    "LeaseLost",
    "Listing",
    "MemberStatus",
    "MembershipError",
    "OutcomeUnknown",
    "PoolAddress",
    "Put",
    "PutKey",
    "Relisted",
    "Removed",
    "RequestRefused",
    "Timing",
    "Tls",
    "TxnResult",
    "View",
    "Watch",
]
