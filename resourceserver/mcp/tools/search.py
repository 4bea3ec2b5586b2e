"""The tools search and fetch: records that have certain words, and one record as a whole.

Their arguments and answers have the shape that research assistants ask of every server: one text in, and
nothing but results or one document out. An id names the kind of record and the record; for sessions also the
start, by which their index finds them. An assistant cites the address, where the dashboard shows the record.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from resourceserver.api import parameters
from resourceserver.api.bodies import Body
from resourceserver.mcp import texts, tool
from resourceserver.mcp.arguments import MILLISECOND, Arguments, ArgumentsProblem, Text
from resourceserver.mcp.tool import ENTRY, ROWS, Part, Tool
from shared import durations

SQL: Final = tool.load(Path(__file__).with_name("search.sql"))

MOST_WORDS: Final = 20
MOST_SEARCHED: Final = 1_000_000
"""The sessions that a search looks at, the newest; no index has their words, and this many take a second."""
LONGEST_TITLE: Final = 100
LONGEST_FACT: Final = 500
UNTITLED: Final = "Untitled"
SHORTEST_STRETCH: Final = timedelta(minutes=1)
"""A part of a day in an address has a length, and some sessions have none."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ID_BYTES: Final = 16
_TIME_BYTES: Final = 6
_FIRST_ID: Final = str(UUID(int=0))
_UNKNOWN: Final = "must be the id of a result of search"


@dataclass(frozen=True)
class Kind:
    """One kind of record."""

    letter: str
    """The first character of ids."""
    scope: str
    part: str
    """The statement that fetches a record."""
    words: str
    has_time: bool = False
    """Whether ids have the start of the record."""


KINDS: Final = {
    "session": Kind("s", ENTRY, "fetch_session", "window", has_time=True),
    "coding": Kind("c", ENTRY, "fetch_coding", "coding", has_time=True),
    "commit": Kind("k", "read:code", "fetch_code", "commit"),
    "pull_request": Kind("q", "read:code", "fetch_code", "pull request"),
    "review": Kind("v", "read:code", "fetch_code", "review"),
    "calendar": Kind("e", "read:content", "fetch_calendar", "calendar"),
    "recording": Kind("r", "read:content", "fetch_recording", "recording"),
    "insight": Kind("i", "read:content", "fetch_insight", "weekly insight"),
    "place": Kind("p", "read:location", "fetch_place", "place"),
}
_BY_LETTER: Final = {kind.letter: name for name, kind in KINDS.items()}
_SEARCHES: Final = {
    "search_sessions": None,
    "search_code": "read:code",
    "search_content": "read:content",
    "search_places": "read:location",
}
"""The statements that search, and the scope without which each is left out."""


