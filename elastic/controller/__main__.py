"""`python -m elastic.controller`: the controller of one run, as a launcher starts it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import membership.forking  # noqa: F401  Before anything that imports gRPC.
from checkpoint import STORE_EVERY_S, Protection
from elastic import stacks, wire
from elastic.controller import history, named_saves, status_service
from elastic.controller.accounts import Accounts
from elastic.controller.changes import Recovered
from elastic.controller.hosts import Host
from elastic.controller.metrics_server import PATH, MetricsServer
from elastic.controller.placement import Policy
from elastic.controller.roster import Roster
from elastic.controller.run import Run
from elastic.controller.service import ProxyService, Sessions
from elastic.controller.session import Session
from elastic.controller.status_report import About, with_etcd, with_refused
from elastic.door import Door
from elastic.errors import HostLostError, PoolError, UsageError
from elastic.front import GrpcServer
from elastic.handshake import MAGIC
from elastic.refusals import Reason, Refusals
from elastic.run_directory import RunDirectory
from membership import Claims, Etcd, EtcdUnavailable, MembershipError, OutcomeUnknown, PoolAddress, RunRecord

log = logging.getLogger(__name__)

_LEASE_S = 5
"""How long etcd remembers a run that it does not hear of."""

_LEAVE_S = 0.2
"""How long the farewell to etcd may take."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m elastic.controller", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="directory of the run; holds the secret")
    parser.add_argument("--virtual-devices", type=int, default=0, help="by default as many as the hosts have")
    parser.add_argument("--pool", required=True, metavar="URL", help="the pool's etcd")
    parser.add_argument("--run-id", required=True, help="the run's name in the pool")
    parser.add_argument("--hosts", type=int, required=True, help="how many hosts to wait for")
    parser.add_argument("--spares", type=int, default=0, help="how many more to take")
    parser.add_argument(
        "--snapshot-budget",
        type=float,
        required=True,
        metavar="SHARE",
        help="the share of the time that saving may take",
    )
    parser.add_argument(
        "--protect", type=Protection.parse, default="copies=2", metavar="HOW", help="copies=N or parity=K+M"
    )
    parser.add_argument(
        "--on-loss", type=Policy, default=Policy.STACK, choices=list(Policy), help="what is done without a spare"
    )
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="store snapshots there")
    parser.add_argument("--checkpoint-every", type=float, default=STORE_EVERY_S, metavar="SECONDS")
    parser.add_argument("--verify-every", type=int, default=0, metavar="N", help="verify one in N intervals")
    parser.add_argument("--listen", metavar="HOST:PORT", help="serve clients here too; they must show a token")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve GET /metrics here")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a Chrome trace of the run there")
    arguments = parser.parse_args()
    stacks.offer()
    run_dir: Path = arguments.run_dir
    try:
        asyncio.run(_serve(arguments))
    except (PoolError, UsageError, MembershipError) as error:
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
            what = {"host": failure.host, "reason": failure.reason, "why_not": failure.why_not}
            history.tell("failed", **what)
            _tell({"lost": what})

    def waits(host: str, reason: str, what: str) -> None:
        _tell({"waits": {"host": host, "reason": reason, "what": what}})

    def recovered(what: Recovered) -> None:
        history.tell("recovered", **dataclasses.asdict(what))
        _tell({"recovered": {**dataclasses.asdict(what), "total": what.total}})

    ended = _lifeline(sys.stdin.fileno())
    async with contextlib.AsyncExitStack() as stack:
        accounts = _accounts(arguments.run_id, arguments.trace)
        stack.callback(accounts.close)
        history.tell("controller", pid=os.getpid())
        etcd = await stack.enter_async_context(Etcd(PoolAddress.parse(arguments.pool)))
        address = f"unix:{run_dir / 'client.sock'}"
        record = RunRecord(arguments.run_id, address, os.getpid(), arguments.virtual_devices)
        claims = Claims(etcd, record, _LEASE_S, lambda host: roster.taken(host))
        await claims.start()
        stack.push_async_callback(_leave, claims)

        def joined(host: Host) -> None:
            stack.callback(host.leave)
            run.host_joined(host)

        run = Run(
            arguments.virtual_devices,
            secret,
            snapshot_budget=arguments.snapshot_budget,
            protection=arguments.protect,
            policy=arguments.on_loss,
            checkpoint=arguments.checkpoint and arguments.checkpoint / arguments.run_id,
            checkpoint_every=arguments.checkpoint_every,
            verify_every=arguments.verify_every,
            fence=lambda generation: _fence(claims, generation),
            released=lambda host: roster.give_back(host),
            waits=waits,
            recovered=recovered,
            failed=failed,
        )
        accounts.waiting_since = lambda: run.waiting_since
        most = arguments.hosts + arguments.spares
        about = About(arguments.run_id, os.getpid(), most, time.monotonic())
        roster = Roster(
            etcd,
            claims,
            secret,
            arguments.hosts,
            most,
            joined=joined,
            lost=run.host_lost,
            drains=run.host_drains,
            awaited=lambda: run.awaited,
        )
        background = [asyncio.ensure_future(work) for work in (roster.follow(), claims.keep())]
        stack.callback(lambda: [task.cancel() for task in background])
        stack.callback(run.close)
        numbers = itertools.count(1)
        sessions = Sessions(lambda id: Session(id, run, numbers, run_dir / "uploads"))
        sessions.closed_because = "the run has no hosts yet; wait until it says that it is ready"

        def status() -> dict[str, Any]:
            waits_for = roster.waits_for() or "a world is being formed"
            known = dataclasses.replace(
                about, client_connected=sessions.connected, waits_for=waits_for, goodput=accounts.goodput()
            )
            found = with_refused(run.report(known, time.monotonic()), refusals.counts)
            return with_etcd(found, claims.unheard_s)

        def greeted(hello: dict[str, Any], link: wire.Link) -> None:
            if hello.get("role") == status_service.ROLE:
                status_service.serve(status, link)
            elif hello.get("role") == named_saves.ROLE:
                run.saves.serve_client(link)
            else:
                run.callbacks.serve_client(hello, link)

        refusals = Refusals(log.warning, time.monotonic)

        def refused(silent: bool) -> None:
            if silent:
                refusals.add(Reason.SILENT, "a client did not say what it speaks")
            else:
                refusals.add(Reason.GARBAGE, "a client speaks neither gRPC nor this version of elastic's protocol")

        metrics = await _metrics(arguments.metrics, status, stack)
        others = {MAGIC: Door(secret, greeted, refusals.add)}
        # Who can open the socket file has the rights of its directory's owner; a port is open to every user.
        path = run_dir / "client.sock"
        servers = [await GrpcServer.start(ProxyService(sessions, None), path=path, others=others, refused=refused)]
        stack.push_async_callback(servers[0].close)
        if arguments.listen:
            service = ProxyService(sessions, secret_text, refusals.add)
            servers.append(await _listen(arguments.listen, service, others, refused))
            stack.push_async_callback(servers[1].close)

        held = False

        def hold_back() -> None:
            nonlocal held
            if run.congested == held:
                return
            held = not held
            sessions.hold(held)  # Requests that have waited may have it held again before this returns.
            for server in servers:
                server.pause_reading() if held else server.resume_reading()

        run.on_congestion = hold_back
        roster.on_change = lambda: _tell({"waiting": roster.waits_for()}) if roster.lacks_hosts else None
        await _until(run.start(arguments.hosts), ended, background)
        if ended.done():
            return
        if not arguments.virtual_devices:
            with contextlib.suppress(MembershipError):  # Only for show.
                await claims.describe(run.virtual_devices)
        roster.on_change = lambda: None
        sessions.closed_because = None
        _tell(
            {
                "ready": {
                    "address": f"grpc://unix:{run_dir / 'client.sock'}",
                    "listen": [s.target for s in servers],
                    "metrics": metrics,
                }
            }
        )
        await _until(asyncio.Event().wait(), ended, background)


