"""`elastic chaos`: a script under a plan of faults, and whether every promise held."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic.cli import console
from elastic.cli.console import number
from elastic.cli.run import check_script
from elastic.errors import UsageError

if TYPE_CHECKING:
    from chaos import Plan

_DESCRIPTION = """\
Runs a JAX script twice on pools of hosts on this machine: once without faults, and once under a plan by which hosts are
killed, frozen, slowed down and preempted. Then says whether every promise held, what it cost, and what happened when.

The script needs no change. Its steps are the lines that it prints such as "step 12 ..." (a plan may say otherwise). The
exit code is 0 only if every check held."""

_EPILOG = """\
examples:
  elastic chaos list                                       the faults, and the plans that come with elastic
  elastic chaos run smoke train.py --steps 50              a plan that comes with elastic
  elastic chaos run plan.yaml --out DIR -- train.py        a plan of your own; the report goes to DIR
  elastic chaos run soak --seed 7 -- train.py              draws the same again as another run with this seed
  elastic chaos schema                                     what a plan may hold, as a JSON schema
"""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "chaos", help="run a script under faults and check every promise", description=_DESCRIPTION, epilog=_EPILOG
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    run = commands.add_parser(
        "run",
        takes_script=True,
        help="run a script without and with faults, and compare",
        usage="elastic chaos run PLAN [options] [--] SCRIPT [ARGS...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    run.add_argument("plan", metavar="PLAN", help="a YAML file, or the name of a plan that comes with elastic")
    run.add_argument("--out", type=Path, default=Path("chaos-report"), metavar="DIR", help="default: %(default)s")
    run.add_argument("--json", action="store_true", help="print the report as JSON, not as text")
    run.add_argument("--hosts", type=number, metavar="N", help="hosts of the pool (default: as the plan says)")
    run.add_argument("--devices-per-host", type=number, metavar="D", help="devices of each (default: as the plan says)")
    run.add_argument("--etcd", choices=("embedded", "1", "3"), help="what serves the pool (default: as the plan says)")
    run.add_argument("--seed", type=number, metavar="S", help="what the plan draws is drawn from it")
    run.add_argument(
        "--clean",
        type=Path,
        metavar="DIR",
        help="compare with the run without faults of an earlier report of the same script, instead of making one",
    )
    run.add_argument(
        "--shrink",
        type=number,
        default=0,
        metavar="N",
        help="if a check fails, run the script up to N times more to find few faults that suffice for it",
    )
    run.set_defaults(handler=handle_run)
    commands.add_parser("list", help="the faults and the plans there are").set_defaults(handler=handle_list)
    commands.add_parser("schema", help="the form of a plan").set_defaults(handler=handle_schema)


def handle_run(options: argparse.Namespace) -> int:
    plan = find(options.plan)
    check_script(options.script)
    # Not sooner: `elastic --help` need not wait for it.
    import dataclasses

    from chaos import PlanError, dump, parse, text
    from elastic.chaos_run.proof import prove

    given = {name: getattr(options, name) for name in ("seed", "hosts", "devices_per_host", "etcd")}
    plan = dataclasses.replace(plan, **{name: value for name, value in given.items() if value is not None})
    try:
        parse(dump(plan))
    except PlanError as error:
        raise UsageError(f"{options.plan}: {error}") from error
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    again = {"earlier": options.clean, "shrink_runs": options.shrink}
    report = prove(plan, options.script, options.out, console.note, **again)
    print(report.json() if options.json else text(report))
    console.note(f"the report is in {options.out / 'report.html'}; {options.out / 'plan.yaml'} does the same again")
    return 0 if report.held else 1


def handle_list(_: argparse.Namespace) -> int:
    from chaos import FAULTS, ready_made

    print("faults:")
    for fault in FAULTS.values():
        print(f"  {fault.name:16} {fault.explanation}")
    print("plans:")
    for plan in ready_made().values():
        print(f"  {plan.name:16} {plan.description}")
    return 0


def handle_schema(_: argparse.Namespace) -> int:
    from chaos import schema

    print(json.dumps(schema(), indent=1))
    return 0


def find(name: str) -> Plan:
    """The plan of a file, or one that comes with elastic. Raises `UsageError`."""
    from chaos import PlanError, parse, ready_made

    path = Path(name)
    try:
        if path.is_file():
            return parse(path.read_text(encoding="utf-8"))
        plans = ready_made()
    except (PlanError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: {error}") from error
    if name not in plans:
        raise UsageError(f"there is no plan {name!r}: it is no file, and none of {', '.join(plans)}")
    return plans[name]
