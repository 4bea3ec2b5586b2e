"""JSON Schemas (draft 2020-12) of the events that trackers send, made of the fields that read events.

Every event that ingest accepts fits the schema. Some that fit are rejected, for reasons that a schema cannot
state:

- times: their order, length and range, and days that do not exist;
- ``metadata``: its size, and text in it that cannot be stored;
- nesting deeper than 32 levels, and numbers beyond the range of a double;
- the length of a name in Unicode's form NFC. Composing may remove characters from U+0300 on, so the schema
  does not count those;
- halves of surrogate pairs, which many implementations cannot name in a pattern.
"""

from typing import Any, Final

from resourceserver.api import members
from resourceserver.ingest import events, fields
from resourceserver.ingest.events import Stream

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_NOT_BLANK: Final = r"^(?!\s*$)"
_BLANK: Final = r"^\s*$"
_STORABLE: Final = r"^[^\u0000]*$"
_NO_CONTROLS: Final = r"[^\u0000-\u001f\u007f-\u009f]*"
_END: Final = r"(?!\n)$"
"""In Python, the dollar alone also matches before a final newline."""


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
            name: {
                **_of(kind, is_required=name in stream.required),
                "description": " ".join(
                    text for text in (members.DESCRIPTIONS[name], _note(kind)) if text
                ),
            }
            for name, kind in stream.fields.items()
        },
    }


def batch(stream: Stream) -> dict[str, Any]:
    """Return the schema of a request of ``stream``."""
    return {
        "type": "object",
        "description": "A batch of events. A malformed event is rejected without the others.",
        "required": ["events"],
        "properties": {
            "events": {
                "type": "array",
                "description": "The events, in any order.",
                "maxItems": events.MAX_EVENTS,
                "items": of(stream),
            },
            "client": {
                "type": ["object", "null"],
                "description": "The tracker that sends them.",
                "properties": {
                    "name": {
                        "type": ["string", "null"],
                        "pattern": _STORABLE,
                        "description": "Such as `aw-bridge/1.2`; up to the slash, the device of"
                        " events that name none.",
                    }
                },
            },
        },
    }


def _of(kind: fields.Kind, *, is_required: bool) -> dict[str, Any]:
    """Return the schema of a field; null in an optional one counts as absent."""
    alternatives = _alternatives(kind)
    schema = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    if not is_required:
        if "anyOf" in schema:
            schema = {"anyOf": [*alternatives, {"type": "null"}]}
        else:
            schema = schema | {"type": [schema["type"], "null"]}
    return schema


def _note(kind: fields.Kind) -> str | None:
    """Return how accepted values differ from those that are stored, if they do."""
    match kind:
        case fields.Name(limit=limit, is_cut=False):
            return f"At most {limit} characters, without white space around them, in Unicode's form NFC."
        case fields.Text(limit=limit, keeps_end=True):
            return f"Of longer text the last {limit} characters are kept."
        case fields.Text(limit=limit) | fields.Name(limit=limit):
            return f"Longer text is cut to {limit} characters."
        case fields.Address(limit=limit):
            return f"Of http or https, at most {limit} characters; any other text counts as absent."
        case fields.Choice(otherwise=str(word)):
            return f"Any other word counts as `{word}`."
        case _:
            return None


def _alternatives(kind: fields.Kind) -> list[dict[str, Any]]:
    """Return the schemas of which a value that is not null fits at least one."""
    blank = {"type": "string", "pattern": _BLANK}
    text = {"type": "string", "pattern": _STORABLE}
    found: list[dict[str, Any]]
    match kind:
        case fields.Key(limit=limit):
            pattern = f"{_NOT_BLANK}{_NO_CONTROLS}{_END}"
            found = [{"type": "string", "maxLength": limit, "pattern": pattern}]
        case fields.Name(limit=limit, is_cut=False, may_be_blank=may_be_blank):
            found = [{"type": "string", "pattern": _name(limit, may_be_blank=may_be_blank)}]
        case fields.Name() | fields.Text() | fields.Address():
            found = [text]
        case fields.Instant(may_be_blank=may_be_blank):
            pattern = f"^{fields.RFC_3339.pattern}{_END}"
            instant = {"type": "string", "format": "date-time", "pattern": pattern}
            found = [instant, blank] if may_be_blank else [instant]
        case fields.Duration():
            found = [{"type": "integer", "minimum": 0, "maximum": events.MAX_SESSION_MS}]
        case fields.Count(limit=limit):
            found = [{"type": "integer", "minimum": 0, "maximum": limit}]
        case fields.Flag():
            found = [{"type": "boolean"}]
        case fields.Choice(words=words, otherwise=otherwise):
            others = blank if otherwise is None else text
            found = [{"type": "string", "enum": list(words)}, others]
        case fields.Offset():
            found = [{"type": "string", "pattern": f"^{fields.OFFSET.pattern}{_END}"}, blank]
        case fields.Extra():
            found = [{"type": "object", "additionalProperties": True}]
        case _:
            raise TypeError(f"no schema says what {kind} reads")
    return found


def _name(limit: int, *, may_be_blank: bool) -> str:
    """Return the pattern of text that has at most ``limit`` characters after trimming and composing."""
    uncounted = r"[^\u0000-\u02ff]*"
    text = rf"\s*{uncounted}(?:[\u0001-\u02ff]{uncounted}){{0,{limit}}}\s*$"
    return f"^{text}" if may_be_blank else f"{_NOT_BLANK}{text}"
