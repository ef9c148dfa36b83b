"""Checkpoints on disk: a directory with a folder for each step, which Orbax can read and which says what it has to be.

    DIR/120/elastic.json                  the manifest: sizes and checksums of all files with values
    DIR/120/state/params.w/c/0/1          one chunk of one array
    DIR/120/_CHECKPOINT_METADATA, ...     what Orbax looks at
    DIR/130.RUN.orbax-checkpoint-tmp/     step 130, unfinished, by the run RUN

A step is written under its unfinished name, by any number of processes that share the directory, and renamed when
everything in it is durable. So a folder with the name of a step is whole, unless somebody changes it. Nothing that was
not written by this package is ever removed.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint.errors import BadCheckpointError, CheckpointError
from checkpoint.files import read_checked, sync_directory, write_durably
from checkpoint.manifest import ArrayEntry, FileEntry, Manifest, check_names, decode, encode
from checkpoint.orbax_files import checkpoint_metadata, metadata_files

MANIFEST = "elastic.json"
_OURS = ".elastic"
"""A file that an unfinished step of ours has from its beginning."""
_UNFINISHED = re.compile(r"(\d+)(\.[^.]+)?\.orbax-checkpoint-tmp.*")


@dataclass(frozen=True)
class Step:
    """What a directory has of one step. `problem` says why it cannot be loaded, "" if nothing is known against it."""

    number: int
    path: Path
    ours: bool
    problem: str = ""

    @property
    def finished(self) -> bool:
        return self.path.name.isdecimal()


def steps(root: Path) -> list[Step]:
    """All steps, whatever their state, newest first; a finished one before unfinished ones of its number.

    No values are looked at. Raises `CheckpointError` if the directory cannot be read.
    """
    try:
        names = [path.name for path in root.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{root} cannot be read: {error.strerror or error}") from error
    found = []
    for name in names:
        path = root / name
        unfinished = _UNFINISHED.fullmatch(name)
        if unfinished:
            found.append(Step(int(unfinished[1]), path, (path / _OURS).exists(), "it was never finished"))
        elif name.isdecimal():
            ours = (path / MANIFEST).exists()
            found.append(Step(int(name), path, ours, "" if ours else f"it has no {MANIFEST}: not written by elastic"))
    return sorted(found, key=lambda step: (-step.number, not step.finished, step.path.name))


def load_manifest(step: Path) -> Manifest:
    """Raises `BadCheckpointError`, which names the file."""
    try:
        return decode((step / MANIFEST).read_bytes())
    except OSError as error:
        raise BadCheckpointError(f"{step / MANIFEST} cannot be read: {error.strerror or error}") from error
    except BadCheckpointError as error:
        raise BadCheckpointError(f"{step / MANIFEST}: {error}") from error


def verify(step: Path) -> list[str]:
    """What is wrong with a finished step, a line for each file; reads everything."""
    try:
        manifest = load_manifest(step)
    except BadCheckpointError as error:
        return [str(error)]
    problems = []
    for name, entry in manifest.files.items():
        try:
            read_checked(step / name, entry)
        except BadCheckpointError as error:
            problems.append(str(error))
    expected = {**metadata_files(manifest.arrays)}
    for name, content in expected.items():
        try:
            if (step / name).read_bytes() != content:
                problems.append(f"{step / name} was changed")
        except OSError as error:
            problems.append(f"{step / name} cannot be read: {error.strerror or error}")
    return problems


class Unfinished:
    """A step that is being written. Made by `begin`, in the process that will publish it."""

    def __init__(self, root: Path, step: int, path: Path, arrays: tuple[ArrayEntry, ...]) -> None:
        self.step = step
        self.path = path
        """Where its files are to be written until it is published."""
        self.arrays = arrays
        self._root = root
        self._began = time.time_ns()

    def publish(self, files: Mapping[str, FileEntry], extra: Mapping[str, Any]) -> Path:
        """Makes it a checkpoint, now that all its files are durable; the result is its folder.

        A finished step of the same number that is ours makes room, in the end. Raises `CheckpointError` if a file of
        an array is missing or of another size, or there is a finished step that is not ours; `OSError` if the disk
        refuses.
        """
        for entry in self.arrays:
            for name in entry.files():
                expected = files.get(name)
                if expected is None:
                    raise CheckpointError(f"nobody has written {name} of step {self.step}")
                try:
                    size = (self.path / name).stat().st_size
                except FileNotFoundError:
                    raise CheckpointError(
                        f"{self.path / name} was written and is not there; do all hosts see the same directory?"
                    ) from None
                if size != expected.bytes:
                    raise CheckpointError(f"{self.path / name} has {size} bytes instead of {expected.bytes}")
        write_durably(self.path / MANIFEST, encode(Manifest(self.step, self.arrays, files, extra)))
        for name, content in checkpoint_metadata(self._began).items():
            write_durably(self.path / name, content)
        (self.path / _OURS).unlink(missing_ok=True)
        sync_directory(self.path)
        final = self._root / str(self.step)
        before = self._make_room(final)
        os.rename(self.path, final)
        sync_directory(self._root)
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)
        return final

    def _make_room(self, final: Path) -> Path | None:
        if not final.exists():
            return None
        if not (final / MANIFEST).exists():
            raise CheckpointError(f"{final} is there and was not written by elastic; move it, or save elsewhere")
        aside = final.with_name(f"{final.name}.replaced-{os.getpid()}.orbax-checkpoint-tmp")
        (final / _OURS).touch()
        os.rename(final, aside)
        return aside

    def abandon(self) -> None:
        """Removes what there is of it."""
        shutil.rmtree(self.path, ignore_errors=True)


def begin(root: Path, step: int, arrays: Iterable[ArrayEntry], writer: str) -> Unfinished:
    """Makes the folder of a step that `writer` is about to write, with all that is known before its values are.

    What an earlier attempt of the same writer has left is removed. Raises `CheckpointError` for names that cannot be
    saved, `OSError` if the disk refuses.
    """
    arrays = tuple(arrays)
    check_names(arrays)
    path = root / f"{step}.{writer}.orbax-checkpoint-tmp"
    if (path / _OURS).exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    (path / _OURS).touch()
    unfinished = Unfinished(root, step, path, arrays)
    try:
        for name, content in metadata_files(arrays).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_durably(path / name, content)
        for folder in {(path / name).parent for entry in arrays for name in entry.files()}:
            folder.mkdir(parents=True, exist_ok=True)
    except BaseException:
        unfinished.abandon()
        raise
    return unfinished


def tidy(root: Path, keep: Iterable[int], writer: str) -> list[Path]:
    """Removes finished steps of ours that are not to be kept, and what `writer` left unfinished; what went.

    A step is unfinished from the first moment of its removal, so that who is killed here leaves no half of one.
    """
    kept, gone = set(keep), []
    for step in steps(root):
        if step.finished and step.ours and step.number not in kept:
            aside = step.path.with_name(f"{step.number}.{writer}.orbax-checkpoint-tmp")
            (step.path / _OURS).touch()
            os.rename(step.path, aside)
            shutil.rmtree(aside, ignore_errors=True)
            gone.append(step.path)
        elif not step.finished and step.ours and step.path.name.startswith(f"{step.number}.{writer}."):
            shutil.rmtree(step.path, ignore_errors=True)
            gone.append(step.path)
    return gone
