"""Tells whoever asks how a run is: one report for the hello {"role": "status"}, and one for each message after it.

It answers while the run recovers or waits for hosts, too, since it asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elastic import wire

ROLE = "status"

Report = Callable[[], dict[str, Any]]


def serve(report: Report, link: wire.Link) -> None:
    """Takes over a connection in the role "status"."""

    def tell(*_: object) -> None:
        link.send(wire.frame(report()))

    tell()
    link.redirect(tell, lambda _: None)
