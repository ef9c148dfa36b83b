"""`python -m elastic.controller`: the controller of one run, as the launcher of a local pool starts it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from elastic import wire
from elastic.controller.hosts import Host
from elastic.controller.run import Recovered, Run
from elastic.controller.service import ProxyService, Sessions
from elastic.controller.session import Session
from elastic.errors import HostLostError, PoolError, UsageError
from elastic.front import GrpcServer
from elastic.handshake import MAGIC
from elastic.run_directory import RunDirectory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m elastic.controller", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="directory of the run; holds the secret")
    parser.add_argument("--virtual-devices", type=int, required=True)
    parser.add_argument("--host", action="append", required=True, metavar="ID=HOST:PORT", help="a host's agent")
    parser.add_argument("--listen", metavar="HOST:PORT", help="serve clients here too; they must show a token")
    arguments = parser.parse_args()
    run_dir: Path = arguments.run_dir
    try:
        asyncio.run(_serve(arguments))
    except (PoolError, UsageError) as error:
        _tell({"failed": str(error)})
        return 1
    # If the launcher is gone, however it went, nobody else removes what it made.
    RunDirectory(run_dir).remove_if_orphaned()
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    run_dir: Path = arguments.run_dir
    secret_text = (run_dir / "secret").read_text(encoding="ascii").strip()
    secret = bytes.fromhex(secret_text)

    def failed(failure: HostLostError) -> None:
        if not ended.done():
            _tell({"lost": {"host": failure.host, "reason": failure.reason}})

    def recovered(what: Recovered) -> None:
        _tell({"recovered": {**dataclasses.asdict(what), "total": what.total}})

    ended = _lifeline(sys.stdin.fileno())
    async with contextlib.AsyncExitStack() as stack:
        run = Run(arguments.virtual_devices, secret, recovered=recovered, failed=failed)
        hosts = []
        for text in arguments.host:
            id, _, address = text.partition("=")
            hosts.append(await Host.connect(id, address, secret, run.host_lost))
            stack.callback(hosts[-1].close)
        stack.callback(run.close)
        await run.start(hosts)
        numbers = itertools.count(1)
        sessions = Sessions(lambda id: Session(id, run, numbers, run_dir / "uploads"))
        others = {MAGIC: lambda: wire.Greeting(secret, run.callbacks.serve_client)}
        # Who can open the socket file has the rights of its directory's owner; a port is open to every user.
        servers = [await GrpcServer.start(ProxyService(sessions, None), path=run_dir / "client.sock", others=others)]
        stack.push_async_callback(servers[0].close)
        if arguments.listen:
            servers.append(await _listen(arguments.listen, ProxyService(sessions, secret_text), others))
            stack.push_async_callback(servers[1].close)

        def hold_back() -> None:
            for server in servers:
                server.pause_reading() if run.congested else server.resume_reading()

        run.on_congestion = hold_back
        _tell({"ready": {"address": f"grpc://unix:{run_dir / 'client.sock'}", "listen": [s.target for s in servers]}})
        await ended


async def _listen(
    address: str, service: ProxyService, others: Mapping[bytes, Callable[[], asyncio.Protocol]]
) -> GrpcServer:
    try:
        host, port = wire.parse_address(address)
        return await GrpcServer.start(service, host=host, port=port, others=others)
    except (OSError, ValueError) as error:
        raise UsageError(f"the controller cannot listen on {address}: {error}; choose another --listen") from error


def _lifeline(descriptor: int) -> asyncio.Future[None]:
    """Done when the pipe at a descriptor comes to its end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(descriptor, 4096) and not ended.done():
                ended.set_result(None)
                loop.remove_reader(descriptor)

    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, read)
    return ended


def _tell(message: dict[str, Any]) -> None:
    """Tells the launcher, if it still listens."""
    with contextlib.suppress(OSError):
        print(json.dumps(message), flush=True)


if __name__ == "__main__":
    sys.exit(main())
