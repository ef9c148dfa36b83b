"""Stripes: which shards share parity, where it goes, and that nothing is lost with any m hosts."""

import itertools
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.protection import Protection
from checkpoint.stripes import SMALL, Block, Stripe, rebuildable, stripes

MB = 1 << 20


def alone(*hosts):
    return {host: host for host in hosts}


def hosts(count):
    return alone(*(f"h{number}" for number in range(count)))


def fsdp(pool, arrays, size=MB):
    """(sizes, homes): each host has a shard of its own of each array."""
    homes = {b"%d on %s" % (array, host.encode()): {host} for array in range(arrays) for host in pool}
    return dict.fromkeys(homes, size), homes


def made(chosen, homes):
    """(stripes, homes) once everything that was chosen is done."""
    homes = {name: set(there) for name, there in homes.items()}
    done = []
    for stripe in chosen.new:
        names = [b"|".join(block.name for block in stripe.data) + b"/%d" % j for j in range(len(stripe.parity))]
        parity = tuple(replace(block, name=name) for block, name in zip(stripe.parity, names, strict=True))
        for block in parity:
            homes.setdefault(block.name, set()).add(block.host)
        done.append(Stripe(stripe.data, parity))
    for name, to in chosen.copies.items():
        homes[name] |= set(to)
    return [*chosen.kept, *done], homes


def lost_with(gone, sizes, found, homes):
    """The shards that are lost with some hosts, the obvious way: those without a copy and without k other blocks."""
    there = {name for name, at in homes.items() if set(at) - set(gone)}
    back = set(there)
    for stripe in found:
        if sum(block.name in there for block in stripe.blocks) >= len(stripe.data):
            back |= {block.name for block in stripe.data}
    return sizes.keys() - back


def parity_bytes(found):
    return sum(block.size for stripe in found for block in stripe.parity)


# Forming


@pytest.mark.parametrize(("count", "k", "m"), [(4, 3, 1), (8, 3, 1), (8, 6, 2), (5, 2, 2)])
def test_shards_that_lie_on_every_host_cost_m_of_k_in_memory_evenly(count, k, m):
    pool = hosts(count)
    sizes, homes = fsdp(pool, 3 * k)
    chosen = stripes(sizes, homes, {}, [], pool, Protection(k, m))
    assert not chosen.copies
    assert parity_bytes(chosen.new) * k == sum(sizes.values()) * m
    assert max(chosen.load.values()) - min(chosen.load.values()) <= 2 * MB


def test_the_blocks_of_a_stripe_are_on_different_hosts():
    pool = hosts(6)
    sizes, homes = fsdp(pool, 5)
    for stripe in stripes(sizes, homes, {}, [], pool, Protection(3, 2)).new:
        assert len({block.host for block in stripe.blocks}) == 5


def test_what_the_sharding_replicates_on_enough_hosts_needs_nothing():
    sizes = {b"twice": MB, b"three times": MB}
    homes = {b"twice": {"h0", "h1"}, b"three times": {"h0", "h1", "h2"}}
    chosen = stripes(sizes, homes, {}, [], hosts(4), Protection(2, 2))
    assert (chosen.new, set(chosen.copies)) == ((), {b"twice"})


@pytest.mark.parametrize(("count", "k", "m"), [(5, 3, 1), (4, 3, 1), (3, 2, 1)])
def test_in_a_small_pool_stripes_are_narrower(count, k, m):
    pool = hosts(count)
    sizes, homes = fsdp(pool, 6)
    chosen = stripes(sizes, homes, {}, [], pool, Protection(8, m))
    assert max(len(stripe.data) for stripe in chosen.new) == count - m >= k


def test_two_hosts_copy_to_each_other():
    sizes, homes = fsdp(hosts(2), 2)
    chosen = stripes(sizes, homes, {}, [], hosts(2), Protection(3, 1))
    assert not chosen.new
    assert all({*to, *homes[name]} == {"h0", "h1"} for name, to in chosen.copies.items())
    assert len(chosen.copies) == 4


def test_one_host_can_do_nothing_and_says_so():
    sizes, homes = fsdp(hosts(1), 8)
    chosen = stripes(sizes, homes, {}, [], hosts(1), Protection(3, 1))
    assert (chosen.new, chosen.copies, set(chosen.exposed)) == ((), {}, set(sizes))
    assert chosen.reason == "8 of 8 shards need nothing new: the pool has one host, which alone holds them"


def test_small_shards_are_copied_since_parity_would_save_nothing():
    sizes, homes = fsdp(hosts(4), 1, SMALL - 1)
    chosen = stripes(sizes, homes, {}, [], hosts(4), Protection(3, 1))
    assert (chosen.new, set(chosen.copies)) == ((), set(sizes))


