"""The declaration of a tool, from which its listing, its checks and its answers derive.

An answer consists of parts: statements of the tool's own, and statements of endpoints, prepared once for
both. Before them one statement, the frame, returns the requested days, the time zone, and the scopes of the
token. Durations and instants have texts beside them (``texts.py``), and an answer that is too long for an
assistant is cut and marked as truncated.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from resourceserver.api.bodies import Body, CalendarDay, Count, Timestamp
from resourceserver.api.endpoint import Endpoint, Further, parsed
from resourceserver.api.parameters import LocalDayRange
from resourceserver.api.session import Question
from resourceserver.mcp import apps, texts
from resourceserver.mcp.arguments import Arguments, ArgumentsProblem, InPeriod, Paged
from shared import pipeline, queries
from shared.pipeline import Statement, Step

ENTRY: Final = "read:activity"
"""The scope that every call needs."""
MOST_BYTES: Final = 28 * 1024
"""Most bytes of an answer. A response has it twice, once as text, so it stays below 64 KiB."""
MOST_ROWS: Final = 50
"""Most rows of an answer, unless its tool has another limit."""
ROWS: Final = 20
"""The rows of a list unless its arguments ask for more. An assistant pays for each."""
LONG_ROWS: Final = 10
"""The same for rows with many members or texts, and for the first rows of a ranking."""
IN_EVERY_ANSWER: Final = (
    " *_ms: milliseconds (*_text: in words); *_at: UTC (*_local: in tz); truncated: there is more."
)
"""What an assistant must know of every answer. Many show it descriptions and hide schemas of answers."""

_SHORTER: Final = (1000, 500, 250, 125)
"""The sizes to which texts are cut, one after the other, if an answer is too long even without its rows."""

_FRAME: Final = Path(__file__).with_name("frame.sql")


class Frame(Body):
    """The days of an answer, both included; and the instants at which it begins and ends, unless these days
    are whole."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay
    starts_at: Timestamp | None
    ends_at: Timestamp | None
    note: str | None = None
    """How local times were understood that occur twice or never in the zone."""


class Gap(Body):
    """Consecutive days on which no tracker reported anything, so the activity of these days is unknown."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay
    days: Count


class NotYet(Body):
    """Days of the range that have not begun, so there is no data yet."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay


class Answer(Body):
    """The members of every answer."""

    range: Frame
    tz: str
    """The time zone in which days are counted, and of the members ``..._local``."""
    today: str
    """The current day there with its weekday, such as Mon 2026-11-16."""
    generated_at: Timestamp
    data_gaps: list[Gap]
    """At most the last 50."""
    not_yet: NotYet | None
    removed_before: CalendarDay | None
    """Single sessions of earlier days have been removed, and their sums kept."""
    truncated: bool
    """Whether rows or texts were left out."""


class Page(Answer):
    """The members of an answer whose rows come in pages."""

    next_cursor: str | None
    """The ``cursor`` of the next page; left out on the last one."""


