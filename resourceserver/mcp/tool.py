"""What a tool is: one declaration, from which its listing, its checks and its answers derive.

A tool's answer is made of parts: statements of its own, and those of endpoints, as they are prepared for
these. Before them one statement, the frame, says which days are asked for, in which zone, and what the token
may see. Beside every member ``..._ms`` comes a ``..._text``, since an assistant divides milliseconds wrongly,
and an answer that is too long for it is cut and says so.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from resourceserver.api.bodies import Body, CalendarDay, Count, Timestamp
from resourceserver.api.endpoint import Endpoint, Further, parsed
from resourceserver.api.parameters import LocalDayRange
from resourceserver.api.session import Question
from resourceserver.mcp import durations
from resourceserver.mcp.arguments import Arguments, ArgumentsProblem, Paged
from shared import pipeline, queries
from shared.pipeline import Statement, Step

ENTRY: Final = "read:activity"
"""The scope without which nobody comes in."""
MOST_BYTES: Final = 28 * 1024
"""Most bytes of an answer. It stands twice in a response, once as text, which so stays below 64 KiB."""
MOST_ROWS: Final = 50
"""Most rows of an answer where its tool says nothing else."""

_SHORTER: Final = (1000, 500, 250, 125)
"""To how many bytes texts are cut, one after the other, where an answer is too long without its rows."""

_FRAME: Final = Path(__file__).with_name("frame.sql")


class Frame(Body):
    """The days that an answer is about, both included, and the instants between which they lie."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay
    starts_at: Timestamp
    ends_at: Timestamp


class Gap(Body):
    """Days in a row on which no tracker reported anything: what happened then is not known."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay
    days: Count


class NotYet(Body):
    """Days of the range that have not begun: nothing of them can be known."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay


class Answer(Body):
    """What every answer has."""

    range: Frame
    tz: str
    """The zone in which days are counted."""
    generated_at: Timestamp
    data_gaps: list[Gap]
    """The last 50 at most."""
    not_yet: NotYet | None
    truncated: bool
    """Whether there is more than is shown."""


class Page(Answer):
    """What an answer has whose rows are told page by page."""

    next_cursor: str | None
    """The ``cursor`` of the next page; null on the last one."""


@dataclass(frozen=True, eq=False)
class Part:
    """One statement of an answer.

    It sees the arguments; each column of the frame as ``frame_`` and its name; and what endpoints want,
    ``tz``, ``from``, ``to`` and ``date``, with the values of the frame.
    """

    query: str
    """A statement with one row, whose columns are members."""
    name: str = "answer"
    """The member under which the row stands; the columns of ``answer`` are members themselves."""
    scope: str | None = None
    """Without it the part is left out."""
    ends: tuple[str, str] = ("starts_at", "ends_at")
    """The columns of the frame that are ``from`` and ``to``."""
    is_wanted: Callable[[Arguments], bool] = lambda _: True
    """Whether arguments ask for it."""
    ask: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any] | None] | None = None
    """Makes what its placeholders stand for from the frame and the arguments, where that is something else;
    None where it is not wanted."""
    further: Further | None = None
    """What else its endpoint asks."""

    @cached_property
    def statement(self) -> Statement:
        """The query as a statement."""
        return pipeline.statement(self.query)

    def more(
        self, frame: Mapping[str, Any], given: Mapping[str, Any], answers: Mapping[str, bytes]
    ) -> dict[str, Step]:
        """Return what else is asked, by this part's name and theirs."""
        if self.further is None or self.name not in answers:
            return {}
        values = self.values(frame, given) or {}
        own = self._own(answers)
        more = self.further.next(values, own) if len(own) > 1 else None
        steps = self.further.first(values, json.loads(own["query"])) if more is None else more
        return {f"{self.name}/{name}": step for name, step in steps.items()}

    def row(self, answers: Mapping[str, bytes]) -> Any:
        """Return its answer; None where it was left out."""
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
        """Return what its placeholders stand for, all but ``user_id``; None where it is not wanted."""
        if self.ask is not None:
            return self.ask(frame, given)
        return {
            **given,
            **{f"frame_{name}": value for name, value in frame.items()},
            "tz": frame["tz"],
            "given_tz": frame["tz"],
            "date": frame["first_day"],
            "from": frame[self.ends[0]],
            "to": frame[self.ends[1]],
        }


