"""What each kind of cut takes."""

from chaos import FAULTS, GATEWAY
from chaos.cuts import ETCD, ways

HOSTS = ("h0", "h1", "h2")


def lost(fault):
    return set(ways(fault, "h1", HOSTS))


def both(*others):
    return {way for other in others for way in (("h1", other), (other, "h1"))}


def test_a_host_is_cut_off_all_others_or_some():
    assert lost("cut") == both("h0", "h2", GATEWAY, ETCD)
    assert lost("cut-peers") == both("h0", "h2")
    assert lost("cut-etcd") == both(ETCD)
    assert lost("cut-controller") == both(GATEWAY)


def test_a_host_is_cut_off_in_one_direction():
    assert lost("cut-in") == {(other, "h1") for other in ("h0", "h2", GATEWAY, ETCD)}
    assert lost("cut-out") == {("h1", other) for other in ("h0", "h2", GATEWAY, ETCD)}


def test_every_cut_of_the_catalogue_takes_something():
    assert all(ways(fault, "h1", HOSTS) for fault in FAULTS if fault.startswith("cut"))
