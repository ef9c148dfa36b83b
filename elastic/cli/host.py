"""`elastic host`: this machine as one host of a pool, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic.cli import console
from elastic.cli.console import number
from elastic.errors import PoolError, UsageError

if TYPE_CHECKING:
    from membership import HostRecord

_DESCRIPTION = """\
Makes this machine a host of a pool, until it is told to leave: it registers in the pool's etcd, and runs what the run
computes that claims it.

On SIGTERM the host leaves when the run that uses it has moved what is here; on a second one, or on Ctrl-C, at once. The
pool's secret comes from the file that ELASTIC_SECRET_FILE names."""

_EPILOG = """\
examples:
  (umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > elastic.secret)     once, for all machines
  export ELASTIC_SECRET_FILE=elastic.secret
  elastic host --pool etcd://h1,h2,h3/mypool --listen 10.0.0.7:0     on each machine, with its own address
  elastic run --pool etcd://h1,h2,h3/mypool train.py                 on one of them

The host listens on loopback unless --listen gives an address by which the other machines reach it; its executors take
further ports of that address. What it says to others is authenticated, and encrypted if ELASTIC_TLS_CERT,
ELASTIC_TLS_KEY and ELASTIC_TLS_CA name PEM files, as they must for all of the pool or for none. XLA's collectives are
neither: keep to a network that you trust.
"""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "host", help="make this machine a host of a pool", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("--pool", required=True, metavar="URL", help="the pool's etcd, such as etcd://h1:2379/mypool")
    parser.add_argument("--id", metavar="NAME", help="the host's name in the pool (default: this machine's name)")
    parser.add_argument("--devices", type=number, default=2, metavar="N", help="CPU devices of this host (default: 2)")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="where the others reach this host; port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument("--log-dir", metavar="DIR", help="keep the logs of the host's executors in DIR")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    from elastic import pool_secret, pool_size, pool_target, run_directory, stacks
    from elastic.agent.agent import HostSettings, Reporter, serve
    from elastic.agent.device_health import every_of
    from elastic.client_environment import pool_variables
    from membership import MembershipError

    name = options.id or socket.gethostname()
    check_name(name)
    check_listen(options.listen)
    if options.devices < 1:
        raise UsageError(f"a host with {options.devices} devices cannot run anything; ask for at least 1")
    try:
        check_every = every_of(os.environ)
    except ValueError as error:
        raise UsageError(str(error)) from error
    target = pool_target.resolve(options.pool)
    secret = target.need_secret()
    pool_size.check_python()
    pool_size.check_certificates()
    run_directory.sweep()
    log_dir = None if options.log_dir is None else Path(options.log_dir)
    directory = run_directory.create(log_dir=log_dir, kind=run_directory.Kind.HOST, secret=secret)
    variables = {**pool_variables(os.environ), **target.variables, pool_secret.FILE: str(directory.secret)}
    os.environ.clear()
    os.environ.update(variables)
    settings = HostSettings(
        id=name,
        devices=options.devices,
        listen=options.listen,
        secret=bytes.fromhex(secret),
        log=directory.logs / f"{name}-executors.log",
        memory=directory.path / "memory" / name,
        check_every=check_every,
    )

    def ready(record: HostRecord) -> None:
        devices = f"{record.devices} device{'' if record.devices == 1 else 's'}"
        _say(f"host {name} is registered in {target.address}: {devices} at {record.address}")

    def unfit(reason: str) -> None:
        _say(f"host {name} is not to be used for now: {reason}" if reason else f"host {name} may be used again")

    stacks.offer()
    reporter = Reporter(
        ready,
        claimed=lambda run: _say(f"host {name} is claimed by run {run}"),
        released=lambda run: _say(f"host {name} is released by run {run}"),
        drains=lambda reason: _say(f"host {name} leaves when nothing needs it any more: {reason}"),
        unfit=unfit,
    )
    try:
        asyncio.run(serve(settings, target.address, None, reporter))
    except OSError as error:
        raise UsageError(f"host {name} cannot listen on {options.listen}: {error}; choose another --listen") from error
    except MembershipError as error:
        raise PoolError(f"host {name} cannot join the pool: {error}") from error
    finally:
        directory.remove()
    _say(f"host {name} has left")
    return 0


def check_name(name: str) -> None:
    """Raises `UsageError` for a name that cannot be part of a key and of a file's name."""
    if not name or not all(character.isalnum() or character in "-_." for character in name) or name.startswith("."):
        raise UsageError(f"{name!r} cannot name a host: use letters, digits, '-', '_' and '.' with --id NAME")


def check_listen(listen: str) -> None:
    """Raises `UsageError` for an address at which the others could not reach this host."""
    from elastic.wire import parse_address

    try:
        host, _ = parse_address(listen)
    except ValueError:
        raise UsageError(f"{listen!r} is no address to listen on; give HOST:PORT, such as 10.0.0.7:0") from None
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = not host
    if everywhere:
        raise UsageError(
            f"{listen} is every address of this machine, and the pool has to know one; give that by which the others "
            "reach it"
        )


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError:  # A host goes on when nobody reads what it says.
        console.note(text)
