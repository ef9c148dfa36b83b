"""Ranges of keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membership.kv import KeyRange, decode, encode
from membership.server.history import in_range


@given(st.binary(max_size=4), st.binary(min_size=1, max_size=6))
def test_the_range_of_a_prefix_holds_exactly_the_keys_that_begin_with_it(prefix: bytes, key: bytes) -> None:
    keys = KeyRange.prefix(decode(prefix))
    # The zero byte is the lowest key, for which the empty prefix has to stand: there is no empty key.
    assert in_range(key, keys.first, keys.end) == key.startswith(prefix)


@given(st.binary(min_size=1, max_size=4), st.binary(min_size=1, max_size=4))
def test_the_range_of_a_key_holds_that_key(key: bytes, other: bytes) -> None:
    keys = KeyRange.one(decode(key))
    assert in_range(other, keys.first, keys.end) == (key == other)


@given(st.binary())
def test_any_key_survives_as_text(key: bytes) -> None:
    assert encode(decode(key)) == key


@pytest.mark.parametrize(
    ("keys", "words"),
    [(KeyRange.one("/a"), "'/a'"), (KeyRange.prefix("/a/"), "'/a/'..."), (KeyRange.prefix(""), "all")],
)
def test_a_range_says_what_it_is(keys: KeyRange, words: str) -> None:
    assert str(keys) == words
