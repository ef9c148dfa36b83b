import json

import pytest

from elastic.errors import UsageError
from elastic.loop.data_position import follow
from tests.elastic.loop.sources import ONCE, REPEATED, SIZE, StatefulIterator, always_the_same, order

ALL = {**REPEATED, **ONCE}


def take(batches, count):
    return [next(batches) for _ in range(count)]


def rest(batches):
    found = []
    while True:
        try:
            found.append(next(batches))
        except StopIteration:
            return found


def through_json(position):
    return json.loads(json.dumps(position))


@pytest.mark.parametrize("name", ALL)
def test_wherever_it_is_interrupted_no_id_is_repeated_and_none_is_left_out(name):
    undisturbed = rest(follow(ALL[name](), epochs=3))
    assert len(undisturbed) == 3 * SIZE
    for cut in range(len(undisturbed) + 1):
        first = follow(ALL[name](), epochs=3)
        seen = take(first, cut)
        second = follow(ALL[name](), 3, through_json(first.position()))
        assert seen + rest(second) == undisturbed


@pytest.mark.parametrize("name", ALL)
def test_it_may_be_interrupted_after_every_batch(name):
    undisturbed = rest(follow(ALL[name](), epochs=3))
    seen, position = [], None
    for _ in undisturbed:
        batches = follow(ALL[name](), 3, position)
        seen += take(batches, 1)
        position = through_json(batches.position())
    assert seen == undisturbed


def test_the_order_of_each_epoch_is_its_own():
    for name in ("loader", "function of the epoch", "generator"):
        assert rest(follow(ALL[name](), epochs=3)) == order(0) + order(1) + order(2)


def test_without_a_number_of_epochs_there_is_no_end_but_that_of_an_iterator():
    assert len(take(follow([1, 2], epochs=None), 99)) == 99
    assert rest(follow(iter([1, 2]), epochs=None)) == [1, 2]


def test_who_can_set_its_state_reads_nothing_again():
    batches = follow(StatefulIterator(3), None)
    take(batches, 10)
    StatefulIterator.read = 0
    take(follow(StatefulIterator(3), None, batches.position()), 1)
    assert StatefulIterator.read == 1


def test_a_position_in_data_of_another_kind_is_refused():
    position = follow([1, 2], None).position()
    with pytest.raises(UsageError, match="saved for something that can be iterated again, and now it is an iterator"):
        follow(iter([1, 2]), None, position)


@pytest.mark.parametrize(("before", "now"), [(lambda: iter(range(9)), lambda: iter(range(3))), (range(9), range(3))])
def test_data_that_is_shorter_than_it_was_is_refused(before, now):
    make = (lambda source: source()) if callable(before) else (lambda source: list(source))
    batches = follow(make(before), None)
    take(batches, 5)
    with pytest.raises(UsageError, match="the data has 3 batches here, and 5 of them were used before"):
        follow(make(now), None, batches.position())


def test_a_state_without_anything_to_set_it_in_is_refused():
    batches = follow(REPEATED["dataset"](), None)
    take(batches, 2)
    with pytest.raises(UsageError, match="no longer one to set"):
        follow(always_the_same, None, batches.position())


def test_data_that_refuses_its_position_is_named_as_the_cause():
    batches = follow(ONCE["state of torch"](), None)
    take(batches, 2)
    position = through_json(batches.position())
    source = ONCE["state of torch"]()
    source.load_state_dict = lambda state: {}["other data"]
    with pytest.raises(UsageError, match="the data does not take the position that it had: KeyError: 'other data'"):
        follow(source, None, position)


@pytest.mark.parametrize("empty", [[], lambda: iter(())])
def test_data_without_any_batch_is_refused_instead_of_searched_for_ever(empty):
    with pytest.raises(UsageError, match="no batch in epoch 0"):
        next(follow(empty, None))


def test_what_is_no_data_is_refused():
    with pytest.raises(UsageError, match="not from <class 'int'>"):
        follow(5, None)