@dataclass(frozen=True)
class Tool:
    """Arguments in, one JSON object out."""

    name: str
    title: str
    description: str
    """When to use it, and when not: all that an assistant decides by."""
    scope: str
    arguments: type[Arguments]
    answer: type[BaseModel]
    """Describes the answer; tests hold every answer against it."""
    frame: str
    """A statement with one row: which days the answer is about, and what else its parts have in common."""
    parts: tuple[Part, ...]
    finish: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Puts the parts and the ``frame`` together. A part that was left out is null."""
    rows: str | None = None
    """The member that is cut where there is too much of it."""
    most_rows: int = MOST_ROWS
    looks_ahead: bool = False
    """Whether there is anything to tell of days that have not begun."""
    other_rows: tuple[str, ...] = ()
    """Further members of which less is shown where an answer is too long; they go before ``rows``."""

    @cached_property
    def statements(self) -> dict[str, Statement]:
        """The statements that an answer may be made of, by name; ``frame`` comes first."""
        further = [part.further.statements for part in self._all_parts if part.further is not None]
        return {"frame": pipeline.statement(self.frame)} | {
            name: statement
            for named in ({part.name: part.statement for part in self._all_parts}, *further)
            for name, statement in named.items()
        }

    @property
    def _all_parts(self) -> tuple[Part, ...]:
        return (_FRAMED, *self.parts)

    def question(self, given: Arguments) -> Question:
        """Return what is asked for these arguments."""
        values = given.values()

        def parts(frame: dict[str, Any]) -> dict[str, Step]:
            wanted = {
                part: part.values(frame, values)
                for part in self._all_parts
                if part.is_wanted(given) and (part.scope is None or part.scope in frame["scopes"])
            }
            return {
                part.name: (part.statement, own) for part, own in wanted.items() if own is not None
            }

        def more(answers: Mapping[str, bytes]) -> dict[str, Step]:
            frame = json.loads(answers["frame"])
            return {
                name: step
                for part in self._all_parts
                for name, step in part.more(frame, values, answers).items()
            }

        frame, *statements = self.statements.values()
        is_further = any(part.further is not None for part in self._all_parts)
        return Question((frame, values), tuple(statements), parts, more if is_further else None)

    def scopes(self, given: Arguments | None = None) -> tuple[str, ...]:
        """Return all scopes that a call needs, the one to come in first."""
        more = given.scopes() if given is not None else ()
        return tuple(dict.fromkeys((ENTRY, self.scope, *more)))

    def listing(self) -> dict[str, Any]:
        """Return what ``tools/list`` says of it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": f"{self.description} Needs the scope {self.scope}.",
            "inputSchema": _input_schema(self.arguments),
            "outputSchema": output_schema(self.answer),
            "annotations": {
                "title": self.title,
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }

    def render(self, answers: Mapping[str, bytes], given: Arguments | None = None) -> bytes:
        """Return the answer that is made of its parts by name, as JSON that is not too long.

        Raises ArgumentsProblem if the range has not begun, or if names are unknown.

        Where rows are ``given`` out page by page, the next page begins behind the last row that is left.
        """
        frame = json.loads(answers.get("frame", b"null"))
        answer: dict[str, Any] = {"truncated": False, "not_yet": self._not_yet(frame)}
        for part in self._all_parts:
            row = part.row(answers)
            answer |= (row or {}) if part.name in _MEMBERS else {part.name: row}
        if self.finish is not None:
            answer = self.finish(answer | {"frame": frame})
            del answer["frame"]
        answer = durations.add_texts(answer)
        if self.rows is not None and len(answer[self.rows]) > self.most_rows:
            answer[self.rows] = answer[self.rows][: self.most_rows]
            answer["truncated"] = True
        written = self._written(answer, given)
        for member in (*self.other_rows, *((self.rows,) if self.rows is not None else ())):
            while _weight(written) > MOST_BYTES and answer[member]:
                rows = answer[member]
                # Those behind the first one may be so long that it seems to have no room itself.
                fitting = max(len(rows) * MOST_BYTES // _weight(written), 1)
                answer[member] = rows[: min(len(rows) - 1, fitting)]
                answer["truncated"] = True
                written = self._written(answer, given)
        for most in _SHORTER:
            if _weight(written) > MOST_BYTES:
                answer = _shortened(answer, most) | {"truncated": True}
                written = self._written(answer, given)
        return written

    def _not_yet(self, frame: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the days of the range that have not begun. Raises ArgumentsProblem if all have not."""
        if frame is None or frame["last_day"] <= frame["today"]:
            return None
        if not self.looks_ahead:
            check_begun(frame["first_day"], frame["today"])
        tomorrow = date.fromisoformat(frame["today"]) + timedelta(days=1)
        return {"from": max(str(tomorrow), frame["first_day"]), "to": frame["last_day"]}

    def _written(self, answer: dict[str, Any], given: Arguments | None) -> bytes:
        if isinstance(given, Paged) and self.rows is not None:
            rows = answer[self.rows]
            goes_on = answer["truncated"] and rows
            answer["next_cursor"] = given.behind(rows[-1]) if goes_on else None
        return _json(answer)


def check_begun(first_day: str, today: str) -> None:
    """Raise ArgumentsProblem if days that begin with ``first_day`` have not begun."""
    if first_day > today:
        raise ArgumentsProblem(
            f"{first_day} is not yet: today is {today}, and nothing is known of later days but what"
            " get_content has of the calendar"
        )


def is_too_long(answer: dict[str, Any]) -> bool:
    """Tell whether an answer, which has no words beside its durations yet, would be cut."""
    return _weight(_json(durations.add_texts(answer))) > MOST_BYTES


def _weight(written: bytes) -> int:
    """Return how long an answer counts as: in its copy, a text, quotes and backslashes take a byte more."""
    escaped = written.count(b'"') + written.count(b"\\")
    # Both together have room for nine quarters of MOST_BYTES.
    return max(len(written), (2 * len(written) + escaped) * 4 // 9)


def _shortened(value: Any, most: int) -> Any:
    """Return ``value`` with no text in it that takes more than ``most`` bytes of JSON."""
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
    """Return the part that is what one of ``endpoints`` answers about the frame's days.

    ``other`` are fields of the part that differ; it has the endpoint's name.
    """
    (declared,) = (each for each in endpoints if each.name == endpoint)
    is_of_days = issubclass(declared.params, LocalDayRange)
    usual: dict[str, Any] = {"name": endpoint, "further": declared.further}
    if is_of_days:
        usual["ends"] = ("first_day", "last_day")
    return Part(declared.query, **(usual | other))


def load(path: Path, *fragments: Path) -> dict[str, str]:
    """Return the statements of a tool's file by name, which may use the fragments of ``frame.sql``."""
    return queries.load(_FRAME, *fragments, path)


_FRAMED: Final = Part(queries.load(_FRAME)["framed"], name="framed")
"""What every answer has."""
_MEMBERS: Final = ("framed", "answer")
"""The parts whose columns are members."""


def output_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's answers."""
    schema: dict[str, Any] = durations.describe_texts(
        _plain(answer.model_json_schema(mode="serialization"))
    )
    return schema


_FORMATS: Final = {"date", "date-time", "uuid"}


def _input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of arguments. One that may be left out is described without its null.

    Formats are those that the standard knows, since there are clients that refuse others.
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
    """Return the JSON Schema of one argument, which refers to nothing that stands elsewhere."""
    rest = dict(described)
    for each in rest.pop("anyOf", ()):
        if each != {"type": "null"}:
            rest = each | rest
    if "$ref" in rest:
        rest = defined[rest.pop("$ref").removeprefix("#/$defs/")] | rest
    if "properties" in rest:
        members = rest["properties"].items()
        rest["properties"] = {name: _argument(each, defined) for name, each in members}
    if rest.get("default", 0) is None:
        del rest["default"]
    if rest.get("format") not in _FORMATS:
        rest.pop("format", None)
    return rest


def _plain(schema: Any) -> Any:
    """Return ``schema`` without titles, which only say names again, and with descriptions on one line."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for name, each in schema.items():
        if not isinstance(each, str):
            # The members of ``properties`` have names of their own, ``title`` among them.
            plain[name] = _plain(each)
        elif name == "description":
            plain[name] = " ".join(each.replace("``", "`").split())
        elif name != "title":
            plain[name] = each
    return plain
