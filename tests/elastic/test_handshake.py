"""The proof of the pool's secret: who knows it gets in, and nobody else, whatever else they know."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.handshake import (
    OPENING_BYTES,
    OTHER_POOL,
    PROOF_BYTES,
    REPLY_BYTES,
    Dialer,
    HandshakeError,
    Listener,
)
from elastic.refusals import Reason

SECRET = b"the pool's secret"
secrets = st.binary(max_size=80)


def converse(dialer, listener):
    """All that crosses the wire, in order. Raises as either side does."""
    opening = dialer.opening()
    reply = listener.reply(opening)
    proof = dialer.proof(reply)
    listener.check(proof)
    return opening, reply, proof


@settings(deadline=None)
@given(secrets)
def test_two_that_know_the_secret_believe_each_other(secret):
    opening, reply, proof = converse(Dialer(secret), Listener(secret))
    assert (len(opening), len(reply), len(proof)) == (OPENING_BYTES, REPLY_BYTES, PROOF_BYTES)


def test_the_secret_does_not_cross_the_wire():
    assert not any(SECRET in said for said in converse(Dialer(SECRET), Listener(SECRET)))


def test_no_two_conversations_are_alike():
    conversations = [converse(Dialer(SECRET), Listener(SECRET)) for _ in range(20)]
    assert len({said for conversation in conversations for said in conversation}) == 60


@settings(deadline=None)
@given(secrets, secrets)
def test_a_listener_with_another_secret_is_found_out(ours, theirs):
    dialer, listener = Dialer(ours), Listener(theirs)
    if ours != theirs and ours.rstrip(b"\0") != theirs.rstrip(b"\0"):  # HMAC fills short keys up with zeros.
        with pytest.raises(HandshakeError, match="of another pool") as refused:
            listener.reply(dialer.opening())
        assert refused.value.reason is Reason.FOREIGN_POOL
        with pytest.raises(HandshakeError, match="does not know this pool's secret: it is of another pool"):
            dialer.proof(OTHER_POOL)
    else:
        listener.check(dialer.proof(listener.reply(dialer.opening())))


def posing(nonce):
    """The opening of one who has seen how those of this pool begin."""
    return Dialer(SECRET).opening()[: OPENING_BYTES - len(nonce)] + nonce


def test_a_dialer_that_poses_as_one_of_this_pool_is_found_out():
    stranger, theirs, listener = Dialer(b"a guess"), Listener(b"a guess"), Listener(SECRET)
    listener.reply(posing(stranger.opening()[-32:]))
    with pytest.raises(HandshakeError, match="does not know this pool's secret") as refused:
        listener.check(stranger.proof(theirs.reply(stranger.opening())))
    assert refused.value.reason is Reason.WRONG_SECRET


@settings(deadline=None)
@given(st.binary(max_size=2 * OPENING_BYTES))
def test_a_listener_refuses_what_is_no_opening(garbage):
    with pytest.raises(HandshakeError, match="does not speak"):
        Listener(SECRET).reply(garbage)


@settings(deadline=None)
@given(st.binary(max_size=2 * REPLY_BYTES))
def test_a_dialer_refuses_what_is_no_reply(garbage):
    with pytest.raises(HandshakeError, match="not an elastic process"):
        Dialer(SECRET).proof(garbage)


@settings(deadline=None)
@given(st.binary(max_size=2 * PROOF_BYTES))
def test_a_listener_refuses_what_is_no_proof(garbage):
    listener = Listener(SECRET)
    listener.reply(Dialer(SECRET).opening())
    with pytest.raises(HandshakeError):
        listener.check(garbage)


def test_a_proof_without_an_opening_is_refused():
    with pytest.raises(HandshakeError):
        Listener(SECRET).check(bytes(PROOF_BYTES))


@settings(deadline=None)
@given(st.integers(0, 8 * REPLY_BYTES - 1))
def test_a_reply_with_one_bit_changed_is_refused(bit):
    dialer = Dialer(SECRET)
    reply = bytearray(Listener(SECRET).reply(dialer.opening()))
    reply[bit // 8] ^= 1 << bit % 8
    with pytest.raises(HandshakeError):
        dialer.proof(bytes(reply))


@settings(deadline=None)
@given(st.integers(0, 8 * PROOF_BYTES - 1))
def test_a_proof_with_one_bit_changed_is_refused(bit):
    dialer, listener = Dialer(SECRET), Listener(SECRET)
    proof = bytearray(dialer.proof(listener.reply(dialer.opening())))
    proof[bit // 8] ^= 1 << bit % 8
    with pytest.raises(HandshakeError):
        listener.check(bytes(proof))


def test_an_opening_that_was_changed_on_its_way_is_noticed_by_both():
    dialer, listener = Dialer(SECRET), Listener(SECRET)
    reply = listener.reply(Dialer(SECRET).opening())
    with pytest.raises(HandshakeError):
        dialer.proof(reply)


def test_a_listener_does_not_accept_its_own_answer_reflected():
    listener = Listener(SECRET)
    reply = listener.reply(posing(bytes(32)))
    with pytest.raises(HandshakeError):
        listener.check(reply[-PROOF_BYTES:])


def test_a_second_connection_to_the_pool_does_not_answer_the_first():
    """The thief has a listener compute the answer to the challenge of another; it is bound to the wrong role."""
    first, second = Listener(SECRET), Listener(SECRET)
    challenge = posing(first.reply(posing(bytes(32)))[8:40])  # What a dialer would have opened with.
    with pytest.raises(HandshakeError):
        first.check(second.reply(challenge)[-PROOF_BYTES:])


def test_a_dialer_does_not_accept_its_own_opening_reflected():
    dialer = Dialer(SECRET)
    with pytest.raises(HandshakeError):
        dialer.proof(dialer.opening() + bytes(REPLY_BYTES - OPENING_BYTES))


def test_a_recorded_dialer_proves_nothing_to_another_listener():
    opening, _, proof = converse(Dialer(SECRET), Listener(SECRET))
    later = Listener(SECRET)
    later.reply(opening)
    with pytest.raises(HandshakeError):
        later.check(proof)


def test_a_recorded_listener_proves_nothing_to_another_dialer():
    _, reply, _ = converse(Dialer(SECRET), Listener(SECRET))
    with pytest.raises(HandshakeError):
        Dialer(SECRET).proof(reply)
