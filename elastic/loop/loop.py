"""A training loop whose steps are counted, whose state is saved now and then, and which ends with its state saved."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jax

from checkpoint import Retention
from elastic.errors import CheckpointError, UsageError
from elastic.loop.data_position import Batches, follow
from elastic.loop.directory_lock import DirectoryLock
from elastic.loop.host_saver import HostSaver, on_a_pool
from elastic.loop.kept_steps import KeptSteps
from elastic.loop.progress import Progress
from elastic.loop.resuming import extra_of, newer_than, resume
from elastic.loop.saver import WRITER, ClientSaver, Saved, Saver
from elastic.loop.stopping import Stopping
from elastic.loop.tree import leaves_of

StepFunction = Callable[[Any, Any], tuple[Any, Any]]
Steps = Generator[tuple[int, Any], None, None]


class Loop:
    """Made by `elastic.wrap`; called with a state and data, it gives (steps done, metrics) after each step.

    Attributes:
        state: that after the last step; may be set in the body of the loop.
        step: how many steps are done.
        saved_step: the step of the newest checkpoint of this loop that is durable; None if there is none.
        save_error: why the save before could not be made; None if it could.
    """

    def __init__(
        self,
        train_step: StepFunction,
        root: Path,
        save_every: int,
        retention: Retention,
        resume: bool,
        written_by: str,
    ) -> None:
        self.state: Any = None
        self.step = 0
        self.saved_step: int | None = None
        self.save_error: BaseException | None = None
        self._train_step = train_step
        self._root = root
        self._save_every = save_every
        self._retention = retention
        self._resume = resume
        self._written_by = written_by
        self._progress = Progress(root)
        self._position: Mapping[str, Any] = {}
        self._saver: Saver
        self._telling = threading.Lock()
        """Held until the outcome of a save is told: when the body of the loop has seen it, the next save can begin."""
        self._told = threading.Event()
        self._told.set()
        self._running: weakref.ref[Steps] | None = None

    def __call__(self, state: Any, batches: Any, *, steps: int | None = None, epochs: int | None = None) -> Steps:
        """The steps that are still to be done. After a step its metrics are given at once: reading one waits for it.

        The state is saved when the body of the loop is done with a step that is due, and at the end, however it comes:
        an exception, Ctrl-C and SIGTERM too.

        Args:
            state: the state to begin with, any pytree. A restored one has its form, and lies on the devices as it does.
            batches: an iterator, or what gives one for each epoch: a list, a loader, a function (see `follow`).
            steps: how many steps there are in all, those before an interruption included; None: until the data ends.
            epochs: how often to go through the data; by default without end, or once if `steps` is not given either.

        Raises:
            CheckpointError: there are checkpoints, and none can be used; or, at the end, the last save failed.
            UsageError: another process saves to the directory, or the data is not what it was.
        """
        self._close()
        if jax.process_count() > 1:
            raise UsageError("elastic.wrap is for one process; use `elastic run` instead of jax.distributed")
        try:
            lock = DirectoryLock(self._root)
        except OSError as error:
            raise CheckpointError(f"{self._root} cannot be written to: {error.strerror}") from error
        try:
            data = self._begin(state, batches, epochs if steps is not None or epochs is not None else 1)
        except BaseException:
            lock.release()
            raise
        running = self._run(data, steps, lock)
        self._running = weakref.ref(running)
        return running

    def _begin(self, state: Any, batches: Any, epochs: int | None) -> Batches:
        resumed = resume(self._root, state, self._progress.skipped) if self._resume else None
        if resumed is None:
            self.state, self.step, self.saved_step = state, 0, None
        else:
            self.state, self.step, self.saved_step = resumed.state, resumed.step, resumed.step
            self._progress.resumed(self.step)
        leaves_of(self.state)  # Sooner than in the first save one is told what cannot be saved.
        kept = KeptSteps(self._root, WRITER, self._retention, newer_than(self._root, self.step))
        by_hosts = self._written_by == "hosts" and on_a_pool()
        self._saver = HostSaver(self._root, kept) if by_hosts else ClientSaver(self._root, kept)
        data = follow(batches, epochs, None if resumed is None else resumed.position)
        self._position = data.position()
        return data

    def _run(self, data: Batches, steps: int | None, lock: DirectoryLock) -> Steps:
        stopping = Stopping()
        atexit.register(self._close)
        self._progress.open(self.step, steps)
        stopping.open()
        try:
            while not stopping.asked and (steps is None or self.step < steps):
                try:
                    batch = next(data)
                except StopIteration:
                    break
                position = data.position()
                with stopping.held():
                    self.state, metrics = self._train_step(self.state, batch)
                    self.step, self._position = self.step + 1, position
                del batch
                self._progress.step(self.step, metrics)
                yield self.step, metrics
                del metrics
                if self.step % self._save_every == 0 and not self._saves:
                    self._save()
            if stopping.asked:
                self._progress.note(f"SIGTERM: step {self.step} was the last one")
        except BaseException:
            self._save_before_error()
            raise
        else:
            self._save_last()
        finally:
            self._progress.close(self.step)
            atexit.unregister(self._close)
            lock.release()
            stopping.close()
            if stopping.asked:
                stopping.end_process()

    @property
    def _saves(self) -> bool:
        """Whether a save is under way."""
        with self._telling:
            return not self._told.is_set()

    def _close(self) -> None:
        """Ends the steps under way, if somebody still holds them: most often the traceback of an error."""
        running = None if self._running is None else self._running()
        if running is not None:
            running.close()

    def _save(self) -> None:
        leaves = leaves_of(self.state)
        self._told.clear()
        self._saver.begin(self.step, leaves, extra_of(leaves, self._position)).add_done_callback(self._tell)

    def _tell(self, saving: Future[Saved]) -> None:
        """Called by whoever saves, as soon as it is known."""
        with self._telling:
            try:
                self._take_note(saving)
            finally:
                self._told.set()

    def _take_note(self, saving: Future[Saved]) -> None:
        self.save_error = saving.exception()
        if self.save_error is not None:
            kept = "nothing is saved" if self.saved_step is None else f"the newest one saved is {self.saved_step}"
            self._progress.warn(f"{self.save_error}; {kept}")
            return
        saved = saving.result()
        self.saved_step = saved.step
        self._progress.saved(saved.step, saved.bytes, saved.seconds)
        if saved.left:
            self._progress.warn(saved.left)

    def _save_last(self) -> None:
        """Returns when the last state is saved. Raises `CheckpointError` if it cannot be."""
        self._told.wait()
        if self.saved_step == self.step or not self.step:
            return
        self._save()
        self._told.wait()
        if self.save_error is not None:
            raise self.save_error

    def _save_before_error(self) -> None:
        """The same, where something else is raised. After a failed step, the state that it was given may be gone."""
        try:
            self._save_last()
        except CheckpointError:
            pass  # It was told.
        except Exception as error:
            self._progress.warn(f"step {self.step} was not saved in {self._root}: {error}")
