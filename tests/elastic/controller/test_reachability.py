"""Which hosts a run does without when some do not reach each other; a slow, obvious twin says which are the fewest."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from elastic.controller.reachability import cut_pairs, decide, to_leave, words

NAMES = [f"h{number}" for number in range(7)]


def pair(*hosts):
    return frozenset(hosts)


def pairs(*cut):
    return frozenset(pair(*two) for two in cut)


def reach_each_other(hosts, cut):
    return not any(pair(*two) in cut for two in combinations(hosts, 2))


def fewest(hosts, cut):
    """How many have to be left out, found by trying everything."""
    return next(
        count
        for count in range(len(hosts) + 1)
        if any(reach_each_other(set(hosts) - set(left), cut) for left in combinations(hosts, count))
    )


hosts = st.integers(1, 7).map(lambda count: NAMES[:count])


@st.composite
def networks(draw):
    """Any pairs may be cut."""
    names = draw(hosts)
    every = [pair(*two) for two in combinations(names, 2)]
    return names, frozenset(draw(st.sets(st.sampled_from(every)))) if every else frozenset()


@st.composite
def parts(draw):
    """The network has fallen apart; in each part all reach each other."""
    names = draw(hosts)
    part = {name: draw(st.integers(0, 3)) for name in names}
    return names, frozenset(pair(a, b) for a, b in combinations(names, 2) if part[a] != part[b])


@given(networks())
def test_those_that_stay_reach_each_other_and_nobody_is_left_out_in_vain(network):
    hosts, cut = network
    left = to_leave(hosts, cut)
    stay = [host for host in hosts if host not in left]
    assert reach_each_other(stay, cut)
    assert not any(reach_each_other([*stay, host], cut) for host in left)
    assert len(set(left)) == len(left)


@given(parts())
def test_of_a_network_in_parts_the_largest_stays(network):
    hosts, cut = network
    assert len(to_leave(hosts, cut)) == fewest(hosts, cut)


@given(networks())
def test_somebody_always_stays(network):
    hosts, cut = network
    assert len(to_leave(hosts, cut)) < len(hosts)


def test_a_host_that_nobody_reaches_is_left_out_wherever_it_stands():
    for lonely in NAMES[:4]:
        cut = pairs(*((lonely, other) for other in NAMES[:4] if other != lonely))
        assert to_leave(NAMES[:4], cut) == (lonely,)


def test_a_host_that_is_not_asked_about_does_not_count():
    assert to_leave(["h0", "h1"], pairs(("h0", "h2"), ("h1", "h2"))) == ()


def test_of_two_hosts_the_first_stays():
    assert to_leave(["h5", "h2"], pairs(("h2", "h5"))) == ("h2",)


def test_of_two_hosts_the_one_stays_that_alone_holds_something():
    cut = pairs(("h0", "h1"))
    assert decide(["h0", "h1"], cut, lambda left: "h0" not in left) == (("h1",), True)
    assert decide(["h0", "h1"], cut, lambda left: "h1" not in left) == (("h0",), True)


def test_nobody_is_done_without_who_alone_holds_something():
    cut = pairs(("h0", "h2"), ("h1", "h2"))
    assert decide(["h0", "h1", "h2"], cut, lambda left: "h2" not in left) == (("h2",), False)


def test_who_reaches_all_leaves_nobody_out():
    assert decide(NAMES, frozenset(), lambda left: not left) == ((), True)


def test_one_way_that_is_lost_cuts_a_pair():
    assert cut_pairs({"h0": [], "h1": ["h0"], "h2": []}) == pairs(("h0", "h1"))


def test_a_host_that_does_not_answer_is_not_judged():
    assert cut_pairs({"h0": ["h2"], "h1": ["h2"]}) == frozenset()


def test_it_is_told_from_whom_a_host_is_cut_off():
    cut = pairs(*(("h6", other) for other in NAMES[:6]))
    assert words("h6", ["h0", "h1"], cut) == "cut off from h0, h1"
    assert words("h6", NAMES, cut) == "cut off from h0, h1, h2 and 3 more"
