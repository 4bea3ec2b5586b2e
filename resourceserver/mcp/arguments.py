"""The arguments of tools: what an assistant may write, and how a mistake is told so that it can mend it.

They are JSON where a query's parameters are text, and mean the same (``resourceserver/api/parameters.py``). A
``null`` counts as left out, since many assistants write it for what they do not want to say.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args
from uuid import UUID

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
from resourceserver.mcp.protocol import quoted

_MOST_PROBLEMS: Final = 10
"""How many mistakes are told at once."""


MILLISECOND: Final = timedelta(milliseconds=1)
"""How finely times are told apart."""


class ArgumentsProblem(Exception):
    """Arguments that a tool does not take; the message says what it takes instead."""


def _text(value: Any) -> str:
    """Return ``value``, which must be text that every encoding takes."""
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


def _object(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    raise PydanticCustomError("object", "must be an object")


def _parsed(parse: Callable[[str], date]) -> PlainValidator:
    """Return the check of an argument that ``parse`` reads, whose ValueError says what is wrong with it."""

    def check(value: Any) -> date:
        text = _text(value)
        try:
            return parse(text)
        except ValueError as error:
            raise PydanticCustomError("malformed", "{reason}", {"reason": str(error)}) from error

    return PlainValidator(check)


def _parse_day_or_instant(text: str) -> date:
    is_day = len(text) <= len("2025-06-16")
    return parameters.parse_day(text) if is_day else parameters.parse_instant(text)


TEXT: Final = BeforeValidator(_text)
"""Stands last in what is said of text that is read further."""
WHOLE: Final = BeforeValidator(_whole)
"""Stands last in what is said of an integer, behind its bounds."""
OBJECT: Final = BeforeValidator(_object)
"""The same of an object."""
Zone = Annotated[parameters.Zone, BeforeValidator(_text), AfterValidator(parameters.known_zone)]
Text = Annotated[parameters.Text, BeforeValidator(_text)]
Day = Annotated[
    date, _parsed(parameters.parse_day), WithJsonSchema({"type": "string", "format": "date"})
]
Instant = Annotated[
    datetime,
    _parsed(parameters.parse_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
DayOrInstant = Annotated[
    date | datetime,
    _parsed(_parse_day_or_instant),
    WithJsonSchema({"type": "string", "minLength": 10}),
]

Period = Literal[
    "today",
    "yesterday",
    "this_week",
    "last_week",
    "this_month",
    "last_month",
    "last_7_days",
    "last_30_days",
    "last_90_days",
    "this_year",
    "all",
]


class Arguments(BaseModel):
    """The arguments of a tool: these and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes that a call with these arguments needs beside the tool's own."""
        return ()

    def values(self) -> dict[str, Any]:
        """Return what the question's placeholders stand for, all but ``user_id``."""
        return self.model_dump(by_alias=True)


class InZone(Arguments):
    """Arguments of a tool that always asks about the same days."""

    tz: Zone | None = Field(
        default=None,
        description="IANA time zone in which days are counted, such as Europe/Berlin. "
        "Leave it out to use the zone of the person's profile.",
    )


class InPeriod(InZone):
    """Arguments of a tool that asks about any days: a period by name, or two ends."""

    DEFAULT: ClassVar[Period] = "last_7_days"
    """Another one needs another description of ``period``."""

    period: Period | None = Field(
        default=None,
        description="Which days, counted in tz. last_N_days end today and include it. "
        "Default: last_7_days. Not together with from and to.",
    )
    from_: DayOrInstant | None = Field(
        default=None,
        alias="from",
        description="First day (YYYY-MM-DD), or an ISO 8601 instant. Needs to.",
    )
    to: DayOrInstant | None = Field(
        default=None,
        description="Last day (YYYY-MM-DD), included, or an ISO 8601 instant, not included. Needs from.",
    )

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        reason = _contradiction(self.period, self.from_, self.to)
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def values(self) -> dict[str, Any]:
        """Return, in place of both ends, days or instants; the period where neither is given."""
        rest = super().values()
        ends = {"first": rest.pop("from"), "last": rest.pop("to")}
        is_instant = isinstance(self.from_, datetime)
        none = dict.fromkeys(ends)
        days, instants = (none, ends) if is_instant else (ends, none)
        return rest | {
            "period": self.period or (None if self.from_ else self.DEFAULT),
            "first_day": days["first"],
            "last_day": days["last"],
            "first_instant": instants["first"],
            "last_instant": instants["last"],
        }


Names = Annotated[list[Text], Field(min_length=1, max_length=50)]
Kind = Literal["app", "coding"]


