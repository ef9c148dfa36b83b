"""Who was wrong, told by executions alone: of hosts that spoil what they compute, once or always, and of programs."""

import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from elastic.controller.majority import Execution, Shard, elsewhere, judge, next_hosts

PARAMETERS, BATCH = 1, 2
"""An array of which every device has the same, and one of which each has a part."""


def right_digests(devices):
    return {
        **{Shard(PARAMETERS, device): b"p" for device in range(devices)},
        **{Shard(BATCH, device): b"b%d" % device for device in range(devices)},
    }


@dataclass
class Pool:
    """Hosts of which some spoil executions: those in `broken` each time, `slip` only in the execution of its number."""

    devices: int
    sizes: dict
    broken: frozenset = frozenset()
    slip: tuple = (-1, "")
    spreads: bool = False
    random: bool = False

    def __post_init__(self):
        self.executions = []
        self.noise = itertools.count()

    def execute(self, hosts):
        digests = right_digests(self.devices)
        number = len(self.executions)
        for shard in digests:
            bad = hosts[shard.device] in self.broken or (number, hosts[shard.device]) == self.slip
            if self.random or (bad and shard.array == PARAMETERS):
                digests[shard] = b"noise %d" % next(self.noise)
        spoiled = bool(self.broken & set(hosts)) or (self.slip[0] == number and self.slip[1] in hosts)
        if spoiled and self.spreads:
            # What came over a collective is as wrong everywhere, and tells nobody where from.
            digests |= dict.fromkeys(digests, b"spread %d" % number)
        self.executions.append(Execution(hosts, digests))

    def settle(self):
        """Executes for as long as something can be learned."""
        self.execute(tuple(host for host, size in self.sizes.items() for _ in range(size)))
        while (hosts := next_hosts(self.executions, self.sizes)) is not None:
            self.execute(hosts)
        return judge(self.executions)


@st.composite
def pools(draw, least_hosts=2, **how):
    sizes = {f"h{n}": draw(st.integers(1, 3)) for n in range(draw(st.integers(least_hosts, 6)))}
    how = {name: draw(value(sizes)) if callable(value) else value for name, value in how.items()}
    return Pool(sum(sizes.values()), sizes, **how)


def one_of(sizes):
    return st.sampled_from(sorted(sizes))


@given(pools())
def test_when_nobody_is_wrong_two_executions_suffice(pool):
    verdict = pool.settle()
    assert verdict.right is pool.executions[0]
    assert (verdict.culprit, len(pool.executions)) == ("", 2)


@given(pools())
def test_no_virtual_device_stays_on_its_host(pool):
    pool.settle()
    main, second = pool.executions
    assert second.independent_of(main)
    assert set(second.hosts) <= pool.sizes.keys()


@given(pools(least_hosts=3))
def test_a_third_execution_has_each_virtual_device_on_a_third_host(pool):
    pool.settle()
    third = elsewhere(pool.executions, pool.sizes)
    assert all(len({*hosts}) == 3 for hosts in zip(third, *(one.hosts for one in pool.executions), strict=True))


def test_devices_are_spread_evenly_over_the_other_hosts():
    main = Execution(("h0", "h0", "h1", "h1", "h2", "h2"), {})
    hosts = elsewhere([main], {"h0": 2, "h1": 2, "h2": 2})
    assert {host: hosts.count(host) for host in hosts} == {"h0": 2, "h1": 2, "h2": 2}


def test_a_spare_can_do_what_the_only_other_host_did():
    assert elsewhere([Execution(("h0", "h0"), {})], {"h0": 2, "h1": 1}) == ("h1", "h1")


def test_with_one_host_there_is_nobody_to_compare_with():
    assert next_hosts([Execution(("h0", "h0"), {})], {"h0": 2}) is None


@given(pools(slip=lambda sizes: st.tuples(st.integers(0, 1), one_of(sizes))))
def test_who_was_wrong_once_is_named_and_the_others_are_right(pool):
    """By the shards, of which only its own are wrong."""
    verdict = pool.settle()
    assert verdict.right.digests == right_digests(pool.devices)
    if pool.slip[1] in pool.executions[pool.slip[0]].hosts:
        assert verdict.culprit == pool.slip[1]


@given(pools(slip=lambda sizes: st.tuples(st.just(0), one_of(sizes)), spreads=True))
def test_of_an_error_that_has_spread_evenly_nobody_is_accused(pool):
    verdict = pool.settle()
    assert verdict.right.digests == right_digests(pool.devices)
    assert verdict.culprit == ""


@given(pools(least_hosts=3, broken=lambda sizes: one_of(sizes).map(lambda host: frozenset({host})), spreads=True))
def test_of_three_hosts_one_that_is_always_wrong_is_found(pool):
    """Though it has spoiled the run, and every execution in which others took part."""
    verdict = pool.settle()
    assert verdict.right.digests == right_digests(pool.devices)
    assert {verdict.culprit} == pool.broken


@given(
    pools(broken=lambda sizes: st.frozensets(one_of(sizes), min_size=1, max_size=2), spreads=lambda _: st.booleans())
)
def test_nobody_who_computes_well_is_ever_named(pool):
    verdict = pool.settle()
    assert verdict.culprit in pool.broken | {""}
    assert verdict.right is None or verdict.right.digests == right_digests(pool.devices)


@given(pools(random=True))
def test_a_program_that_gives_something_else_each_time_accuses_nobody(pool):
    verdict = pool.settle()
    assert (verdict.right, verdict.culprit) == (None, "")
    assert {one.alone for one in pool.executions} >= pool.sizes.keys()


def test_with_two_hosts_one_that_is_always_wrong_cannot_be_told_from_a_program():
    pool = Pool(4, {"h0": 2, "h1": 2}, broken=frozenset({"h0"}), spreads=True)
    assert pool.settle().right is None


def test_the_copy_that_is_not_as_the_others_tells_where_an_error_came_from():
    """A parameter that was changed on one device changes all gradients, and stays different there."""
    hosts = ("h0", "h0", "h1", "h1", "h2", "h2")
    right = {Shard(1, device): b"right" for device in range(6)} | {
        Shard(2, device): b"%d" % device for device in range(6)
    }
    wrong = {shard: b"spread" + digest for shard, digest in right.items()} | {Shard(1, 3): b"more"}
    again = [Execution(tuple(f"h{(int(host[1]) + turn) % 3}" for host in hosts), right) for turn in (1, 2)]
    assert judge([Execution(hosts, wrong), *again]).culprit == "h1"


def test_a_device_that_has_moved_meanwhile_leaves_two_suspects():
    hosts = ("h0", "h1")
    right = {Shard(1, 0): b"a", Shard(2, 1): b"b"}
    spoiled = right | {Shard(1, 0): b"x"}
    again = [Execution(("h1", "h2"), right), Execution(("h2", "h0"), right)]
    assert judge([Execution(hosts, spoiled), *again]).culprit == "h0"
    assert judge([Execution(hosts, spoiled, {0: frozenset({"h3"})}), *again]).culprit == ""


def test_a_shard_says_what_it_is():
    assert str(Shard(17, 3)) == "array 17 on virtual device 3"
    assert str(Shard(17, 3, read=9)) == "array 17 on virtual device 3 as the client read it"
