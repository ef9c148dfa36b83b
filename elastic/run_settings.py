"""The settings of a run that concern its controller and not its hosts: whether they can work, and how they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoint import CheckpointError, Protection
from elastic import pool_size
from elastic.controller.placement import Policy
from elastic.errors import UsageError

if TYPE_CHECKING:
    from elastic.local_pool import LocalPool


def check(pool: LocalPool) -> None:
    """Raises `UsageError` if a setting cannot work, or if a directory or file that it names cannot be made."""
    if not 0 <= pool.snapshot_budget < 1:
        raise UsageError(f"a snapshot budget is a share of the time, from 0 to below 1; it is {pool.snapshot_budget}")
    try:
        Protection.parse(pool.protect).check_codec()
    except (ValueError, CheckpointError) as error:
        raise UsageError(str(error)) from error
    if pool.on_loss not in list(Policy):
        raise UsageError(f"on a loss one may {', '.join(Policy)}; {pool.on_loss!r} is none of these")
    if pool.checkpoint is not None:
        try:
            pool.checkpoint.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise UsageError(f"checkpoints cannot be stored in {pool.checkpoint}: {why}") from error
    if pool.checkpoint_every <= 0:
        raise UsageError(f"checkpoints are stored every so many seconds, more than 0; not {pool.checkpoint_every}")
    _check_verifying(pool)
    if pool.listen is not None:
        pool_size.check_listen(pool.listen)
    if pool.metrics is not None:
        pool_size.check_metrics(pool.metrics)
    if pool.trace is not None:
        try:
            pool.trace.write_bytes(b"")
        except OSError as error:
            raise UsageError(f"the trace cannot be written to {pool.trace}: {error.strerror}") from error


def _check_verifying(pool: LocalPool) -> None:
    if pool.verify_every < 0:
        raise UsageError(f"one in so many intervals is verified, 0 for none; not {pool.verify_every}")
    if pool.verify_every and pool.hosts + pool.spares < 2:
        raise UsageError("with one host results cannot be verified: it takes another one; ask for 2 hosts, or more")
    if pool.verify_every and pool.on_loss == Policy.SURFACE:
        raise UsageError(
            "a run with --verify-every goes back to what it has verified, which --on-loss surface does not know of; "
            "leave one of them out"
        )


def arguments(pool: LocalPool) -> list[str]:
    """The settings as options of `python -m elastic.controller`."""
    command = ["--snapshot-budget", str(pool.snapshot_budget), "--protect", pool.protect]
    command += ["--on-loss", pool.on_loss]
    if pool.checkpoint is not None:
        command += ["--checkpoint", str(pool.checkpoint), "--checkpoint-every", str(pool.checkpoint_every)]
    if pool.verify_every:
        command += ["--verify-every", str(pool.verify_every)]
    if pool.listen is not None:
        command += ["--listen", pool.listen]
    if pool.metrics is not None:
        command += ["--metrics", pool.metrics]
    if pool.trace is not None:
        command += ["--trace", str(pool.trace)]
    return command
