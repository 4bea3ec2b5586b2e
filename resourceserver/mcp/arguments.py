"""The arguments of tools: their models, and the messages from which an assistant can correct a mistake.

They are JSON where a query's parameters are text, and mean the same (``resourceserver/api/parameters.py``). A
``null`` counts as left out, because many assistants write it for optional arguments.
"""

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from resourceserver.api import parameters
from resourceserver.mcp import corrections
from resourceserver.mcp.protocol import quoted

_MOST_PROBLEMS: Final = 10
"""The most mistakes that one message lists."""


_LOCAL_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?", re.ASCII)
_RANK: Final = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
MILLISECOND: Final = timedelta(milliseconds=1)
"""The precision of times."""


class ArgumentsProblem(Exception):
    """Arguments that a tool does not accept; the message says which values are valid."""


def _text(value: Any) -> str:
    """Return ``value``, which must be text that can be encoded as UTF-8."""
    if isinstance(value, str) and _is_encodable(value):
        return value
    raise PydanticCustomError("text", "must be a string")


def _is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(value: Any) -> Any:
    """Return a number without a fraction as an integer, as JSON Schema has it: 6.0 is 6."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed(value: Any) -> Any:
    """Return one word as a list of one, as assistants often write it."""
    return [value] if isinstance(value, str) else value


def _object(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    raise PydanticCustomError("object", "must be an object")


def parsed(parse: Callable[[str], date | str]) -> PlainValidator:
    """Return the validator of an argument that ``parse`` reads; its ValueError is the message."""

    def check(value: Any) -> date | str:
        text = _text(value)
        try:
            return parse(text)
        except ValueError as error:
            raise PydanticCustomError("malformed", "{reason}", {"reason": str(error)}) from error

    return PlainValidator(check)


def _parse_time(text: str) -> datetime:
    """Return an instant; or, of a text without an offset, the local time, whose zone the frame knows."""
    if _LOCAL_TIME.fullmatch(text):
        return parameters.parse_instant(f"{text}Z").replace(tzinfo=None)
    try:
        return parameters.parse_instant(text)
    except ValueError as error:
        if _LOCAL_TIME.match(text):
            raise
        raise ValueError(
            "must be a time in tz, such as 2025-06-16T09:00, or with an offset, such as"
            " 2025-06-16T09:00:00Z"
        ) from error


def _parse_day_or_time(text: str) -> date:
    is_day = len(text) <= len("2025-06-16")
    return parameters.parse_day(text) if is_day else _parse_time(text)


TEXT: Final = BeforeValidator(_text)
"""The last part of the JSON Schema of a text that is parsed further."""
WHOLE: Final = BeforeValidator(_whole)
"""The last part of the JSON Schema of an integer, after its bounds."""
LISTED: Final = BeforeValidator(_listed)
"""The last part of the JSON Schema of a list, which may be one word instead."""
OBJECT: Final = BeforeValidator(_object)
"""The last part of the JSON Schema of an object."""
Zone = Annotated[parameters.Zone, BeforeValidator(_text), AfterValidator(parameters.known_zone)]
Text = Annotated[parameters.Text, BeforeValidator(_text), WithJsonSchema({"type": "string"})]
Time = Annotated[datetime, parsed(_parse_time), WithJsonSchema({"type": "string"})]
"""An instant, or a local time without an offset."""
DayOrTime = Annotated[
    date | datetime,
    parsed(_parse_day_or_time),
    WithJsonSchema({"type": "string"}),
]

Period = Literal[
    "today",
    "yesterday",
    "this_week",
    "last_week",
    "this_month",
    "last_month",
    "this_quarter",
    "last_quarter",
    "this_year",
    "last_year",
    "last_7_days",
    "last_14_days",
    "last_30_days",
    "last_90_days",
    "next_7_days",
    "all",
]


PeriodName = Annotated[Period, WithJsonSchema({"type": "string"})]
"""A period whose names stand in the description: many tools have it, and an enum takes twice the room."""


def _in_braces(names: Sequence[str]) -> str:
    """Return names with the same first word as one: ``this_{week,month}``."""
    by_word: dict[str, list[str]] = {}
    for name in names:
        word, _, rest = name.partition("_")
        by_word.setdefault(word, []).append(rest)
    return ", ".join(
        f"{word}_{{{','.join(rests)}}}"
        if len(rests) > 1
        else "_".join((word, *filter(None, rests)))
        for word, rests in by_word.items()
    )


PERIODS: Final = _in_braces(get_args(Period))
"""The names of periods in a description."""


class Arguments(BaseModel):
    """The arguments of a tool; others are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes that a call with these arguments needs besides the tool's own."""
        return ()

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements, all but ``user_id``."""
        return self.model_dump(by_alias=True)


class InZone(Arguments):
    """Arguments of a tool whose days are always the same."""

    tz: Zone | None = Field(default=None, description="IANA zone; default: the person's.")


class InPeriod(InZone):
    """Arguments of a tool for any days: a period by name, or two ends."""

    DEFAULT: ClassVar[Period] = "last_7_days"
    """A subclass with another default also has another description of ``period``."""

    period: PeriodName | None = Field(
        default=None,
        description=f"{PERIODS}. Default: last_7_days.",
    )
    from_: DayOrTime | None = Field(
        default=None,
        alias="from",
        description="Not with period: first day (YYYY-MM-DD) or time (2025-06-17T14:15 in tz).",
    )
    to: DayOrTime | None = Field(
        default=None,
        description="Last day, or time (excluded).",
    )

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        reason = _contradiction(self.period, self.from_, self.to)
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def values(self) -> dict[str, Any]:
        """Return the values with days or instants in place of both ends, or else with the period."""
        rest = super().values()
        first, last = rest.pop("from"), rest.pop("to")
        is_time = isinstance(first, datetime)
        return (
            rest
            | ends_of_time(first if is_time else None, last if is_time else None)
            | {
                "period": self.period or (None if self.from_ else self.DEFAULT),
                "first_day": None if is_time else first,
                "last_day": None if is_time else last,
                "most_days": None,
            }
        )

    def times(self) -> list[datetime]:
        """Return the arguments that are times."""
        return [each for each in (self.from_, self.to) if isinstance(each, datetime)]

    def note(self, zone: ZoneInfo) -> str | None:
        """Return how local times were understood that occur twice or never; None if all occur once."""
        notes = [_note(each, zone) for each in self.times() if each.tzinfo is None]
        return "; ".join(filter(None, notes)) or None


def ends_of_time(first: datetime | None, last: datetime | None) -> dict[str, datetime | None]:
    """Return the parameters of the fragment ``period`` for two instants, or for two local times."""
    is_local = first is not None and first.tzinfo is None
    return {
        "first_instant": None if is_local else first,
        "last_instant": None if is_local else last,
        "first_local": first if is_local else None,
        "last_local": last if is_local else None,
    }


def _note(time: datetime, zone: ZoneInfo) -> str | None:
    first, second = (time.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    if first is None or second is None or first == second:
        return None
    text = f"{time:%Y-%m-%d %H:%M}"
    if first > second:
        return f"{text} occurs twice in {zone}: the first is meant"
    return f"{text} does not occur in {zone}: {time + (second - first):%H:%M} is meant"


Names = Annotated[list[Text], Field(min_length=1, max_length=50), LISTED]
Kind = Literal["app", "coding"]


class Filter(BaseModel):
    """Which sessions to include: each list that is given must contain the session's own value."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    apps: Names | None = None
    domains: Names | None = None
    categories: Names | None = None
    productivity: (
        Annotated[
            list[Literal["productive", "neutral", "distracting"]],
            Field(min_length=1, max_length=3),
            LISTED,
        ]
        | None
    ) = None
    projects: Names | None = None
    languages: Names | None = None
    """``unknown`` for sessions without one."""

    def members(self, kind: Kind) -> tuple[str, ...]:
        """Return the members with a value that only sessions of this kind have."""
        of_kind = {
            "app": ("apps", "domains", "categories", "productivity"),
            "coding": ("projects", "languages"),
        }
        return tuple(name for name in of_kind[kind] if getattr(self, name) is not None)

    def has_names(self) -> bool:
        """Tell whether it has names, which may be unknown."""
        lists = ("apps", "domains", "categories", "projects", "languages")
        return any(getattr(self, name) for name in lists)

    def lists(self) -> dict[str, list[str]]:
        """Return a list for each member (``mcp/tools/filter.sql``)."""
        return {name: each or [] for name, each in self.model_dump().items()}


