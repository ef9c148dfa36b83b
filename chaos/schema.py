"""The form of a plan as a JSON schema, for editors and other tools. What only makes sense together is not in it."""

from __future__ import annotations

from typing import Any

from chaos.faults import FAULTS, POINTS
from chaos.plan import ETCDS, EVENTS, LONGEST_DELAY_S, Plan
from chaos.plan_text import ON_LOSS, PROTECTION

_SECONDS = {"type": "number", "exclusiveMinimum": 0}
_HOST = {"type": "string", "pattern": "^h[0-9]+$"}


def schema() -> dict[str, Any]:
    """The schema of a plan (JSON Schema, draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan of `elastic chaos run`",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string"},
            "description": {"type": "string"},
            "hosts": {"type": "integer", "minimum": 1, "default": Plan.hosts},
            "devices_per_host": {"type": "integer", "minimum": 1, "default": Plan.devices_per_host},
            "spares": {"type": "integer", "minimum": 0, "default": Plan.spares},
            "on_loss": {"enum": list(ON_LOSS), "default": Plan.on_loss},
            "snapshot_budget": {
                "type": "number",
                "minimum": 0,
                "exclusiveMaximum": 1,
                "default": Plan.snapshot_budget,
            },
            "etcd": {"enum": [*ETCDS, *(int(kind) for kind in ETCDS if kind.isdecimal())], "default": Plan.etcd},
            "protect": {"type": "string", "pattern": PROTECTION, "default": Plan.protect},
            "checkpoint_every": {"type": "number", "minimum": 0, "default": Plan.checkpoint_every},
            "verify_every": {"type": "integer", "minimum": 0, "default": Plan.verify_every},
            "seed": {"type": "integer", "minimum": 0},
            "until": _SECONDS,
            "allow_data_loss": {"type": "boolean", "default": False},
            "step": {"type": "string", "format": "regex", "default": Plan.step},
            "notice_within": {**_SECONDS, "default": Plan.notice_within},
            "recover_within": {**_SECONDS, "default": Plan.recover_within},
            "patience": {**_SECONDS, "default": Plan.patience},
            "faults": {"type": "array", "items": _fault()},
        },
    }


def _fault() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["fault"],
        "oneOf": [{"required": [key]} for key in ("at", "every", "mtbf")],
        "properties": {
            "fault": {"oneOf": [{"const": fault.name, "description": fault.explanation} for fault in FAULTS.values()]},
            "host": {"oneOf": [{"const": "random"}, _HOST, {"type": "array", "items": _HOST, "minItems": 1}]},
            "count": {"type": "integer", "minimum": 1},
            "point": {"oneOf": [{"const": point, "description": text} for point, text in POINTS.items()]},
            "for": _SECONDS,
            "share": {**_SECONDS, "exclusiveMaximum": 1},
            "by": {**_SECONDS, "maximum": LONGEST_DELAY_S},
            "device": {"type": "integer", "minimum": 0},
            "at": {
                "oneOf": [
                    _object(step={"type": "integer", "minimum": 0}),
                    _object(seconds={"type": "number", "minimum": 0}),
                    {
                        **_object(event={"enum": list(EVENTS)}, count={"type": "integer", "minimum": 1}),
                        "required": ["event"],
                    },
                ]
            },
            "every": _SECONDS,
            "mtbf": _SECONDS,
            "times": {"type": "integer", "minimum": 1},
        },
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }
