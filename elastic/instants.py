"""Instants as text."""

from __future__ import annotations

from datetime import UTC, datetime


def now_text() -> str:
    """This instant as RFC 3339, in UTC and to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
