"""Kinds of fields in events of trackers: their limits, and how their values are read.

A kind checks its rules in the order of the codes (``events.CODES``), so that the first flaw that it finds is
the one to report for its field. Text is measured in code points, as PostgreSQL does; white space is what
Python's ``str.strip`` removes.
"""

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

MAX_DEPTH: Final = 32
"""The deepest nesting of an event; the event itself is the first level."""


class Flaw(Exception):
    """A broken rule: a code, and the words that follow the field's name."""

    def __init__(self, code: str, words: str) -> None:
        """Keep the code apart from the words."""
        self.code = code
        super().__init__(words)


class Kind(Protocol):
    """A kind of field."""

    def read(self, value: Any, /) -> Any:
        """Return the value to store for one that is not null; None counts as absent. Raises Flaw."""


compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Writes JSON as JavaScript's JSON.stringify does, for text without halves of surrogate pairs."""

UNSTORABLE: Final = "holds a NUL character or half of a surrogate pair"
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f]")
_INFINITE: Final = "holds a number outside the range of a double"


def is_storable(text: str) -> bool:
    """Tell whether PostgreSQL can hold ``text``."""
    return text.isprintable() or _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """Return ``text`` with a replacement character for each one that PostgreSQL cannot store."""
    return _UNSTORABLE.sub("\ufffd", text)


def normal(text: str, limit: int) -> str:
    """Return ``text`` in Unicode's form NFC, or a text longer than ``limit`` if that form is longer.

    Composing shortens text to a quarter at most, so the text beyond four times the limit is not composed:
    composing a long row of combining marks takes quadratic time.
    """
    return unicodedata.normalize("NFC", text[: 4 * limit + 1])


def unfit(value: Any, *, level: int, is_stored: bool) -> str | None:
    """Return why no event may contain ``value``, which is nested ``level`` levels deep, or None."""
    if isinstance(value, str):
        return None if not is_stored or is_storable(value) else UNSTORABLE
    if isinstance(value, float):
        return _INFINITE if math.isinf(value) else None
    if isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, list):
        parts = value
    else:
        return None
    if level > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    for part in parts:
        problem = unfit(part, level=level + 1, is_stored=is_stored)
        if problem is not None:
            return problem
    return None


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Flaw("invalid_type", "must be a string")


@dataclass(frozen=True)
class Key:
    """An idempotency key, compared without any change."""

    limit: int

    def read(self, value: Any, /) -> str:
        """Return the key itself."""
        key = _string(value)
        if not key or key.isspace():
            raise Flaw("empty_string", "is blank")
        if len(key) > self.limit:
            raise Flaw("string_too_long", f"is longer than {self.limit} characters")
        if not key.isprintable():
            if _CONTROL.search(key):
                raise Flaw("invalid_value", "holds a control character")
            if not is_storable(key):
                raise Flaw("invalid_value", UNSTORABLE)
        return key


@dataclass(frozen=True)
class Name:
    """A name that people and queries compare: trimmed, and in Unicode's form NFC."""

    limit: int
    may_be_blank: bool = True
    """Whether blank counts as absent."""
    is_cut: bool = False
    """Whether a longer name is cut; else its event is rejected."""

    def read(self, value: Any, /) -> str | None:
        """Return the name."""
        text = _string(value)
        name = text.strip()
        if not name:
            if self.may_be_blank:
                return None
            raise Flaw("empty_string", "is blank")
        if not name.isascii():
            name = normal(name, self.limit)
        if len(name) > self.limit:
            if not self.is_cut:
                raise Flaw("string_too_long", f"is longer than {self.limit} characters")
            name = name[: self.limit].rstrip()
        if not is_storable(text):
            raise Flaw("invalid_value", UNSTORABLE)
        return name


@dataclass(frozen=True)
class Text:
    """Free text, stored unchanged but cut at its limit, so that its event is not rejected."""

    limit: int
    keeps_end: bool = False
    """Whether the end of a longer text is kept instead of the beginning, as for a path."""

    def read(self, value: Any, /) -> str | None:
        """Return the text."""
        text = _string(value)
        if not is_storable(text):
            raise Flaw("invalid_value", UNSTORABLE)
        text = text[-self.limit :] if self.keeps_end else text[: self.limit]
        return None if not text or text.isspace() else text


