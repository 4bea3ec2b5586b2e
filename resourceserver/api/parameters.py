"""Query parameters: instants, days, zones and others, their checks, and the messages about mistakes."""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self
from uuid import UUID
from zoneinfo import available_timezones

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError
from starlette.datastructures import QueryParams

from resourceserver.api.errors import InvalidParameter, MissingParameter, ParameterProblem

MOST_DAYS: Final = 3700
"""The longest range of calendar days that one answer lists."""

# RFC 3339 and the other ISO 8601 spellings of an instant: basic or extended, seconds optional, a
# comma or a point before the fraction. A blank before the offset is a plus sign that a form decoded.
_INSTANT: Final = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[Tt ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?"
    r" ?(?:([Zz])|([+ \-])(\d\d)(?::?(\d\d))?)",
    re.ASCII,
)
FIRST_DAY: Final = date(1900, 1, 1)
LAST_DAY: Final = date(9998, 12, 31)
"""Days that a request may name. Nothing was tracked before; after them, the end of a day has no name."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def parse_instant(text: str) -> datetime:
    """Return the instant that ``text`` names, in UTC, cut to whole milliseconds.

    Raises ValueError for anything without an offset, for dates alone, numbers and impossible dates.
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError("must be an ISO 8601 instant with an offset, such as 2025-06-16T09:00:00Z")
    year, month, day, hour, minute = (int(part) for part in match.groups()[:5])
    second, fraction, zulu, sign, offset_hours, offset_minutes = match.groups()[5:]
    milliseconds = int((fraction or "0")[:3].ljust(3, "0"))
    offset = timedelta()
    if not zulu:
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes or 0))
        if offset >= timedelta(hours=24) or int(offset_minutes or 0) > 59:
            raise ValueError("has an offset that does not exist")
    try:
        return datetime(
            year,
            month,
            day,
            hour,
            minute,
            int(second or 0),
            milliseconds * 1000,
            tzinfo=timezone(-offset if sign == "-" else offset),
        ).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("is not a date and time that exists") from error


def parse_day(text: str) -> date:
    """Return the calendar day ``YYYY-MM-DD``. Raises ValueError."""
    if not _DAY.fullmatch(text):
        raise ValueError("must be a calendar day, such as 2025-06-16")
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise ValueError("is not a day that exists") from error
    if not FIRST_DAY <= day <= LAST_DAY:
        raise ValueError(f"must be between {FIRST_DAY} and {LAST_DAY}")
    return day


@cache
def _zones() -> frozenset[str]:
    # These two are files of the zone database, not zones.
    return frozenset(available_timezones() - {"localtime", "Factory"})


# Postgres reads these as abbreviations of one offset all year round; in the zone database they are other
# names of these zones.
_SHADOWED: Final = {
    "CET": "Europe/Brussels",
    "EET": "Europe/Athens",
    "MET": "Europe/Brussels",
    "WET": "Europe/Lisbon",
}


def parse_zone(text: str) -> str:
    """Return the name of an IANA time zone. Raises ValueError for offsets and unknown names."""
    if text not in _zones():
        raise ValueError("must be an IANA time zone, such as Europe/Berlin")
    return text


def known_zone(name: str) -> str:
    """Return the name that Postgres has for a time zone."""
    return _SHADOWED.get(name, name)


