"""`elastic health`: hosts, placement, snapshots and the last failures of a pool, once or live."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from elastic.cli import health_text

_DESCRIPTION = """\
Shows the hosts of a pool with their state and its reason, where the virtual devices are, the age of the snapshot that a
recovery would begin from, and the last changes: who was lost, how that was noticed, what was done, how long it took.

Without --pool it shows this user's most recent pool on this machine. The exit code is 0 if the pool is healthy, 1 if
it is degraded, 2 if it is down."""

_EPILOG = """\
examples:
  elastic health                             this user's most recent pool on this machine
  elastic health --watch                     the same, live, until Ctrl-C
  elastic health --json | jq .status         for programs
  elastic health --pool etcd://h1,h2,h3/p    a pool of real machines; ELASTIC_SECRET_FILE names the file with its secret
"""

_EVERY_S = 1.0
"""Seconds between two looks of --watch."""

_COLOURS = {"good": "green", "warn": "yellow", "bad": "bold red", "faint": "dim", "strong": "bold"}


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "health", help="show how a pool and its hosts are", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("--pool", metavar="URL", help="the pool's etcd, such as etcd://h1:2379,h2:2379/mypool")
    parser.add_argument("--json", action="store_true", help="a report for programs, one line")
    parser.add_argument("--watch", action="store_true", help="show it again every second, until Ctrl-C")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    from elastic import health
    from elastic.health_report import EXIT_CODES

    show: Callable[[dict[str, Any]], None] = _print_json if options.json else _print_text
    report = health.look(options.pool)
    if not options.watch:
        show(report)
        return EXIT_CODES[report["status"]]
    last = [report]
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _watch(options, lambda: health.look(options.pool), last, show)
    return EXIT_CODES[last[-1]["status"]]


def _watch(
    options: argparse.Namespace,
    look: Callable[[], dict[str, Any]],
    last: list[dict[str, Any]],
    show: Callable[[dict[str, Any]], None],
) -> None:
    if options.json or not sys.stdout.isatty():
        while True:
            show(last[-1])
            _pause()
            last[:] = [look()]
    from rich.live import Live

    with Live(_rich(last[-1]), auto_refresh=False) as live:
        while True:
            _pause()
            last[:] = [look()]
            live.update(_rich(last[-1]), refresh=True)


def _pause() -> None:
    time.sleep(_EVERY_S)


def _print_json(report: dict[str, Any]) -> None:
    print(json.dumps(report), flush=True)


def _print_text(report: dict[str, Any]) -> None:
    if not sys.stdout.isatty():
        print(health_text.plain(report), flush=True)
        return
    from rich.console import Console

    Console().print(_rich(report))


def _rich(report: dict[str, Any]) -> Any:
    from rich.text import Text

    text = Text()
    for line in health_text.lines(report):
        for piece, style in line:
            text.append(piece, _COLOURS.get(style, ""))
        text.append("\n")
    text.rstrip()
    return text
