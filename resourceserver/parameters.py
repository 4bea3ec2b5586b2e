"""Query parameters: what clients may write for instants, days and zones, and how a mistake is named."""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Mapping
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

from resourceserver.errors import InvalidParameter, MissingParameter, ParameterProblem

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
"""Before, local time had no rules that time zone data knows; after, a day's end has no name."""
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
    # These two are files of the zone database and no places.
    return frozenset(available_timezones() - {"localtime", "Factory"})


def parse_zone(text: str) -> str:
    """Return an IANA time zone name as it stands. Raises ValueError for offsets and unknown names."""
    if text not in _zones():
        raise ValueError("must be an IANA time zone, such as Europe/Berlin")
    return text


_CURSOR: Final = re.compile(r"(-?\d{1,15}),([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_cursor(text: str) -> tuple[datetime, UUID]:
    """Return the time and the id of the row after which a list goes on (``svc.cursor``).

    Raises ValueError for what no answer gave out. One that somebody made up leads to nothing but other
    rows of the caller's own.
    """
    try:
        known = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        match = _CURSOR.fullmatch(known.decode("ascii"))
        if match is not None:
            return _EPOCH + timedelta(milliseconds=int(match[1])), UUID(match[2])
    except (binascii.Error, ValueError, OverflowError):
        pass
    raise ValueError("must be the next_cursor of an earlier answer")


def parse_text(text: str) -> str:
    """Return ``text`` as it stands. Raises ValueError where nothing stored could be equal to it."""
    if not text or len(text) > 1024:
        raise ValueError("must have between 1 and 1024 characters")
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    return text


def _validated(parse: Any) -> BeforeValidator:
    def check(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise PydanticCustomError("malformed", "{reason}", {"reason": str(error)}) from error

    return BeforeValidator(check)


Instant = Annotated[
    datetime, _validated(parse_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Day = Annotated[date, _validated(parse_day), WithJsonSchema({"type": "string", "format": "date"})]
Zone = Annotated[
    str, _validated(parse_zone), WithJsonSchema({"type": "string", "format": "iana-timezone"})
]
Text = Annotated[
    str,
    _validated(parse_text),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 1024}),
]


def _checked(parse: Any) -> Any:
    """Return what raises as ``parse`` does, and otherwise returns the text as it is."""

    def check(text: str) -> str:
        parse(text)
        return text

    return check


_LIMIT: Final = re.compile(r"\d+", re.ASCII)


def at_most(most: int) -> BeforeValidator:
    """Return the check of a ``limit``, a whole number without a sign; more than ``most`` is ``most``."""

    def parse(text: str) -> int:
        if not _LIMIT.fullmatch(text):
            raise ValueError("must be a whole number that is not negative")
        # Python reads no integer of more than 4300 digits.
        digits = text.lstrip("0") or "0"
        return most if len(digits) > len(str(most)) else min(int(digits), most)

    return _validated(parse)


Cursor = Annotated[
    str,
    _validated(_checked(parse_cursor)),
    WithJsonSchema({"type": "string", "format": "cursor"}),
]


class Params(BaseModel):
    """The query parameters of an endpoint; unknown ones are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def values(self) -> dict[str, Any]:
        """Return what the query's placeholders stand for, all but ``user_id``."""
        return self.model_dump(by_alias=True)


class NoParams(Params):
    """An endpoint without parameters."""


class InstantRange(Params):
    """A half-open range of instants: ``from`` belongs to it, ``to`` does not."""

    from_: Instant = Field(alias="from", description="Start of the range, an ISO 8601 instant.")
    to: Instant = Field(description="End of the range, an ISO 8601 instant; not part of it.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ > self.to:
            raise PydanticCustomError("order", "must not be after to", {"parameter": "from"})
        return self


class InstantRangeInZone(InstantRange):
    """A half-open range of instants, and the zone in which its days begin."""

    tz: Zone = Field(default="UTC", description="IANA time zone in which days begin.")

    @model_validator(mode="after")
    def _not_too_long(self) -> Self:
        if self.to - self.from_ > timedelta(days=MOST_DAYS):
            raise PydanticCustomError(
                "length",
                "must be at most {most} days after from",
                {"parameter": "to", "most": MOST_DAYS},
            )
        return self


_FIRST_ROW: Final = (datetime(9999, 12, 31, 23, 59, 59, 999000, UTC), UUID(int=2**128 - 1))
"""Before the newest row of any list."""


class Listed(Params):
    """Where a list goes on; lists of their own length add ``limit``."""

    cursor: Cursor | None = Field(
        default=None,
        description="The next_cursor of the page before, with everything else asked as there.",
    )

    def values(self) -> dict[str, Any]:
        """Return, beside the rest, the row after which the page begins."""
        at, row_id = _FIRST_ROW if self.cursor is None else parse_cursor(self.cursor)
        return super().values() | {"cursor_at": at, "cursor_id": row_id}


class FixedList(Listed):
    """A list whose pages have a length that nobody chooses."""

    LENGTH: ClassVar[int]

    def values(self) -> dict[str, Any]:
        """Return, beside the rest, the length as the ``limit``."""
        return super().values() | {"limit": self.LENGTH}


class DayRange(Params):
    """A range of calendar days, both ends included, and the zone in which days begin."""

    from_: Day = Field(alias="from", description="First calendar day.")
    to: Day = Field(description="Last calendar day, included.")
    tz: Zone = Field(default="UTC", description="IANA time zone in which days begin.")

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


def parse(model: type[Params], given: QueryParams) -> Params:
    """Return the parameters of a request. Raises ParameterProblem, which names the first bad one."""
    fields = {field.alias or name for name, field in model.model_fields.items()}
    pairs = [(name, value) for name, value in given.multi_items() if name in fields]
    doubled = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if doubled:
        raise InvalidParameter(doubled[0], "is given more than once")
    try:
        return model.model_validate(dict(pairs))
    except ValidationError as error:
        raise _problem(error) from error


def _problem(error: ValidationError) -> ParameterProblem:
    first = error.errors(include_url=False, include_input=False)[0]
    context: Mapping[str, Any] = first.get("ctx", {})
    name = str(first["loc"][0]) if first["loc"] else str(context["parameter"])
    if first["type"] == "missing":
        return MissingParameter(name, "is required")
    message = first["msg"]
    return InvalidParameter(name, message[0].lower() + message[1:])
