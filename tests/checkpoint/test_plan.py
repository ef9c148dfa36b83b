import itertools
import time
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.plan import Bandwidth, Copy, Kind, Need, Tier, plan

MB = 1_000_000
RATES = Bandwidth(own=4e9, network=1e9, parity=5e8, durable=1e8)


def memory(*hosts):
    return [Copy(Kind.MEMORY if number == 0 else Kind.PEER, host) for number, host in enumerate(hosts)]


def needs(*hosts, bytes=MB):
    return [Need(0, shard, bytes, host) for shard, host in enumerate(hosts)]


# Stories


def test_who_holds_a_shard_takes_it_from_its_own_memory():
    made = plan(needs("h0"), {(0, 0): memory("h1", "h0")}, RATES)
    assert made.transfers[0].source == Copy(Kind.PEER, "h0")
    assert made.transfers[0].reason == "h0 holds it itself (peer copy)"
    assert made.seconds == pytest.approx(MB / 4e9)


def test_after_a_loss_the_two_that_hold_copies_share_the_work():
    copies = {(0, shard): [Copy(Kind.REPLICA, "h1"), Copy(Kind.PEER, "h2")] for shard in range(4)}
    made = plan(needs("h3", "h3", "h3", "h3"), copies, RATES)
    assert Counter(transfer.source.host for transfer in made.transfers) == {"h1": 2, "h2": 2}
    assert made.transfers[0].reason == "h1 is the least busy of 2 hosts that can give it (replica)"
    assert made.reason == "2 shards (2.0 MB) from peer copy, 2 shards (2.0 MB) from replica; about 0.004 s"


def test_what_nobody_holds_is_lost_and_named_by_array():
    wanted = [Need(7, 1, MB, "h0"), Need(7, 0, MB, "h1"), Need(7, 1, MB, "h2"), Need(8, 0, MB, "h0")]
    made = plan(wanted, {(8, 0): memory("h0")}, RATES)
    assert made.lost == {7: (0, 1)}
    assert [transfer.need for transfer in made.transfers] == [wanted[3]]
    assert made.reason.endswith("2 shards of 1 arrays are lost, nobody holds them; about 0.00025 s")


def test_parity_and_durable_storage_are_asked_only_for_what_no_memory_holds():
    copies = {
        (0, 0): [Copy(Kind.DURABLE), Copy(Kind.PARITY, "h2"), Copy(Kind.PEER, "h1")],
        (0, 1): [Copy(Kind.DURABLE), Copy(Kind.PARITY, "h2")],
        (0, 2): [Copy(Kind.DURABLE)],
    }
    made = plan(needs("h0", "h0", "h0"), copies, RATES)
    assert [transfer.source.kind for transfer in made.transfers] == [Kind.PEER, Kind.PARITY, Kind.DURABLE]
    assert made.transfers[2].reason == "no memory of the pool holds it: durable storage"
    assert made.seconds == pytest.approx(MB / 1e9 + MB / 5e8 + MB / 1e8)


def test_what_a_host_rebuilds_for_itself_is_not_told_as_its_own_memory():
    made = plan(needs("h0"), {(0, 0): [Copy(Kind.PARITY, "h0")]}, RATES)
    assert made.transfers[0].reason == "h0 rebuilds it from what others have"
    assert made.reason.startswith("1 shards (1.0 MB) from parity; ")


def test_a_host_that_is_slow_sends_less():
    copies = {(0, shard): memory("h1", "h2") for shard in range(10)}
    made = plan(needs(*["h0"] * 10), copies, Bandwidth(factors={"h2": 0.25}))
    assert Counter(transfer.source.host for transfer in made.transfers) == {"h1": 8, "h2": 2}


def test_a_host_that_alone_has_something_is_spared_the_rest():
    copies = {(0, 0): memory("h1", "h2"), (0, 1): memory("h1")}
    made = plan([Need(0, 0, 10 * MB, "h0"), Need(0, 1, 6 * MB, "h3")], copies, RATES)
    assert [transfer.source.host for transfer in made.transfers] == ["h2", "h1"]
    assert made.transfers[1].reason == "h1 is the only host that can give it (memory)"


