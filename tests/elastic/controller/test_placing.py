"""Placement after placement: what moves, who takes over, what each policy does. `test_placement` has the first one."""

import itertools
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.controller.placement import NOWHERE, Candidate, Placement, Policy, Refused, Waiting, place, place_on


def pool(**sizes):
    return [Candidate(host, size) for host, size in sizes.items()]


def without(hosts, *gone):
    return [host for host in hosts if host.id not in gone]


FOUR = pool(h0=2, h1=2, h2=2, h3=2)
FIRST = place(1, FOUR, 8)


def moved(previous, placement):
    return [
        device
        for device, (rank, _) in enumerate(placement.owners)
        if previous.hosts[previous.owners[device][0]] != placement.hosts[rank]
    ]


# The stories of a pool of four hosts


def test_the_first_placement_is_blocks_over_as_many_hosts_as_are_needed():
    placement = place(1, pool(h0=2, h1=2, h2=2, h3=2, h4=2), 8)
    assert placement.by_host() == {"h0": [0, 1], "h1": [2, 3], "h2": [4, 5], "h3": [6, 7]}
    assert placement.reason == "8 virtual devices over 4 hosts"


def test_a_placement_can_be_said_device_by_device():
    placement = place_on(7, ["h2", "h0", "h2", "h1"], "to try")
    assert (placement.generation, placement.reason) == (7, "to try")
    assert placement.by_host() == {"h2": [0, 2], "h0": [1], "h1": [3]}
    assert [placement.host_of(device) for device in range(4)] == ["h2", "h0", "h2", "h1"]


def test_a_spare_takes_over_whole():
    after = place(2, [*without(FOUR, "h1"), Candidate("h4", 2)], 8, FIRST)
    assert after.by_host() == {"h0": [0, 1], "h2": [4, 5], "h3": [6, 7], "h4": [2, 3]}
    assert after.reason == "8 virtual devices over 4 hosts; 2 devices to h4; h1 is gone"


def test_without_a_spare_the_survivors_share_evenly():
    after = place(2, without(FOUR, "h1"), 8, FIRST)
    assert after.by_host() == {"h0": [0, 1, 2], "h2": [4, 5, 3], "h3": [6, 7]}
    assert after.reason == (
        "8 virtual devices over 3 hosts, stacked up to 1.5 on a physical device; 2 devices to h0, h2; h1 is gone"
    )


def test_one_host_can_carry_all():
    after = place(2, without(FOUR, "h0", "h1", "h2"), 8, FIRST)
    assert after.by_host() == {"h3": [6, 7, 0, 1, 2, 3, 4, 5]}
    assert after.reason.endswith("stacked up to 4 on a physical device; 6 devices to h3; h0, h1, h2 are gone")


def test_a_host_that_returns_gets_back_what_it_had():
    stacked = place(2, without(FOUR, "h1"), 8, FIRST)
    after = place(3, FOUR, 8, stacked)
    assert after.by_host() == {"h0": [0, 1], "h2": [4, 5], "h3": [6, 7], "h1": [2, 3]}
    assert after.reason == "8 virtual devices over 4 hosts; 2 devices to h1"


def test_a_host_that_returns_when_a_spare_took_over_is_the_next_spare():
    after = place(2, [*without(FOUR, "h1"), Candidate("h4", 2)], 8, FIRST)
    again = place(3, [*FOUR, Candidate("h4", 2)], 8, after)
    assert again.by_host() == after.by_host()
    assert again.reason == "8 virtual devices over 4 hosts; nothing moves"


def test_a_barred_host_is_named_and_not_used():
    hosts = [*without(FOUR, "h1"), Candidate("h1", 2, "quarantined: failed 3 times in 10 min")]
    after = place(2, hosts, 8, FIRST)
    assert "h1" not in after.hosts
    assert after.reason.endswith("; h1 is quarantined: failed 3 times in 10 min")


def test_a_host_without_devices_gets_none():
    assert place(1, pool(a=0, b=2), 4).by_host() == {"b": [0, 1, 2, 3]}


def test_a_larger_host_carries_more_of_the_stack():
    first = place(1, pool(a=1, b=1, c=4), 6)
    after = place(2, pool(a=1, c=4), 6, first)
    assert after.by_host() == {"a": [0], "c": [2, 3, 4, 5, 1]}


# What policies do when there are too few devices


@pytest.mark.parametrize("policy", Policy)
def test_every_policy_uses_a_spare(policy):
    after = place(2, [*without(FOUR, "h1"), Candidate("h4", 2)], 8, FIRST, policy)
    assert moved(FIRST, after) == [2, 3]
    assert after.hosts[-1] == "h4"