@dataclass(frozen=True, eq=False)
class Part:
    """One statement of an answer.

    Its parameters are the arguments; each column of the frame as ``frame_`` and its name; and those of
    endpoints, ``tz``, ``from``, ``to`` and ``date``, with the values of the frame.
    """

    query: str
    """A statement with one row, whose columns are members."""
    name: str = "answer"
    """The member that holds the row; the columns of ``answer`` are members themselves."""
    scope: str | None = None
    """The part is left out if the token lacks this scope."""
    ends: tuple[str, str] = ("starts_at", "ends_at")
    """The columns of the frame that are ``from`` and ``to``."""
    is_wanted: Callable[[Arguments], bool] = lambda _: True
    """Whether the arguments need this part."""
    ask: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any] | None] | None = None
    """Returns the parameters from the frame and the arguments if they differ from the usual ones, or None if
    the part is not needed."""
    further: Further | None = None
    """The further statements of its endpoint."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Values of its own in place of arguments."""

    @cached_property
    def statement(self) -> Statement:
        """The query as a statement."""
        return pipeline.statement(self.query)

    def more(
        self, frame: Mapping[str, Any], given: Mapping[str, Any], answers: Mapping[str, bytes]
    ) -> dict[str, Step]:
        """Return the further statements by this part's name and their own."""
        if self.further is None or self.name not in answers:
            return {}
        values = self.values(frame, given) or {}
        own = self._own(answers)
        more = self.further.next(values, own) if len(own) > 1 else None
        steps = self.further.first(values, json.loads(own["query"])) if more is None else more
        return {f"{self.name}/{name}": step for name, step in steps.items()}

    def row(self, answers: Mapping[str, bytes]) -> Any:
        """Return its row; None if it was left out."""
        if self.name not in answers:
            return None
        if self.further is None:
            return json.loads(answers[self.name])
        return self.further.finish(parsed(self._own(answers)))

    def _own(self, answers: Mapping[str, bytes]) -> dict[str, bytes]:
        prefix = f"{self.name}/"
        rest = {
            name.removeprefix(prefix): answer
            for name, answer in answers.items()
            if name.startswith(prefix)
        }
        return {"query": answers[self.name], **rest}

    def values(self, frame: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the parameters, all but ``user_id``; None if the part is not needed."""
        if self.ask is not None:
            return self.ask(frame, given)
        return {
            **given,
            **self.own,
            **{f"frame_{name}": value for name, value in frame.items()},
            "tz": frame["tz"],
            "given_tz": frame["tz"],
            "date": frame["first_day"],
            "from": frame[self.ends[0]],
            "to": frame[self.ends[1]],
        }


@dataclass(frozen=True)
class Tool:
    """One operation of the endpoint: arguments in, one JSON object out."""

    name: str
    title: str
    description: str
    """When to use the tool, and when not. Assistants choose a tool by this text."""
    scope: str
    arguments: type[Arguments]
    answer: type[BaseModel]
    """The model of the answer; tests validate every answer with it."""
    frame: str | None
    """A statement with one row: the days of the answer, the columns that its parts share, and the members of
    every answer, unless its answers are not framed. None: an answer is one of the parts, which needs nothing
    else, and so takes one round trip."""
    parts: tuple[Part, ...]
    derive: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None
    """Returns further columns of the frame, for the parts, from it and the arguments."""
    finish: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Combines the parts and the ``frame`` into the answer. A part that was left out is null. The frame of a
    tool without frame members has the arguments too, ``given``, and the service's ``base_url``."""
    rows: str | None = None
    """The member that is cut if there are too many rows."""
    most_rows: int = MOST_ROWS
    looks_ahead: bool = False
    """Whether days that have not begun may have data."""
    is_framed: bool = True
    """Whether its answers have the members of ``Answer``. If not, ``finish`` returns the whole answer, which
    must be short."""
    whole: tuple[str, ...] = ()
    """Members that have their nulls too, since an endpoint documents them."""
    other_rows: tuple[str, ...] = ()
    """Further members that are cut if an answer is too long, before ``rows``."""
    app: str | None = None
    """The URI of the template with which hosts show the answers as a page."""

    @cached_property
    def statements(self) -> dict[str, Statement]:
        """The statements that an answer may consist of, by name; ``frame`` comes first."""
        further = [part.further.statements for part in self.parts if part.further is not None]
        frame = {} if self.frame is None else {"frame": pipeline.statement(self.frame)}
        return frame | {
            name: statement
            for named in ({part.name: part.statement for part in self.parts}, *further)
            for name, statement in named.items()
        }

    def only_part(self, given: Arguments) -> tuple[str, Step]:
        """Return the name and the step of the part that answers a call of a tool without a frame."""
        values = given.values()
        ((part, own),) = [
            (part, part.values({}, values)) for part in self.parts if part.is_wanted(given)
        ]
        return part.name, (part.statement, own or {})

    def question(self, given: Arguments) -> Question:
        """Return the statements for these arguments, of a tool with a frame."""
        values = given.values()

        def whole(frame: dict[str, Any]) -> dict[str, Any]:
            return frame if self.derive is None else frame | self.derive(frame, values)

        def parts(returned: dict[str, Any]) -> dict[str, Step]:
            frame = whole(returned)
            wanted = {
                part: part.values(frame, values)
                for part in self.parts
                if part.is_wanted(given) and (part.scope is None or part.scope in frame["scopes"])
            }
            return {
                part.name: (part.statement, own) for part, own in wanted.items() if own is not None
            }

        def more(answers: Mapping[str, bytes]) -> dict[str, Step]:
            frame = whole(json.loads(answers["frame"]))
            return {
                name: step
                for part in self.parts
                for name, step in part.more(frame, values, answers).items()
            }

        frame, *statements = self.statements.values()
        is_further = any(part.further is not None for part in self.parts)
        return Question((frame, values), tuple(statements), parts, more if is_further else None)

    def scopes(self, given: Arguments | None = None) -> tuple[str, ...]:
        """Return all scopes that a call needs, the one that every call needs first."""
        more = given.scopes() if given is not None else ()
        return tuple(dict.fromkeys((ENTRY, self.scope, *more)))

    def listing(self) -> dict[str, Any]:
        """Return the tool's entry in ``tools/list``."""
        needs = "" if self.scope == ENTRY else f" Needs the scope {self.scope}."
        named = {} if self.app is None else {"_meta": apps.tool_meta(self.app)}
        return named | {
            "name": self.name,
            "title": self.title,
            "description": self.description + (IN_EVERY_ANSWER if self.is_framed else "") + needs,
            "inputSchema": _input_schema(self.arguments),
            "outputSchema": listed_schema(self.answer),
            "annotations": {
                "title": self.title,
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }

    def render(
        self, answers: Mapping[str, bytes], given: Arguments | None = None, base_url: str = ""
    ) -> bytes:
        """Return the answer of the parts, which have names, as JSON that is not too long.

        Raises ArgumentsProblem if the range has not begun, or if names are unknown.

        If rows come in pages, ``given`` are the arguments, and the next page begins after the last row that
        is kept. ``base_url`` is that of addresses in the answer.
        """
        frame = json.loads(answers.get("frame", b"null"))
        if self.finish is not None and not self.is_framed:
            known = {**(frame or {}), "given": given, "base_url": base_url}
            rows = {part.name: part.row(answers) for part in self.parts}
            return _json(self.finish(rows | {"frame": known}))
        answer: dict[str, Any] = {"truncated": False, "not_yet": self._not_yet(frame)}
        if frame is not None:
            answer |= {name: frame[name] for name in _COMMON}
        for part in self.parts:
            row = part.row(answers)
            answer |= (row or {}) if part.name == "answer" else {part.name: row}
        if frame is not None:
            answer["today"] = texts.day(date.fromisoformat(frame["today"]))
            answer["range"] = _without_midnights(frame["range"], ZoneInfo(frame["tz"]))
        if isinstance(given, InPeriod) and (note := given.note(ZoneInfo(answer["tz"]))) is not None:
            answer["range"]["note"] = note
        if self.finish is not None:
            answer = self.finish(answer | {"frame": frame})
            del answer["frame"]
        page = self._page(answer)
        answer = with_texts(answer)
        answer = without_nulls(answer) | {name: answer[name] for name in self.whole}
        if self.rows is not None and len(answer[self.rows]) > self.most_rows:
            answer[self.rows] = answer[self.rows][: self.most_rows]
            answer["truncated"] = True
        written = self._written(answer, given, page)
        for member in (*self.other_rows, *((self.rows,) if self.rows is not None else ())):
            while _weight(written) > MOST_BYTES and answer.get(member):
                rows = answer[member]
                # The other rows may be so long that even the first one seems not to fit.
                fitting = max(len(rows) * MOST_BYTES // _weight(written), 1)
                answer[member] = rows[: min(len(rows) - 1, fitting)]
                answer["truncated"] = True
                written = self._written(answer, given, page)
        for most in _SHORTER:
            if _weight(written) > MOST_BYTES:
                answer = _shortened(answer, most) | {"truncated": True}
                written = self._written(answer, given, page)
        return written

    def _not_yet(self, frame: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the days of the range that have not begun. Raises ArgumentsProblem if all have not."""
        if frame is None or frame["last_day"] <= frame["today"]:
            return None
        if not self.looks_ahead:
            check_begun(frame["first_day"], frame["today"])
        tomorrow = date.fromisoformat(frame["today"]) + timedelta(days=1)
        return {"from": max(str(tomorrow), frame["first_day"]), "to": frame["last_day"]}

    def _page(self, answer: dict[str, Any]) -> tuple[list[str | None], bool]:
        """Remove and return the place of each row, and whether more rows follow.

        Statements write them into ``cursor`` and ``has_more``.
        """
        rows = [] if self.rows is None else answer[self.rows]
        return [row.pop("cursor", None) for row in rows], answer.pop("has_more", False)

    def _written(
        self,
        answer: dict[str, Any],
        given: Arguments | None,
        page: tuple[list[str | None], bool],
    ) -> bytes:
        if isinstance(given, Paged) and self.rows is not None:
            places, has_more = page
            count = len(answer[self.rows])
            goes_on = count > 0 and (has_more or count < len(places))
            # Rows may have been cut since it was written.
            answer.pop("next_cursor", None)
            if goes_on:
                answer["next_cursor"] = given.behind(places[count - 1], count)
        return _json(answer)


def check_begun(first_day: str, today: str) -> None:
    """Raise ArgumentsProblem if days that begin with ``first_day`` have not begun."""
    if first_day > today:
        raise ArgumentsProblem(
            f"{first_day} is not yet: today is {today}, and nothing is known of later days but what"
            " get_content has of the calendar"
        )


def with_texts(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with a text after each duration and instant."""
    result: dict[str, Any] = texts.add_texts(answer, ZoneInfo(answer.get("tz", "UTC")))
    return result


def _without_midnights(of: dict[str, Any], zone: ZoneInfo) -> dict[str, Any]:
    """Return a range without its instants if its days are whole; assistants would pay for them."""
    first, last = date.fromisoformat(of["from"]), date.fromisoformat(of["to"])
    try:
        midnights = (
            datetime.combine(first, time(), zone),
            datetime.combine(last + timedelta(days=1), time(), zone),
        )
        ends = tuple(datetime.fromisoformat(of[name]) for name in ("starts_at", "ends_at"))
        is_whole = all(
            midnight.astimezone(UTC) == end for midnight, end in zip(midnights, ends, strict=True)
        )
    except (ValueError, OverflowError):
        # Beyond the years that Python has.
        return of
    return {"from": of["from"], "to": of["to"]} if is_whole else of


def without_nulls(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without members that are null and ids of rows: an assistant would pay for them."""
    lean: dict[str, Any] = _lean(answer, is_row=False)
    return lean


def _lean(value: Any, *, is_row: bool) -> Any:
    if isinstance(value, list):
        return [_lean(each, is_row=True) if isinstance(each, dict) else each for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _lean(each, is_row=is_row) if isinstance(each, dict | list) else each
        for name, each in value.items()
        if each is not None and not (is_row and name == "id")
    }


def is_too_long(answer: dict[str, Any]) -> bool:
    """Tell whether an answer would be cut; its durations and instants have no texts yet."""
    return _weight(_json(without_nulls(with_texts(answer)))) > MOST_BYTES


def _weight(written: bytes) -> int:
    """Return the length that counts: in the copy as text, each quote and backslash takes a byte more."""
    escaped = written.count(b'"') + written.count(b"\\")
    # Both together may have nine quarters of MOST_BYTES.
    return max(len(written), (2 * len(written) + escaped) * 4 // 9)


def _shortened(value: Any, most: int) -> Any:
    """Return ``value`` with every text in it cut to at most ``most`` bytes of JSON."""
    if isinstance(value, list):
        return [_shortened(each, most) for each in value]
    if isinstance(value, dict):
        return {name: _shortened(each, most) for name, each in value.items()}
    while isinstance(value, str) and (size := len(_json(value))) > most:
        value = f"{value[: (len(value) - 1) * most // size]}…"
    return value


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def part(endpoints: Iterable[Endpoint], endpoint: str, **other: Any) -> Part:
    """Return the part with the answer of one of ``endpoints`` for the frame's days.

    ``other`` are fields of the part that differ; it has the endpoint's name.
    """
    (declared,) = (each for each in endpoints if each.name == endpoint)
    is_of_days = issubclass(declared.params, LocalDayRange)
    usual: dict[str, Any] = {"name": endpoint, "further": declared.further}
    if is_of_days:
        usual["ends"] = ("first_day", "last_day")
    return Part(declared.query, **(usual | other))


def load(*paths: Path) -> dict[str, str]:
    """Return the statements of a tool's files by name, which may use the fragments of ``frame.sql``."""
    return queries.load(_FRAME, *paths)


FRAMES: Final = queries.load(_FRAME)
"""The frames that tools have in common."""

_COMMON: Final = ("range", "tz", "generated_at", "data_gaps", "removed_before")
"""The columns of a frame that are members of every answer."""


def output_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the whole JSON Schema of a tool's answers, with which tests validate them."""
    schema: dict[str, Any] = texts.describe_texts(
        _plain(answer.model_json_schema(mode="serialization"))
    )
    for model in (schema, *schema.get("$defs", {}).values()):
        # Members that are null are left out, and so are ids of rows.
        model["required"] = [
            name
            for name in model.get("required", ())
            if name != "id" and not _is_nullable(model["properties"][name])
        ]
    return schema


def _is_nullable(described: dict[str, Any]) -> bool:
    return {"type": "null"} in described.get("anyOf", ())


def listed_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's answers in the list of tools: members, but not those of members.

    An assistant pays for the list in every conversation, and few look at schemas of answers.
    """
    schema = output_schema(answer)
    defined = schema.get("$defs", {})
    common = Answer.model_fields if issubclass(answer, Answer) else {}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: _outline(described, defined, is_described=name not in common)
            for name, described in schema["properties"].items()
        },
        "required": schema["required"],
    }


def _outline(
    described: dict[str, Any], defined: dict[str, Any], *, is_described: bool
) -> dict[str, Any]:
    """Return the types that a member may have and, if it has members itself, in words what it holds."""
    kinds = [_resolved(each, defined) for each in described.get("anyOf", [described])]
    types = list(dict.fromkeys(kind["type"] for kind in kinds))
    rows = [_resolved(kind["items"], defined) for kind in kinds if "items" in kind]
    outline: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    # What the rows of common members hold is in the tool's description.
    if rows and is_described:
        # Rows of several kinds have a list of models in place of a type.
        outline["items"] = {"type": rows[0].get("type", "object")}
    sentences = [
        each["description"] for each in (described, *rows, *kinds) if "description" in each
    ]
    if is_described and sentences and {"array", "object"}.intersection(types):
        outline["description"] = sentences[0].partition(". ")[0].removesuffix(".")
    return outline


def _resolved(described: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema without a reference in its place."""
    if "$ref" not in described:
        return described
    rest = dict(described)
    return _resolved(defined[rest.pop("$ref").removeprefix("#/$defs/")] | rest, defined)


_FORMATS: Final = {"date", "date-time", "uuid"}


def _input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of arguments. An optional one is described without null.

    Only formats of the standard are used, because some clients refuse others.
    """
    schema: dict[str, Any] = _plain(arguments.model_json_schema())
    del schema["description"]
    defined = schema.pop("$defs", {})
    schema["properties"] = {
        name: _argument(described, defined)
        for name, described in schema.get("properties", {}).items()
    }
    return {"type": "object"} | schema


def _argument(described: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of one argument, without references."""
    rest = dict(described)
    for each in rest.pop("anyOf", ()):
        if each != {"type": "null"}:
            rest = each | rest
    if "$ref" in rest:
        rest = defined[rest.pop("$ref").removeprefix("#/$defs/")] | rest
    if "properties" in rest:
        members = rest["properties"].items()
        rest["properties"] = {name: _argument(each, defined) for name, each in members}
        # The message about an unknown member names the others.
        rest.pop("additionalProperties", None)
    default = rest.get("default", 0)
    # A default of many values is in words in the description.
    if default is None or (isinstance(default, list) and len(default) > 1):
        del rest["default"]
    # Everybody leaves out an empty list, and hardly anybody sends 50 names.
    for bound in ("minItems", "maxItems"):
        rest.pop(bound, None)
    if "items" in rest:
        rest["items"] = _argument(rest["items"], defined)
    if rest.get("format") not in _FORMATS:
        rest.pop("format", None)
    return rest


def _plain(schema: Any) -> Any:
    """Return ``schema`` without titles, which repeat names, and with descriptions on one line."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for name, each in schema.items():
        if not isinstance(each, str):
            # The members of ``properties`` are names, and ``title`` may be one of them.
            plain[name] = _plain(each)
        elif name == "description":
            plain[name] = " ".join(each.replace("``", "`").split())
        elif name != "title":
            plain[name] = each
    return plain
