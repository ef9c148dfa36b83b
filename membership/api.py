"""The methods of etcd's v3 API that are used here: the path of each, its messages, and whether it may be repeated.

Client and embedded server share this table, so that neither can speak of a method that the other does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from membership.proto import etcd_pb2 as pb

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """A method by its literal path.

    Attributes:
        repeatable: doing it twice is as good as once, so it may be sent again when its answer got lost.
    """

    path: str
    request: type[RequestT]
    response: type[ResponseT]
    repeatable: bool = False


RANGE = Method("/etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse, repeatable=True)
PUT = Method("/etcdserverpb.KV/Put", pb.PutRequest, pb.PutResponse)
DELETE_RANGE = Method("/etcdserverpb.KV/DeleteRange", pb.DeleteRangeRequest, pb.DeleteRangeResponse)
TXN = Method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", pb.CompactionRequest, pb.CompactionResponse)

# A lease of which nobody knows holds no key and ends by itself.
LEASE_GRANT = Method("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse, repeatable=True)
LEASE_REVOKE = Method("/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse, repeatable=True)
LEASE_TIME_TO_LIVE = Method(
    "/etcdserverpb.Lease/LeaseTimeToLive", pb.LeaseTimeToLiveRequest, pb.LeaseTimeToLiveResponse, repeatable=True
)

AUTHENTICATE = Method(
    "/etcdserverpb.Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse, repeatable=True
)
STATUS = Method("/etcdserverpb.Maintenance/Status", pb.StatusRequest, pb.StatusResponse, repeatable=True)

# Streams in both directions.
WATCH = Method("/etcdserverpb.Watch/Watch", pb.WatchRequest, pb.WatchResponse)
LEASE_KEEP_ALIVE = Method("/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse)
