"""`elastic up` and `elastic down`: a pool on this machine that stays between runs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic.cli import console
from elastic.cli.console import number
from elastic.errors import PoolError, UsageError

if TYPE_CHECKING:
    from elastic.run_directory import Found

_DESCRIPTION = """\
Starts a pool of hosts on this machine in the background. It stays until `elastic down`, and hosts that die are started
again. Any number of runs may use it at once, each on hosts of its own. If a pool is up already, says where it is."""

_EPILOG = """\
examples:
  elastic up                                     4 hosts x 2 devices
  elastic run --pool local --hosts 2 train.py    a script on two of them
  elastic health                                 how the pool and its hosts are
  elastic down                                   ends it
  elastic up --listen 10.0.0.1:2379              hosts of other machines may join (`elastic host`), and others run on it
"""

_DOWN = """\
Ends the pool of `elastic up`, with all of its hosts, and says what it ended. Runs that use it fail. It is no error if
no pool is up."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    up = subparsers.add_parser(
        "up", help="start a pool on this machine that stays between runs", description=_DESCRIPTION, epilog=_EPILOG
    )
    up.add_argument("--hosts", type=number, metavar="N", help="hosts to start (default: 4)")
    up.add_argument("--devices-per-host", type=number, metavar="D", help="devices of each host (default: 2)")
    up.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where the pool's etcd listens, and on other ports of HOST its hosts; etcd and collectives are not "
        "encrypted, so keep to loopback or a network you trust (default: a socket file of this user)",
    )
    up.add_argument("--log-dir", metavar="DIR", help="keep the logs of all processes of the pool in DIR")
    up.set_defaults(handler=handle_up)
    down = subparsers.add_parser("down", help="end the pool of `elastic up`", description=_DOWN)
    down.set_defaults(handler=handle_down)


def handle_up(options: argparse.Namespace) -> int:
    from elastic import pool_end, pool_target

    living = pool_end.background()
    if living:
        saved = pool_target.saved(living[0].directory)
        if saved is None:
            raise PoolError(f"the pool {living[0].directory.path.name} is starting or ending; try again in a moment")
        _check_same(options, saved)
        print(f"a pool is up already: {_size(saved['hosts'], saved['devices_per_host'])} at {saved['address']}")
        _tell(saved["address"], living[0].directory.path)
        return 0
    began = time.monotonic()
    hosts = 4 if options.hosts is None else options.hosts
    devices = 2 if options.devices_per_host is None else options.devices_per_host
    console.progress(f"starting {_size(hosts, devices)} ...")
    try:
        ready = _start(hosts, devices, options.listen, options.log_dir)
    finally:
        console.clear_progress()
    print(f"pool up in {time.monotonic() - began:.1f} s: {_size(hosts, devices)} at {ready['address']}")
    _tell(ready["address"], Path(ready["directory"]))
    return 0


def handle_down(_: argparse.Namespace) -> int:
    from elastic import pool_end, run_directory

    pools = pool_end.background()
    if not pools:
        print("no pool is up on this machine")
    for pool in pools:
        what = _what(pool)
        orderly = pool_end.end(pool)
        print(what if orderly else f"{what}; its supervisor (pid {pool.owner}) did not end by itself and was killed")
    run_directory.sweep()
    return 0


def _start(hosts: int, devices: int, listen: str | None, log_dir: str | None) -> dict[str, str]:
    command = [sys.executable, "-m", "elastic.supervisor", "--hosts", str(hosts), "--devices-per-host", str(devices)]
    command += [] if listen is None else ["--listen", listen]
    command += [] if log_dir is None else ["--log-dir", log_dir]
    # A session of its own: the pool must outlive this terminal.
    supervisor = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    assert supervisor.stdout is not None
    try:
        answer = json.loads(supervisor.stdout.readline() or "{}")
    except BaseException:  # Ctrl-C
        supervisor.terminate()
        supervisor.wait()
        raise
    if "ready" not in answer:
        code = supervisor.wait()
        kind = UsageError if answer.get("usage") else PoolError
        raise kind(answer.get("failed", f"the supervisor of the pool ended with exit code {code}"))
    ready: dict[str, str] = answer["ready"]
    return ready


def _check_same(options: argparse.Namespace, saved: dict[str, Any]) -> None:
    """Raises `UsageError` if another pool was asked for than is there."""
    wanted = {"hosts": options.hosts, "devices_per_host": options.devices_per_host}
    differs = any(value is not None and value != saved[name] for name, value in wanted.items())
    if differs or (options.listen is not None and not saved["user"]):
        size = _size(saved["hosts"], saved["devices_per_host"])
        raise UsageError(f"another pool is up already, {size} at {saved['address']}; end it first with `elastic down`")


def _what(pool: Found) -> str:
    """What is about to be ended, and who uses it."""
    import asyncio

    from elastic import pool_target, pool_view
    from membership import MembershipError

    saved = pool_target.saved(pool.directory)
    if saved is None:
        return f"ended the pool {pool.directory.path.name}, which was starting"
    text = f"ended the pool of {_size(saved['hosts'], saved['devices_per_host'])} at {saved['address']}"
    try:
        runs = sorted(asyncio.run(pool_view.read(pool_target.background(pool).address)).runs)
    except (MembershipError, UsageError):
        return f"{text}; its etcd did not answer"
    return f"{text}; used by {', '.join(runs)}" if runs else text


def _tell(address: str, directory: Path) -> None:
    secret = directory / "secret"
    print(f"its secret is in {secret}, which only this user can read")
    print("  elastic run --pool local train.py    runs a script on it; several at once get different hosts")
    print("  elastic health                       shows how it is")
    print("  elastic down                         ends it")
    if "@" in address:
        print("on other machines, with a copy of the secret's file:")
        print("  export ELASTIC_SECRET_FILE=COPY ELASTIC_ETCD_PASSWORD_FILE=COPY")
        print(f"  elastic host --pool {address} --listen THEIR_ADDRESS:0")


def _size(hosts: int, devices: int) -> str:
    return f"{hosts} host{'' if hosts == 1 else 's'} x {devices} device{'' if devices == 1 else 's'}"
