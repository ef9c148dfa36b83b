"""How the command talks to its user: on stderr only, since stdout belongs to scripts; in colour only on a terminal.

Not for: what to say.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from typing import Any, NoReturn

_RED, _FAINT, _END = "\033[31m", "\033[2m", "\033[0m"
_ERASE_LINE = "\r\033[K"


class Parser(argparse.ArgumentParser):
    """argparse with our form of errors: what is wrong and where to read on, in one line.

    Args:
        takes_script: the command's own arguments end where a script begins (its path, ``-m MODULE``, or ``--``); what
            follows, whatever it looks like, becomes the list ``script`` of the result.
    """

    def __init__(self, *, takes_script: bool = False, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)
        self._takes_script = takes_script

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if not self._takes_script:
            return super().parse_known_args(args, namespace)
        own, script = self._split(sys.argv[1:] if args is None else list(args))
        result, unknown = super().parse_known_args(own, namespace)
        if unknown:
            alike = difflib.get_close_matches(unknown[0], self._option_string_actions, 1)
            self.error(f"unknown option {unknown[0]}" + (f" (did you mean {alike[0]}?)" if alike else ""))
        result.script = script
        return result, []

    def error(self, message: str) -> NoReturn:
        error(f"{message}; see `{self.prog} --help`")
        sys.exit(2)

    def _split(self, arguments: list[str]) -> tuple[list[str], list[str]]:
        index = 0
        ours = sum(not action.option_strings for action in self._actions)
        while index < len(arguments):
            argument = arguments[index]
            if argument == "--":
                return arguments[:index], arguments[index + 1 :]
            if argument == "-m" or argument == "-" or not argument.startswith("-"):
                if not ours:
                    return arguments[:index], arguments[index:]
                ours -= 1
            action = self._option_string_actions.get(argument)
            index += 2 if action is not None and action.nargs != 0 else 1
        return arguments, []


def number(text: str) -> int:
    """A whole number on a command line."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # stderr is closed
        return False


def error(text: str) -> None:
    _write(f"elastic: {_paint(_RED, 'error:')} {text}\n")


def note(text: str) -> None:
    _write(f"{_paint(_FAINT, f'elastic: {text}')}\n")


def progress(text: str) -> None:
    """A line that the next `clear_progress` takes away again; only on a terminal."""
    if is_terminal():
        _write(_paint(_FAINT, f"elastic: {text}"))


def clear_progress() -> None:
    if is_terminal():
        _write(_ERASE_LINE)


def _paint(colour: str, text: str) -> str:
    plain = not is_terminal() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"{colour}{text}{_END}"


def _write(text: str) -> None:
    # A terminal that hung up, or a pipe nobody reads, must not end a run.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