def test_nothing_to_do_is_a_plan_too():
    made = plan([], {}, RATES)
    assert (made.transfers, made.lost, made.seconds) == ((), {}, 0.0)
    assert made.reason == "nothing is needed; about 0 s"


@pytest.mark.parametrize("values", [{"own": 0}, {"network": -1}, {"factors": {"h0": 0}}])
def test_a_bandwidth_that_is_none_is_refused(values):
    with pytest.raises(ValueError, match="must be positive"):
        Bandwidth(**values)


# Against brute force


@st.composite
def cases(draw):
    """(needs, copies, bandwidth): small enough to try all plans."""
    hosts = ["a", "b", "c", "d"]
    some = st.lists(st.sampled_from([Copy(kind, host) for kind in Kind for host in hosts]), max_size=3)
    copies = {(0, shard): draw(some) for shard in range(draw(st.integers(1, 6)))}
    wanted = [Need(0, shard, draw(st.integers(1, 50)), draw(st.sampled_from(hosts))) for _, shard in copies]
    speeds = st.sampled_from([0.5, 1.0, 2.0]) if draw(st.booleans()) else st.just(1.0)
    factors = {host: draw(speeds) for host in hosts}
    return wanted, copies, Bandwidth(own=40, network=10, parity=3, durable=1, factors=factors)


def tier(need, copy):
    ranks = {Kind.PARITY: Tier.PARITY, Kind.DURABLE: Tier.DURABLE}
    return ranks.get(copy.kind, Tier.OWN if copy.host == need.host else Tier.NETWORK)


def makespan(pairs, bandwidth):
    """The slow way to say how long (need, copy) pairs take."""
    sends, takes = defaultdict(float), defaultdict(float)
    for need, copy in pairs:
        how = tier(need, copy)
        takes[need.host] += need.bytes / bandwidth.of(how, need.host)
        if how in (Tier.NETWORK, Tier.PARITY):
            sends[copy.host] += need.bytes / bandwidth.of(how, copy.host)
    return max([*sends.values(), *takes.values()], default=0.0)


@settings(deadline=None, max_examples=500)
@given(cases())
def test_a_plan_takes_little_longer_than_the_best_of_all(case):
    wanted, copies, bandwidth = case
    made = plan(wanted, copies, bandwidth)
    held = [need for need in wanted if copies[need.array, need.shard]]
    best_tiers = [
        [copy for copy in offers if tier(need, copy) == min(tier(need, other) for other in offers)]
        for need in held
        for offers in [copies[need.array, need.shard]]
    ]
    best = min(makespan(zip(held, choice, strict=True), bandwidth) for choice in itertools.product(*best_tiers))
    assert [transfer.need for transfer in made.transfers] == held
    assert all(transfer.source in offers for transfer, offers in zip(made.transfers, best_tiers, strict=True))
    assert made.seconds == pytest.approx(makespan([(t.need, t.source) for t in made.transfers], bandwidth))
    alike = len(set(bandwidth.factors.values())) == 1
    assert made.seconds <= (2 if alike else 3) * best * (1 + 1e-9)
    gone = {need.shard for need in wanted} - {need.shard for need in held}
    assert made.lost == ({0: tuple(sorted(gone))} if gone else {})


def test_a_hundred_thousand_shards_on_a_thousand_hosts_are_planned_in_two_seconds():
    hosts = [f"h{number}" for number in range(1000)]
    wanted, copies = [], {}
    for shard in range(100_000):
        owner = shard % 1000
        copies[0, shard] = memory(*([] if owner < 20 else [hosts[owner]]), hosts[(owner * 7 + shard) % 980 + 20])
        wanted.append(Need(0, shard, MB + shard, hosts[owner]))
    begin = time.process_time()
    made = plan(wanted, copies, RATES)
    assert time.process_time() - begin < 2
    assert not made.lost
    assert sum(transfer.source.host != transfer.need.host for transfer in made.transfers) == 2000
