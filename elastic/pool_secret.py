"""A pool's secret: what every process of the pool must know, and what a controller asks of its clients.

It comes from a file or from the environment, never from a command line, which others can read.

    ELASTIC_SECRET_FILE   the file that holds it, as hexadecimal digits
    ELASTIC_SECRET        the digits themselves, where secrets come as variables

The pools of `elastic up` have it in a file beside their socket, where it is found without either. Not for: the user and
password of etcd (`membership.address`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from elastic.errors import UsageError
from membership import PoolAddress

FILE = "ELASTIC_SECRET_FILE"
VALUE = "ELASTIC_SECRET"
LEAST_BYTES = 16

HOW_TO_MAKE = (
    "Make one with `(umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > elastic.secret)`, copy "
    f"that file to each machine of the pool, and set {FILE} to its path"
)


def find(pool: PoolAddress, environment: Mapping[str, str] = os.environ) -> str | None:
    """The secret of a pool as text, or None if nothing says what it is. Raises `UsageError` if it is none."""
    if environment.get(FILE) and environment.get(VALUE):
        raise UsageError(f"{FILE} and {VALUE} are both set; unset one")
    if environment.get(FILE):
        return _from_file(Path(environment[FILE]), f"{FILE}={environment[FILE]}")
    if environment.get(VALUE):
        return _checked(environment[VALUE], VALUE)
    beside = _beside_socket(pool)
    return _from_file(beside, str(beside)) if beside is not None and beside.exists() else None


def need(pool: PoolAddress, environment: Mapping[str, str] = os.environ) -> str:
    """As `find`. Raises `UsageError` also if there is none, and says how to make one."""
    found = find(pool, environment)
    if found is None:
        raise UsageError(f"no secret for the pool {pool}: set {FILE} to the file that holds it. {HOW_TO_MAKE}")
    return found


def _beside_socket(pool: PoolAddress) -> Path | None:
    endpoint = pool.endpoints[0]
    return Path(endpoint.removeprefix("unix:")).parent / "secret" if endpoint.startswith("unix:") else None


def _from_file(path: Path, what: str) -> str:
    try:
        text = path.read_text(encoding="ascii")
    except OSError as error:
        raise UsageError(f"{what} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    return _checked(text, what)


def _checked(text: str, what: str) -> str:
    """Never echoes what it was given."""
    text = text.strip()
    try:
        size = len(bytes.fromhex(text))
    except ValueError:
        size = 0
    if size < LEAST_BYTES:
        raise UsageError(
            f"{what} holds no secret: it must be at least {2 * LEAST_BYTES} hexadecimal digits. {HOW_TO_MAKE}"
        )
    return text