def _id(kind: str, row: Mapping[str, Any]) -> str:
    """Return the id of a record in answers."""
    known = UUID(row["id"]).bytes
    if KINDS[kind].has_time:
        since = parameters.parse_instant(row["started_at"]) - _EPOCH
        known += (since // MILLISECOND).to_bytes(_TIME_BYTES)
    return KINDS[kind].letter + base64.urlsafe_b64encode(known).decode().rstrip("=")


def _parsed(text: str) -> tuple[str, UUID, datetime | None]:
    """Return kind, id and start of the record with this id. Raises ValueError."""
    name = _BY_LETTER.get(text[:1])
    if name is None or not text.isascii():
        raise ValueError(_UNKNOWN)
    encoded = text[1:]
    try:
        known = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(_UNKNOWN) from error
    length = _ID_BYTES + (_TIME_BYTES if KINDS[name].has_time else 0)
    if len(known) != length:
        raise ValueError(_UNKNOWN)
    at = None
    if KINDS[name].has_time:
        try:
            at = _EPOCH + int.from_bytes(known[_ID_BYTES:]) * MILLISECOND
        except OverflowError as error:
            raise ValueError(_UNKNOWN) from error
    return name, UUID(bytes=known[:_ID_BYTES]), at


def _checked_id(text: str) -> str:
    try:
        _parsed(text)
    except ValueError as error:
        raise PydanticCustomError("malformed", "{reason}", {"reason": str(error)}) from error
    return text


def _checked_words(text: str) -> str:
    count = len(text.split())
    if not 1 <= count <= MOST_WORDS:
        reason = f"must have between 1 and {MOST_WORDS} words"
        raise PydanticCustomError("malformed", "{reason}", {"reason": reason})
    return text


class Search(Arguments):
    """Which words to search for."""

    query: Annotated[Text, AfterValidator(_checked_words)] = Field(
        description="Words that all occur in a record, in any order and case: few, not a question."
    )

    def values(self) -> dict[str, Any]:
        """Return the words as patterns in which every character stands for itself."""
        return {
            "tz": None,
            "patterns": [f"%{_escaped(word)}%" for word in dict.fromkeys(self.query.split())],
            "limit": ROWS,
            "most_searched": MOST_SEARCHED,
        }


def _escaped(word: str) -> str:
    return "".join(f"\\{each}" if each in "\\%_" else each for each in word)


class Fetch(Arguments):
    """Which record to return."""

    id: Annotated[Text, AfterValidator(_checked_id)] = Field(
        description="The id of a result of search."
    )

    def kind(self) -> str:
        """Return the kind of the record."""
        return _parsed(self.id)[0]

    def scopes(self) -> tuple[str, ...]:
        """Return the scope of the record's domain."""
        return (KINDS[self.kind()].scope,)

    def values(self) -> dict[str, Any]:
        """Return the record's id and start, and the number of stays at a place."""
        _, record_id, at = _parsed(self.id)
        return {"id": record_id, "at": at, "limit": ROWS}


class Result(Body):
    """A record that has all words."""

    id: str
    title: str
    url: str
    """Where the dashboard shows it."""


class SearchAnswer(Body):
    """The newest records of each kind in turns, at most 20."""

    results: list[Result]


class Document(Body):
    """One record."""

    id: str
    title: str
    text: str
    """Its own text, such as a transcript, as far as it fits; for a place the notes of the last stays."""
    url: str
    metadata: dict[str, str]
    """What else is known of it, such as its time. ``truncated`` is a member if the text is longer."""


def _address(base_url: str, kind: str, row: Mapping[str, Any]) -> str:
    """Return the address at which the dashboard shows a record."""
    day = row["day"]
    is_in_calendar = day is not None and (
        str(parameters.FIRST_DAY) <= day <= str(parameters.LAST_DAY)
    )
    days = {"from": day, "to": day} if is_in_calendar else {}
    match kind:
        case "session" | "coding":
            start = parameters.parse_instant(row["started_at"])
            end = max(parameters.parse_instant(row["ended_at"]), start + SHORTEST_STRETCH)
            path, query = f"/day/{day}", {"from": _instant(start), "to": _instant(end)}
        case "calendar":
            path, query = "/explore/content", days
        case "recording" | "insight":
            # Their lists have no days, but pages, and this one begins with the record.
            at = parameters.parse_instant(row["started_at"])
            behind = at + (timedelta(days=1) if kind == "insight" else MILLISECOND)
            cursor = parameters.cursor(behind, _FIRST_ID)
            path, query = "/explore/content", {"list": f"{kind}s", "cursor": cursor, **days}
        case "place":
            path, query = "/explore/places", days
        case _:
            path, query = "/explore/code", days
    return f"{base_url}{path}" + (f"?{urlencode(query, safe=':')}" if query else "")


def _instant(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _results(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the newest rows of each domain in turns, so that none of them hides the others."""
    domains = [answer[name]["lines"] for name in _SEARCHES if answer[name] is not None]
    turns = sorted(
        ((n, row) for rows in domains for n, row in enumerate(rows)),
        key=lambda turn: (turn[0], _backwards(turn[1]["started_at"])),
    )
    return {
        "results": [
            {
                "id": _id(row["kind"], row),
                "title": _cut(row["title"] or UNTITLED, LONGEST_TITLE),
                "url": _address(answer["frame"]["base_url"], row["kind"], row),
            }
            for _, row in turns[:ROWS]
        ]
    }


def _backwards(instant: str) -> timedelta:
    return _EPOCH - parameters.parse_instant(instant)


def _document(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the record, its facts by name. Raises ArgumentsProblem if there is none.

    Text of the person or of others is alone in its member, so that none of it seems to be the service's.
    """
    given: Fetch = answer["frame"]["given"]
    kind = given.kind()
    found = answer[KINDS[kind].part]
    record = found["record"]
    if record is None:
        raise ArgumentsProblem(f"id: {_UNKNOWN}")
    facts = {"kind": KINDS[kind].words} | {
        name: _cut(_fact(value), LONGEST_FACT)
        for name, value in record.items()
        if value not in (None, "") and name not in {"title", "text"}
    }
    zone = ZoneInfo(found["tz"])
    for name in ("started", "ended"):
        at = record.get(f"{name}_at")
        said = None if at is None or kind == "insight" else texts.local(at, zone)
        if said is not None:
            facts[f"{name}_local"] = said
    if record.get("ended_at") is not None:
        start, end = (
            parameters.parse_instant(record[f"{name}_at"]) for name in ("started", "ended")
        )
        facts["duration"] = durations.text((end - start) // MILLISECOND)
    document: dict[str, Any] = {
        "id": given.id,
        "title": _cut(record["title"] or UNTITLED, LONGEST_FACT),
        "text": record["text"] or "",
        "url": _address(answer["frame"]["base_url"], kind, record),
        "metadata": facts,
    }
    while tool.is_too_long(document):
        text = document["text"]
        document |= {"text": text[: len(text) * 9 // 10], "metadata": facts | {"truncated": "yes"}}
    return document


def _fact(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _in_zone(frame: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with the person's zone."""
    return {**given, "tz": frame["tz"]}


def _fetches(name: str) -> Part:
    """Return the part that fetches a record, if it is of the kind of this part."""

    def is_wanted(given: Arguments) -> bool:
        return isinstance(given, Fetch) and KINDS[given.kind()].part == name

    return Part(SQL[name], name=name, ask=lambda _, given: dict(given), is_wanted=is_wanted)


TOOLS: Final = [
    Tool(
        name="search",
        title="Search",
        description="Finds records that have all words: windows and files that were open, commits, pull"
        " requests, calendar events, recordings, weekly insights and places, as far as scopes allow. Use it"
        " for 'What do I have on pricing?', and fetch for the whole text of a result. Not for sums of time"
        " (get_time_breakdown), nor for every session with a title (list_sessions).",
        scope=ENTRY,
        arguments=Search,
        answer=SearchAnswer,
        frame=SQL["search_frame"],
        parts=tuple(
            Part(SQL[name], name=name, ask=_in_zone, scope=scope)
            for name, scope in _SEARCHES.items()
        ),
        finish=_results,
        is_framed=False,
    ),
    Tool(
        name="fetch",
        title="Fetch",
        description="One result of search as a whole, such as a transcript, the description of an event, or a"
        " place with the last stays there. Use it after search. Not for anything without an id of search.",
        scope=ENTRY,
        arguments=Fetch,
        answer=Document,
        frame=None,
        parts=tuple(_fetches(name) for name in dict.fromkeys(kind.part for kind in KINDS.values())),
        finish=_document,
        is_framed=False,
    ),
]