class Filtered(InPeriod):
    """Arguments of a tool for sessions of applications or of coding, with an optional filter."""

    kind: Kind | None = Field(
        default=None,
        description="app: applications in use; coding: projects in editors. Default: as filter needs.",
    )
    filter: Annotated[Filter, OBJECT] | None = Field(
        default=None,
        description="Sessions must match every list given, in any case. projects and languages are of"
        " coding, the others of app.",
    )

    @model_validator(mode="after")
    def _filters_what_there_is(self) -> Self:
        other: Kind = "coding" if self.chosen_kind() == "app" else "app"
        wrong = () if self.filter is None else self.filter.members(other)
        if wrong:
            reason = f"filter: {' and '.join(wrong)} can be asked of kind {other} alone"
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def has_names(self) -> bool:
        """Tell whether the filter has names, which may be unknown."""
        return self.filter is not None and self.filter.has_names()

    def chosen_kind(self) -> Kind:
        """Return the requested kind, or the one that the other arguments need."""
        if self.kind is not None:
            return self.kind
        return "coding" if self.filter is not None and self.filter.members("coding") else "app"

    def values(self) -> dict[str, Any]:
        """Return the values with a list for each member of the filter (``mcp/tools/filter.sql``)."""
        rest = super().values()
        del rest["filter"]
        return rest | {"kind": self.chosen_kind()} | (self.filter or Filter()).lists()


