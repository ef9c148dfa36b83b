import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.controller.placement import spread


@st.composite
def sizes(draw):
    """(names of hosts, virtual devices): at least one device a host."""
    devices = draw(st.integers(1, 300))
    hosts = draw(st.integers(1, devices))
    return tuple(f"h{number}" for number in range(hosts)), devices


@settings(deadline=None)
@given(sizes())
def test_every_virtual_device_has_one_owner_and_every_owner_knows_its_devices(size):
    hosts, devices = size
    placement = spread(1, hosts, devices)
    owned = [(rank, device) for rank in range(len(hosts)) for device in placement.local_devices(rank)]
    assert sorted(device for _, device in owned) == list(range(devices))
    for rank, device in owned:
        assert placement.owners[device] == (rank, placement.local_devices(rank).index(device))


@settings(deadline=None)
@given(sizes())
def test_hosts_own_equally_many_devices_within_one(size):
    hosts, devices = size
    placement = spread(1, hosts, devices)
    counts = [len(placement.local_devices(rank)) for rank in range(len(hosts))]
    assert min(counts) >= 1
    assert max(counts) - min(counts) <= 1


@settings(deadline=None)
@given(sizes())
def test_a_host_owns_a_contiguous_block_in_the_order_of_the_hosts(size):
    hosts, devices = size
    placement = spread(1, hosts, devices)
    assert [device for rank in range(len(hosts)) for device in placement.local_devices(rank)] == list(range(devices))
    assert [device for held in placement.by_host().values() for device in held] == list(range(devices))


@settings(deadline=None)
@given(sizes(), st.data())
def test_the_ranks_of_devices_are_their_owners_ascending(size, data):
    hosts, devices = size
    placement = spread(1, hosts, devices)
    some = data.draw(st.lists(st.integers(0, devices - 1), max_size=20))
    twin = [rank for rank in range(len(hosts)) if any(device in placement.local_devices(rank) for device in some)]
    assert list(placement.ranks(some)) == twin


def test_four_hosts_of_two_devices():
    placement = spread(7, ["a", "b", "c", "d"], 8)
    assert placement.generation == 7
    assert placement.hosts == ("a", "b", "c", "d")
    assert placement.owners == ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1))
    assert placement.ranks((5, 0, 4)) == (0, 2)
    assert "8 virtual devices" in placement.reason
    assert "4 hosts" in placement.reason


def test_the_reason_is_a_sentence_for_one_host_too():
    assert spread(1, ["only"], 2).reason.endswith("over 1 host")


@pytest.mark.parametrize(("hosts", "devices"), [([], 4), (["a", "b"], 1), (["a"], 0), ([], 0)])
def test_a_host_that_would_own_nothing_is_an_error(hosts, devices):
    with pytest.raises(ValueError, match=f"{devices} virtual devices cannot be spread over {len(hosts)} hosts"):
        spread(1, hosts, devices)


@settings(deadline=None)
@given(sizes())
def test_a_placement_depends_on_nothing_but_its_arguments(size):
    assert spread(3, *size) == spread(3, *size)
