"""Asks every part of a pool for a sign of life, with times, and looks into those that give none.

Parts of other machines are asked as well, but only those of this one can be looked into. Not for: what a run or a host
is doing (`elastic.health`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from elastic import calling, pool_target, pool_view, run_directory, stacks, wire
from elastic.errors import PoolError, UsageError
from elastic.handshake import HandshakeError
from elastic.health import most_recent
from elastic.machine import machine_id
from elastic.pool_target import Target
from elastic.pool_view import PoolView
from elastic.run_directory import Kind
from elastic.status_client import TIMEOUT_S, NoAnswer, StatusClient
from membership import Etcd, MembershipError, MemberStatus, PoolAddress

_AT_ONCE = 16

ROLE = "probe"
"""The role in which agents and executors are asked for a sign of life."""


@dataclass(frozen=True)
class Finding:
    """One part that was asked.

    Attributes:
        seconds: until it answered, or was given up.
        words: what it said of itself, or why it did not.
        inside: its stacks and what else can be seen of it, if it did not answer.
    """

    name: str
    well: bool
    seconds: float
    words: str
    inside: str = ""


def target_of(pool: str | None, base: Path | None = None) -> tuple[Target, list[Finding]]:
    """The pool that a user means, and how its launcher is, if it has one. Raises `UsageError` or `PoolError`."""
    if pool is not None:
        return pool_target.resolve(pool, base), []
    found = most_recent(run_directory.find(base))
    if found is None or found.dead:
        raise PoolError("no pool of this user lives on this machine; name one with --pool URL")
    launcher = "supervisor" if found.kind is Kind.BACKGROUND else "launcher"
    inside = stacks.of(found.owner)
    well = "stopped" not in inside
    finding = Finding(f"{launcher} (pid {found.owner})", well, 0.0, "" if well else inside)
    if found.kind is Kind.BACKGROUND:
        return pool_target.background(found), [finding]
    if found.kind is Kind.JOINED:
        raise UsageError("the newest run here is on a pool that is elsewhere; name that with --pool URL")
    try:
        secret = found.directory.secret.read_text(encoding="ascii").strip()
    except OSError as error:
        raise PoolError(f"the pool {found.directory.path.name} ends at this moment: {error.strerror}") from error
    return Target(PoolAddress.parse(found.directory.membership_address, {}), secret), [finding]


def diagnose(target: Target) -> list[Finding]:
    """What was found of each part: etcd's endpoints, controllers, agents, executors.

    Raises `UsageError` if the pool's secret is not known.
    """
    secret = bytes.fromhex(target.need_secret())
    findings = asyncio.run(_ask_etcd(target.address))
    try:
        view = asyncio.run(pool_view.read(target.address))
    except MembershipError as error:
        return [*findings, Finding("pool", False, 0.0, f"hosts and runs are not known: {error}")]
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        findings += workers.map(lambda work: work(), _controllers(view, secret))
        agents = list(workers.map(lambda work: work(), _agents(view, secret)))
        findings += [finding for finding, _ in agents]
        executors = [
            work for (_, answer), id in zip(agents, view.hosts, strict=True) for work in _of(id, answer, secret)
        ]
        findings += workers.map(lambda work: work(), executors)
    return findings


async def _ask_etcd(address: PoolAddress) -> list[Finding]:
    async with Etcd(address, pool_view.QUICK) as etcd:
        began = time.monotonic()
        answers = await etcd.status()
        seconds = time.monotonic() - began
    return [_etcd(endpoint, answer, seconds) for endpoint, answer in answers.items()]


def _etcd(endpoint: str, answer: MemberStatus | MembershipError, seconds: float) -> Finding:
    if isinstance(answer, MembershipError):
        return Finding(f"etcd {endpoint}", False, seconds, str(answer))
    leads = "it leads" if answer.leads else "another one leads" if answer.leader else "it knows no leader"
    return Finding(f"etcd {endpoint}", bool(answer.leader), seconds, f"version {answer.version}, {leads}")


def _controllers(view: PoolView, secret: bytes) -> Iterable[Callable[[], Finding]]:
    def ask(id: str) -> Finding:
        run = view.runs[id]
        name, began = f"controller of run {id}", time.monotonic()
        local = not run.address.startswith("unix:") or Path(run.address.removeprefix("unix:")).exists()
        if not local:
            return Finding(name, True, 0.0, "on another machine, where only that machine can ask it")
        try:
            with StatusClient(run.address, secret) as client:
                report = client.report()
        except NoAnswer as error:
            inside = stacks.of(run.pid) if run.address.startswith("unix:") else ""
            return Finding(name, False, time.monotonic() - began, str(error), inside)
        words = f"pid {run.pid}, {report['status']}, {report['run']['state']}"
        return Finding(name, True, time.monotonic() - began, words)

    return [partial(ask, id) for id in view.runs]


def _agents(view: PoolView, secret: bytes) -> Iterable[Callable[[], tuple[Finding, dict[str, Any]]]]:
    here = machine_id()

    def ask(id: str) -> tuple[Finding, dict[str, Any]]:
        host = view.hosts[id]
        pid = host.pid if host.machine == here else None
        finding, answer = _ask(f"agent of host {id}", host.address, secret, pid)
        return finding, {**answer, "here": pid is not None}

    return [partial(ask, id) for id in view.hosts]


def _of(host: str, answer: dict[str, Any], secret: bytes) -> Iterable[Callable[[], Finding]]:
    """The executors that an agent told of."""

    def ask(kind: str, pid: int, address: str) -> Finding:
        return _ask(f"{kind} of host {host}", address, secret, pid if answer["here"] else None)[0]

    return [
        partial(ask, kind, pid, address)
        for kind, processes in (("executor", answer.get("executors", {})), ("standby", answer.get("standbys", {})))
        for pid, address in processes.items()
    ]


def _ask(name: str, address: str, secret: bytes, pid: int | None) -> tuple[Finding, dict[str, Any]]:
    """Asks an agent or an executor; `pid` is None if it is on another machine."""
    began = time.monotonic()
    try:
        channel = calling.dial(address, secret, {"role": ROLE}, TIMEOUT_S)
        try:
            answer: dict[str, Any] = channel.receive()[0]
        finally:
            channel.close()
    except (OSError, EOFError, HandshakeError, wire.FrameError, ValueError) as error:
        why = f"no answer at {address}: {error or type(error).__name__}"
        inside = stacks.of(pid) if pid is not None else "it is on another machine, where its log may say more"
        return Finding(name, False, time.monotonic() - began, why, inside), {}
    words = f"pid {answer['pid']}" + (f", {answer['about']}" if answer.get("about") else "")
    return Finding(name, True, time.monotonic() - began, words), answer
