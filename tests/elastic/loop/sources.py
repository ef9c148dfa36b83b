"""Data of all kinds that a training loop may be given: the ids 0 to 6, in an order that may differ by epoch."""

import random

SIZE = 7


def order(epoch):
    ids = list(range(SIZE))
    random.Random(epoch).shuffle(ids)
    return ids


class Loader:
    """As one of PyTorch with a sampler that is told the epoch."""

    class Sampler:
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

    def __init__(self):
        self.sampler = self.Sampler()

    def __len__(self):
        return SIZE

    def __iter__(self):
        yield from order(self.sampler.epoch)


class StatefulIterator:
    """As one of grain. It counts what it has read, to see that nothing is read twice."""

    read = 0

    def __init__(self, epochs=1):
        self._ids = [id for epoch in range(epochs) for id in order(epoch)]
        self._next = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self._next == len(self._ids):
            raise StopIteration
        self._next += 1
        type(self).read += 1
        return self._ids[self._next - 1]

    def get_state(self):
        return {"next": self._next}

    def set_state(self, state):
        self._next = state["next"]


class Dataset:
    """As one of grain: its iterators have a state."""

    def __iter__(self):
        return StatefulIterator()


class TorchIterator(StatefulIterator):
    """Its state is nothing for JSON."""

    get_state = set_state = None

    def state_dict(self):
        return {0: (self._next,)}

    def load_state_dict(self, state):
        (self._next,) = state[0]


class StatefulLoader:
    """As one of torchdata: the loader has the state, and what is set counts for the next iterator."""

    def __init__(self):
        self._next = 0

    def __iter__(self):
        ids = list(range(SIZE))
        begin, self._next = self._next, 0
        for at in range(begin, SIZE):
            self._next = at + 1
            yield ids[at]
        self._next = 0

    def state_dict(self):
        return {"next": self._next}

    def load_state_dict(self, state):
        self._next = state["next"]


def by_epoch(epoch):
    yield from order(epoch)


def always_the_same():
    yield from range(SIZE)


REPEATED = {
    "list": lambda: list(range(SIZE)),
    "loader": Loader,
    "dataset": Dataset,
    "stateful loader": StatefulLoader,
    "function of the epoch": lambda: by_epoch,
    "function": lambda: always_the_same,
}
"""Makers of what can be iterated again and again."""

ONCE = {
    "iterator": lambda: iter(range(3 * SIZE)),
    "generator": lambda: (id for epoch in range(3) for id in order(epoch)),
    "stateful iterator": lambda: StatefulIterator(3),
    "state of torch": lambda: TorchIterator(3),
}
"""Makers of iterators of three epochs."""