@dataclass(frozen=True)
class Address:
    """The address of a visited page; one over the limit counts as absent."""

    limit: int

    def read(self, value: Any, /) -> str | None:
        """Return the address without the space around it."""
        text = _string(value)
        if not is_storable(text):
            raise Flaw("invalid_value", UNSTORABLE)
        return text.strip() or None if len(text) <= self.limit else None


# No leap second (":60"): neither PostgreSQL nor the clocks of trackers have them.
RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Instant:
    """A date and time with an offset (RFC 3339, section 5.6); beyond the millisecond it is cut."""

    may_be_blank: bool = True
    """Whether blank counts as absent."""

    def read(self, value: Any, /) -> int | None:
        """Return the milliseconds since 1970."""
        text = _string(value)
        if RFC_3339.fullmatch(text) is None:
            if self.may_be_blank and not text.strip():
                return None
            raise Flaw("invalid_timestamp", "is not an RFC 3339 date and time with an offset")
        # RFC 3339 has a year 0, and Python has not. Year 4, a leap year too, is just as far out of range.
        known = f"0004{text[4:]}" if text.startswith("0000") else text
        try:
            at = datetime.fromisoformat(known.upper())
        except ValueError:
            raise Flaw("invalid_timestamp", "is a date that does not exist") from None
        since = at - _EPOCH
        # This takes half as long as dividing one timedelta by another, and each session needs it twice.
        return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000


def timestamp(at_ms: int) -> str:
    """Return an instant in milliseconds since 1970 in the form of RFC 3339."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise Flaw("invalid_value", _INFINITE)
        if value.is_integer():
            return int(value)
    raise Flaw("invalid_type", "must be a whole number")


@dataclass(frozen=True)
class Duration:
    """A whole number of milliseconds, checked together with the times of its event."""

    def read(self, value: Any, /) -> int:
        """Return the number; 5.0 is whole too."""
        return _whole(value)


@dataclass(frozen=True)
class Count:
    """A whole number that is not negative."""

    limit: int

    def read(self, value: Any, /) -> int:
        """Return the number; 5.0 is whole too."""
        number = _whole(value)
        if not 0 <= number <= self.limit:
            raise Flaw("invalid_value", f"must be between 0 and {self.limit}")
        return number


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def read(self, value: Any, /) -> bool:
        """Return the flag."""
        if isinstance(value, bool):
            return value
        raise Flaw("invalid_type", "must be true or false")


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]
    otherwise: str | None = None
    """The word to store for unknown ones; without it, an event with an unknown word is rejected."""

    def read(self, value: Any, /) -> str | None:
        """Return the word."""
        text = _string(value)
        if text in self.words:
            return text
        if not text.strip():
            return None
        if self.otherwise is None:
            raise Flaw("invalid_value", f"must be one of {', '.join(self.words)}")
        if not is_storable(text):
            raise Flaw("invalid_value", UNSTORABLE)
        return self.otherwise


OFFSET: Final = re.compile(r"[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True)
class Offset:
    """The offset of the tracker's clock from UTC: ``+02:00``."""

    def read(self, value: Any, /) -> str | None:
        """Return the offset."""
        text = _string(value)
        if OFFSET.fullmatch(text):
            return text
        if not text.strip():
            return None
        raise Flaw("invalid_value", "must look like +02:00")


@dataclass(frozen=True)
class Extra:
    """An object of the tracker's own, stored and never interpreted."""

    limit: int
    """The limit in bytes, as compact JSON in UTF-8."""

    def read(self, value: Any, /) -> dict[str, Any]:
        """Return the object."""
        if not isinstance(value, dict):
            raise Flaw("invalid_type", "must be an object")
        problem = unfit(value, level=2, is_stored=True)
        if problem is not None:
            raise Flaw("invalid_value", problem)
        if len(compact(value).encode()) > self.limit:
            raise Flaw("invalid_value", f"is larger than {self.limit} bytes")
        return value
