"""The policy, as users write it."""

import importlib.util

import pytest

from checkpoint.errors import CheckpointError
from checkpoint.protection import Protection


@pytest.mark.parametrize(
    ("text", "k", "m"), [("copies=2", 1, 1), ("copies=3", 1, 2), ("parity=3+1", 3, 1), ("parity=10+2", 10, 2)]
)
def test_what_is_read_is_written_again(text, k, m):
    assert Protection.parse(text) == Protection(k, m)
    assert str(Protection.parse(text)) == text


def test_parity_of_one_shard_is_a_copy():
    assert str(Protection.parse("parity=1+1")) == "copies=2"


@pytest.mark.parametrize("text", ["", "copies", "copies=two", "parity=3", "parity=3+", "parity=-3+1", "copies=2 "])
def test_what_means_nothing_is_refused_with_what_may_be_written(text):
    with pytest.raises(ValueError, match="by copies=N or parity=K"):
        Protection.parse(text)


@pytest.mark.parametrize("text", ["copies=1", "copies=0", "parity=0+1", "parity=3+0", "parity=255+2"])
def test_numbers_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="at least 1, and at most 256 together"):
        Protection.parse(text)


def test_a_library_that_is_missing_is_told_only_where_it_is_needed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    for text in ("copies=2", "copies=3", "parity=3+1"):
        Protection.parse(text).check_codec()
    with pytest.raises(
        CheckpointError, match=r"parity=3\+2 needs the package zfec: pip install 'elastic-jax\[parity\]'"
    ):
        Protection.parse("parity=3+2").check_codec()
