"""The errors of checkpoints on disk. Every text names the file or directory that it is about, and what is wrong."""

from __future__ import annotations


class CheckpointError(Exception):
    """Something cannot be saved to, or loaded from, a checkpoint."""


class BadCheckpointError(CheckpointError):
    """A checkpoint is unfinished, or was changed since it was written."""
