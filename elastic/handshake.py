"""Mutual proof of the pool's secret, before anything else on a connection is read.

Both sides send fresh random bytes and answer the other's with an HMAC over both, bound to their role, so that neither a
recording nor a reflection of the other's answer proves anything. The dialer first names its pool, by a digest of the
secret, so that who is of another pool is told that in plain words and learns nothing else. Bytes in, bytes out; sockets
are the caller's. The secret itself never crosses the wire.
"""

from __future__ import annotations

import hmac
import secrets

from elastic.refusals import Reason
from elastic.tls import ALL_OR_NONE

MAGIC = b"ELASTIC2"
"""The first bytes that a dialer sends."""

_POOL = 8
_NONCE = 32
OPENING_BYTES = len(MAGIC) + _POOL + _NONCE
REPLY_BYTES = len(MAGIC) + _NONCE + 32
PROOF_BYTES = 32

OTHER_POOL = MAGIC + bytes(_NONCE + 32)
"""What a listener sends in place of its reply to who is of another pool."""

WANTS_TLS = MAGIC + b"\xff" * (_NONCE + 32)
"""What it sends, in clear, to who does not speak TLS, where that has to be."""

NO_TLS = MAGIC
"""What it sends, in clear, to who speaks TLS, where there is none; a TLS library takes it for a wrong version."""


class HandshakeError(Exception):
    """The other side is no member of this pool: another protocol, or not the same secret.

    Attributes:
        reason: what it is counted as.
        answer: what it should be sent before the connection is closed, if anything.
    """

    def __init__(self, words: str, reason: Reason = Reason.GARBAGE, answer: bytes = b"") -> None:
        super().__init__(words)
        self.reason = reason
        self.answer = answer


class Dialer:
    """The side that connects: `opening` -> `proof(reply)`.

    `binding` is what both sides know of the connection below (see `elastic.tls`); nothing if it is in clear.
    """

    def __init__(self, secret: bytes, binding: bytes = b"") -> None:
        self._secret = secret
        self._binding = binding
        self._nonce = secrets.token_bytes(_NONCE)

    def opening(self) -> bytes:
        """The first `OPENING_BYTES` to send."""
        return MAGIC + _pool(self._secret) + self._nonce

    def proof(self, reply: bytes) -> bytes:
        """Checks the listener's `REPLY_BYTES` and returns the `PROOF_BYTES` to send.

        Raises:
            HandshakeError: the listener does not know the secret, or is something else.
        """
        if len(reply) != REPLY_BYTES or not reply.startswith(MAGIC):
            raise HandshakeError("what answered is not an elastic process of this version")
        if reply == OTHER_POOL:
            raise HandshakeError(
                "what answered does not know this pool's secret: it is of another pool", Reason.FOREIGN_POOL
            )
        if reply == WANTS_TLS:
            raise HandshakeError(f"what answered speaks TLS, and this process has no certificate: {ALL_OR_NONE}")
        theirs = reply[len(MAGIC) : len(MAGIC) + _NONCE]
        if not hmac.compare_digest(reply[-32:], self._mac(b"listener", self._nonce, theirs)):
            raise HandshakeError("what answered does not know this pool's secret", Reason.WRONG_SECRET)
        return self._mac(b"dialer", theirs, self._nonce)

    def _mac(self, role: bytes, first: bytes, second: bytes) -> bytes:
        return _mac(self._secret, role + self._binding + first + second)


class Listener:
    """The side that is connected to: `reply(opening)` -> `check(proof)`. `binding` as for `Dialer`."""

    def __init__(self, secret: bytes, binding: bytes = b"") -> None:
        self._secret = secret
        self._binding = binding
        self._nonce = secrets.token_bytes(_NONCE)
        self._theirs = b""

    def reply(self, opening: bytes) -> bytes:
        """The `REPLY_BYTES` that answer a dialer's `OPENING_BYTES`.

        Raises `HandshakeError` on another protocol and on another pool.
        """
        if len(opening) != OPENING_BYTES or not opening.startswith(MAGIC):
            raise HandshakeError("what connected does not speak this version of elastic's protocol")
        if not hmac.compare_digest(opening[len(MAGIC) : -_NONCE], _pool(self._secret)):
            words = "what connected is of another pool: it has another secret"
            raise HandshakeError(words, Reason.FOREIGN_POOL, OTHER_POOL)
        self._theirs = opening[-_NONCE:]
        return MAGIC + self._nonce + self._mac(b"listener", self._theirs, self._nonce)

    def check(self, proof: bytes) -> None:
        """Raises `HandshakeError` unless the dialer's `PROOF_BYTES` are right."""
        if not hmac.compare_digest(proof, self._mac(b"dialer", self._nonce, self._theirs)):
            raise HandshakeError("what connected does not know this pool's secret", Reason.WRONG_SECRET)

    def _mac(self, role: bytes, first: bytes, second: bytes) -> bytes:
        return _mac(self._secret, role + self._binding + first + second)


def _mac(secret: bytes, said: bytes) -> bytes:
    return hmac.digest(secret, said, "sha256")


def _pool(secret: bytes) -> bytes:
    """By which members of a pool know each other's openings. It proves nothing."""
    return _mac(secret, b"pool")[:_POOL]
