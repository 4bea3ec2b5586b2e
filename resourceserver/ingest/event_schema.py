"""What trackers may send, as JSON Schema (draft 2020-12): made of the fields that judge it.

A schema is a little narrower than what is taken: where a text would be cut, where a blank one counts as
absent, and where a word that nobody knows counts as another one. What no schema can say well, such as the
order of two times, the bytes of metadata, or characters that cannot be stored, is checked at ingest alone.
"""

from typing import Any, Final

from resourceserver.ingest import events, fields
from resourceserver.ingest.events import Stream

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def of(stream: Stream) -> dict[str, Any]:
    """Return the schema of one event of ``stream``."""
    return {
        "type": "object",
        "required": list(stream.required),
        "anyOf": [
            {
                "required": ["ended_at"],
                "properties": {"ended_at": {"type": "string", "pattern": _NOT_BLANK}},
            },
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


_NOT_BLANK: Final = r"\S"


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """Return ``schema`` with null, which counts as absent."""
    wider = schema | {"type": [schema["type"], "null"]}
    return wider | {"enum": [*schema["enum"], None]} if "enum" in schema else wider


def _of(kind: fields.Kind) -> dict[str, Any]:
    note = _note(kind)
    return _shape(kind) | ({"description": note} if note else {})


def _note(kind: fields.Kind) -> str | None:
    """Return what becomes of values that a schema leaves out, where they are taken all the same."""
    match kind:
        case fields.Text() | fields.Name(is_cut=True):
            return "Longer text is cut."
        case fields.Address():
            return "Of http or https; another one, and a longer one, counts as absent."
        case fields.Choice(otherwise=str(word)):
            return f"Any other word counts as `{word}`."
        case _:
            return None


def _shape(kind: fields.Kind) -> dict[str, Any]:
    schema: dict[str, Any]
    match kind:
        case fields.Key(limit=limit) | fields.Name(limit=limit):
            schema = {"type": "string", "maxLength": limit, "pattern": _NOT_BLANK}
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
