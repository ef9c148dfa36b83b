"""A file that grows."""

from elastic.chaos_run.tail import Tail


def test_a_line_is_given_once_and_when_it_is_finished(tmp_path):
    path = tmp_path / "file"
    with path.open("wb", buffering=0) as file:
        tail = Tail(path)
        file.write(b"one\ntw")
        assert tail.lines() == ["one"]
        assert tail.lines() == []
        file.write("o\nthree \N{BLACK STAR}\n".encode())
        assert tail.lines() == ["two", "three \N{BLACK STAR}"]
        file.write(b"\xff\n")
        assert tail.lines() == ["\N{REPLACEMENT CHARACTER}"]
        tail.close()
