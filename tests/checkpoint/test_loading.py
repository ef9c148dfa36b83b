import math
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoint
from tests.checkpoint.saving import WRITER, save
from tests.checkpoint.test_regions import regions, shapes


def write(root, values, chunk, parts):
    """A checkpoint of one array, written part by part; its folder, manifest and entry."""
    entry = checkpoint.ArrayEntry(("w",), values.dtype.name, values.shape, chunk)
    unfinished = checkpoint.begin(root, 1, [entry], WRITER)
    files = {}
    for region in parts:
        part = values[tuple(slice(start, stop) for start, stop in region)]
        files |= checkpoint.write_region(unfinished.path, entry, region, part)
    step = unfinished.publish(files, {})
    return step, checkpoint.load_manifest(step), entry


@st.composite
def cut_arrays(draw):
    """Values, and regions that together are the array, as shards on a mesh would be."""
    shape = draw(shapes)
    sizes = [draw(st.integers(1, max(size, 1))) for size in shape]
    grid = [
        [(at, min(at + step, size)) for at in range(0, size, step)] for size, step in zip(shape, sizes, strict=True)
    ]
    parts = [()]
    for axis in grid:
        parts = [(*part, piece) for part in parts for piece in axis]
    return np.arange(math.prod(shape), dtype=np.int16).reshape(shape), parts


@settings(max_examples=40, deadline=None)
@given(cut_arrays(), st.data())
def test_any_region_is_read_as_it_was_written_whatever_the_shards_were(drawn, data):
    values, parts = drawn
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as root:
        step, manifest, entry = write(Path(root), values, checkpoint.grid_of(values.shape, parts), parts)
        for region in (checkpoint.whole(values.shape), data.draw(regions(values.shape))):
            read = checkpoint.read_region(step, manifest, entry, region)
            assert read.dtype == values.dtype
            assert np.array_equal(read, values[tuple(slice(start, stop) for start, stop in region)])


def test_only_files_that_have_a_part_of_it_are_read(tmp_path):
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    step, manifest, entry = write(tmp_path, values, (2, 2), [((0, 4), (0, 4))])
    for name in ("0/1", "1/0", "1/1"):
        (step / "state/w/c" / name).unlink()
    assert np.array_equal(checkpoint.read_region(step, manifest, entry, ((0, 2), (1, 2))), values[:2, 1:2])
    with pytest.raises(checkpoint.BadCheckpointError, match="state/w/c/0/1 cannot be read: No such file"):
        checkpoint.read_region(step, manifest, entry, ((0, 2), (1, 3)))


def test_a_file_that_was_changed_is_never_used(tmp_path):
    step, manifest, entry = write(tmp_path, np.arange(4, dtype=np.float32), (4,), [((0, 4),)])
    file = step / "state/w/c/0"
    data = file.read_bytes()
    file.write_bytes(data[:5] + bytes([data[5] ^ 1]) + data[6:])
    with pytest.raises(checkpoint.BadCheckpointError, match="state/w/c/0 was changed: its checksum does not fit"):
        checkpoint.read_region(step, manifest, entry, ((0, 1),))


def test_whole_steps_come_newest_first_and_bad_ones_are_passed_with_their_reasons(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step, few=True)
    (tmp_path / "2" / "elastic.json").write_text("{}")
    shutil.copytree(tmp_path / "1", tmp_path / "4.elastic-client.orbax-checkpoint-tmp")
    skipped = []
    assert [manifest.step for _, manifest in checkpoint.whole_steps(tmp_path, skipped.append)] == [3, 1]
    assert skipped == [
        f"{tmp_path}/4.elastic-client.orbax-checkpoint-tmp: it was never finished",
        f"{tmp_path}/2/elastic.json: it is no manifest: 'manifest'",
    ]
    assert next(checkpoint.whole_steps(tmp_path / "none", skipped.append), None) is None
