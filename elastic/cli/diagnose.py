"""`elastic diagnose`: which part of a pool does not answer, and what it is doing instead."""

from __future__ import annotations

import argparse
from typing import Any

_DESCRIPTION = """\
Asks every part of a pool for a sign of life, etcd, controllers, agents and executors, and shows how long each took. Of
parts on this machine that do not answer it shows the stacks.

Without --pool it asks this user's most recent pool on this machine. The exit code is 0 if everything answers, 1 if
something does not."""

_EPILOG = """\
examples:
  elastic diagnose                        this user's most recent pool on this machine
  elastic diagnose --pool etcd://h1/p     a pool of machines; ELASTIC_SECRET_FILE names the file with its secret
"""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "diagnose", help="find the part of a pool that does not answer", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("--pool", metavar="URL", help="the pool's etcd, such as etcd://h1:2379,h2:2379/mypool")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    from elastic import diagnosis

    target, findings = diagnosis.target_of(options.pool)
    findings += diagnosis.diagnose(target)
    print(f"pool {target.address}")
    for finding in findings:
        answered = f"{finding.seconds * 1e3:.0f} ms" if finding.well else "NO ANSWER"
        print(f"  {finding.name}: {answered}" + (f", {finding.words}" if finding.words else ""))
        for line in finding.inside.splitlines():
            print(f"      {line}")
    silent = sum(not finding.well for finding in findings)
    print("everything answers" if not silent else f"{silent} of {len(findings)} parts do not answer")
    return 1 if silent else 0
