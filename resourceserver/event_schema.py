"""What trackers may send, as JSON Schema (draft 2020-12): made of the fields that judge it.

A schema is a little narrower than what is taken where a longer text would be cut. What no schema can say,
such as the order of two times or the bytes of metadata, is judged at ingest alone.
"""

from typing import Any

from resourceserver import events, fields
from resourceserver.events import Stream


def of(stream: Stream) -> dict[str, Any]:
    """Return the schema of one event of ``stream``."""
    return {
        "type": "object",
        "required": list(stream.required),
        "anyOf": [
            {"required": ["ended_at"], "properties": {"ended_at": {"type": "string"}}},
            {"required": ["duration_ms"], "properties": {"duration_ms": {"type": "integer"}}},
        ],
        "properties": {
            name: _optional(schema) if name not in stream.required else schema
            for name, schema in ((name, _of(kind)) for name, kind in stream.fields.items())
        },
    }


def batch(stream: Stream) -> dict[str, Any]:
    """Return the schema of a request of ``stream``."""
    return {
        "type": "object",
        "description": "A batch of events. One that is malformed is rejected by itself.",
        "required": ["events"],
        "properties": {
            "events": {"type": "array", "maxItems": events.MAX_EVENTS, "items": of(stream)},
            "client": {
                "type": ["object", "null"],
                "description": "The tracker that sends them.",
                "properties": {
                    "name": {
                        "type": ["string", "null"],
                        "description": "Such as `aw-bridge/1.2`; up to the slash, the device of"
                        " events that name none.",
                    }
                },
            },
        },
    }


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """Return ``schema`` with null, which counts as absent."""
    wider = schema | {"type": [schema["type"], "null"]}
    return wider | {"enum": [*schema["enum"], None]} if "enum" in schema else wider


def _of(kind: fields.Kind) -> dict[str, Any]:
    schema: dict[str, Any]
    match kind:
        case fields.Key(limit=limit) | fields.Name(limit=limit):
            schema = {"type": "string", "minLength": 1, "maxLength": limit}
        case fields.Text(limit=limit) | fields.Address(limit=limit):
            schema = {"type": "string", "maxLength": limit}
        case fields.Instant():
            schema = {"type": "string", "format": "date-time"}
        case fields.Duration():
            schema = {"type": "integer", "minimum": 0, "maximum": events.MAX_SESSION_MS}
        case fields.Count(limit=limit):
            schema = {"type": "integer", "minimum": 0, "maximum": limit}
        case fields.Flag():
            schema = {"type": "boolean"}
        case fields.Choice(words=words):
            schema = {"type": "string", "enum": list(words)}
        case fields.Offset():
            schema = {"type": "string", "pattern": f"^{fields.OFFSET.pattern}$"}
        case fields.Extra():
            schema = {"type": "object"}
        case _:
            raise TypeError(f"no schema says what {kind} reads")
    return schema
