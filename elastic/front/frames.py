"""The HTTP/2 wire format: names of its numbers, the shape of a frame, and the limits that we announce."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Frame types (RFC 9113, section 6).
T_DATA: Final = 0x0
T_HEADERS: Final = 0x1
T_PRIORITY: Final = 0x2
T_RST_STREAM: Final = 0x3
T_SETTINGS: Final = 0x4
T_PUSH_PROMISE: Final = 0x5
T_PING: Final = 0x6
T_GOAWAY: Final = 0x7
T_WINDOW_UPDATE: Final = 0x8
T_CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1  # of DATA and HEADERS; the same bit is ACK in SETTINGS and PING
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20

# Settings.
S_HEADER_TABLE_SIZE: Final = 0x1
S_ENABLE_PUSH: Final = 0x2
S_MAX_CONCURRENT_STREAMS: Final = 0x3
S_INITIAL_WINDOW_SIZE: Final = 0x4
S_MAX_FRAME_SIZE: Final = 0x5
S_MAX_HEADER_LIST_SIZE: Final = 0x6

MAX_WINDOW: Final = (1 << 31) - 1
DEFAULT_WINDOW: Final = 65_535
DEFAULT_FRAME: Final = 16_384

FRAME_HEAD: Final = Struct(">HBBBI")  # length (high 16 bits, low 8 bits), type, flags, stream
U32: Final = Struct(">I")
SETTING: Final = Struct(">HI")
GOAWAY_HEAD: Final = Struct(">II")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection accepts. Sizes in bytes.

    The windows are what the peer may have under way; they are refilled as data is handed to the application, so they
    bound a burst, not a transfer. `max_replies` bounds answers (acks, resets) to a peer that does not read them.
    `max_message` is the length of a gRPC message; one that announces more ends its call with RESOURCE_EXHAUSTED.
    """

    max_concurrent_streams: int = 1000
    max_header_block: int = 32_768
    max_frame_size: int = (1 << 24) - 1
    stream_window: int = 1 << 28
    connection_window: int = MAX_WINDOW
    max_message: int = (1 << 31) - 1
    max_replies: int = 1 << 20

    def __post_init__(self) -> None:
        for name, low, high in (
            ("max_concurrent_streams", 1, MAX_WINDOW),
            ("max_header_block", 1024, 1 << 24),
            ("max_frame_size", DEFAULT_FRAME, (1 << 24) - 1),
            ("stream_window", DEFAULT_WINDOW, MAX_WINDOW),
            ("connection_window", DEFAULT_WINDOW, MAX_WINDOW),
            ("max_message", 0, (1 << 32) - 1),
            ("max_replies", 1024, MAX_WINDOW),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"Limits.{name} is {value}; it must be from {low} to {high}")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame, whole. For control frames and tests; DATA is sent without joining its parts."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload
