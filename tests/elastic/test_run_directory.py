import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from elastic import run_directory
from elastic.errors import PoolError, UsageError


@pytest.fixture
def base(short_directory):
    return short_directory


def _set_owner(directory, text):
    (directory.path / "owner").write_text(text)


def _finished_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_this_user_may_enter_and_the_secret_is_random(base):
    one, two = run_directory.create(base), run_directory.create(base)
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(one.secret.stat().st_mode) == 0o600
    assert len(bytes.fromhex(one.secret.read_text())) == 32
    assert one.secret.read_text() != two.secret.read_text()
    assert one.uploads.is_dir()
    assert one.logs.is_dir()
    assert one.address == f"grpc://unix:{one.path}/client.sock"


def test_remove_takes_everything_and_may_be_repeated(base):
    directory = run_directory.create(base)
    (directory.uploads / "lt_1").write_bytes(b"x" * 1000)
    directory.remove()
    directory.remove()
    assert not list(base.iterdir())


def test_kept_logs_are_outside(base):
    logs = base / "kept" / "logs"
    directory = run_directory.create(base, logs)
    (directory.logs / "h0.log").write_text("kept")
    directory.remove()
    assert (logs / "h0.log").read_text() == "kept"


def test_sweep_keeps_a_living_launcher(base):
    directory = run_directory.create(base)
    assert run_directory.sweep(base) == []
    assert directory.path.exists()


def test_sweep_removes_a_dead_launcher(base):
    directory = run_directory.create(base)
    owner = (directory.path / "owner").read_text()
    _set_owner(directory, owner.replace(str(os.getpid()), str(_finished_pid()), 1))
    assert run_directory.sweep(base) == [directory.path]
    assert not directory.path.exists()


def test_children_remove_it_only_without_a_launcher(base):
    directory = run_directory.create(base)
    directory.remove_if_orphaned()
    assert directory.secret.exists()
    owner = (directory.path / "owner").read_text()
    _set_owner(directory, owner.replace(str(os.getpid()), str(_finished_pid()), 1))
    directory.remove_if_orphaned()
    assert not directory.path.exists()
    directory.remove_if_orphaned()


def test_a_launcher_is_dead_once_its_pipes_are_closed(base):
    code = """
import pathlib, sys
from elastic import run_directory
print(run_directory.create(pathlib.Path(sys.argv[1])).path, flush=True)
sys.stdin.read()
"""
    launcher = subprocess.Popen(
        [sys.executable, "-c", code, str(base)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    directory = run_directory.RunDirectory(Path(launcher.stdout.readline().rstrip("\n")))
    launcher.kill()
    assert launcher.stdout.read() == ""  # End of file, and it has not been waited for.
    directory.remove_if_orphaned()
    assert not directory.path.exists()
    launcher.communicate()


def test_sweep_is_not_fooled_by_a_recycled_pid(base):
    directory = run_directory.create(base)
    pid, start, namespace = (directory.path / "owner").read_text().split()
    _set_owner(directory, f"{pid} {int(start) - 1} {namespace}\n")
    assert run_directory.sweep(base) == [directory.path]


def test_sweep_does_not_judge_another_containers_pids(base):
    directory = run_directory.create(base)
    _set_owner(directory, f"{_finished_pid()} 1 pid:[1]\n")
    assert run_directory.sweep(base) == []


def test_sweep_leaves_a_directory_that_is_being_made(base):
    young, old = base / "elastic-00000001", base / "elastic-00000002"
    for path in (young, old):
        path.mkdir()
    os.utime(old, (0, 0))
    assert run_directory.sweep(base) == [old]


@pytest.mark.parametrize("name", ["elastic-search0", "elastic-00000001.bak", "elastic-0000000g", "other"])
def test_sweep_leaves_what_is_not_ours(base, name):
    (base / name).mkdir()
    os.utime(base / name, (0, 0))
    assert run_directory.sweep(base) == []


def test_sweep_of_nothing(base):
    assert run_directory.sweep(base / "missing") == []


def test_missing_shared_memory_says_what_to_do(base, monkeypatch):
    monkeypatch.setattr(run_directory, "DEFAULT_BASE", base / "shm")
    with pytest.raises(PoolError, match=r"does not exist.*docker run --shm-size"):
        run_directory.create()


def test_small_shared_memory_says_what_to_do(base, monkeypatch):
    monkeypatch.setattr(run_directory, "DEFAULT_BASE", base)
    full = os.statvfs_result((4096, 4096, 16384, 16383, 16383, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    with pytest.raises(PoolError, match=r"63 MiB free.*at least 64 MiB.*docker run --shm-size"):
        run_directory.create()


def test_a_path_too_long_for_a_socket(base):
    deep = base / ("x" * 100)
    deep.mkdir()
    with pytest.raises(UsageError, match="too long"):
        run_directory.create(deep)
    assert not list(deep.iterdir())


def test_an_impossible_log_directory(base):
    (base / "file").write_text("")
    with pytest.raises(UsageError, match="log directory"):
        run_directory.create(base, base / "file" / "logs")
