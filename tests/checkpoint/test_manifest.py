import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.errors import BadCheckpointError, CheckpointError
from checkpoint.manifest import ArrayEntry, FileEntry, Manifest, check_names, decode, encode

W = ArrayEntry(("params", "w"), "float32", (5, 4), (2, 4))
KEY = ArrayEntry(("keys", 0), "uint32", (2,), (2,), "threefry2x32")
MANIFEST = Manifest(
    120, (W, KEY), {"state/params.w/c/0/0": FileEntry(32, "ab" * 16)}, {"data": {"epoch": 3}, "umlaut": "ü"}
)


def test_what_was_encoded_is_decoded():
    assert decode(encode(MANIFEST)) == MANIFEST


@given(st.integers(0, len(encode(MANIFEST)) * 8 - 1))
def test_a_flipped_bit_is_found_or_means_nothing(bit):
    data = bytearray(encode(MANIFEST))
    data[bit // 8] ^= 1 << bit % 8
    decoded = MANIFEST
    with contextlib.suppress(BadCheckpointError):
        decoded = decode(bytes(data))
    assert decoded == MANIFEST


@given(st.integers(0, len(encode(MANIFEST)) - 1))
def test_a_part_is_no_manifest(size):
    with pytest.raises(BadCheckpointError):
        decode(encode(MANIFEST)[:size])


def test_another_version_is_named(monkeypatch):
    monkeypatch.setattr("checkpoint.manifest.VERSION", 7)
    newer = encode(MANIFEST)
    monkeypatch.undo()
    with pytest.raises(BadCheckpointError, match="version 7, and this program knows version 1"):
        decode(newer)


def test_the_files_of_an_array_and_of_a_part_of_it():
    assert W.files() == {
        "state/params.w/c/0/0": ((0, 2), (0, 4)),
        "state/params.w/c/1/0": ((2, 4), (0, 4)),
        "state/params.w/c/2/0": ((4, 5), (0, 4)),
    }
    assert list(W.files(((3, 5), (1, 2)))) == ["state/params.w/c/1/0", "state/params.w/c/2/0"]
    assert ArrayEntry(("step",), "int32", (), ()).files() == {"state/step/c": ()}
    assert ArrayEntry(("none",), "int32", (0, 3), (1, 3)).files() == {}


def test_an_array_is_found_by_its_path():
    assert MANIFEST.array(("keys", 0)) == KEY
    with pytest.raises(CheckpointError, match=r"step 120 has no array params\.b"):
        MANIFEST.array(("params", "b"))


@pytest.mark.parametrize("path", [(), ("",), (".",), ("..",), ("a/b",), ("a\0",), ("_METADATA",), ("array_metadatas",)])
def test_names_that_mean_something_else_on_disk_are_refused(path):
    with pytest.raises(CheckpointError, match="cannot be saved under the name"):
        check_names((ArrayEntry(path, "float32", (), ()),))


def test_two_arrays_of_one_name_are_refused():
    with pytest.raises(CheckpointError, match=r"two arrays would be saved under the name 'a\.b'"):
        check_names((ArrayEntry(("a", "b"), "float32", (), ()), ArrayEntry(("a.b",), "float32", (), ())))
