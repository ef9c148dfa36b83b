"""The negotiation of the protocol version, against a twin that simply intersects the ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic.protocol_version import NEWEST, OLDEST, NoCommonVersionError, ProtocolVersion, negotiate

numbers = st.integers(min_value=0, max_value=40)
versions = st.builds(ProtocolVersion, protocol=numbers, serdes=numbers)


def highest_common(client: tuple[int, int], server: tuple[int, int]) -> int | None:
    """The obvious answer: the largest number that is in both ranges."""
    common = set(range(client[0], client[1] + 1)) & set(range(server[0], server[1] + 1))
    return max(common, default=None)


@given(versions, versions, versions, versions)
def test_negotiation_finds_what_intersecting_the_ranges_finds(
    client_oldest: ProtocolVersion,
    client_newest: ProtocolVersion,
    server_oldest: ProtocolVersion,
    server_newest: ProtocolVersion,
) -> None:
    protocol = highest_common(
        (client_oldest.protocol, client_newest.protocol), (server_oldest.protocol, server_newest.protocol)
    )
    serdes = highest_common((client_oldest.serdes, client_newest.serdes), (server_oldest.serdes, server_newest.serdes))
    if protocol is not None and serdes is not None:
        found = negotiate(client_oldest, client_newest, server_oldest=server_oldest, server_newest=server_newest)
        assert found == ProtocolVersion(protocol, serdes)
        return
    with pytest.raises(NoCommonVersionError) as caught:
        negotiate(client_oldest, client_newest, server_oldest=server_oldest, server_newest=server_newest)
    assert caught.value.numbering == ("protocol" if protocol is None else "serdes")


def test_every_pair_of_small_ranges() -> None:
    for client in ((a, b) for a in range(5) for b in range(5)):
        for server in ((a, b) for a in range(5) for b in range(5)):
            expected = highest_common(client, server)
            try:
                found = negotiate(
                    ProtocolVersion(client[0], 0),
                    ProtocolVersion(client[1], 0),
                    server_oldest=ProtocolVersion(server[0], 0),
                    server_newest=ProtocolVersion(server[1], 0),
                ).protocol
            except NoCommonVersionError:
                assert expected is None, (client, server)
            else:
                assert found == expected, (client, server)


def test_the_client_of_jaxlib_0_10_2_gets_the_newest_version() -> None:
    assert negotiate(ProtocolVersion(16, 0), ProtocolVersion(25, 3)) == NEWEST


def test_a_client_that_can_do_more_gets_our_newest() -> None:
    assert negotiate(ProtocolVersion(20, 1), ProtocolVersion(99, 99)) == NEWEST


def test_an_older_client_gets_its_own_newest() -> None:
    assert negotiate(OLDEST, ProtocolVersion(21, 0)) == ProtocolVersion(21, 0)


@pytest.mark.parametrize(
    ("oldest", "newest", "numbering", "advice"),
    [
        (ProtocolVersion(26, 0), ProtocolVersion(30, 3), "protocol", "upgrade elastic-jax on the server"),
        (ProtocolVersion(3, 0), ProtocolVersion(15, 3), "protocol", "upgrade jaxlib on the client"),
        (ProtocolVersion(25, 0), ProtocolVersion(16, 3), "protocol", "the client's range is empty"),
        (ProtocolVersion(16, 4), ProtocolVersion(25, 5), "serdes", "upgrade elastic-jax on the server"),
    ],
)
def test_the_error_names_both_ranges_and_what_to_do(
    oldest: ProtocolVersion, newest: ProtocolVersion, numbering: str, advice: str
) -> None:
    with pytest.raises(NoCommonVersionError) as caught:
        negotiate(oldest, newest)
    error = caught.value
    assert error.numbering == numbering
    text = str(error)
    assert advice in text
    assert f"the client speaks {error.client[0]} to {error.client[1]}" in text
    assert f"this server {error.server[0]} to {error.server[1]}" in text
