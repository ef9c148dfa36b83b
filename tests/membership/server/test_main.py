"""The embedded server as a process: where it listens, for whom, and when it ends."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from membership import Etcd, PoolAddress
from tests.membership.servers import ROOT, launch_embedded, ready_line, start

ENDS = 10


@pytest.fixture
def launch() -> Iterator[object]:
    """Starts a server with some options; all of them are gone after the test."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> subprocess.Popen[str]:
        processes.append(launch_embedded(options))
        return processes[-1]

    yield begin
    for process in processes:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def refused(process: subprocess.Popen[str]) -> str:
    """Why the server did not start."""
    message = ready_line(process)
    assert process.wait(ENDS) == 1
    assert message["ready"] is False
    return str(message["reason"])


async def test_it_says_where_it_serves(launch) -> None:
    address = str(ready_line(launch("--listen", "127.0.0.1:0", "--without-secret"))["address"])
    async with Etcd(PoolAddress.parse(address, {})) as etcd:
        await etcd.put("a", b"v")


async def test_it_serves_ipv6(launch) -> None:
    address = str(ready_line(launch("--listen", "[::1]:0", "--without-secret"))["address"])
    assert address.startswith("etcd://[::1]:")
    async with Etcd(PoolAddress.parse(address, {})) as etcd:
        await etcd.put("a", b"v")


async def test_a_socket_file_is_for_its_owner_alone(launch, short_directory: Path) -> None:
    path = short_directory / "etcd.sock"
    address = str(ready_line(launch("--unix", str(path)))["address"])
    assert address == f"etcd://unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    async with Etcd(PoolAddress.parse(address, {})) as etcd:
        await etcd.put("a", b"v")
    assert "exists" in refused(launch("--unix", str(path)))


def test_a_socket_file_goes_with_its_server(launch, short_directory: Path) -> None:
    path = short_directory / "etcd.sock"
    process = launch("--unix", str(path))
    assert ready_line(process)["ready"]
    process.stdin.close()
    assert process.wait(ENDS) == 0
    assert not path.exists()


def test_it_ends_when_its_stdin_does(launch) -> None:
    process = launch("--listen", "127.0.0.1:0", "--without-secret")
    assert ready_line(process)["ready"]
    process.stdin.close()
    assert process.wait(ENDS) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to(launch, number: signal.Signals) -> None:
    process = launch("--listen", "127.0.0.1:0", "--without-secret")
    assert ready_line(process)["ready"]
    process.send_signal(number)
    assert process.wait(ENDS) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "127.0.0.1:0"], "give a --secret-file"),
        (["--listen", "0.0.0.0:0", "--without-secret"], "other machines"),
        (["--listen", "[::]:0", "--without-secret"], "other machines"),
        (["--listen", "example.org:0", "--without-secret"], "other machines"),
        (["--listen", "127.0.0.1", "--without-secret"], "no HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--secret-file", "/no/such"], "cannot be read"),
        (["--listen", "127.0.0.1:0", "--secret-file", "/dev/null"], "is empty"),
        (["--unix", "/no/such/directory/etcd.sock"], "cannot listen"),
    ],
)
def test_it_refuses_what_would_let_others_in_or_cannot_work(launch, options: Sequence[str], words: str) -> None:
    assert words in refused(launch(*options))


def test_it_does_not_share_its_port(launch) -> None:
    address = str(ready_line(launch("--listen", "127.0.0.1:0", "--without-secret"))["address"])
    taken = address.removeprefix("etcd://")
    assert "cannot listen" in refused(launch("--listen", taken, "--without-secret"))


def test_a_lifeline_that_is_no_pipe_is_refused() -> None:
    process = start(
        [sys.executable, "-m", "membership.server", "--listen", "127.0.0.1:0", "--without-secret"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "give a pipe" in refused(process)
    end(process)