_CURSOR: Final = re.compile(r"(-?\d{1,15}),([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_cursor(text: str) -> tuple[datetime, UUID]:
    """Return the time and the id of the row after which the next page begins (``svc.cursor``).

    Raises ValueError for text that no answer contains. A forged cursor gives only other rows of the caller's
    own.
    """
    try:
        known = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        match = _CURSOR.fullmatch(known.decode("ascii"))
        if match is not None:
            return _EPOCH + timedelta(milliseconds=int(match[1])), UUID(match[2])
    except (binascii.Error, ValueError, OverflowError):
        pass
    raise ValueError("must be the next_cursor of an earlier answer")


def cursor(at: datetime, row_id: str) -> str:
    """Return the cursor after the row with this time and id, as ``svc.cursor`` writes it."""
    known = f"{(at - _EPOCH) // timedelta(milliseconds=1)},{row_id}"
    return base64.b64encode(known.encode(), altchars=b"-_").decode().rstrip("=")


def parse_text(text: str) -> str:
    """Return ``text`` unchanged. Raises ValueError if no stored text can be equal to it."""
    if not text or len(text) > 1024:
        raise ValueError("must have between 1 and 1024 characters")
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    return text


_METRIC_TYPE: Final = "[a-z][a-z0-9_]{0,63}"


def parse_metric_type(text: str) -> str:
    """Return the name of a health metric, known or not. Raises ValueError for text that cannot be one."""
    if not re.fullmatch(_METRIC_TYPE, text, re.ASCII):
        raise ValueError("must be a name of a-z, 0-9 and _ that begins with a letter")
    return text


def parse_flag(text: str) -> bool:
    """Return whether ``text`` is ``true``. Raises ValueError for all but ``true`` and ``false``."""
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def validated(parse: Any) -> BeforeValidator:
    """Return the validator of a parameter that ``parse`` reads; its ValueError is the message."""

    def check(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise PydanticCustomError("malformed", "{reason}", {"reason": str(error)}) from error

    return BeforeValidator(check)


Instant = Annotated[
    datetime, validated(parse_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Day = Annotated[date, validated(parse_day), WithJsonSchema({"type": "string", "format": "date"})]
Zone = Annotated[
    str, validated(parse_zone), WithJsonSchema({"type": "string", "format": "iana-timezone"})
]
Text = Annotated[
    str,
    validated(parse_text),
    WithJsonSchema(
        {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": r"^[^\u0000]*$"}
    ),
]
MetricType = Annotated[
    str,
    validated(parse_metric_type),
    WithJsonSchema({"type": "string", "pattern": f"^{_METRIC_TYPE}$"}),
]
Flag = Annotated[bool, validated(parse_flag), WithJsonSchema({"type": "boolean"})]


def _checked(parse: Any) -> Any:
    """Return a function that raises like ``parse`` and otherwise returns the text unchanged."""

    def check(text: str) -> str:
        parse(text)
        return text

    return check


_LIMIT: Final = re.compile(r"\d+", re.ASCII)


def at_most(most: int) -> BeforeValidator:
    """Return the validator of a ``limit``, a whole number without a sign; at most ``most`` counts."""

    def parse(text: str) -> int:
        if not _LIMIT.fullmatch(text):
            raise ValueError("must be a whole number that is not negative")
        # Python reads no integer of more than 4300 digits.
        digits = text.lstrip("0") or "0"
        return most if len(digits) > len(str(most)) else min(int(digits), most)

    return validated(parse)


def some_of(names: Sequence[str]) -> BeforeValidator:
    """Return the validator of a list with commas between its items, each of them one of ``names``."""

    def parse(text: str) -> tuple[str, ...]:
        given = text.split(",")
        if not set(given) <= set(names):
            raise ValueError(f"must be some of {', '.join(names)}, with commas between them")
        return tuple(name for name in names if name in given)

    return validated(parse)


def between(least: int, most: int) -> BeforeValidator:
    """Return the validator of a whole number without a sign between ``least`` and ``most``."""

    def parse(text: str) -> int:
        # Python reads no integer of more than 4300 digits.
        number = int(text) if _LIMIT.fullmatch(text) and len(text) <= 20 else None
        if number is None or not least <= number <= most:
            raise ValueError(f"must be a whole number between {least} and {most}")
        return number

    return validated(parse)


Cursor = Annotated[
    str,
    validated(_checked(parse_cursor)),
    WithJsonSchema({"type": "string", "format": "cursor"}),
]


class Params(BaseModel):
    """The query parameters of an endpoint; unknown ones are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def values(self) -> dict[str, Any]:
        """Return the parameters of the query, all but ``user_id``.

        An answer names a zone as the request does (``given_tz``).
        """
        values = self.model_dump(by_alias=True)
        if "tz" in values:
            values |= {"tz": known_zone(values["tz"]), "given_tz": values["tz"]}
        return values

    @classmethod
    def scopes(cls, given: QueryParams) -> tuple[str, ...]:  # noqa: ARG003 -- for those that override it
        """Return the scopes that a request with this query needs besides the endpoint's own."""
        return ()


class NoParams(Params):
    """An endpoint without parameters."""


class InstantRange(Params):
    """A half-open range of instants: ``from`` belongs to it, ``to`` does not."""

    from_: Instant = Field(
        alias="from",
        description="Start of the range, an ISO 8601 instant.",
        examples=["2025-10-20T00:00:00Z"],
    )
    to: Instant = Field(
        description="End of the range, an ISO 8601 instant; not part of it.",
        examples=["2025-10-27T00:00:00Z"],
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ > self.to:
            raise PydanticCustomError("order", "must not be after to", {"parameter": "from"})
        return self


_FIRST_INSTANT: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST_INSTANT: Final = datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)


class OpenInstantRange(Params):
    """A half-open range of instants; either end may be left out."""

    from_: Instant | None = Field(
        default=None, alias="from", description="Start of the range, an ISO 8601 instant."
    )
    to: Instant | None = Field(
        default=None, description="End of the range, an ISO 8601 instant; not part of it."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise PydanticCustomError("order", "must not be after to", {"parameter": "from"})
        return self

    def values(self) -> dict[str, Any]:
        """Return the values with both ends, because a query with fixed ends has one plan for all calls."""
        ends = {"from": self.from_ or _FIRST_INSTANT, "to": self.to or _LAST_INSTANT}
        return super().values() | ends


class InstantRangeInZone(InstantRange):
    """A half-open range of instants, and the zone in which its days begin."""

    from_: Instant = Field(
        alias="from",
        description=f"Start of the range, an ISO 8601 instant from {FIRST_DAY} to {LAST_DAY}.",
        examples=["2025-10-20T00:00:00Z"],
    )
    to: Instant = Field(
        description="End of the range, an ISO 8601 instant; not part of it,"
        f" and at most {MOST_DAYS} days after the start.",
        examples=["2025-10-27T00:00:00Z"],
    )
    tz: Zone = Field(default="UTC", description="IANA time zone in which days begin.")

    @model_validator(mode="after")
    def _in_known_calendar(self) -> Self:
        for name, at in (("from", self.from_), ("to", self.to)):
            if not FIRST_DAY <= at.date() <= LAST_DAY:
                raise PydanticCustomError(
                    "calendar",
                    "must be between {first} and {last}",
                    {"parameter": name, "first": str(FIRST_DAY), "last": str(LAST_DAY)},
                )
        return self

    @model_validator(mode="after")
    def _not_too_long(self) -> Self:
        if self.to - self.from_ > timedelta(days=MOST_DAYS):
            raise PydanticCustomError(
                "length",
                "must be at most {most} days after from",
                {"parameter": "to", "most": MOST_DAYS},
            )
        return self


FIRST_ROW: Final = (_LAST_INSTANT, UUID(int=2**128 - 1))
"""Before the newest row of any list."""


class Listed(Params):
    """The cursor of a list; lists with pages of any length add ``limit``."""

    cursor: Cursor | None = Field(
        default=None,
        description="The next_cursor of the page before, with all other parameters unchanged.",
    )

    def values(self) -> dict[str, Any]:
        """Return the values with the row after which the page begins."""
        at, row_id = FIRST_ROW if self.cursor is None else parse_cursor(self.cursor)
        return super().values() | {"cursor_at": at, "cursor_id": row_id}


class FixedList(Listed):
    """A list whose pages have a fixed length."""

    LENGTH: ClassVar[int]

    def values(self) -> dict[str, Any]:
        """Return the values with the length as the ``limit``."""
        return super().values() | {"limit": self.LENGTH}


class LocalDayRange(Params):
    """A range of calendar days, both ends included, which are local days at the place of measurement."""

    from_: Day = Field(alias="from", description="First calendar day.", examples=["2025-10-20"])
    to: Day = Field(
        description=f"Last calendar day, included; a range has at most {MOST_DAYS} days.",
        examples=["2025-10-26"],
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ > self.to:
            raise PydanticCustomError("order", "must not be after to", {"parameter": "from"})
        if (self.to - self.from_).days >= MOST_DAYS:
            raise PydanticCustomError(
                "length",
                "must be at most {most} days after from",
                {"parameter": "to", "most": MOST_DAYS},
            )
        return self


class DayRange(LocalDayRange):
    """A range of calendar days, both ends included, and the zone in which days begin."""

    tz: Zone = Field(default="UTC", description="IANA time zone in which days begin.")


def parse(model: type[Params], given: QueryParams) -> Params:
    """Return the parameters of a request. Raises ParameterProblem, which names the first bad one."""
    names = _names(model)
    if not names:
        return model()
    pairs = [(name, value) for name, value in given.multi_items() if name in names]
    values = dict(pairs)
    if len(values) < len(pairs):
        times = Counter(name for name, _ in pairs)
        raise InvalidParameter(
            next(name for name in times if times[name] > 1), "is given more than once"
        )
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _problem(error) from error


@cache
def _names(model: type[Params]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _problem(error: ValidationError) -> ParameterProblem:
    first = error.errors(include_url=False, include_input=False)[0]
    context: Mapping[str, Any] = first.get("ctx", {})
    name = str(first["loc"][0]) if first["loc"] else str(context["parameter"])
    if first["type"] == "missing":
        return MissingParameter(name, "is required")
    message = first["msg"]
    return InvalidParameter(name, message[0].lower() + message[1:])