def _accounts(run: str, trace: Path | None) -> Accounts:
    try:
        return Accounts(run, trace)
    except OSError as error:
        raise UsageError(f"the trace cannot be written to {trace}: {error.strerror}") from error


async def _metrics(address: str | None, report: Callable[[], dict[str, Any]], stack: contextlib.AsyncExitStack) -> str:
    """Serves metrics at an address, if there is one; the URL."""
    if address is None:
        return ""
    from elastic.controller import metrics  # Nobody else needs its library.

    counted = metrics.Metrics(report)
    stack.callback(history.listen(counted.feed, counted.kinds))
    server = MetricsServer(counted.page, metrics.TYPE)
    stack.callback(server.close)
    try:
        await server.start(*wire.parse_address(address))
    except (OSError, ValueError) as error:
        raise UsageError(f"metrics cannot be served at {address}: {error}; choose another --metrics") from error
    return f"http://{server.address}{PATH}"


async def _fence(claims: Claims, generation: int) -> None:
    """Raises the generation in etcd; nothing may go on without, so an etcd that cannot be reached is waited for."""
    while True:
        try:
            return await claims.advance(generation)
        except (EtcdUnavailable, OutcomeUnknown) as error:
            log.warning("generation %d has to wait: %s", generation, error)


async def _until(work: Coroutine[Any, Any, object], ended: asyncio.Future[None], others: Sequence[Any]) -> None:
    """Waits for the work, but not once the launcher is gone. Raises what the work raises, or one of the others."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task, ended, *others], return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
    for one in (task, *others):
        if one.done() and not one.cancelled() and (error := one.exception()) is not None:
            raise error


async def _leave(claims: Claims) -> None:
    with contextlib.suppress(MembershipError, TimeoutError):
        async with asyncio.timeout(_LEAVE_S):
            await claims.close()


async def _listen(
    address: str,
    service: ProxyService,
    others: Mapping[bytes, Callable[[], asyncio.Protocol]],
    refused: Callable[[bool], None],
) -> GrpcServer:
    try:
        host, port = wire.parse_address(address)
        return await GrpcServer.start(service, host=host, port=port, others=others, refused=refused)
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
