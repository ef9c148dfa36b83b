"""Checkpoints on disk: a directory with a folder for each step, which Orbax can read and which says what it has to be.

    DIR/120/elastic.json                                the manifest: sizes and checksums of all other files
    DIR/120/state/params.w/c/0/1                        one chunk of one array
    DIR/120/_CHECKPOINT_METADATA, ...                   what Orbax looks at
    DIR/130.elastic-WRITER.orbax-checkpoint-tmp/        step 130, unfinished or on its way out

A step is written under its unfinished name, by any number of processes that share the directory, and renamed when
everything in it is durable; it is renamed back before anything of it is removed. So a folder with the name of a step is
whole, unless somebody changes it. Nothing that was not written by this package is ever removed: a finished step of ours
is known by its manifest, an unfinished one by its name, which it has from its first moment to its last.
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
from checkpoint.files import check_size, exchange, read_checked, sync_directory, write_durably
from checkpoint.manifest import ArrayEntry, FileEntry, Manifest, check_names, decode, encode
from checkpoint.orbax_files import checkpoint_metadata, metadata_files

MANIFEST = "elastic.json"
_UNFINISHED = re.compile(r"(\d+)\.(?:elastic-([^.]+)\.(?:replaced\.)?)?orbax-checkpoint-tmp.*", re.ASCII)
"""Of Orbax, or with the writer's name of ours."""
_FINISHED = re.compile("0|[1-9][0-9]*")


@dataclass(frozen=True)
class Step:
    """What a directory has of one step. `problem` says why it cannot be loaded, "" if nothing is known against it."""

    number: int
    path: Path
    ours: bool
    problem: str = ""

    @property
    def finished(self) -> bool:
        return _FINISHED.fullmatch(self.path.name) is not None


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
            found.append(Step(int(unfinished[1]), path, unfinished[2] is not None, "it was never finished"))
        elif _FINISHED.fullmatch(name):
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


def verify(step: Path, contents: bool = True) -> list[str]:
    """What is wrong with a finished step, a line for each file. Reads every file, or without `contents` only sizes."""
    check = read_checked if contents else check_size
    problems = []
    try:
        manifest = load_manifest(step)
    except BadCheckpointError as error:
        return [str(error)]
    for name, entry in manifest.files.items():
        try:
            check(step / name, entry)
        except BadCheckpointError as error:
            problems.append(str(error))
    return problems


class Unfinished:
    """A step that is being written. Made by `begin`, in the process that will publish it."""

    def __init__(self, root: Path, step: int, writer: str, arrays: tuple[ArrayEntry, ...]) -> None:
        self.step = step
        self.path = _unfinished(root, step, writer)
        """Where its files are to be written until it is published."""
        self.arrays = arrays
        self._root = root
        self._aside = _unfinished(root, step, f"{writer}.replaced")
        self._began = time.time_ns()

    def make(self) -> None:
        """Makes its folders, in place of what an earlier attempt has left. Raises `OSError` if the disk refuses."""
        self._root.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            shutil.rmtree(self.path)
        self.path.mkdir()
        names = [*metadata_files(self.arrays), *(name for entry in self.arrays for name in entry.files())]
        for folder in {(self.path / name).parent for name in names}:
            folder.mkdir(parents=True, exist_ok=True)

    def publish(self, files: Mapping[str, FileEntry], extra: Mapping[str, Any]) -> Path:
        """Makes it a checkpoint, now that the files of all arrays are durable; the result is its folder.

        A finished step of the same number that is ours makes room, in the end. Raises `CheckpointError` if a file of
        an array is missing or of another size, or there is a finished step that is not ours; `OSError` if the disk
        refuses.
        """
        for entry in self.arrays:
            for name in entry.files():
                self._check_written(name, files.get(name))
        texts = {**metadata_files(self.arrays), **checkpoint_metadata(self._began)}
        files = {**files, **{name: write_durably(self.path / name, text) for name, text in texts.items()}}
        write_durably(self.path / MANIFEST, encode(Manifest(self.step, self.arrays, files, extra)))
        for name, _, _ in os.walk(self.path):
            sync_directory(Path(name))
        final = self._root / str(self.step)
        check_place(self._root, self.step)
        if not final.exists():
            os.rename(self.path, final)
        elif not exchange(self.path, final):
            os.rename(final, self._aside)
            os.rename(self.path, final)
        for folder in (self._root, self._root.parent):  # It may be a new one itself.
            sync_directory(folder)
        for replaced in (self.path, self._aside):
            shutil.rmtree(replaced, ignore_errors=True)
        return final

    def abandon(self) -> None:
        """Removes what there is of it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _check_written(self, name: str, expected: FileEntry | None) -> None:
        if expected is None:
            raise CheckpointError(f"nobody has written {name} of step {self.step}")
        if not (self.path / name).exists():
            raise CheckpointError(
                f"{self.path / name} was written and is not there; do all hosts see the same directory?"
            )
        check_size(self.path / name, expected)


def begin(root: Path, step: int, arrays: Iterable[ArrayEntry], writer: str) -> Unfinished:
    """Makes the folder of a step that `writer` is about to write.

    What an earlier attempt of the same writer has left is removed. The writer's name is letters, digits, "-" and "_".
    Raises `CheckpointError` for names that cannot be saved, or if somebody else's step is in the way; `OSError` if the
    disk refuses.
    """
    if not re.fullmatch(r"[\w-]+", writer, re.ASCII):
        raise CheckpointError(f"{writer!r} cannot name a writer: use letters, digits, '-' and '_'")
    arrays = tuple(arrays)
    check_names(arrays)
    check_place(root, step)
    unfinished = Unfinished(root, step, writer, arrays)
    try:
        unfinished.make()
    except BaseException:
        unfinished.abandon()
        raise
    return unfinished


def check_place(root: Path, step: int) -> None:
    """Raises `CheckpointError` if the name of a step is taken by what is not ours to replace."""
    final = root / str(step)
    if final.exists() and not (final / MANIFEST).exists():
        raise CheckpointError(f"{final} is there and was not written by elastic; move it, or save elsewhere")


def tidy(root: Path, keep: Iterable[int], writer: str) -> list[Path]:
    """Removes finished steps of ours that are not to be kept, and what `writer` left unfinished; what went.

    Not while `writer` is writing. Raises `CheckpointError` or `OSError` if the disk refuses.
    """
    kept, gone = set(keep), []
    found = steps(root)
    for step in found:
        if not step.finished and step.path in (
            _unfinished(root, step.number, writer),
            _unfinished(root, step.number, f"{writer}.replaced"),
        ):
            shutil.rmtree(step.path)
            gone.append(step.path)
    for step in found:
        if step.finished and step.ours and step.number not in kept:
            leaving = _unfinished(root, step.number, writer)
            os.rename(step.path, leaving)
            shutil.rmtree(leaving)
            gone.append(step.path)
    return gone


def _unfinished(root: Path, step: int, writer: str) -> Path:
    return root / f"{step}.elastic-{writer}.orbax-checkpoint-tmp"
