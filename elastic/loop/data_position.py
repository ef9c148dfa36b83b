"""Where a training loop is in its data, as plain data that a checkpoint can hold; and how to get there again.

kind "state"    an iterator that can say where it is: grain's (get_state, set_state), or with state_dict and
                load_state_dict as in PyTorch
kind "count"    any other iterator; it is read to where it was
kind "epochs"   what can be iterated again and again, and functions that return an iterator: the number of the epoch,
                and in it the state of its iterator, or else a count
"""

from __future__ import annotations

import base64
import inspect
import itertools
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from elastic.errors import UsageError


class Batches(Protocol):
    """The batches of a training, one after the other."""

    def __next__(self) -> Any:
        """Raises `StopIteration` at the end."""

    def position(self) -> Mapping[str, Any]:
        """What has been given so far, to be passed to `follow`. JSON can hold it."""


def follow(source: Any, epochs: int | None, position: Mapping[str, Any] | None = None) -> Batches:
    """Begins with a source of batches, or goes on at a position in it.

    Args:
        source: an iterator; or what gives iterators, each for one epoch: a list, a loader, a function, which gets the
            number of the epoch (from 0) if it takes an argument. A source that has `set_epoch`, or whose sampler or
            data set has, is told.
        epochs: how often to go through it; None: without end. An iterator is gone through once.

    Raises:
        UsageError: this is no source, or the position is one in data of another kind.
    """
    made: Batches
    if isinstance(source, Iterator):
        kind = "count" if _state_of(source) is None else "state"
    elif isinstance(source, Iterable) or callable(source):
        kind = "epochs"
    else:
        raise UsageError(f"batches come from an iterator, a list, a loader or a function, not from {type(source)}")
    if position is not None and position["kind"] != kind:
        raise UsageError(
            f"the position in the data was saved for {_KINDS[position['kind']]}, and now it is {_KINDS[kind]}: "
            "pass the same kind of data, or resume=False to begin again"
        )
    if kind == "epochs":
        made = _Epochs(source, epochs, position or {"epoch": 0, "index": 0, "state": None})
    elif kind == "state":
        made = _WithState(source, position)
    else:
        made = _Counted(source, position)
    return made


_KINDS = {
    "state": "an iterator with a state",
    "count": "an iterator without a state",
    "epochs": "something that can be iterated again",
}


class _WithState:
    def __init__(self, iterator: Iterator[Any], position: Mapping[str, Any] | None) -> None:
        self._iterator = iterator
        methods = _state_of(iterator)
        assert methods is not None  # Else it would be counted.
        self._get, set_state = methods
        if position is not None:
            _set(set_state, position["state"])

    def __next__(self) -> Any:
        return next(self._iterator)

    def position(self) -> Mapping[str, Any]:
        return {"kind": "state", "state": _encoded(self._get())}


class _Counted:
    def __init__(self, iterator: Iterator[Any], position: Mapping[str, Any] | None) -> None:
        self._iterator = iterator
        self._count: int = 0 if position is None else position["count"]
        _skip(iterator, self._count)

    def __next__(self) -> Any:
        batch = next(self._iterator)
        self._count += 1
        return batch

    def position(self) -> Mapping[str, Any]:
        return {"kind": "count", "count": self._count}


class _Epochs:
    def __init__(self, source: Any, epochs: int | None, position: Mapping[str, Any]) -> None:
        self._source = source
        self._epochs = epochs
        self._epoch: int = position["epoch"]
        self._index: int = position["index"]
        self._iterator: Iterator[Any] | None = None
        self._get: Callable[[], Any] | None = None
        if self._index:
            self._open(position["state"])

    def __next__(self) -> Any:
        while self._epochs is None or self._epoch < self._epochs:
            if self._iterator is None:
                self._open(None)
            assert self._iterator is not None
            for batch in self._iterator:
                self._index += 1
                return batch
            if not self._index:
                raise UsageError(f"the data has no batch in epoch {self._epoch}")
            self._epoch, self._index, self._iterator = self._epoch + 1, 0, None
        raise StopIteration

    def position(self) -> Mapping[str, Any]:
        state = _encoded(self._get()) if self._get and self._index else None
        return {"kind": "epochs", "epoch": self._epoch, "index": self._index, "state": state}

    def _open(self, state: Any) -> None:
        """The iterator of the epoch, at its beginning or, if there is a count, there."""
        _tell_epoch(self._source, self._epoch)
        of_source = _state_of(self._source)
        if of_source is not None and state is not None:
            _set(of_source[1], state)
        if isinstance(self._source, Iterable):
            self._iterator = iter(self._source)
        else:
            self._iterator = iter(self._source(self._epoch) if _takes_argument(self._source) else self._source())
        methods = of_source or _state_of(self._iterator)
        self._get = methods and methods[0]
        if state is None:
            _skip(self._iterator, self._index)
        elif of_source is None:
            if methods is None:
                raise UsageError("the position in the data is a state, and its iterator has no longer one to set")
            _set(methods[1], state)


def _state_of(source: Any) -> tuple[Callable[[], Any], Callable[[Any], object]] | None:
    """How to get a position and how to set it, if the source can."""
    for names in (("get_state", "set_state"), ("state_dict", "load_state_dict")):
        methods = [getattr(source, name, None) for name in names]
        if all(map(callable, methods)):
            return methods[0], methods[1]  # type: ignore[return-value]
    return None


def _set(set_state: Callable[[Any], object], saved: Mapping[str, Any]) -> None:
    try:
        set_state(_decoded(saved))
    except Exception as error:
        raise UsageError(f"the data does not take the position that it had: {type(error).__name__}: {error}") from error


def _tell_epoch(source: Any, epoch: int) -> None:
    for part in (source, getattr(source, "sampler", None), getattr(source, "dataset", None)):
        set_epoch = getattr(part, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)
            return


def _takes_argument(function: Any) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(parameter.kind in positional for parameter in inspect.signature(function).parameters.values())


def _skip(iterator: Iterator[Any], count: int) -> None:
    skipped = sum(1 for _ in itertools.islice(iterator, count))
    if skipped < count:
        raise UsageError(f"the data has {skipped} batches here, and {count} of them were used before: it is other data")


def _encoded(state: Any) -> Mapping[str, Any]:
    """JSON if it is the same afterwards; tuples, for example, are not."""
    try:
        if json.loads(json.dumps(state, allow_nan=False)) == state:
            return {"json": state}
    except (TypeError, ValueError):
        pass
    return {"pickle": base64.b64encode(pickle.dumps(state)).decode()}


def _decoded(saved: Mapping[str, Any]) -> Any:
    return saved["json"] if "json" in saved else pickle.loads(base64.b64decode(saved["pickle"]))
