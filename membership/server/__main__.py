"""`python -m membership.server`: an etcd in memory for the processes of this machine.

Prints one line of JSON on stdout once it serves, {"ready": true, "address": ...}, or {"ready": false, "reason": ...} if
it cannot. Its stdin is its lifeline: it ends when that comes to its end, so it does not outlive whoever holds the other
side.

On a port, which every user of the machine can reach, clients need the secret of --secret-file as password of the user
"elastic". A socket file is for its owner alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import json
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc

from membership.server.service import USER, Service
from membership.server.store import Store

_GRACE_SECONDS = 0.5
_OPTIONS = (
    # Else a second server could share the port, and take every other connection.
    ("grpc.so_reuseport", 0),
    # Clients may ask whether a connection lives as often as they may ask etcd.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.max_receive_message_length", 4 << 20),
    # Else gRPC cancels some of a thousand requests that come at once, and clients cannot know what became of those.
    ("grpc.server.max_pending_requests", 1 << 20),
    ("grpc.server.max_pending_requests_hard_limit", 1 << 20),
)


class CannotServe(Exception):
    """The server cannot start; the text says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m membership.server", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--listen", metavar="HOST:PORT", help="serve on this port of this machine; 0 takes a free one")
    where.add_argument("--unix", type=Path, metavar="PATH", help="serve on this socket file, which must not exist")
    parser.add_argument("--secret-file", type=Path, metavar="PATH", help="clients must know what this file holds")
    parser.add_argument("--without-secret", action="store_true", help="let every user of this machine in")
    parser.add_argument("--allow-remote", action="store_true", help="listen on other than loopback addresses, too")
    parser.add_argument("--keep-revisions", type=int, default=10_000, metavar="N", help="how much history to keep")
    try:
        asyncio.run(_serve(parser.parse_args(arguments)))
    except CannotServe as error:
        print(json.dumps({"ready": False, "reason": str(error)}), flush=True)
        return 1
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    service = Service(Store(secrets.randbits(62), arguments.keep_revisions), _secret(arguments))
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers(service.handlers())
    user = f"{USER}@" if arguments.secret_file else ""
    address = f"etcd://{user}{_listen(server, arguments)}"
    ended = _lifeline(sys.stdin.fileno())
    await server.start()
    expiry = asyncio.create_task(service.expire_leases())
    print(json.dumps({"ready": True, "address": address}), flush=True)
    try:
        await ended
    finally:
        expiry.cancel()
        await server.stop(_GRACE_SECONDS)


def _secret(arguments: argparse.Namespace) -> str | None:
    if arguments.secret_file is None:
        if arguments.listen and not arguments.without_secret:
            raise CannotServe(
                "every user of this machine could write here: give a --secret-file, use --unix, or say --without-secret"
            )
        return None
    try:
        secret: str = arguments.secret_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotServe(f"the secret file {arguments.secret_file} cannot be read: {error}") from None
    if not secret:
        raise CannotServe(f"the secret file {arguments.secret_file} is empty")
    return secret


def _listen(server: grpc.aio.Server, arguments: argparse.Namespace) -> str:
    """Binds the server; returns where, as it stands in an address."""
    if arguments.unix:
        path: Path = arguments.unix.absolute()
        if path.exists():
            raise CannotServe(f"{path} exists: remove it if no server uses it")
        mask = os.umask(0o177)  # The socket must never be open to others, not even for a moment.
        try:
            _bind(server, f"unix:{path}")
        finally:
            os.umask(mask)
        return f"unix:{path}"
    host, _, port = arguments.listen.rpartition(":")
    if not host or not port.isdecimal():
        raise CannotServe(f"{arguments.listen!r} is no HOST:PORT, such as 127.0.0.1:0 or [::1]:2379")
    if not _is_loopback(host.strip("[]")) and not arguments.allow_remote:
        raise CannotServe(f"{host} can be reached from other machines: listen on 127.0.0.1, or say --allow-remote")
    return f"{host}:{_bind(server, arguments.listen)}"


def _bind(server: grpc.aio.Server, target: str) -> int:
    try:
        return server.add_insecure_port(target)
    except RuntimeError:
        raise CannotServe(f"cannot listen on {target}: is it taken, or does it not belong to this machine?") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _lifeline(descriptor: int) -> asyncio.Future[None]:
    """Done when the pipe at a descriptor comes to its end, or the process is told to end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def read() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(descriptor, 4096):
                loop.remove_reader(descriptor)
                end()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        loop.add_reader(descriptor, read)
    except PermissionError:
        raise CannotServe("stdin is a file, not a pipe or terminal, and so at its end already: give a pipe") from None
    return ended


if __name__ == "__main__":
    sys.exit(main())
