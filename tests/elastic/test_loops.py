"""Training loops whose hosts die at chosen points; `python -m tests.elastic.loop_kills` is the long form."""

import itertools

import pytest

from tests.elastic.loop_kills import KINDS, deaths_of, killed, undisturbed


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_ends_with_the_same_bits_wherever_its_hosts_die(kind):
    """Each loop begins with another death, so that all of them come by."""
    ways = deaths_of(kind)
    first = KINDS.index(kind) * 2 % len(ways)
    output, deaths = killed(kind, 26, 5, itertools.islice(itertools.cycle(ways), first, None))
    assert deaths == 4
    assert output == undisturbed(kind, 26)