def test_a_shard_without_partners_is_copied():
    sizes, homes = {b"a": MB, b"b": MB}, {b"a": {"h0"}, b"b": {"h0"}}
    assert set(stripes(sizes, homes, {}, [], hosts(4), Protection(3, 1)).copies) == {b"a", b"b"}


def test_a_parity_block_is_as_long_as_the_longest_shard():
    sizes, homes = {b"a": MB, b"b": 3 * MB}, {b"a": {"h0"}, b"b": {"h1"}}
    (stripe,) = stripes(sizes, homes, {}, [], hosts(4), Protection(3, 1)).new
    assert [block.size for block in stripe.parity] == [3 * MB]


def test_the_blocks_of_a_stripe_are_in_different_racks():
    racks = {f"h{number}": f"rack{number % 4}" for number in range(8)}
    sizes, homes = fsdp(racks, 4)
    chosen = stripes(sizes, homes, {}, [], racks, Protection(3, 1))
    assert not chosen.exposed
    assert max(len(stripe.blocks) for stripe in chosen.new) == 4
    for stripe in chosen.new:
        assert len({racks[block.host] for block in stripe.blocks}) == len(stripe.blocks)


def test_where_racks_are_too_few_hosts_have_to_do_and_that_is_said():
    racks = {"h0": "left", "h1": "left", "h2": "right", "h3": "right"}
    sizes, homes = fsdp(racks, 2)
    chosen = stripes(sizes, homes, {}, [], racks, Protection(2, 2))
    assert set(chosen.exposed) == set(sizes)
    assert chosen.reason.endswith("; with less than 3 failure domains not every loss of 2 is survived")
    found, there = made(chosen, homes)
    assert not any(lost_with(gone, sizes, found, there) for gone in itertools.combinations(racks, 2))


def test_a_shard_that_is_on_no_living_host_is_an_error_with_its_name():
    with pytest.raises(ValueError, match=f"the shard {b'x'.hex()} is on no living host"):
        stripes({b"x": 1}, {b"x": {"gone"}}, {}, [], hosts(4), Protection(3, 1))


# What was done before


def test_a_stripe_that_is_whole_is_not_encoded_again():
    pool = hosts(4)
    sizes, homes = fsdp(pool, 3)
    found, homes = made(stripes(sizes, homes, {}, [], pool, Protection(3, 1)), homes)
    again = stripes(sizes, homes, {}, found, pool, Protection(3, 1))
    assert (list(again.kept), again.new, again.copies) == (found, (), {})
    grown = stripes(sizes, homes, {}, found, hosts(5), Protection(3, 1))
    assert (list(grown.kept), grown.new) == (found, ())


def test_only_stripes_with_something_new_are_encoded():
    pool = hosts(4)
    sizes, homes = fsdp(pool, 3)
    found, homes = made(stripes(sizes, homes, {}, [], pool, Protection(3, 1)), homes)
    changed = found[1].data[0]
    del sizes[changed.name]
    sizes[b"new"], homes[b"new"] = MB, {changed.host}
    again = stripes(sizes, homes, {}, found, pool, Protection(3, 1))
    assert list(again.kept) == [stripe for stripe in found if stripe is not found[1]]
    assert {block.name for stripe in again.new for block in stripe.data} == (
        {b"new"} | {block.name for block in found[1].data if block is not changed}
    )


def test_a_block_that_moved_counts_where_it_is_now():
    pool = hosts(5)
    stripe = Stripe((Block(b"a", MB, "h0"), Block(b"b", MB, "h1")), (Block(b"p", MB, "h2"),))
    homes = {b"a": {"h3"}, b"b": {"h1"}, b"p": {"h2"}}
    (kept,) = stripes({b"a": MB, b"b": MB}, homes, {}, [stripe], pool, Protection(2, 1)).kept
    assert [block.host for block in kept.blocks] == ["h3", "h1", "h2"]
    homes[b"a"] = {"h2"}  # Where the parity is.
    assert not stripes({b"a": MB, b"b": MB}, homes, {}, [stripe], pool, Protection(2, 1)).kept


def test_copies_from_before_give_way_to_parity_where_there_are_hosts_again():
    sizes, homes = fsdp(hosts(2), 2)
    kept_by = {name: {"h0", "h1"} - there for name, there in homes.items()}
    two = stripes(sizes, homes, kept_by, [], hosts(2), Protection(2, 1))
    assert (two.new, two.copies, set(two.copied)) == ((), {}, set(sizes))
    three = stripes(sizes, homes, kept_by, [], hosts(3), Protection(2, 1))
    assert (len(three.new), three.copied) == (2, ())


def test_a_copy_from_before_counts_where_a_shard_has_no_partners():
    chosen = stripes({b"a": MB}, {b"a": {"h0"}}, {b"a": {"h1"}}, [], hosts(4), Protection(2, 2))
    assert (set(chosen.copied), len(chosen.copies[b"a"])) == ({b"a"}, 1)
    assert not {"h0", "h1"} & set(chosen.copies[b"a"])


