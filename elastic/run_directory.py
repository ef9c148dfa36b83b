"""The directory of one local run: everything the run leaves on this machine lies in it, so that one removal cleans up.

    elastic-<8 hex>/        mode 0700, in /dev/shm
      owner                 who may remove it: the launcher's pid, start time and pid namespace
      kind                  what it is of, see `Kind`
      client.sock           the controller listens here for the JAX client
      etcd.sock             the membership server listens here for agents and controller
      secret                random token that agents, controller and client share (mode 0600)
      pool.json             of a background pool: its address and size
      memory/               snapshots, a directory for each host
      uploads/              large host buffers on their way from the client to the controller
      logs/                 stderr of controller, agents and executors; a link when the user asked to keep them

A launcher that is killed cannot clean up. Its processes do so when they notice; what they miss is swept at the next
start. Not for: deciding what goes into a run, or starting anything. Linux only.
"""

from __future__ import annotations

import enum
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elastic.errors import PoolError, UsageError

DEFAULT_BASE = Path("/dev/shm")
BASE = "ELASTIC_RUN_BASE"
"""The environment variable that names another directory than /dev/shm for run directories."""
PREFIX = "elastic-"
MIN_FREE_BYTES = 64 << 20
_NAME = re.compile(PREFIX + "[0-9a-f]{8}")
# A directory without an owner file was either created this instant or its launcher died within the same instant.
_OWNERLESS_GRACE_S = 60.0
# Linux: sockaddr_un.sun_path holds 108 bytes, one of them a terminating zero.
_MAX_SOCKET_PATH = 107
_PF_EXITING = 0x4  # include/linux/sched.h


class Kind(enum.StrEnum):
    """What a directory is of."""

    PRIVATE = "private"
    """A run with a pool of its own, as of `elastic run` or `elastic.init`."""
    BACKGROUND = "background"
    """A pool that stays between runs, of `elastic up`."""
    JOINED = "joined"
    """A run on a pool that is not in this directory, of `elastic run --pool`."""
    HOST = "host"
    """One host of a pool, of `elastic host`."""


@dataclass(frozen=True)
class Found:
    """A directory of this user that is there, and how it is with its owner, the launcher.

    Attributes:
        owner: the launcher's pid; 0 if that is not known.
        dead: whether the launcher is.
        since: when the directory was made, in seconds since the epoch.
    """

    directory: RunDirectory
    kind: Kind
    owner: int
    dead: bool
    since: float


@dataclass(frozen=True)
class RunDirectory:
    """Where the files of one run are."""

    path: Path

    @property
    def client_socket(self) -> Path:
        return self.path / "client.sock"

    @property
    def membership_socket(self) -> Path:
        return self.path / "etcd.sock"

    @property
    def membership_address(self) -> str:
        """The pool's address, for agents and controller."""
        return f"etcd://unix:{self.membership_socket}"

    @property
    def secret(self) -> Path:
        return self.path / "secret"

    @property
    def pool_file(self) -> Path:
        """What a background pool says of itself, as JSON."""
        return self.path / "pool.json"

    @property
    def uploads(self) -> Path:
        return self.path / "uploads"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def address(self) -> str:
        """The address at which a JAX client of this machine reaches the controller."""
        return f"grpc://unix:{self.client_socket}"

    def remove(self) -> None:
        """Removes the directory and all in it; fine if someone else does the same at this moment."""
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_if_orphaned(self) -> None:
        """Removes the directory unless its launcher lives and will do so itself; for the launcher's children."""
        if _is_dead(_read_owner(self.path)):
            self.remove()


