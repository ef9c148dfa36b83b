"""Header blocks: decoding with the package `hpack` but not the same fields for every call, encoding, what is valid.

`hpack` is right but takes about 2 us a field. A gRPC client repeats itself: after its first call, a block begins with a
run of indexed fields (one byte each), followed by what is particular to the call as literals. The decoded run is kept
for as long as the dynamic table stays as it is.

Encoding uses literals without indexing only. It has no state, so a block can be computed once and sent on any
connection; a few bytes more on the wire are cheaper than a table to look up.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from hpack import Decoder, HPACKError, OversizedHeaderListError

from elastic.front.errors import ErrorCode, ProtocolError

# At DEBUG it logs every field, which is slow, and some of them are secrets.
logging.getLogger("hpack").setLevel(logging.INFO)

Headers = list[tuple[bytes, bytes]]

# One-byte indexed fields. 0x80 names entry 0, an error; 0xff starts a longer number. Both are left to `hpack`.
_indexed_run = re.compile(rb"[\x81-\xfe]+").match
_MAX_RUN = 64
_MAX_KEPT = 64


class HeaderDecoder:
    """Decodes the header blocks of one connection, in the order in which they came.

    `max_list_size` bounds the run and the rest of a block each by itself.
    """

    def __init__(self, max_list_size: int) -> None:
        self._decoder = Decoder(max_list_size)
        self._kept: dict[bytes, Headers] = {}

    def decode(self, block: bytes) -> Headers:
        """The fields of `block`. Raises ProtocolError; the connection is then lost, as the tables differ."""
        try:
            match = _indexed_run(block)
            if match is None or match.end() > _MAX_RUN:
                headers = self._decode(block)
            else:
                run = match[0]
                kept = self._kept.get(run)
                if kept is None:
                    kept = self._decode(run)
                    if len(self._kept) >= _MAX_KEPT:
                        self._kept.clear()
                    self._kept[run] = kept
                headers = kept.copy()
                if len(run) < len(block):
                    rest = block[len(run) :]
                    if rest[0] & 0xE0 == 0x20:
                        raise ProtocolError(ErrorCode.COMPRESSION_ERROR, "table size update after a header field")
                    headers += self._decode(rest)
            return headers
        except OversizedHeaderListError as error:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, f"header list too large: {error}") from error
        except HPACKError as error:
            raise ProtocolError(ErrorCode.COMPRESSION_ERROR, f"bad header block: {str(error)[:200]}") from error

    def _decode(self, block: bytes) -> Headers:
        table = self._decoder.header_table.dynamic_entries
        newest, count = (table[0] if table else None), len(table)
        headers: Headers = [(field[0], field[1]) for field in self._decoder.decode(block, raw=True)]
        # Every insertion puts a new tuple in front, every eviction without one makes the table shorter.
        if len(table) != count or (count and table[0] is not newest):
            self._kept.clear()
        return headers


def encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A header block of literals that are not indexed, good for any connection."""
    out = bytearray()
    for field in headers:
        out.append(0)
        for text in field:
            # A string: its length as an integer with a 7-bit prefix (RFC 7541, section 5.1), not Huffman-coded.
            rest = len(text)
            if rest < 127:
                out.append(rest)
            else:
                out.append(127)
                rest -= 127
                while rest > 127:
                    out.append(rest & 127 | 128)
                    rest >>= 7
                out.append(rest)
            out += text
    return bytes(out)


_good_name = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_bad_value = re.compile(rb"[\0\r\n]").search
_PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
_REQUIRED = (b":method", b":scheme", b":path")
_OF_HTTP_1 = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))


def _complaint(name: bytes, value: bytes) -> str:
    if not _good_name(name) or name in _OF_HTTP_1 or (name == b"te" and value != b"trailers"):
        return f"header {name[:64]!r} is not allowed"
    if _bad_value(value):
        return f"control characters in header {name[:64]!r}"
    return ""


def request_complaint(headers: Headers) -> str:
    """What makes `headers` no valid HTTP/2 request (RFC 9113, section 8.3), or "" if nothing does."""
    pseudo: dict[bytes, bytes] = {}
    count = 0
    for name, value in headers:
        if name[:1] == b":":
            if count or name not in _PSEUDO or name in pseudo or _bad_value(value):
                return f"pseudo-header {name[:64]!r} is unknown, repeated, out of place or has control characters"
            pseudo[name] = value
        else:
            count += 1
            if complaint := _complaint(name, value):
                return complaint
    for name in _REQUIRED:
        if not pseudo.get(name):
            return f"pseudo-header {name!r} is missing"
    return ""


def trailers_complaint(headers: Headers) -> str:
    """What makes `headers` no valid trailers, or "" if nothing does. Pseudo-headers do."""
    for name, value in headers:
        if complaint := _complaint(name, value):
            return complaint
    return ""
