"""Checks of what a client sends, that more than one kind of request needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elastic.dtypes import NUMPY_OF_KIND
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError


def dtype_name(kind: int) -> str:
    """numpy's name of an element type. Raises `StatusError` if it has none."""
    try:
        return NUMPY_OF_KIND[kind].name
    except KeyError:
        name = pb.DTypeProto.Kind.Name(kind) if kind in pb.DTypeProto.Kind.values() else str(kind)
        raise StatusError(Code.UNIMPLEMENTED, f"arrays of the element type {name} are not supported") from None


def item(items: Sequence[Any], index: int, what: str) -> Any:
    """The item at an index that a client sent. Raises `StatusError` if there is none; `what` names it."""
    if not 0 <= index < len(items):
        raise StatusError(Code.INVALID_ARGUMENT, f"{what} {index} of {len(items)}")
    return items[index]
