"""Training loops whose hosts die at chosen points; `python -m tests.elastic.loop_kills` is the long form."""

import itertools

import pytest

from tests.elastic.loop_kills import KINDS, killed, points_of, undisturbed


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_ends_with_the_same_bits_wherever_its_hosts_die(kind):
    """Each loop begins with another point, so that all of them come by."""
    points = points_of(kind)
    first = KINDS.index(kind) * 2 % len(points)
    output, deaths = killed(kind, 26, 5, itertools.islice(itertools.cycle(points), first, None))
    assert deaths == 4
    assert output == undisturbed(kind, 26)
