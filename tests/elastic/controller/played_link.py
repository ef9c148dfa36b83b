"""A connection of frames whose other end is in the hands of the test."""

from elastic import wire

HEADER_BYTES = len(wire.frame_header(None, 0)) - 1


class PlayedLink:
    """As `Link` to its users."""

    def __init__(self):
        self.sent = []
        self.closed = False

    def redirect(self, received, closed):
        self.receive = received
        self.leave = lambda: closed("its connection closed")

    def send(self, data):
        size = int.from_bytes(data[:4], "little")
        self.sent.append((wire.unpack(data[HEADER_BYTES : HEADER_BYTES + size]), data[HEADER_BYTES + size :]))

    def close(self):
        self.closed = True

    def heard(self):
        """The (message, payload) pairs since the last time."""
        sent, self.sent = self.sent, []
        return sent
