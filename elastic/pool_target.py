"""A pool as a command line names it: a URL, or the word "local" for the pool of `elastic up` on this machine.

Not for: talking to the pool.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastic import pool_secret, run_directory
from elastic.errors import UsageError
from elastic.run_directory import Found, Kind, RunDirectory
from membership import PASSWORD, PASSWORD_FILE, MembershipError, PoolAddress

LOCAL = "local"


@dataclass(frozen=True)
class Target:
    """A pool and how to get in.

    Attributes:
        secret: the pool's, as text; None if nothing says what it is.
        variables: what processes need in their environment to reach its etcd.
        hosts: how many it should have at least; 0 if nobody says.
    """

    address: PoolAddress
    secret: str | None = field(repr=False)
    variables: Mapping[str, str] = field(default_factory=dict)
    hosts: int = 0

    def need_secret(self) -> str:
        """The secret. Raises `UsageError` if there is none, and says how to make one."""
        return self.secret or pool_secret.need(self.address, {})


def resolve(text: str, base: Path | None = None, environment: Mapping[str, str] = os.environ) -> Target:
    """The pool that `text` names. Raises `UsageError`."""
    if text == LOCAL:
        living = [one for one in run_directory.find(base) if one.kind is Kind.BACKGROUND and not one.dead]
        if not living:
            raise UsageError("no pool is up on this machine; start one with `elastic up`")
        return background(living[0])
    try:
        address = PoolAddress.parse(text, environment)
    except MembershipError as error:
        raise UsageError(str(error)) from error
    return Target(address, pool_secret.find(address, environment))


def background(found: Found) -> Target:
    """The pool of a directory of `elastic up`. Raises `UsageError` if it is not up yet, or ends at this moment."""
    directory, about, secret = found.directory, saved(found.directory), ""
    with contextlib.suppress(OSError):
        secret = directory.secret.read_text(encoding="ascii").strip()
    if about is None or not secret:
        raise UsageError(f"the pool {directory.path.name} is starting, or ending; try again")
    variables = {PASSWORD_FILE: str(directory.secret)} if about["user"] else {}
    address = PoolAddress.parse(about["address"], {PASSWORD: secret} if about["user"] else {})
    return Target(address, secret, variables, about["hosts"])


def saved(directory: RunDirectory) -> dict[str, Any] | None:
    """What `save` left there, or None: the pool is not up yet, or not any more."""
    try:
        found: dict[str, Any] = json.loads(directory.pool_file.read_text())
        return found
    except (OSError, ValueError):
        return None


def save(directory: RunDirectory, address: str, hosts: int, devices_per_host: int) -> None:
    """Leaves in a directory what `background` reads there: the pool is up."""
    user = "@" in address
    about = {"address": address, "user": user, "hosts": hosts, "devices_per_host": devices_per_host}
    unfinished = directory.pool_file.with_suffix(".new")
    unfinished.write_text(json.dumps(about))
    unfinished.rename(directory.pool_file)
