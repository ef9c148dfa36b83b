"""How a pool is: finds it, asks whoever can tell, and always comes back within about three seconds.

Not for: what the report says (`elastic.health_report`) or how it looks (`elastic.cli.health`).
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from elastic import pool_secret, pool_target, pool_view, run_directory
from elastic.errors import UsageError
from elastic.health_report import Report, nothing, of_pool, of_run
from elastic.pool_target import Target
from elastic.pool_view import PoolView
from elastic.run_directory import Found, Kind
from elastic.status_client import NoAnswer, StatusClient, process_state
from membership import MembershipError, RunRecord

_NONE = (
    "this user has no pool on this machine; start one with `elastic run SCRIPT` or `elastic up`, or name another with "
    "--pool URL"
)
_ASKED_AT_ONCE = 16


def look(pool: str | None = None, base: Path | None = None) -> Report:
    """The report on the pool with this address, or on this user's most recent local pool.

    Raises `UsageError` for an address or a secret that cannot be one.
    """
    if pool is not None:
        return look_at_pool(pool_target.resolve(pool, base))
    found = most_recent(run_directory.find(base))
    return nothing(_NONE) if found is None else _look_at(found)


def most_recent(directories: list[Found]) -> Found | None:
    """The pool that a user means who names none: of those that live, the newest, and else of those that died.

    Runs on pools that are elsewhere count only if there is no pool here.
    """
    pools = [one for one in directories if one.kind in (Kind.PRIVATE, Kind.BACKGROUND)]
    joined = [one for one in directories if one.kind is Kind.JOINED and not one.dead]
    living = [one for one in pools if not one.dead]
    return next(iter([*living, *joined, *pools]), None)


def look_at_pool(target: Target, about: Report | None = None) -> Report:
    """The report on a pool by its etcd and, where the secret is known, by the controllers of its runs."""
    pool, secret = target.address, target.secret
    about = about or {"kind": "pool", "address": str(pool)}
    try:
        view = asyncio.run(pool_view.read(pool))
    except MembershipError as error:
        return nothing(f"the pool {pool} cannot be asked: {error}", about)
    report = of_pool(view, _ask_all(view, secret), about, target.hosts)
    if secret is None and view.runs:
        report["notes"] = [
            f"the controllers of its runs were not asked, which want the pool's secret: set {pool_secret.FILE}"
        ]
    return report


def _look_at(found: Found) -> Report:
    directory = found.directory
    about = {"kind": str(found.kind), "address": directory.membership_address, "directory": str(directory.path)}
    launcher = "supervisor" if found.kind is Kind.BACKGROUND else "launcher"
    if found.dead:
        words = f"its {launcher} (pid {found.owner}) is dead; what is left of it is removed when the next pool starts"
        return nothing(f"the most recent pool, {directory.path.name}, is gone: {words}", about)
    if process_state(found.owner) == "T":
        reason = f"its {launcher} (pid {found.owner}) is stopped; `kill -CONT {found.owner}` lets it go on"
        return nothing(f"the pool {directory.path.name} does not work: {reason}", about)
    try:
        if found.kind is Kind.BACKGROUND:
            target = pool_target.background(found)
            return look_at_pool(target, {**about, "address": str(target.address)})
        secret = directory.secret.read_text(encoding="ascii").strip()
    except UsageError as error:
        return {**nothing(str(error), about), "status": "degraded"}
    except FileNotFoundError:
        return {**nothing(f"the pool {directory.path.name} is ending", about), "status": "degraded"}
    age = time.time() - found.since
    return _look_at_run(directory.client_socket, secret, about, age)


def _look_at_run(socket: Path, secret: str, about: Report, age: float) -> Report:
    name = about["directory"]
    try:
        return of_run(_ask(f"unix:{socket}", secret), about)
    except NoAnswer as error:
        if error.dead and not socket.exists():
            report = nothing(f"the pool in {name} is starting since {age:.0f} s: it has no controller yet", about)
            return {**report, "status": "degraded"}
        why = "its controller is dead: " if error.dead else "its controller does not answer: "
        return nothing(f"the pool in {name} does not work: {why}{error}", about)


def _ask(address: str, secret: str) -> Report:
    with StatusClient(address, bytes.fromhex(secret)) as client:
        return client.report()


def _ask_all(view: PoolView, secret: str | None) -> dict[str, Report | str]:
    """run -> its report, or why it has none; runs that nobody could ask are left out."""

    def ask(run: RunRecord) -> Report | str | None:
        if secret is None or (run.address.startswith("unix:") and not Path(run.address[5:]).exists()):
            return None  # On another machine.
        try:
            return _ask(run.address, secret)
        except NoAnswer as error:
            return str(error)

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as workers:
        answers = dict(zip(view.runs, workers.map(ask, view.runs.values()), strict=True))
    return {run: answer for run, answer in answers.items() if answer is not None}