def test_to_wait_is_to_say_how_much_is_missing():
    answer = place(2, without(FOUR, "h1"), 8, FIRST, Policy.WAIT)
    assert answer == Waiting(2, "2 of 8 virtual devices have no physical device left; h1 is gone")
    assert isinstance(place(2, FOUR, 8, FIRST, Policy.WAIT), Placement)


def test_to_surface_is_to_say_which_devices_are_lost():
    after = place(2, without(FOUR, "h1"), 8, FIRST, Policy.SURFACE)
    assert after.lost == (2, 3)
    assert after.by_host() == {"h0": [0, 1], "h2": [4, 5], "h3": [6, 7]}
    assert (after.owners[2], after.host_of(2), after.ranks((1, 2, 3, 4))) == (NOWHERE, "", (0, 1))
    assert after.reason == (
        "6 virtual devices over 3 hosts; nothing moves; 2 of 8 virtual devices have no physical device left, which the "
        "client is told; h1 is gone"
    )


def test_what_was_lost_finds_a_place_when_a_host_comes():
    after = place(2, without(FOUR, "h1"), 8, FIRST, Policy.SURFACE)
    back = place(3, FOUR, 8, after, Policy.SURFACE)
    assert (back.by_host(), back.lost) == ({"h0": [0, 1], "h2": [4, 5], "h3": [6, 7], "h1": [2, 3]}, ())
    assert back.reason == "8 virtual devices over 4 hosts; 2 devices to h1"
    half = place(3, [*without(FOUR, "h1"), Candidate("h4", 1)], 8, after, Policy.SURFACE)
    assert (half.by_host()["h4"], half.lost) == ([2], (3,))


def test_a_run_does_not_begin_with_a_loss_and_loses_nothing_to_no_host_at_all():
    assert place(1, pool(a=2), 4, None, Policy.SURFACE) == Waiting(
        2, "2 of 4 virtual devices have no physical device left"
    )
    assert isinstance(place(2, [], 8, FIRST, Policy.SURFACE), Waiting)


def test_only_to_spare_is_to_refuse_without_one():
    answer = place(2, without(FOUR, "h1"), 8, FIRST, Policy.SPARE)
    lack = "2 of 8 virtual devices have no physical device left; h1 is gone, and there is no spare"
    assert answer == Refused(2, lack)


@pytest.mark.parametrize("policy", Policy)
def test_a_free_device_of_a_survivor_is_as_good_as_a_spare(policy):
    first = place(1, pool(a=4, b=4), 6)
    assert place(2, pool(a=6), 6, first, policy).by_host() == {"a": [0, 1, 2, 3, 4, 5]}


def test_where_no_host_is_left_even_stacking_waits():
    answer = place(2, [Candidate("h0", 2, "draining")], 8, FIRST)
    assert isinstance(answer, Waiting)
    assert answer.missing == 8
    assert "h0 is draining" in answer.reason


# Against brute force

LOST = ""
"""In place of a host's name."""


@st.composite
def cases(draw):
    """(hosts now, virtual devices, previous placement or None): small enough to try all placements."""
    devices = draw(st.integers(1, 5))
    ids = ["a", "b", "c"]
    hosts = [
        Candidate(id, draw(st.integers(1, 3)), draw(st.sampled_from(["", "", "", "barred"])))
        for id in draw(st.permutations(ids))
        if draw(st.integers(0, 3))
    ]
    previous = None
    if draw(st.booleans()):
        owners = [draw(st.sampled_from([*ids, "gone"])) for _ in range(devices)]
        names = tuple(dict.fromkeys(owners))
        local = {name: itertools.count() for name in names}
        previous = Placement(1, names, tuple((names.index(o), next(local[o])) for o in owners), "")
    return hosts, devices, previous


def costs(hosts, owners, previous):
    """(devices that are lost, load of the fullest physical device from 1 on, devices that change their host)"""
    sizes = {host.id: host.devices for host in hosts}
    load = max([Fraction(owners.count(host), size) for host, size in sizes.items()] + [Fraction(1)])
    if previous is None:
        return 0, load, 0
    before = [previous.host_of(device) for device in range(len(owners))]
    moves = sum(owner not in (LOST, was) for owner, was in zip(owners, before, strict=True))
    return owners.count(LOST), load, moves


def possible(hosts, devices, previous, policy):
    usable = [host for host in hosts if not host.barred]
    places = [host.id for host in usable] + [LOST] * (policy is Policy.SURFACE and previous is not None)
    for owners in itertools.product(places, repeat=devices):
        if set(owners) == {LOST}:
            continue
        if policy is not Policy.STACK and any(owners.count(host.id) > host.devices for host in usable):
            continue
        yield owners


