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

from checkpoint import BUDGET, STORE_EVERY_S, Protection
from elastic.cli import console
from elastic.cli.console import number
from elastic.controller.placement import Policy
from elastic.errors import UsageError

if TYPE_CHECKING:
    from elastic.local_pool import LocalPool
    from elastic.pool_events import HostRecovered, RunWaits

_DESCRIPTION = """\
Starts a pool of hosts on this machine, runs a JAX script on it, and takes the pool down when the script ends. With
--pool it runs the script on hosts of a pool that is there already, and gives them back.

The script is plain JAX and needs no change: jax.devices() shows the devices of all hosts. stdin, stdout and stderr
are the script's, and so is the exit code (128+n if signal n ended it)."""

_EPILOG = """\
examples:
  elastic run train.py                                  4 hosts x 2 devices
  elastic run --hosts 2 --devices-per-host 4 train.py   the same 8 devices on 2 hosts; the numbers are the same, too
  elastic run train.py --steps 100                      everything after the script is the script's
  elastic run -m package.train --steps 100              a module, as with python -m
  elastic run --spares 1 train.py                       a fifth host that takes over when one is lost
  elastic run --pool local train.py                     on the pool of `elastic up`
  elastic run --pool etcd://h1,h2,h3/p train.py         on 4 free hosts of a pool of machines (see `elastic host`);
                                                        ELASTIC_SECRET_FILE names the file with the pool's secret
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
    parser.add_argument(
        "--hosts", type=number, default=4, metavar="N", help="hosts to start, or to wait for (default: 4)"
    )
    parser.add_argument(
        "--devices-per-host",
        type=number,
        metavar="D",
        help="devices of each host (default: 2; on a pool that is there, what its hosts have)",
    )
    parser.add_argument(
        "--spares", type=number, default=0, metavar="S", help="more hosts, which take over when others are lost"
    )
    parser.add_argument(
        "--pool",
        metavar="URL",
        help="run on this pool, by its etcd, such as etcd://h1,h2,h3/mypool; `local` is the pool of `elastic up`",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="also take clients at this TCP address; unencrypted, so keep to loopback or a network you trust",
    )
    parser.add_argument(
        "--snapshot-budget",
        type=_share,
        default=BUDGET,
        metavar="SHARE",
        help="the share of the time that saving arrays against the loss of hosts may take (default: %(default)s); a "
        "larger one makes recoveries shorter; with 0 nothing is saved before the journal is full",
    )
    parser.add_argument(
        "--protect",
        default=str(Protection()),
        metavar="HOW",
        help="how saved arrays survive the loss of hosts: copies=N keeps N copies of each shard, parity=K+M one and M "
        "parity blocks for K of them, so that any M hosts may be lost at once for M/K of the memory that a copy takes "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--on-loss",
        choices=list(Policy),
        default=Policy.STACK,
        help="when a host is lost, free devices, as those of spares, take its virtual devices over; if they do not "
        "suffice, the others carry more (stack, the default), the run ends with an error (spare), it waits until a "
        "host comes (wait), or the script is told (surface): its arrays with a shard there become errors (DATA_LOSS), "
        "all else goes on; devices have a slice_index, the number of their host, as scripts with elastic_retry expect",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        type=Path,
        help="also store snapshots under this directory, which all hosts must see: then the run goes on, once hosts "
        "are back, even if all of them died at once",
    )
    parser.add_argument(
        "--checkpoint-every",
        metavar="SECONDS",
        type=float,
        default=STORE_EVERY_S,
        help="how often that is done (default: %(default)g)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        type=_with_host,
        help="serve Prometheus' metrics of the run at http://HOST:PORT/metrics, to everyone who can connect; without "
        "HOST on loopback, and with port 0 on any that is free, which -v tells",
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="write a trace of the run, as ui.perfetto.dev shows it, while it runs",
    )
    parser.add_argument(
        "--verify-every",
        metavar="N",
        type=int,
        default=0,
        help="execute one in N intervals between two snapshots again on other hosts, and all with 1; if the results "
        "differ, a host that was wrong is quarantined, and the run goes back (default: 0, never)",
    )
    parser.add_argument("--log-dir", metavar="DIR", help="keep the logs of all processes of the pool in DIR")
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    loudness.add_argument("-v", "--verbose", action="store_true", help="say more, also when stderr is no terminal")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    check_script(options.script)
    # Not sooner: `elastic --help` need not wait for it.
    from elastic import local_pool, runner

    settings = {
        "listen": options.listen,
        "log_dir": options.log_dir,
        "spares": options.spares,
        "snapshot_budget": options.snapshot_budget,
        "protect": options.protect,
        "on_loss": options.on_loss,
        "checkpoint": options.checkpoint and options.checkpoint.absolute(),
        "checkpoint_every": options.checkpoint_every,
        "metrics": options.metrics,
        "trace": options.trace and options.trace.absolute(),
        "verify_every": options.verify_every,
    }
    reporter = _Console(options)
    if options.pool is None:
        devices = 2 if options.devices_per_host is None else options.devices_per_host
        pool = local_pool.LocalPool(options.hosts, devices, **settings)
    else:
        from elastic import pool_target
        from elastic.joined_pool import JoinedPool

        pool = JoinedPool(pool_target.resolve(options.pool), options.hosts, options.devices_per_host or 0, **settings)
        pool.on_waiting = reporter.waiting
    return runner.run(pool, options.script, reporter)


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
        self._joins: bool = options.pool is not None
        self._waited_for = ""

    def starting(self, pool: LocalPool) -> None:
        if not self._quiet:
            console.progress("asking the pool for hosts ..." if self._joins else f"starting {_size(pool)} ...")

    def waiting(self, text: str) -> None:
        """Of a run on a pool that is there: which hosts are missing."""
        if self._quiet or not text or text == self._waited_for:
            return
        self._waited_for = text
        if console.is_terminal():
            console.clear_progress()
            console.progress(f"waiting for hosts: {text}")
        else:
            console.note(f"waiting for hosts: {text}")

    def started(self, pool: LocalPool, seconds: float) -> None:
        if self._quiet:
            return
        console.clear_progress()
        if self._verbose or console.is_terminal():
            console.note(f"{_size(pool)} up in {seconds:.1f} s")
        if self._verbose:
            console.note(f"controller at {pool.address}, logs in {pool.directory.logs.resolve()}")
            if pool.metrics_url:
                console.note(f"metrics at {pool.metrics_url}")

    def still_running(self) -> None:
        if not self._quiet:
            console.note("the script is still running; Ctrl-C again kills it")

    def recovered(self, event: HostRecovered) -> None:
        if not self._quiet:
            console.note(f"{event} ({event.phases_text})" if self._verbose else str(event))

    def waits(self, event: RunWaits) -> None:
        if not self._quiet:
            console.note(str(event))

    def lost(self, text: str) -> None:
        console.error(text if self._keeps_logs else f"{text} (--log-dir DIR keeps the logs of its processes)")


def _size(pool: LocalPool) -> str:
    hosts = "host" if pool.hosts == 1 else "hosts"
    if not pool.devices_per_host:
        return f"{pool.hosts} {hosts}"
    devices = "device" if pool.devices_per_host == 1 else "devices"
    return f"{pool.hosts} {hosts} x {pool.devices_per_host} {devices}"


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _with_host(address: str) -> str:
    """The address, on loopback if it has no host."""
    host, _, port = address.rpartition(":")
    return f"{host or '127.0.0.1'}:{port}"