def create(
    base: Path | None = None, log_dir: Path | None = None, *, kind: Kind = Kind.PRIVATE, secret: str | None = None
) -> RunDirectory:
    """Makes the directory of a new run that this process owns.

    Args:
        base: where to make it; /dev/shm by default, since uploads go through it at memory speed.
        log_dir: a directory that keeps the logs after the run; without it they go with the run.
        kind: what it is of.
        secret: of the pool that it is for, as text; without it a new one is made.

    Raises:
        PoolError: ``base`` is missing, read-only or too small.
        UsageError: ``log_dir`` cannot be made, or the path is too long for a socket.
    """
    base = _base() if base is None else base
    _check_space(base)
    path = base / f"{PREFIX}{secrets.token_hex(4)}"
    directory = RunDirectory(path)
    if len(os.fsencode(directory.client_socket)) > _MAX_SOCKET_PATH:
        raise UsageError(f"{directory.client_socket} is too long for a Unix socket; choose a shorter base directory")
    if log_dir is not None:
        try:
            log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the log directory {log_dir}: {error.strerror}; choose another") from error
    try:
        path.mkdir(mode=0o700)
        (path / "owner").write_text(_identity(os.getpid()))
        (path / "kind").write_text(kind)
        descriptor = os.open(directory.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secret or secrets.token_hex(32))
        directory.uploads.mkdir(mode=0o700)
        if log_dir is None:
            directory.logs.mkdir(mode=0o700)
        else:
            directory.logs.symlink_to(log_dir.resolve(), target_is_directory=True)
    except OSError as error:
        directory.remove()
        raise PoolError(f"cannot write to {base}: {error.strerror}; make it writable for this user") from error
    return directory


def sweep(base: Path | None = None) -> list[Path]:
    """Removes directories of this user whose launcher is dead; returns which."""
    removed = []
    for path, status in _mine(base):
        owner = _read_owner(path)
        if _is_dead(owner) if owner else time.time() - status.st_mtime > _OWNERLESS_GRACE_S:
            RunDirectory(path).remove()
            removed.append(path)
    return removed


def find(base: Path | None = None) -> list[Found]:
    """The directories of this user, the newest first; those of other containers are left out."""
    found = []
    for path, _ in _mine(base):
        try:
            since = (path / "owner").stat().st_mtime
            kind = Kind((path / "kind").read_text())
        except (OSError, ValueError):
            continue  # It is being made or removed at this moment.
        owner = _read_owner(path)
        pid, _, namespace = owner.strip().split(" ", 2) if owner.count(" ") >= 2 else ("0", "", "")
        if namespace in ("", os.readlink("/proc/self/ns/pid")):
            found.append(Found(RunDirectory(path), kind, int(pid), _is_dead(owner), since))
    return sorted(found, key=lambda one: one.since, reverse=True)


def _base() -> Path:
    return Path(os.environ.get(BASE) or DEFAULT_BASE)


def _mine(base: Path | None) -> Iterator[tuple[Path, os.stat_result]]:
    for path in (_base() if base is None else base).glob(f"{PREFIX}*"):
        try:
            status = path.lstat()
        except OSError:
            continue
        if _NAME.fullmatch(path.name) and stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
            yield path, status


def _check_space(base: Path) -> None:
    remedy = "in a container, start it with `docker run --shm-size=1g`" if base == DEFAULT_BASE else "choose another"
    if not base.is_dir():
        raise PoolError(f"{base} does not exist, and a local pool keeps its shared memory there; {remedy}")
    status = os.statvfs(base)
    free = status.f_bavail * status.f_frsize
    if free < MIN_FREE_BYTES:
        raise PoolError(
            f"{base} has {free >> 20} MiB free, and a local pool needs at least {MIN_FREE_BYTES >> 20} MiB of shared "
            f"memory; {remedy}"
        )


def _identity(pid: int) -> str:
    """What tells this process from a later one with the same pid, and from one of another container."""
    return f"{pid} {_start_time(pid)} {os.readlink('/proc/self/ns/pid')}\n"


def _read_owner(path: Path) -> str:
    try:
        return (path / "owner").read_text()
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """The process's start in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)); empty if it has ended.

    A process that is ending has closed its files, which its children notice, before it is a zombie.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    state, flags, start = fields[0], int(fields[6]), fields[19]
    return "" if state in "ZX" or flags & _PF_EXITING else start


def _is_dead(owner: str) -> bool:
    pid, _, rest = owner.strip().partition(" ")
    start, _, namespace = rest.partition(" ")
    if not pid.isdigit() or not start:
        return True
    if namespace != os.readlink("/proc/self/ns/pid"):
        return False  # Another container that shares this /dev/shm: its pids mean nothing here.
    return _start_time(int(pid)) != start
