"""How a handler of a request answers: at once by what it returns, or later by `respond`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Respond = Callable[[Any], None]
"""Sends a response message, or a `StatusError`."""

LATER = object()
"""Returned by a handler that answers later."""
