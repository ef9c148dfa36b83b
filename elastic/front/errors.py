"""What can go wrong in the front, as types.

    FrontError
    ├── ProtocolError     the peer broke HTTP/2; its connection ends with GOAWAY, all others go on
    ├── GrpcError         raised by a service or a handler: ends one call with this status
    └── CallFinishedError the application wrote to a call that it had already finished: a bug in the application

A busy port or path is a plain `OSError` of `GrpcServer.start`, as from `bind` itself.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Why a stream or a connection ended (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class FrontError(Exception):
    """Base of the errors of this package."""


class ProtocolError(FrontError):
    """The peer broke HTTP/2. `code` is what GOAWAY tells it, `message` says what was wrong."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


class GrpcError(FrontError):
    """Ends a call with status `code` and `message`. Raise it from a service to refuse, from a handler to fail."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"status {int(code)}: {message}")
        self.code = int(code)
        self.message = message


class CallFinishedError(FrontError):
    """The application wrote to, or finished, a call that it had finished before."""
