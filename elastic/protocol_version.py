"""Which version of the IFRT proxy protocol a session speaks.

Pure arithmetic on numbers: reading GrpcGetVersionRequest and answering it is the front's work, and what differs between
versions is each handler's.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProtocolVersion:
    """A point in the two numberings that client and server agree on before a session."""

    protocol: int
    """The requests, responses and their fields."""
    serdes: int
    """The formats inside `Serialized`, and the `version_number` that the server must write into values it makes."""


# What came with which protocol version (jaxlib 0.10.2 offers 16 to 25):
#   16  devices of an executable; older versions are gone from jaxlib too
#   17  uploads through a shared directory (HostBufferReadFromDisk)
#   18  LoadedExecutableCostAnalysis
#   19  LoadedExecutableHumanReadableProgramText
#   20  the MPMD requests and fields
#   21  LoadedExecutableFetchExecuteResult; before it, CheckFuture asks how an execution ended
#   22  platform_name of each device
#   23  layout in MakeArrayFromHostBuffer
#   24, 25  undocumented in public; BitcastArrays came with one of them
# and with which serdes version (jaxlib 0.10.2 offers 0 to 3):
#   0  the beginning
#   1  unreduced axes in ShardingParam
#   2  programs that mix StableHLO with other dialects
#   3  undocumented in public; the messages in ifrt.proto are those of this version
OLDEST = ProtocolVersion(protocol=16, serdes=0)
"""The oldest version this server speaks."""

NEWEST = ProtocolVersion(protocol=25, serdes=3)
"""The newest version this server speaks. Raise it only together with ifrt.proto."""


class NoCommonVersionError(Exception):
    """Client and server share no version of the protocol, so no session can start.

    The text names both ranges and which side to upgrade; whoever serves GetVersion sends it as the RPC's status.
    """

    def __init__(self, numbering: str, client: tuple[int, int], server: tuple[int, int]) -> None:
        """`numbering` is "protocol" or "serdes"; the ranges are (oldest, newest), both included."""
        self.numbering = numbering
        self.client = client
        self.server = server
        if client[0] > client[1]:
            reason = "the client's range is empty, so it is broken or not an IFRT proxy client"
        elif client[0] > server[1]:
            reason = "the client is too new: upgrade elastic-jax on the server, or use the jaxlib it was made for"
        else:
            reason = "the client is too old: upgrade jaxlib on the client"
        super().__init__(
            f"no common {numbering} version of the IFRT proxy: the client speaks {client[0]} to {client[1]}, "
            f"this server {server[0]} to {server[1]}; {reason}"
        )


def negotiate(
    client_oldest: ProtocolVersion,
    client_newest: ProtocolVersion,
    *,
    server_oldest: ProtocolVersion = OLDEST,
    server_newest: ProtocolVersion = NEWEST,
) -> ProtocolVersion:
    """The highest version inside both ranges; the two numberings are independent of each other.

    Raises `NoCommonVersionError`, for the protocol before serdes, if the ranges do not overlap.
    """
    return ProtocolVersion(
        protocol=_highest_common(
            "protocol",
            (client_oldest.protocol, client_newest.protocol),
            (server_oldest.protocol, server_newest.protocol),
        ),
        serdes=_highest_common(
            "serdes",
            (client_oldest.serdes, client_newest.serdes),
            (server_oldest.serdes, server_newest.serdes),
        ),
    )


def _highest_common(numbering: str, client: tuple[int, int], server: tuple[int, int]) -> int:
    highest = min(client[1], server[1])
    if highest < max(client[0], server[0]):
        raise NoCommonVersionError(numbering, client, server)
    return highest
