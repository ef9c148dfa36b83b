import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.controller.arrays import Array, ArrayTable, Lifetime
from elastic.controller.shardings import single
from elastic.status import Code, StatusError


def an_array(number=1, **fields):
    return Array(number, kind=11, shape=(2, 3), sharding=single(0), **fields)


class Twin:
    """A lifetime as the buffers it stands on: deleted if any of them is. Pieces are cut before anything is deleted."""

    def __init__(self, whole=None):
        self.parts = []
        self.gone = False
        if whole is not None:
            whole.parts.append(self)

    @property
    def deleted(self):
        return self.gone or any(part.deleted for part in self.parts)

    def delete(self):
        self.gone = True
        for part in self.parts:
            part.delete()


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), max_size=12), st.lists(st.integers(0, 20), max_size=4))
def test_lifetimes_agree_with_the_buffers_they_stand_for(wholes, deletions):
    """Wholes, pieces of them, pieces of pieces; then some are deleted."""
    pairs = [(Lifetime(), Twin())]
    for whole in wholes:
        lifetime, twin = pairs[whole % len(pairs)]
        pairs.append((Lifetime(lifetime), Twin(twin)))
    for index in deletions:
        for one in pairs[index % len(pairs)]:
            one.delete()
        assert [lifetime.deleted for lifetime, _ in pairs] == [twin.deleted for _, twin in pairs]


def test_deleting_a_whole_deletes_its_pieces():
    whole = Lifetime()
    pieces = [Lifetime(whole) for _ in range(3)]
    whole.delete()
    assert all(piece.deleted for piece in pieces)


def test_a_whole_that_misses_a_piece_counts_as_deleted_and_its_other_pieces_do_not():
    whole = Lifetime()
    first, second = Lifetime(whole), Lifetime(whole)
    first.delete()
    assert (whole.deleted, first.deleted, second.deleted) == (True, True, False)


def test_an_array_is_deleted_when_any_of_its_buffers_is():
    parts = [Lifetime(), Lifetime(), Lifetime()]
    array = an_array(lifetimes=tuple(parts))
    assert not array.deleted
    parts[1].delete()
    assert array.deleted
    assert not parts[0].deleted


def test_deleting_an_array_deletes_all_that_stand_on_its_buffers():
    array = an_array()
    other = an_array(2, lifetimes=array.lifetimes)
    other.delete()
    assert array.deleted


def test_arrays_do_not_share_a_lifetime_by_accident():
    first, second = an_array(1), an_array(2)
    first.delete()
    assert not second.deleted


def test_a_deleted_array_is_not_usable_and_says_so_as_jax_does():
    array = an_array()
    array.check()
    array.delete()
    with pytest.raises(StatusError, match=r"^Array has been deleted or donated\.$") as raised:
        array.check()
    assert raised.value.code is Code.INVALID_ARGUMENT


def test_the_error_of_an_array_comes_before_its_deletion():
    error = StatusError(Code.DATA_LOSS, "the first cause")
    array = an_array(error=error)
    array.delete()
    with pytest.raises(StatusError, match="the first cause"):
        array.check()


def test_an_error_that_is_raised_often_does_not_grow():
    """A traceback holds the frames it went through, and with them all that they refer to."""
    array = an_array(error=StatusError(Code.INTERNAL, "no"))
    depths = []
    for _ in range(3):
        with pytest.raises(StatusError) as raised:
            array.check()
        traceback, depth = raised.value.__traceback__, 0
        while traceback is not None:
            traceback, depth = traceback.tb_next, depth + 1
        depths.append(depth)
    assert len(set(depths)) == 1


@pytest.fixture
def table():
    return ArrayTable()


def test_a_handle_names_the_array_it_was_given(table):
    array = an_array()
    table.add(5, array)
    assert table.get(5) is table.usable(5) is array
    assert 5 in table
    assert 6 not in table
    assert len(table) == 1
    assert list(table.arrays()) == [array]


def test_an_unknown_handle_is_not_found(table):
    for look in (table.get, table.usable):
        with pytest.raises(StatusError, match="handle 7") as raised:
            look(7)
        assert raised.value.code is Code.NOT_FOUND


def test_whoever_uses_a_handle_that_holds_an_error_gets_it(table):
    table.fail(5, StatusError(Code.UNIMPLEMENTED, "not here"))
    for look in (table.get, table.usable):
        with pytest.raises(StatusError, match="not here") as raised:
            look(5)
        assert raised.value.code is Code.UNIMPLEMENTED
    assert 5 in table
    assert list(table.arrays()) == []


def test_the_first_error_of_a_handle_stays(table):
    table.fail(5, StatusError(Code.DATA_LOSS, "the cause"))
    table.fail(5, StatusError(Code.INTERNAL, "a consequence"))
    with pytest.raises(StatusError, match="the cause"):
        table.get(5)


def test_a_deleted_array_can_be_looked_at_but_not_used(table):
    table.add(5, an_array())
    table.get(5).delete()
    assert table.get(5).deleted
    with pytest.raises(StatusError, match="deleted or donated"):
        table.usable(5)


def test_a_handle_that_was_removed_is_unknown(table):
    array = an_array()
    table.add(5, array)
    table.fail(6, StatusError(Code.INTERNAL, "no"))
    assert table.remove(5) is array
    assert table.remove(6) is None
    assert table.remove(7) is None
    assert len(table) == 0
    for handle in (5, 6):
        with pytest.raises(StatusError, match="there is no array"):
            table.get(handle)


def test_arrays_are_told_apart_by_identity():
    numbers = itertools.count(1)
    first, second = an_array(next(numbers)), an_array(next(numbers))
    assert first != second
    assert len({first, second}) == 2


def test_an_array_lives_where_its_sharding_says():
    assert Array(1, 11, (2,), single(3, "pinned_host")).devices == (3,)
