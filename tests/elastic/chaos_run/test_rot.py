"""Bits that rot in files."""

from elastic.chaos_run.rot import rot
from elastic.shared_files import map_file


def bits(data):
    return int.from_bytes(data).bit_count()


def test_one_bit_of_each_file_changes_and_the_same_seed_draws_the_same(tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]

    def rotten(seed):
        for file in files:
            file.write_bytes(bytes(1000))
        assert rot(files, seed) == 2
        return [file.read_bytes() for file in files]

    assert [bits(data) for data in rotten(1)] == [1, 1]
    assert rotten(1) == rotten(1) != rotten(2)


def test_files_that_are_empty_or_gone_are_left_out(tmp_path):
    (tmp_path / "empty").touch()
    assert rot([tmp_path / "empty", tmp_path / "gone"], 1) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_who_computes_with_the_pages_of_a_copy_keeps_them_as_they_were(tmp_path):
    (tmp_path / "copy").write_bytes(bytes(1000))
    used = map_file(str(tmp_path / "copy"))
    rot([tmp_path / "copy"], 1)
    assert bits(used) == 0
