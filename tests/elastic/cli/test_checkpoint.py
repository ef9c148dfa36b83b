import json
import tempfile
from pathlib import Path

import pytest

import checkpoint
from elastic import cli
from tests.checkpoint.saving import save


@pytest.fixture
def runs():
    """A directory with two steps."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        for step in (5, 10):
            save(Path(path), step, few=True)
        yield Path(path)


@pytest.fixture
def call(capsys):
    """Runs `elastic checkpoint ARGUMENTS`: (exit code, lines of stdout, stderr)."""

    def run(*arguments):
        code = cli.main(["checkpoint", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return run


def damage(runs):
    file = runs / "10" / "state" / "params.w" / "c" / "0" / "1"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return file


def test_all_steps_are_listed_newest_first(call, runs):
    code, lines, _ = call("ls", runs)
    assert code == 0
    assert lines == [f"step {step:>8}  2 arrays, 1.7 KiB  all files are there" for step in (10, 5)]


def test_what_was_changed_is_found_by_verify_and_not_by_ls(call, runs):
    assert call("verify", runs)[0] == 0
    file = damage(runs)
    assert call("ls", runs)[0] == 0
    code, lines, _ = call("verify", runs)
    assert code == 1
    assert lines[0].endswith("BAD: 1 problem")
    assert lines[1] == f"    {file} was changed: its checksum does not fit"
    assert lines[2].endswith("whole")


def test_a_missing_file_is_found_by_both(call, runs):
    file = damage(runs)
    file.unlink()
    for command in ("ls", "verify"):
        code, lines, _ = call(command, runs)
        assert code == 1
        assert f"    {file} cannot be read: No such file or directory" in lines


def test_one_step_may_be_asked_for_by_number_or_by_its_folder(call, runs):
    damage(runs)
    assert call("verify", runs, "--step", 5)[0] == call("verify", runs / "5")[0] == call("ls", runs / "5")[0] == 0
    assert call("verify", runs, "--step", 10)[0] == call("verify", runs / "10")[0] == 1


def test_the_report_for_programs(call, runs):
    file = damage(runs)
    code, lines, _ = call("verify", runs, "--json")
    report = json.loads(lines[0])
    assert code == 1
    assert len(lines) == 1
    assert report["contents_read"]
    assert [step["step"] for step in report["steps"]] == [10, 5]
    first = report["steps"][0]
    assert first["state"] == "bad"
    assert first["problems"] == [f"{file} was changed: its checksum does not fit"]
    assert (first["path"], first["arrays"]) == (str(runs / "10"), 2)
    assert first["bytes"] > first["files"] > 2


def test_what_was_not_finished_or_not_ours_is_told_and_does_not_count(call, runs):
    checkpoint.begin(runs, 15, [], "client")
    (runs / "20").mkdir()
    code, lines, _ = call("ls", runs)
    assert code == 0
    assert lines[:4] == [
        "step       20  not written by elastic",
        "    it has no elastic.json: not written by elastic",
        "step       15  unfinished",
        "    it was never finished",
    ]
    assert call("ls", runs / "20")[0] == 2


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_where_nothing_is_the_exit_code_is_2(call, tmp_path, command):
    assert call(command, tmp_path) == (2, [], f"elastic: error: there is no checkpoint in {tmp_path}\n")
    code, _, err = call(command, tmp_path / "none")
    assert code == 2
    assert "none is no directory; give one of checkpoints" in err


def test_a_step_that_is_not_there_is_said(call, runs):
    assert call("verify", runs, "--step", 7) == (
        2,
        [],
        f"elastic: error: there is no checkpoint of step 7 in {runs}\n",
    )