def owners_of(placement):
    return tuple(placement.host_of(device) or LOST for device in range(len(placement.owners)))


@settings(deadline=None, max_examples=300)
@given(cases(), st.sampled_from(Policy))
def test_no_other_placement_has_less_load_or_moves_less(case, policy):
    hosts, devices, previous = case
    answer = place(2, hosts, devices, previous, policy)
    all_of_them = list(possible(hosts, devices, previous, policy))
    if not isinstance(answer, Placement):
        assert not all_of_them
        return
    owners = owners_of(answer)
    assert owners in all_of_them
    assert costs(hosts, owners, previous) == min(costs(hosts, other, previous) for other in all_of_them)


def lacking(answer):
    """How many virtual devices have no place."""
    return len(answer.lost) if isinstance(answer, Placement) else answer.missing


@settings(deadline=None, max_examples=300)
@given(cases(), st.sampled_from([Policy.SPARE, Policy.WAIT, Policy.SURFACE]))
def test_what_is_missing_is_missing(case, policy):
    """With so many devices more, on a host that comes, there is a placement; with one less there is none."""
    hosts, devices, previous = case
    answer = place(2, hosts, devices, previous, policy)
    missing = lacking(answer)
    if not missing:
        return
    assert type(answer) is not Refused or policy is Policy.SPARE
    assert lacking(place(2, [*hosts, Candidate("new", missing)], devices, previous, policy)) == 0
    if missing > 1:
        assert lacking(place(2, [*hosts, Candidate("new", missing - 1)], devices, previous, policy)) == 1


@settings(deadline=None, max_examples=300)
@given(cases())
def test_what_moves_goes_where_the_load_is_least(case):
    hosts, devices, previous = case
    answer = place(2, hosts, devices, previous)
    if not isinstance(answer, Placement):
        return
    sizes = {host.id: host.devices for host in hosts}
    counts = {host: len(held) for host, held in answer.by_host().items()}
    for device, owner in enumerate(owners_of(answer)):
        if previous is None or device in moved(previous, answer):
            before = Fraction(counts[owner] - 1, sizes[owner])
            load = costs(hosts, owners_of(answer), previous)[1]
            for host, count in counts.items():
                assert before <= Fraction(count, sizes[host]) or count + 1 > load * sizes[host]


@settings(deadline=None, max_examples=300)
@given(cases(), st.sampled_from(Policy))
def test_a_placement_is_whole_and_a_spare_is_used_only_if_it_must(case, policy):
    hosts, devices, previous = case
    answer = place(2, hosts, devices, previous, policy)
    if not isinstance(answer, Placement):
        return
    held = answer.by_host()
    assert sorted([*answer.lost, *(device for kept in held.values() for device in kept)]) == list(range(devices))
    assert not answer.lost or policy is Policy.SURFACE
    assert all(held.values())
    assert [list(answer.local_devices(rank)) for rank in range(len(held))] == list(held.values())
    assert place(3, hosts, devices, answer, policy if answer.lost else Policy.STACK).by_host() == held
    spares = [host for host in answer.hosts if previous is None or host not in previous.hosts]
    if spares:
        room = sum(host.devices for host in hosts if host.id in answer.hosts and host.id != spares[-1])
        assert room < devices


@pytest.mark.parametrize(
    ("hosts", "devices", "previous", "complaint"),
    [
        (FOUR, 0, None, "0 virtual devices cannot be placed"),
        (FOUR, 4, FIRST, "cannot follow a placement of 8"),
        ([*FOUR, FOUR[0]], 8, None, "named twice"),
    ],
)
def test_what_makes_no_sense_is_refused(hosts, devices, previous, complaint):
    with pytest.raises(ValueError, match=complaint):
        place(1, hosts, devices, previous)


def test_ten_thousand_hosts_are_placed_in_less_than_a_second():
    hosts = [Candidate(f"h{number}", 8) for number in range(10_000)]
    begin = time.process_time()
    first = place(1, hosts, 79_600)
    assert len(first.hosts) == 9_950
    spared = place(2, hosts[30:], 79_600, first)
    assert len(moved(first, spared)) == 30 * 8
    stacked = place(3, hosts[5_000:], 79_600, spared)
    assert len(moved(spared, stacked)) == 4_970 * 8
    again = place(4, hosts, 79_600, stacked)
    assert max(map(len, again.by_host().values())) == 8
    # Four placements, measured in the time of this process, so that other load does not count.
    assert time.process_time() - begin < 4
