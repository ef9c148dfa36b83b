"""A gRPC server for the event loop of a controller: HTTP/2 framed in Python, no threads, plain callbacks.

For few clients that send many small messages or much data, on links that are trusted: the client library of JAX and the
hosts of the pool. Not a general server: no TLS, no compression, no deadlines, no generated stubs.

    server = await GrpcServer.start(service, path="/run/controller.sock")

`service(call)` returns the `CallHandler` for a new `Call`, or raises `GrpcError`. Layers, each usable without the next:
`http2` (framing, no I/O), `grpc` (calls, no I/O), `server` (asyncio).
"""

from elastic.front.errors import CallFinishedError, FrontError, GrpcError, ProtocolError
from elastic.front.frames import Limits
from elastic.front.grpc import Call, CallHandler, Service
from elastic.front.server import GrpcServer
from elastic.status import Code as Status

__all__ = [
    "Call",
    "CallFinishedError",
    "CallHandler",
    "FrontError",
    "GrpcError",
    "GrpcServer",
    "Limits",
    "ProtocolError",
    "Service",
    "Status",
]