class Paged(Arguments):
    """Arguments of a tool whose rows have a time and an id, and come in pages.

    A cursor carries a hash of the other arguments, so that a cursor of another question is refused. That is a
    guard against mistakes, not an access check: a forged cursor returns rows of the same person.
    """

    cursor: Annotated[str, BeforeValidator(_text)] | None = Field(
        default=None,
        description="next_cursor, with the same arguments.",
    )

    @model_validator(mode="after")
    def _goes_on_with_itself(self) -> Self:
        try:
            self.place()
        except ValueError as error:
            reason = "cursor: must be the next_cursor of an earlier answer to the same question"
            raise PydanticCustomError("cursor", "{reason}", {"reason": reason}) from error
        return self

    def place(self) -> tuple[datetime, UUID]:
        """Return time and id of the row after which the page begins. Raises ValueError."""
        own = self._own_cursor()
        return parameters.FIRST_ROW if own is None else parameters.parse_cursor(own)

    def behind(self, place: str | None, count: int) -> str:
        """Return the cursor of the page that begins after the row at this place (``svc.cursor``).

        ``count`` is the number of rows up to that one on this page.
        """
        del count
        return f"{self._mark()}.{place}"

    def _own_cursor(self) -> str | None:
        """Return the cursor without the hash. Raises ValueError if it is one of another question."""
        if self.cursor is None:
            return None
        mark, _, own = self.cursor.partition(".")
        if mark != self._mark():
            raise ValueError("another question")
        return own

    def _mark(self) -> str:
        filters = self.model_dump(exclude={"cursor", "limit", "top"}, exclude_none=True)
        return f"{zlib.crc32(json.dumps(filters, default=str).encode()):08x}"

    def values(self) -> dict[str, Any]:
        """Return the values with the row after which the page begins in place of the cursor."""
        rest = super().values()
        del rest["cursor"]
        at, row_id = self.place()
        return rest | {"cursor_at": at, "cursor_id": row_id}


class Ranked(Paged):
    """Arguments of a tool whose rows have ranks, most time first: a cursor is a number of rows."""

    def place(self) -> tuple[datetime, UUID]:
        """Return the place before all rows. Raises ValueError for an invalid cursor."""
        self.skipped()
        return parameters.FIRST_ROW

    def skipped(self) -> int:
        """Return the number of rows before the page. Raises ValueError."""
        own = self._own_cursor()
        if own is None:
            return 0
        if not _RANK.fullmatch(own):
            raise ValueError("not a number of rows")
        return int(own)

    def behind(self, place: str | None, count: int) -> str:
        """Return the cursor of the page that begins after so many rows of this one."""
        del place
        return f"{self._mark()}.{self.skipped() + count}"

    def values(self) -> dict[str, Any]:
        """Return the values with the number of rows before the page in place of the cursor."""
        return super().values() | {"skipped": self.skipped()}


def _contradiction(period: str | None, first: date | None, last: date | None) -> str | None:
    """Return why these arguments contradict each other, or None."""
    if period is not None and (first is not None or last is not None):
        return "give either period, or from and to"
    if first is None or last is None:
        return None if first is last else "from and to are needed together"
    times = [each for each in (first, last) if isinstance(each, datetime)]
    if len({each.tzinfo is None for each in times}) > 1:
        return "from and to must both have an offset, or neither"
    days = [day.date() if isinstance(day, datetime) else day for day in (first, last)]
    # A day at the end is included, and an instant is not.
    length = (days[1] - days[0]).days + (0 if isinstance(last, datetime) else 1)
    reasons = {
        "from and to must both be days, or both instants": type(first) is not type(last),
        "from must not be after to": type(first) is type(last) and first > last,
        f"from and to must have at most {parameters.MOST_DAYS} days": length > parameters.MOST_DAYS,
        f"from and to must be between {parameters.FIRST_DAY} and {parameters.LAST_DAY}": days[0]
        < parameters.FIRST_DAY
        or days[1] > parameters.LAST_DAY,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def parse(model: type[Arguments], given: Mapping[str, Any]) -> Arguments:
    """Return the arguments of a call. Raises ArgumentsProblem."""
    known = corrections.members(model)
    said = {
        # For half of a surrogate pair, the validator could not say where it is.
        name if _is_encodable(name) else quoted(name): value
        for name, value in given.items()
        if value is not None or name not in known
    }
    try:
        return model.model_validate(said)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        explained = [_explain(model, each["type"], each["loc"], each["msg"]) for each in found]
        lines = "\n".join(explained[:_MOST_PROBLEMS])
        raise ArgumentsProblem(lines + corrections.suggestion(model, said)) from error


def _explain(model: type[Arguments], kind: str, loc: tuple[int | str, ...], message: str) -> str:
    """Return what is wrong with one argument, or with a combination of arguments."""
    if not loc:
        return message
    # For an object the message names the member, and for a list the item.
    more = (f"[{each}]" if isinstance(each, int) else f".{quoted(each)}" for each in loc[1:])
    name = quoted(str(loc[0])) + "".join(more)
    if kind == "extra_forbidden":
        known = ", ".join(corrections.members(corrections.holding(model, loc))) or "none"
        return f"{name}: there is no such argument; there are {known}"
    return f"{name}: {message[0].lower()}{message[1:]}"