def test_what_can_be_rebuilt_has_k_other_blocks_on_living_hosts():
    stripe = Stripe((Block(b"a", MB, "h0"), Block(b"b", MB, "h1")), (Block(b"p", MB, "h2"), Block(b"q", MB, "h3")))
    homes = {b"a": {"h0"}, b"b": {"h1"}, b"p": {"h2"}, b"q": {"h3"}}
    assert rebuildable([stripe], homes, {"h1", "h2"}) == {b"a": stripe, b"q": stripe}
    assert rebuildable([stripe], homes, {"h1"}) == {}


# The promise


@st.composite
def pools(draw):
    """(sizes, homes, domains, protection): small enough to try all losses."""
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))
    domains = {host: draw(st.sampled_from(["", "", "x", "y"])) or host for host in names}
    protection = Protection(draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    sizes, homes = {}, {}
    for number in range(draw(st.integers(0, 12))):
        name = b"%d" % number
        sizes[name] = draw(st.integers(1, 30))
        homes[name] = set(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)))
    return sizes, homes, domains, protection


def losses(domains, m):
    """All sets of hosts that m losses can take, of domains where there are enough of these, and leave some."""
    apart = domains if len(set(domains.values())) > m else {host: host for host in domains}
    whole = sorted(set(apart.values()))
    for gone in itertools.combinations(whole, min(m, len(whole) - 1)):
        yield {host for host, domain in apart.items() if domain in gone}


@settings(deadline=None, max_examples=300)
@given(pools())
def test_nothing_is_lost_with_any_m_hosts(pool):
    sizes, homes, domains, protection = pool
    found, there = made(stripes(sizes, homes, {}, [], domains, protection, small=5), homes)
    for gone in losses(domains, protection.m):
        assert not lost_with(gone, sizes, found, there)


@settings(deadline=None, max_examples=300)
@given(pools(), st.data())
def test_nor_after_hosts_were_lost_and_shards_changed(pool, data):
    sizes, homes, domains, protection = pool
    found, homes = made(stripes(sizes, homes, {}, [], domains, protection, small=5), homes)
    gone = data.draw(st.sampled_from(list(losses(domains, protection.m))))
    domains = {host: domain for host, domain in domains.items() if host not in gone}
    living = {name: at - gone for name, at in homes.items()}
    for name in sizes:  # What is lost is brought back, as a recovery does, and some moves.
        if not living[name] or data.draw(st.booleans()):
            living[name] = living[name] | {data.draw(st.sampled_from(sorted(domains)))}
    for name in [name for name in sizes if data.draw(st.booleans())]:
        del sizes[name]
        sizes[b"new " + name], living[b"new " + name] = 7, {data.draw(st.sampled_from(sorted(domains)))}
    kept_by = {name: {host for host in living[name] if data.draw(st.booleans())} for name in sizes}
    holders = {name: (there - kept_by.get(name, set())) or there for name, there in living.items()}
    chosen = stripes(sizes, holders, kept_by, found, domains, protection, small=5)
    for name in sizes:
        if name in chosen.copied:
            holders[name] |= kept_by[name]
    again, there = made(chosen, holders)
    for gone in losses(domains, protection.m):
        assert not lost_with(gone, sizes, again, there)
    assert all(block.name in sizes for stripe in again for block in stripe.data)


@settings(deadline=None, max_examples=100)
@given(count=st.integers(3, 9), k=st.integers(2, 6), m=st.integers(1, 2), arrays=st.integers(1, 8))
def test_equal_shards_on_all_hosts_cost_about_m_of_k(count, k, m, arrays):
    """Narrower stripes at the end, when fewer than k shards are left, cost one stripe more at most."""
    pool = hosts(count)
    sizes, homes = fsdp(pool, arrays)
    chosen = stripes(sizes, homes, {}, [], pool, Protection(k, m))
    m = min(m, count - 1)
    k = min(k, count - m)
    if k > 1:
        assert len(chosen.copies) <= 1
        assert len(chosen.new) + len(chosen.copies) <= len(sizes) / k + 2


def test_a_hundred_thousand_shards_find_their_stripes_in_four_seconds():
    domains = {f"h{number}": f"rack{number % 100}" for number in range(1000)}
    homes = {b"%d" % number: (f"h{number % 1000}",) for number in range(100_000)}
    sizes = {name: SMALL + number % 7 for number, name in enumerate(homes)}
    begin = time.process_time()
    chosen = stripes(sizes, homes, {}, [], domains, Protection(8, 2))
    assert time.process_time() - begin < 4
    assert len(chosen.new) == 12_500
    assert max(chosen.load.values()) <= 1.1 * sum(chosen.load.values()) / 1000 + SMALL
