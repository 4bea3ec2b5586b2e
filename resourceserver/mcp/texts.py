"""Texts beside durations and instants, in answers and in their schemas.

Assistants divide milliseconds wrongly, and take an instant in UTC for the person's own time. So ``x_text``
follows each duration ``x_ms``, and ``x_local`` each instant ``x_at``: the time in the answer's zone.
"""

from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from shared import durations

_MS: Final = "_ms"
_TEXT: Final = "_text"
_AT: Final = "_at"
_LOCAL: Final = "local"
_INSTANT: Final = len("2026-11-16T06:12:00.000Z")
# strftime would use the locale of the machine.
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def day(value: date) -> str:
    """Return a day with its weekday, such as ``Mon 2026-11-16``."""
    return f"{_WEEKDAYS[value.weekday()]} {value.isoformat()}"


def local(instant: str, zone: ZoneInfo) -> str | None:
    """Return the local time of an instant, such as ``Mon 2026-11-16 07:12``; None beyond the year 9999."""
    try:
        at = datetime.fromisoformat(instant).astimezone(zone)
    except (ValueError, OverflowError):
        return None
    return f"{day(at.date())} {at.hour:02}:{at.minute:02}"


def add_texts(value: Any, zone: ZoneInfo) -> Any:
    """Return ``value`` with a text after each duration and instant of the objects in it."""
    if isinstance(value, list):
        return [add_texts(each, zone) if isinstance(each, dict | list) else each for each in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, dict | list):
            result[name] = add_texts(each, zone)
            continue
        result[name] = each
        is_duration, beside = _beside(name)
        if beside is None:
            continue
        if is_duration:
            result[beside] = None if each is None else durations.text(each)
        elif _is_instant(each):
            result[beside] = None if each is None else local(each, zone)
    return result


# Every answer has the same few names; those of applications and the like may be among them.
@lru_cache(maxsize=4096)
def _beside(name: str) -> tuple[bool, str | None]:
    """Return whether a member is a duration, and the name of the text beside it if it has one."""
    if name.endswith(_MS):
        return True, name.removesuffix(_MS) + _TEXT
    return False, _local_name(name)


def _local_name(name: str) -> str | None:
    """Return the name of the local time beside the instant ``name``; None if that is no instant's name."""
    if name == "at":
        return _LOCAL
    return f"{name.removesuffix(_AT)}_{_LOCAL}" if name.endswith(_AT) else None


def _is_instant(value: Any) -> bool:
    # ``at`` may be a day.
    return value is None or (isinstance(value, str) and len(value) >= _INSTANT)


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
        pairs = {name: describe_texts(each)} | _described_text(name, each)
        described["properties"] |= pairs
        described["required"] += pairs if name in required else ()
    return described


def _described_text(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the text beside a member by its name; empty if there is none."""
    described = value.get("anyOf", [value])
    types = [each.get("type") for each in described]
    # An instant after the year 9999 has no local time.
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    if name.endswith(_MS) and "integer" in types:
        words = nullable if "null" in types else {"type": "string"}
        return {name.removesuffix(_MS) + _TEXT: words}
    beside = _local_name(name)
    is_instant = any(each.get("format") == "date-time" for each in described)
    return {beside: nullable} if beside is not None and is_instant else {}
