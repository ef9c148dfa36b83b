"""The command `elastic`: reads the command line and hands over to the module of the command.

One module a command, with `add(subparsers)`, which describes it and names its handler with `set_defaults(handler=...)`.
A handler takes the parsed arguments and returns the exit code; it raises `ElasticError` for what the user can mend.
Modules import what they need to run inside their handlers, so that `elastic --help` is instant. Not for: doing
anything itself.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from collections.abc import Sequence

import elastic
from elastic.cli import chaos, checkpoint, console, diagnose, health, host, run, up

_EPILOG = """\
examples:
  elastic run train.py                           a pool of 4 hosts x 2 devices on this machine, then train.py on it
  elastic run --hosts 8 train.py --steps 100     what follows the script is the script's
  elastic up                                     a pool that stays, for `elastic run --pool local train.py`
  elastic health                                 how the pool and its hosts are
  elastic chaos run smoke train.py               the same script while hosts die, and whether every promise held
  elastic run --help                             everything about `run`
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code: 2 for a wrong command line or setting, 1 for what else failed."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
        code: int = options.handler(options)
        return code
    except elastic.UsageError as error:
        console.error(str(error))
        return 2
    except elastic.ElasticError as error:
        console.error(str(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        # As for other programs in `elastic chaos list | head`; Python must not try to write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _nobody_reads() -> bool:
    """Whether stdout is a pipe whose other end is closed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="elastic",
        description="Runs unmodified JAX programs on a pool of hosts as if it were one machine.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"elastic-jax {elastic.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (run, up, health, host, diagnose, checkpoint, chaos):
        command.add(subparsers)
    return parser
