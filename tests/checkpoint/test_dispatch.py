"""Which host writes what, as stories and against chance."""

from hypothesis import given
from hypothesis import strategies as st

from checkpoint.dispatch import BATCH_BYTES, BATCH_FILES, PATIENCE_S, Dispatch, FileToWrite


def files(*homes, size=10):
    """f0, f1, ...; each on hosts that are written as letters."""
    return [FileToWrite(f"f{number}", size, frozenset(hosts)) for number, hosts in enumerate(homes)]


def test_everybody_writes_what_only_they_have():
    dispatch = Dispatch(files("a", "b", "a"))
    assert dispatch.orders("ab", 0) == {"a": ["f0"], "b": ["f1"]}
    dispatch.written("a", 1)
    assert dispatch.orders("a", 1) == {"a": ["f2"]}
    dispatch.written("a", 2)
    assert not dispatch.finished
    dispatch.written("b", 2)
    assert dispatch.finished
    assert not dispatch.problem


def test_what_few_have_comes_first():
    dispatch = Dispatch([*files("ab", size=BATCH_BYTES), FileToWrite("only", 1, frozenset("a"))])
    assert dispatch.orders("a", 0) == {"a": ["only"]}


def test_an_order_is_no_longer_than_a_batch():
    many = Dispatch(files(*["a"] * (BATCH_FILES + 1)))
    assert len(many.orders("a", 0)["a"]) == BATCH_FILES
    large = Dispatch(files("a", "a", size=BATCH_BYTES))
    assert large.orders("a", 0) == {"a": ["f0"]}


def test_what_all_have_is_shared_between_all():
    assert Dispatch(files("ab", "ab", "ab", "ab")).orders("ab", 0) == {"a": ["f0", "f1"], "b": ["f2", "f3"]}


def test_who_is_busy_gets_nothing_more():
    dispatch = Dispatch(files("a", "a", size=BATCH_BYTES))
    dispatch.orders("a", 0)
    assert dispatch.orders("a", 0) == {}


def test_a_fast_host_takes_over_what_a_slow_one_does_not_get_done():
    dispatch = Dispatch(files("ab", "ab", size=BATCH_BYTES))
    assert dispatch.orders("ab", 0) == {"a": ["f0"], "b": ["f1"]}
    dispatch.written("b", 0.1)
    assert dispatch.orders("b", PATIENCE_S) == {}
    assert not dispatch.slow(PATIENCE_S)
    assert dispatch.slow(PATIENCE_S + 0.1).keys() == {"a"}
    assert dispatch.orders("b", PATIENCE_S + 0.1) == {"b": ["f0"]}
    dispatch.written("b", PATIENCE_S + 0.2)
    assert dispatch.finished


def test_a_slow_host_that_is_done_first_has_done_it():
    dispatch = Dispatch(files("ab"))
    dispatch.orders("a", 0)
    assert dispatch.orders("b", 9) == {"b": ["f0"]}
    dispatch.written("a", 10)
    assert dispatch.finished
    dispatch.refused("b", "no space")
    assert dispatch.finished
    assert not dispatch.problem


def test_what_one_cannot_write_another_may():
    dispatch = Dispatch(files("ab"))
    dispatch.orders("a", 0)
    dispatch.refused("a", "the copy was changed")
    assert dispatch.orders("a", 1) == {}
    assert dispatch.orders("b", 1) == {"b": ["f0"]}


def test_what_nobody_can_write_is_named_with_its_reason():
    dispatch = Dispatch(files("a", "ab"))
    dispatch.orders("a", 0)
    dispatch.refused("a", "No space left on device")
    assert dispatch.problem == "f0: No space left on device"


def test_a_lost_host_leaves_its_work_to_others():
    dispatch = Dispatch(files("ab", "ab", size=BATCH_BYTES))
    dispatch.orders("ab", 0)
    dispatch.gone("a")
    dispatch.written("b", 1)
    assert dispatch.orders("b", 1) == {"b": ["f0"]}


def test_what_only_a_lost_host_had_is_named():
    dispatch = Dispatch(files("a", "b"))
    dispatch.gone("a")
    assert dispatch.problem == "f0: host a was lost, and nobody else has it"


def test_nothing_is_written_at_once():
    assert Dispatch([]).finished


HOSTS = "abcd"


@given(
    st.lists(st.tuples(st.sets(st.sampled_from(HOSTS), min_size=1), st.integers(0, 2 * BATCH_BYTES)), max_size=30),
    st.dictionaries(st.sampled_from(HOSTS), st.sampled_from(["dies", "refuses", "hangs"]), max_size=3),
    st.randoms(use_true_random=False),
)
def test_all_is_written_as_long_as_somebody_who_has_it_works(made, faults, lots):
    dispatch = Dispatch([FileToWrite(f"f{n}", size, frozenset(homes)) for n, (homes, size) in enumerate(made)])
    written, working, now = set(), {}, 0.0
    for host, fault in faults.items():
        if fault == "dies":
            dispatch.gone(host)
    for _ in range(2000):
        if dispatch.finished or dispatch.problem:
            break
        now += 1.0
        working |= dispatch.orders([host for host in HOSTS if faults.get(host) != "dies"], now)
        able = [host for host in working if faults.get(host) != "hangs"]
        if able:
            host = lots.choice(able)
            names = working.pop(host)
            if faults.get(host) == "refuses":
                dispatch.refused(host, "no")
            else:
                written |= set(names)
                dispatch.written(host, now)
    names = {f"f{n}" for n in range(len(made))}
    doomed = {f"f{n}" for n, (homes, _) in enumerate(made) if all(faults.get(h) in ("dies", "refuses") for h in homes)}
    hanging = any(all(faults.get(h) for h in homes) for homes, _ in made)
    if doomed and not hanging:
        assert dispatch.problem
    if not any(all(faults.get(h) for h in homes) for homes, _ in made):
        assert not dispatch.problem
        assert written == names
