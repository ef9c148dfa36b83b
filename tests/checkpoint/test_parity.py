"""The codec: any one block of a stripe from any k others, bit by bit."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.errors import CheckpointError
from checkpoint.parity import Codec


def stripe_of(codec, data, m):
    """All blocks by number."""
    size = max(map(len, data))
    known = dict(enumerate(data))
    return known | {len(data) + j: bytes(codec.make(len(data) + j, known, size)) for j in range(m)}


@settings(deadline=None)
@given(data=st.lists(st.binary(max_size=20), min_size=1, max_size=5), m=st.integers(1, 3))
def test_every_block_comes_back_from_every_choice_of_k_others(data, m):
    codec, k, size = Codec(len(data), m), len(data), max(map(len, data))
    blocks = stripe_of(codec, data, m)
    for want in blocks:
        for others in itertools.combinations(blocks.keys() - {want}, k):
            made = bytes(codec.make(want, {number: blocks[number] for number in others}, size))
            assert made == blocks[want].ljust(size, b"\0")


@given(data=st.lists(st.binary(min_size=9, max_size=9), min_size=3, max_size=3), m=st.integers(1, 2))
def test_pieces_may_be_made_one_by_one(data, m):
    codec = Codec(3, m)
    whole = bytes(codec.make(3, dict(enumerate(data)), 9))
    pieces = [
        codec.make(3, {i: block[at : at + 4] for i, block in enumerate(data)}, min(4, 9 - at)) for at in (0, 4, 8)
    ]
    assert b"".join(map(bytes, pieces)) == whole


def test_one_parity_block_is_the_xor_of_the_data():
    assert bytes(Codec(3, 1).make(3, {0: b"\x01\x10", 1: b"\x02", 2: b"\x04\x20"}, 2)) == b"\x07\x30"


def test_the_parity_of_one_block_is_a_copy_of_it():
    assert bytes(Codec(1, 2).make(2, {0: b"abc"}, 3)) == b"abc"


def test_mapped_memory_is_taken_as_it_is():
    data = [memoryview(bytearray(b"abc")), memoryview(b"defg")]
    for m in (1, 2):
        assert bytes(Codec(2, m).make(0, {1: data[1], 2: stripe_of(Codec(2, m), data, m)[2]}, 4)) == b"abc\0"


@pytest.mark.parametrize("m", [1, 2])
def test_too_few_blocks_are_an_error(m):
    with pytest.raises(CheckpointError, match="needs 3 others of its stripe, and there are 2"):
        Codec(3, m).make(0, {1: b"x", 2: b"y"}, 1)