class Filter(BaseModel):
    """Of what something is asked; each list that is given has to hold a session's own value."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    apps: Names | None = Field(default=None, description="Names of applications.")
    categories: Names | None = Field(default=None, description="Names of categories.")
    productivity: (
        Annotated[
            list[Literal["productive", "neutral", "distracting"]], Field(min_length=1, max_length=3)
        ]
        | None
    ) = Field(default=None, description="How productive the category is.")
    projects: Names | None = Field(default=None, description="Names of projects, of coding alone.")
    languages: Names | None = Field(
        default=None,
        description="Programming languages, of coding alone; unknown where none is known.",
    )

    def members(self, kind: Kind) -> tuple[str, ...]:
        """Return which members are given of those that only sessions of this kind have."""
        of_kind = {
            "app": ("apps", "categories", "productivity"),
            "coding": ("projects", "languages"),
        }
        return tuple(name for name in of_kind[kind] if getattr(self, name) is not None)


class Filtered(InPeriod):
    """Arguments of a tool that asks about sessions of applications or of coding, all of them or some."""

    kind: Kind | None = Field(
        default=None,
        description="app for what had the focus on a device, coding for work on projects in editors."
        " Default: app, but coding where filter asks for projects or languages.",
    )
    filter: Annotated[Filter, OBJECT] | None = Field(
        default=None,
        description="Only sessions that fit each member given. Case counts for nothing in names.",
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
        lists = ("apps", "categories", "projects", "languages")
        return self.filter is not None and any(getattr(self.filter, name) for name in lists)

    def chosen_kind(self) -> Kind:
        """Return the kind that is asked for, or the one that what else is asked for belongs to."""
        if self.kind is not None:
            return self.kind
        return "coding" if self.filter is not None and self.filter.members("coding") else "app"

    def values(self) -> dict[str, Any]:
        """Return, in place of the filter, a list for each of its members (``mcp/tools/filter.sql``)."""
        given = self.filter or Filter()
        lists = {name: each or [] for name, each in given.model_dump().items()}
        rest = super().values()
        del rest["filter"]
        return rest | {"kind": self.chosen_kind()} | lists


class Paged(Arguments):
    """Arguments of a tool whose rows have a time and an id, and that tells of them page by page.

    A cursor carries a mark of what was asked, so that one of another question is not taken for one of
    this. It is a guard against mistakes: who makes one up finds rows of the same person's.
    """

    TIME: ClassVar[str] = "started_at"
    """The member of a row that holds its time; another one is ``id``."""

    cursor: Annotated[str, BeforeValidator(_text)] | None = Field(
        default=None,
        description="The next_cursor of the answer before, with all other arguments but limit as there.",
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
        if self.cursor is None:
            return parameters.FIRST_ROW
        mark, _, cursor = self.cursor.partition(".")
        if mark != self._mark():
            raise ValueError("another question")
        return parameters.parse_cursor(cursor)

    def behind(self, row: Mapping[str, Any]) -> str:
        """Return the cursor of the page that begins behind this row of an answer."""
        at = parameters.parse_instant(row[self.TIME])
        return f"{self._mark()}.{parameters.cursor(at, row['id'])}"

    def _mark(self) -> str:
        filters = self.model_dump(exclude={"cursor", "limit"}, exclude_none=True)
        return f"{zlib.crc32(json.dumps(filters, default=str).encode()):08x}"

    def values(self) -> dict[str, Any]:
        """Return, in place of the cursor, the row after which the page begins."""
        rest = super().values()
        del rest["cursor"]
        at, row_id = self.place()
        return rest | {"cursor_at": at, "cursor_id": row_id}


def _contradiction(period: str | None, first: date | None, last: date | None) -> str | None:
    """Return why these do not go together, if so."""
    if period is not None and (first is not None or last is not None):
        return "give either period, or from and to"
    if first is None or last is None:
        return None if first is last else "from and to are needed together"
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
    known = _names(model)
    said = {
        # Of half of a surrogate pair the validator could not say where it stands.
        name if _is_encodable(name) else quoted(name): value
        for name, value in given.items()
        if value is not None or name not in known
    }
    try:
        return model.model_validate(said)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        explained = [_explain(model, each["type"], each["loc"], each["msg"]) for each in found]
        raise ArgumentsProblem("\n".join(explained[:_MOST_PROBLEMS])) from error


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _holding(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model of the object in which what stands at ``loc`` is a member."""
    for name in loc[:-1]:
        fields = model.model_fields.items()
        (annotation,) = [each.annotation for own, each in fields if (each.alias or own) == name]
        model = next(each for each in _parts(annotation) if isinstance(each, type))
    return model


def _parts(annotation: Any) -> Iterator[Any]:
    """Return what an annotation is made of, such as the model of an object that may be left out."""
    yield from (part for each in get_args(annotation) for part in _parts(each))
    yield annotation


def _explain(model: type[Arguments], kind: str, loc: tuple[int | str, ...], message: str) -> str:
    """Return what is wrong with one argument, or with how they go together."""
    if not loc:
        return message
    # Within an object which of its members it is, and within a list which of its items.
    more = (f"[{each}]" if isinstance(each, int) else f".{quoted(each)}" for each in loc[1:])
    name = quoted(str(loc[0])) + "".join(more)
    if kind == "extra_forbidden":
        known = ", ".join(_names(_holding(model, loc))) or "none"
        return f"{name}: there is no such argument; there are {known}"
    return f"{name}: {message[0].lower()}{message[1:]}"
