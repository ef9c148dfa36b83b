"""Checkpoints of small arrays for tests, and a writer that is killed at a point of its life.

A point is an audit event of Python that names a path in the directory: each file opened, folder made, name changed or
removed. So whatever a save does, it is killed before each of these.
"""

import itertools
import multiprocessing
import os
import signal
import sys

import ml_dtypes
import numpy as np

import checkpoint

WRITER = "client"
_forking = multiprocessing.get_context("forkserver")


def arrays(step=0):
    """One of each kind, other values in each step: (path, shape of chunks, values, implementation of keys)."""
    rng = np.random.default_rng(step)
    return [
        (("params", "w"), (2, 3), rng.normal(size=(5, 6)).astype(np.float32), None),
        (("params", "b"), (4,), rng.normal(size=8).astype(ml_dtypes.bfloat16), None),
        (("opt", 0, "mu"), (2, 6), rng.normal(size=(4, 6)).astype(ml_dtypes.float8_e4m3fn), None),
        (("opt", 1), (), np.int32(step).reshape(()), None),
        (("mask",), (3,), rng.random(5) < 0.5, None),
        (("wave",), (1,), rng.normal(size=2) + 1j * rng.normal(size=2), None),
        (("four",), (8,), rng.integers(-8, 8, 8).astype(ml_dtypes.int4), None),
        (("none",), (1, 3), np.zeros((0, 3), np.float32), None),
        (("key",), (2,), rng.integers(0, 1 << 32, 2, np.uint32), "threefry2x32"),
        (("keys",), (1, 2), rng.integers(0, 1 << 32, (3, 2), np.uint32), "threefry2x32"),
    ]


def entry(path, chunk, values, implementation):
    return checkpoint.ArrayEntry(path, values.dtype.name, values.shape, chunk, implementation)


def save(root, step, few=False):
    """Returns the folder. With `few`, two arrays only."""
    given = arrays(step)[:2] if few else arrays(step)
    entries = [entry(*array) for array in given]
    unfinished = checkpoint.begin(root, step, entries, WRITER)
    files = {}
    for (_, _, values, _), described in zip(given, entries, strict=True):
        files |= checkpoint.write_region(unfinished.path, described, checkpoint.whole(values.shape), values)
    return unfinished.publish(files, {"step": step})


def save_and_tidy(root, step, last):
    save(root, step, few=True)
    ours = [found.number for found in checkpoint.steps(root) if found.finished and found.ours]
    return checkpoint.tidy(root, checkpoint.Retention(last).keeps(ours), WRITER)


def is_of_step(folder, step):
    """Whether all values are those that this step was saved with."""
    manifest = checkpoint.load_manifest(folder)
    return manifest.step == step and all(
        np.array_equal(
            checkpoint.read_region(folder, manifest, described, checkpoint.whole(described.shape)),
            next(values for path, _, values, _ in arrays(step) if path == described.path),
        )
        for described in manifest.arrays
    )


def killed_saves(make_root, step, last):
    """For each point of a save: (what was about to happen, a directory in which a writer was killed there)."""
    for point in itertools.count():
        root = make_root()
        reader, writer = _forking.Pipe(duplex=False)
        process = _forking.Process(target=_save_and_die, args=(root, step, last, point, writer))
        process.start()
        writer.close()
        process.join()
        if process.exitcode == 0:
            return
        assert process.exitcode == -signal.SIGKILL, process.exitcode
        yield reader.recv(), root


def _save_and_die(root, step, last, point, pipe):
    points = itertools.count()

    def hook(event, arguments):
        path = arguments[0] if arguments else None
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(f"{root}/") and next(points) == point:
            pipe.send(f"{event} {os.path.relpath(path, root)}")
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    save_and_tidy(root, step, last)
