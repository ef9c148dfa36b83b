import itertools
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.copies import Shard, second_homes

FOUR = {"h0": "h0", "h1": "h1", "h2": "h2", "h3": "h3"}


def test_what_two_hosts_hold_anyway_is_not_copied():
    copies = second_homes([Shard(0, 0, 100, ("h0", "h2")), Shard(0, 1, 100, ("h1",), ("h3",))], FOUR)
    assert copies.peers == {}
    assert copies.reason == "2 of 2 shards need no new copy, 0 (0.0 MB) get one"
    assert copies.kept == {"h0": 0, "h1": 0, "h2": 0, "h3": 100}


def test_copies_are_spread_over_the_others():
    shards = [Shard(0, number, 100, (f"h{number}",)) for number in range(4)]
    copies = second_homes(shards, FOUR)
    assert set(copies.peers.values()) == set(FOUR)
    assert all(copies.peers[0, number] != f"h{number}" for number in range(4))
    assert copies.reason == "0 of 4 shards need no new copy, 4 (0.0 MB) get one"


def test_a_copy_goes_to_another_rack():
    racks = {"h0": "left", "h1": "left", "h2": "right", "h3": "right"}
    copies = second_homes([Shard(0, 0, 100, ("h0", "h1"))], racks)
    assert racks[copies.peers[0, 0]] == "right"
    assert not copies.exposed


def test_in_one_rack_two_hosts_have_to_do_and_that_is_said():
    racks = dict.fromkeys(FOUR, "rack")
    copies = second_homes([Shard(0, 0, 100, ("h0", "h1")), Shard(0, 1, 100, ("h0",))], racks)
    assert set(copies.peers) == {(0, 1)}
    assert copies.peers[0, 1] != "h0"
    assert copies.exposed == ((0, 0), (0, 1))
    assert copies.reason.endswith("; all hosts are in one failure domain")


def test_a_pool_of_one_holds_its_shards_alone():
    copies = second_homes([Shard(0, 0, 100, ("h0",))], {"h0": "h0"})
    assert (copies.peers, copies.exposed) == ({}, ((0, 0),))
    assert copies.reason.endswith("the pool has one host, which alone holds them")


def test_a_shard_that_is_on_no_living_host_is_an_error_with_its_name():
    with pytest.raises(ValueError, match="shard 3 of array 7 is on no living host"):
        second_homes([Shard(7, 3, 100, ("gone",), ("gone too",))], FOUR)


def test_a_host_that_goes_makes_only_its_own_copies_again():
    shards = [Shard(0, number, 100 + number, (f"h{number % 4}",)) for number in range(40)]
    first = second_homes(shards, FOUR)
    kept = [replace(shard, kept_by=(first.peers[shard.array, shard.shard],)) for shard in shards]
    assert second_homes(kept, FOUR).peers == {}
    left = {host: host for host in FOUR if host != "h1"}
    again = second_homes([shard for shard in kept if shard.holders != ("h1",)], left)
    assert set(again.peers) == {key for key, peer in first.peers.items() if peer == "h1"}
    grown = second_homes(kept, {**FOUR, "h4": "h4"})
    assert grown.peers == {}


@st.composite
def cases(draw):
    """(shards, domains): small enough to try all choices."""
    hosts = draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1))
    domains = {host: draw(st.sampled_from(["", "x", "y"])) or host for host in hosts}
    anyone = st.lists(st.sampled_from([*hosts, "gone"]), unique=True, max_size=2).map(tuple)
    shards = [
        Shard(0, number, draw(st.integers(1, 30)), (draw(st.sampled_from(hosts)), *draw(anyone)), draw(anyone))
        for number in range(draw(st.integers(0, 6)))
    ]
    return shards, domains


def slow(shards, domains):
    """The same rule, the obvious way: look at all hosts for each shard. Returns (peers, what each host keeps)."""
    apart = domains if len(set(domains.values())) > 1 else {host: host for host in domains}
    kept = {host: sum(shard.bytes for shard in shards if host in shard.kept_by) for host in domains}
    unsafe = []
    for shard in shards:
        safe = {apart[host] for host in (*shard.holders, *shard.kept_by) if host in domains}
        others = [host for host in domains if apart[host] not in safe]
        if len(safe) == 1 and others:
            unsafe.append((shard, others))
    peers = {}
    for shard, others in sorted(unsafe, key=lambda pair: (len(pair[1]), -pair[0].bytes)):
        peer = peers[shard.array, shard.shard] = min(others, key=lambda host: (kept[host], host))
        kept[peer] += shard.bytes
    return peers, kept


@settings(deadline=None, max_examples=300)
@given(cases())
def test_the_choice_is_that_of_the_slow_twin(case):
    shards, domains = case
    copies = second_homes(shards, domains)
    assert (copies.peers, copies.kept) == slow(shards, domains)


@settings(deadline=None, max_examples=300)
@given(cases())
def test_every_shard_is_in_two_domains_or_named_as_exposed(case):
    shards, domains = case
    copies = second_homes(shards, domains)
    for shard in shards:
        key = shard.array, shard.shard
        homes = {host for host in (*shard.holders, *shard.kept_by, copies.peers.get(key)) if host in domains}
        assert (len({domains[host] for host in homes}) < 2) == (key in copies.exposed)
        assert len(homes) >= min(2, len(domains))
        assert copies.peers.get(key) not in (*shard.holders, *shard.kept_by)


@settings(deadline=None, max_examples=300)
@given(cases())
def test_the_fullest_host_keeps_at_most_twice_what_it_must(case):
    shards, domains = case
    copies = second_homes(shards, domains)
    apart = domains if len(set(domains.values())) > 1 else {host: host for host in domains}
    before = {host: sum(shard.bytes for shard in shards if host in shard.kept_by) for host in domains}
    sizes, choices = [], []
    for shard in shards:
        if (shard.array, shard.shard) in copies.peers:
            safe = {apart[host] for host in (*shard.holders, *shard.kept_by) if host in domains}
            sizes.append(shard.bytes)
            choices.append([host for host in domains if apart[host] not in safe])
    best = min(
        max(before[host] + sum(size for size, at in zip(sizes, choice, strict=True) if at == host) for host in domains)
        for choice in itertools.product(*choices)
    )
    assert max(copies.kept.values()) <= 2 * best


def test_a_hundred_thousand_shards_find_their_homes_in_two_seconds():
    domains = {f"h{number}": f"rack{number % 10}" for number in range(1000)}
    # All from one rack, whose hosts stay the lightest of all and have to be passed over each time.
    shards = [Shard(0, number, 1000 + number % 7, (f"h{number % 100 * 10}",)) for number in range(100_000)]
    begin = time.process_time()
    copies = second_homes(shards, domains)
    assert time.process_time() - begin < 2
    loads = [load for host, load in copies.kept.items() if domains[host] != "rack0"]
    assert max(loads) - min(loads) <= 1006
