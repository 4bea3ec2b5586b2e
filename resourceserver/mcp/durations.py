"""Durations in words beside those in milliseconds, in answers and in their schemas."""

from typing import Any, Final

from shared.durations import text

__all__ = ["add_texts", "describe_texts", "text"]

_MS: Final = "_ms"
_TEXT: Final = "_text"


def add_texts(value: Any) -> Any:
    """Return ``value`` with ``x_text`` after each member ``x_ms`` of the objects in it."""
    if isinstance(value, list):
        return [add_texts(each) if isinstance(each, dict | list) else each for each in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, dict | list):
            result[name] = add_texts(each)
            continue
        result[name] = each
        if name.endswith(_MS):
            result[name.removesuffix(_MS) + _TEXT] = None if each is None else text(each)
    return result


def describe_texts(schema: Any) -> Any:
    """Return the JSON Schema of the values that ``add_texts`` returns for values of ``schema``."""
    if isinstance(schema, list):
        return [describe_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    described = {name: describe_texts(each) for name, each in schema.items()}
    members = schema.get("properties")
    if not isinstance(members, dict):
        return described
    described["properties"] = {}
    required = set(schema.get("required", ()))
    described["required"] = []
    for name, each in members.items():
        pairs = {name: describe_texts(each)}
        if name.endswith(_MS) and (words := _words(each)) is not None:
            pairs[name.removesuffix(_MS) + _TEXT] = words
        described["properties"] |= pairs
        described["required"] += pairs if name in required else ()
    return described


def _words(duration: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of the words for the duration that ``duration`` describes; None if it is none."""
    types = [each.get("type") for each in duration.get("anyOf", [duration])]
    if "integer" not in types:
        return None
    return {"type": ["string", "null"]} if "null" in types else {"type": "string"}
