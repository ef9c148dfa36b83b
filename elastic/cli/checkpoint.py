"""`elastic checkpoint ls|verify`: what checkpoints are there, and whether they are whole."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from checkpoint import BadCheckpointError, CheckpointError, Step, load_manifest, steps, verify
from elastic.cli import health_text
from elastic.cli.console import number
from elastic.errors import UsageError

_DESCRIPTION = """\
Shows checkpoints that `elastic.wrap` or a run has written. PATH is a directory of them, or the folder of one step."""

_LS = """\
Lists all steps, newest first, and says of each whether all its files are there and of the right size. It reads no
values.

The exit code is 0 if every checkpoint is whole, 1 if one is not, 2 if there is none."""

_VERIFY = """\
Reads every file of the checkpoints and compares it with the checksum that was taken when it was written.

The exit code is 0 if every checkpoint is whole, 1 if one is not, 2 if there is none. What was never finished, or was
written by others, is told and does not count."""

_EPILOG = """\
examples:
  elastic checkpoint ls runs/a                    what is there
  elastic checkpoint verify runs/a                whether all of it is whole
  elastic checkpoint verify runs/a --step 1200    one step; so does `elastic checkpoint verify runs/a/1200`
"""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "checkpoint", help="list and verify checkpoints on disk", description=_DESCRIPTION, epilog=_EPILOG
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    ls = commands.add_parser("ls", help="list what is there", description=_LS)
    check = commands.add_parser("verify", help="compare everything with its checksums", description=_VERIFY)
    check.add_argument("--step", type=number, metavar="N", help="only this step")
    for command in (ls, check):
        command.add_argument("path", type=Path, metavar="PATH", help="a directory of checkpoints, or one of them")
        command.add_argument("--json", action="store_true", help="a report for programs, one line")
    ls.set_defaults(handler=lambda options: _handle(options, contents=False, only=None))
    check.set_defaults(handler=lambda options: _handle(options, contents=True, only=options.step))


def _handle(options: argparse.Namespace, *, contents: bool, only: int | None) -> int:
    found = [step for step in _steps(options.path) if only is None or step.number == only]
    if not found:
        which = "no checkpoint" if only is None else f"no checkpoint of step {only}"
        raise UsageError(f"there is {which} in {options.path}")
    reports = []
    for step in found:
        reports.append(_report(step, contents))
        if not options.json:
            print(_line(reports[-1], contents), flush=True)
            for problem in reports[-1]["problems"]:
                print(f"    {problem}")
    ours = [report for report in reports if report["state"] in ("whole", "bad")]
    code = 2 if not ours else 1 if any(report["state"] == "bad" for report in ours) else 0
    if options.json:
        print(json.dumps({"path": str(options.path), "contents_read": contents, "steps": reports}))
    return code


def _steps(path: Path) -> list[Step]:
    """Raises `UsageError` if the path is no directory."""
    if not path.is_dir():
        raise UsageError(f"{path} is no directory; give one of checkpoints, or the folder of one step")
    path = path.resolve()
    try:
        return steps(path) or [step for step in steps(path.parent) if step.path == path]
    except CheckpointError as error:
        raise UsageError(str(error)) from error


def _report(step: Step, contents: bool) -> dict[str, Any]:
    """State: "whole", "bad", "unfinished", or "foreign" for what others wrote. Sizes are bytes."""
    report = {"step": step.number, "path": str(step.path), "arrays": None, "files": None, "bytes": None}
    if not step.finished:
        return {**report, "state": "unfinished" if step.ours else "foreign", "problems": [step.problem]}
    if step.problem:
        return {**report, "state": "foreign", "problems": [step.problem]}
    problems = verify(step.path, contents)
    try:
        manifest = load_manifest(step.path)
    except BadCheckpointError:
        pass  # It is among the problems.
    else:
        size = sum(entry.bytes for entry in manifest.files.values())
        report |= {"arrays": len(manifest.arrays), "files": len(manifest.files), "bytes": size}
    return {**report, "state": "bad" if problems else "whole", "problems": problems}


def _line(report: dict[str, Any], contents: bool) -> str:
    count = len(report["problems"])
    state = {
        "whole": "whole" if contents else "all files are there",
        "bad": f"BAD: {count} problem{'' if count == 1 else 's'}",
        "unfinished": "unfinished",
        "foreign": "not written by elastic",
    }[report["state"]]
    sizes = "" if report["bytes"] is None else f"  {report['arrays']} arrays, {health_text.size(report['bytes'])}"
    return f"step {report['step']:>8}{sizes}  {state}"
