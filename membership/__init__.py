"""Which hosts there are, agreed on through etcd: a client that loses nothing, leases, watches, and an embedded server.

`Etcd` is the client of a real etcd and of ``python -m membership.server`` alike; it does not know what the keys mean.
`Registration` and `Claims` do: what a pool's hosts and runs write there. `Hosts` decides who does not move any more,
from events and times alone.

Import from here; the modules are the package's own matter, but for `membership.forking`, which has to come first.
"""

import membership.forking  # noqa: F401  Before anything that imports gRPC.

# isort: split
from membership.address import PASSWORD, PASSWORD_FILE, PoolAddress, Tls
from membership.backoff import BackOff, Conduct
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
from membership.events import Action, Deregistered, Do, Heartbeat, Registered, WrongResult
from membership.host_state import State
from membership.hosts import WRONG_RESULT_WEIGHT, Hosts, Settings
from membership.kv import KeyValue, Listing
from membership.leases import Lease
from membership.registry import Claims, HostRecord, Keys, Registration, RunRecord, host_of, run_of
from membership.transactions import Compare, DeleteKey, DeletePrefix, GetKey, PutKey, TxnResult
from membership.view import Added, Change, Changed, Removed, View
from membership.watches import Watch

__all__ = [
    "PASSWORD",
    "PASSWORD_FILE",
    "WRONG_RESULT_WEIGHT",
    "Action",
    "Added",
    "AddressError",
    "AlreadyThere",
    "AuthError",
    "BackOff",
    "CannotHappenError",
    "Change",
    "Changed",
    "Claims",
    "Compacted",
    "Compare",
    "Conduct",
    "Delete",
    "DeleteKey",
    "DeletePrefix",
    "Deregistered",
    "Do",
    "Etcd",
    "EtcdUnavailable",
    "Event",
    "Fenced",
    "GetKey",
    "Heartbeat",
    "HostRecord",
    "Hosts",
    "KeyValue",
    "Keys",
    "Lease",
    "LeaseLost",
    "Listing",
    "MemberStatus",
    "MembershipError",
    "OutcomeUnknown",
    "PoolAddress",
    "Put",
    "PutKey",
    "Registered",
    "Registration",
    "Relisted",
    "Removed",
    "RequestRefused",
    "RunRecord",
    "Settings",
    "State",
    "Timing",
    "Tls",
    "TxnResult",
    "View",
    "Watch",
    "WrongResult",
    "host_of",
    "run_of",
]
