"""The proof: a script once without faults and once under a plan, what the checkers say of both, and the report."""

from __future__ import annotations

import json
import random
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from chaos import (
    ChaosError,
    Event,
    History,
    Injection,
    Plan,
    Report,
    cannot_delay,
    dump,
    html,
    parse,
    parse_history,
    settled,
    shrink,
)
from elastic.chaos_run import etcd_members
from elastic.chaos_run.conduct import Conductor
from elastic.chaos_run.guard import Guard
from elastic.chaos_run.live_run import LiveRun
from elastic.errors import UsageError

_LAST_WORDS = 2000
"""Letters of what a script wrote to stderr that are shown when it fails."""


def prove(
    plan: Plan,
    script: Sequence[str],
    directory: Path,
    say: Callable[[str], None],
    *,
    earlier: Path | None = None,
    shrink_runs: int = 0,
) -> Report:
    """Runs the script twice, and writes everything to a directory; the report.

    Args:
        script: SCRIPT ARGS..., or -m MODULE ARGS...
        say: is told what goes on.
        earlier: the directory of a report whose run without faults is used again; else one is made.
        shrink_runs: how many more runs may be made to find fewer faults under which the script still fails.

    Raises `UsageError` if the script fails without faults, if what is to be used again is of another script or pool, or
    if this machine lacks what the plan needs.
    """
    _try_out(plan)
    if plan.needs_delays and (why := cannot_delay()) is not None:
        raise UsageError(f"the plan cannot be carried out here: {why}")
    etcd_members.check(plan.etcd)
    seed = random.randrange(1 << 31) if plan.seed is None else plan.seed
    plan = replace(plan, seed=seed)
    if plan.drawn:
        say(f"seed {seed}")
    if earlier is None:
        clean = _clean(plan, script, directory, say)
    else:
        clean = _earlier(plan, script, earlier)
        _keep(clean, directory, "clean")
    say(f"without faults it took {clean.ended - clean.began:.1f} s; running it under the plan {plan.name} ...")
    chaos, injections = disturbed(plan, script, directory, "chaos", say)
    report = Report.of(plan, clean, chaos, list(script))
    again = settled(plan, injections)
    if not report.held and shrink_runs and len(injections) > 1:
        again = smallest(again, script, directory, clean, shrink_runs, say)
    write(report, again, directory)
    return report


def _try_out(plan: Plan) -> None:
    """Raises `UsageError` if networks or disks cannot be made, sooner than after the run without faults."""
    if plan.needs_networks or plan.needs_disk:
        directory = Path(tempfile.mkdtemp(prefix="chaos-", dir="/dev/shm"))
        Guard(directory, ["probe"] if plan.needs_networks else (), disk=plan.needs_disk).close()


def _keep(history: History, directory: Path, name: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.jsonl").write_text(history.text())


def _clean(plan: Plan, script: Sequence[str], directory: Path, say: Callable[[str], None]) -> History:
    say("running the script without faults ...")
    (directory / "report.json").unlink(missing_ok=True)  # It would vouch for what is of this run now.
    clean = undisturbed(plan, script, directory, "clean")
    if clean.failed:
        last = (directory / "clean.err").read_text(errors="replace")[-_LAST_WORDS:]
        raise UsageError(f"the script fails without any fault, so nothing can be shown; its last words:\n{last}")
    return clean


def _earlier(plan: Plan, script: Sequence[str], report: Path) -> History:
    """The run without faults of an earlier report of the same script on as many devices."""
    try:
        ran = json.loads((report / "report.json").read_text())["script"]
        pool = parse((report / "plan.yaml").read_text())
        clean = parse_history((report / "clean.jsonl").read_text())
    except (OSError, ValueError, KeyError, ChaosError) as error:
        raise UsageError(f"{report} is no directory of a report: {error}") from error
    if ran != list(script):
        raise UsageError(f"{report} is of another script: {shlex.join(ran)}")
    if (devices := pool.hosts * pool.devices_per_host) != plan.hosts * plan.devices_per_host:
        raise UsageError(f"{report} is of a run on {devices} devices, not {plan.hosts * plan.devices_per_host}")
    if clean.failed or not clean.of("ended"):
        raise UsageError(f"the run without faults in {report} has not ended well")
    return clean


def undisturbed(plan: Plan, script: Sequence[str], directory: Path, name: str) -> History:
    """What happens when nothing is done to the run."""
    history, _ = disturbed(replace(plan, faults=()), script, directory, name, lambda _: None)
    return history


def disturbed(
    plan: Plan, script: Sequence[str], directory: Path, name: str, say: Callable[[str], None]
) -> tuple[History, list[Injection]]:
    """What happens under a plan that has a seed, and the faults that were due."""
    pool = {"networks": plan.needs_networks, "machines": plan.needs_machine_pool, "disk": plan.needs_disk}
    with LiveRun(plan, script, directory, name, **pool) as run:
        run.on_event = lambda event: _tell(event, say)
        conductor = Conductor(plan, plan.seed or 0, run)
        history = conductor.conduct()
    _keep(history, directory, name)
    return history, conductor.injections


def smallest(
    plan: Plan, script: Sequence[str], directory: Path, clean: History, most: int, say: Callable[[str], None]
) -> Plan:
    """A part of a plan that draws nothing, under which the script still fails."""

    def fails(faults: Sequence[object]) -> bool:
        part = replace(plan, faults=tuple(fault for fault in plan.faults if fault in faults))
        say(f"shrinking: running it under {len(part.faults)} of {len(plan.faults)} faults ...")
        chaos, _ = disturbed(part, script, directory / "shrink", "run", lambda _: None)
        return not Report.of(part, clean, chaos, list(script)).held

    return replace(plan, faults=tuple(shrink(plan.faults, fails, most)))


def write(report: Report, again: Plan, directory: Path) -> None:
    (directory / "report.json").write_text(report.json())
    (directory / "report.html").write_text(html(report))
    (directory / "plan.yaml").write_text(dump(again))


def _tell(event: Event, say: Callable[[str], None]) -> None:
    hosts = "+".join(event.hosts)
    if event.kind == "injected":
        say(f"fault {event['number']}: {event['fault']} {hosts}".rstrip())
    elif event.kind == "skipped":
        say(f"fault {event['number']}: {event['fault']} {hosts} was not done: {event['why']}")
    elif event.kind == "recovered":
        say(f"host {event.host}: {event['reason']}; the run went on after {sum(event['phases'].values()):.2f} s")
