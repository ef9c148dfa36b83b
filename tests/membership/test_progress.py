from membership.progress import Progress, Stall, World


class Beats:
    """Heartbeats in steps of a quarter of a second."""

    def __init__(self):
        self.world = World(patience=1.0)
        self.now = 0.0

    def __call__(self, **hosts):
        """host=(counter, waiting); returns the stalls that are told."""
        told = {}
        for host, (counter, waiting) in hosts.items():
            stall = self.world.beat(host, Progress(1, counter, waiting), self.now)
            if stall:
                told[host] = stall
        self.now += 0.25
        return told


def test_who_stands_still_while_a_peer_waits_is_told_once():
    beats = Beats()
    told = [beats(a=(number, True), b=(7, False)) for number in range(10)]
    assert told[4] == {"b": Stall(1.0, "a")}
    assert [where for where, stall in enumerate(told) if stall] == [4]


def test_who_moved_and_stands_still_again_is_told_again():
    beats = Beats()
    told = [beats(a=(number, True), b=(number // 8, False)) for number in range(16)]
    assert [where for where, stall in enumerate(told) if stall] == [4, 12]


def test_nobody_is_missed_while_nobody_waits():
    beats = Beats()
    assert not any(beats(a=(number, False), b=(7, False)) for number in range(20))


def test_a_peer_must_wait_for_as_long_too():
    beats = Beats()
    told = [beats(a=(number, number % 4 != 0), b=(7, False)) for number in range(20)]
    assert not any(told)


def test_who_waits_and_moves_is_well_and_who_waits_and_does_not_move_is_not():
    beats = Beats()
    told = [beats(a=(number, True), b=(7, True)) for number in range(10)]
    assert [where for where, stall in enumerate(told) if stall] == [4]
    assert set(told[4]) == {"b"}


def test_one_that_waits_for_itself_alone_is_no_reason():
    beats = Beats()
    assert not any(beats(a=(7, True)) for _ in range(10))


def test_who_left_neither_waits_nor_is_missed():
    beats = Beats()
    for number in range(4):
        beats(a=(number, True), b=(7, False))
    beats.world.leave("a")
    assert not any(beats(b=(7, False)) for _ in range(10))
    beats.world.leave("b")
    assert len(beats.world) == 0
