"""`elastic run`: an unmodified JAX script on a private pool on this machine."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoint import Cadence
from elastic.cli import console
from elastic.errors import UsageError

if TYPE_CHECKING:
    from elastic.local_pool import HostRecovered, LocalPool

_DESCRIPTION = """\
Starts a pool of hosts on this machine, runs a JAX script on it, and takes the pool down when the script ends.

The script is plain JAX and needs no change: jax.devices() shows the devices of all hosts. stdin, stdout and stderr
are the script's, and so is the exit code (128+n if signal n ended it)."""

_EPILOG = """\
examples:
  elastic run train.py                                  4 hosts x 2 devices
  elastic run --hosts 2 --devices-per-host 4 train.py   the same 8 devices on 2 hosts; the numbers are the same, too
  elastic run train.py --steps 100                      everything after the script is the script's
  elastic run -m package.train --steps 100              a module, as with python -m
  elastic run --log-dir logs train.py                   keep what the pool's processes had to say
  elastic run --listen 127.0.0.1:7777 train.py          other programs may connect, one after the other, with
                                                        JAX_PLATFORMS=elastic ELASTIC_CONTROLLER=grpc://127.0.0.1:7777
                                                        ELASTIC_TOKEN_FILE=<run directory, see -v>/secret

Every host is a set of processes of about 250 MB. More devices cost little, but share this machine's cores.
Ctrl-C reaches the script, as without elastic; a second one kills it.
"""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "run",
        takes_script=True,
        help="run a JAX script on a pool of hosts on this machine",
        usage="elastic run [options] SCRIPT [ARGS...]\n       elastic run [options] -m MODULE [ARGS...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("--hosts", type=_number, default=4, metavar="N", help="hosts to start (default: 4)")
    parser.add_argument(
        "--devices-per-host", type=_number, default=2, metavar="D", help="devices of each host (default: 2)"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="also take clients at this TCP address; unencrypted, so keep to loopback or a network you trust",
    )
    parser.add_argument(
        "--snapshot-budget",
        type=_share,
        default=Cadence.budget,
        metavar="SHARE",
        help="the share of the time that saving what a lost host held may take (default: %(default)s); a larger one "
        "makes recoveries shorter; with 0 nothing is saved until the journal of operations is full",
    )
    parser.add_argument("--log-dir", metavar="DIR", help="keep the logs of all processes of the pool in DIR")
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    loudness.add_argument("-v", "--verbose", action="store_true", help="say more, also when stderr is no terminal")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    check_script(options.script)
    # Not sooner: `elastic --help` need not wait for it.
    from elastic import runner
    from elastic.local_pool import LocalPool

    pool = LocalPool(
        options.hosts,
        options.devices_per_host,
        options.listen,
        options.log_dir,
        snapshot_budget=options.snapshot_budget,
    )
    return runner.run(pool, options.script, _Console(options))


def check_script(arguments: Sequence[str]) -> None:
    """Notices a script or module that does not exist before a pool starts for nothing.

    Args:
        arguments: what follows the options: SCRIPT ARGS... or -m MODULE ARGS...

    Raises:
        UsageError: there is none, or it cannot be found.
    """
    if not arguments or arguments == ["-m"]:
        raise UsageError("no script to run; give one: elastic run SCRIPT [ARGS...]")
    if arguments[0] == "-m":
        module = arguments[1]
        package = module.partition(".")[0]
        here = importlib.machinery.PathFinder.find_spec(package, [os.getcwd()])
        if here is None and importlib.util.find_spec(package) is None:
            raise UsageError(f"there is no module {package!r} here or in {sys.executable}; check the name or install")
        return
    script = Path(arguments[0])
    if arguments[0] == "-" or (script.exists() and not script.is_dir()) or (script / "__main__.py").is_file():
        return
    if script.is_dir():
        raise UsageError(f"{script} is a directory without a __main__.py; give a script")
    hint = ""
    if script.name == str(script) and (shutil.which(script.name) or importlib.util.find_spec(script.stem)):
        hint = f", or run the module with `elastic run -m {script.stem}`"
    raise UsageError(f"there is no script {str(script)!r}; check the path{hint}")


class _Console:
    """What `run` says: on a terminal how the start went, with -v that and where things are, with -q only errors."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._quiet: bool = options.quiet
        self._verbose: bool = options.verbose
        self._keeps_logs = options.log_dir is not None

    def starting(self, pool: LocalPool) -> None:
        if not self._quiet:
            console.progress(f"starting {_size(pool)} ...")

    def started(self, pool: LocalPool, seconds: float) -> None:
        if self._quiet:
            return
        console.clear_progress()
        if self._verbose or console.is_terminal():
            console.note(f"{_size(pool)} up in {seconds:.1f} s")
        if self._verbose:
            console.note(f"controller at {pool.address}, logs in {pool.directory.logs.resolve()}")

    def still_running(self) -> None:
        if not self._quiet:
            console.note("the script is still running; Ctrl-C again kills it")

    def recovered(self, event: HostRecovered) -> None:
        if not self._quiet:
            console.note(f"{event} ({event.phases_text})" if self._verbose else str(event))

    def lost(self, text: str) -> None:
        console.error(text if self._keeps_logs else f"{text} (--log-dir DIR keeps the logs of its processes)")


def _size(pool: LocalPool) -> str:
    hosts = "host" if pool.hosts == 1 else "hosts"
    devices = "device" if pool.devices_per_host == 1 else "devices"
    return f"{pool.hosts} {hosts} x {pool.devices_per_host} {devices}"


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
