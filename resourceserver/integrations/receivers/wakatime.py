"""WakaTime's interface for editors: beats in batches of about 25, and an answer for each of them.

A client sends a batch again unless it gets 201 or 202. In the answer, each beat has a pair of a value and a
status: 400 makes the client drop the beat, so it is for beats alone that can never be taken; beats for which
there is no pair come again.

    POST …/heartbeats.bulk, …/heartbeats, or the base itself ──► {"responses": [[null, 201], …]}
    GET …/users/current/statusbar/today and others ──► coding time, if the person has allowed it
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import errors
from resourceserver.api.errors import PRIVATE, Problem
from resourceserver.api.session import Reader
from resourceserver.ingest import events, fields
from resourceserver.integrations import reading, values
from resourceserver.integrations.beats import MOST_LINES, Beat
from resourceserver.integrations.formats import wakatime as dumps
from resourceserver.integrations.receivers import beat_delivery, credentials, delivery, messages
from resourceserver.integrations.receivers.beat_delivery import KIND, Given
from resourceserver.integrations.receivers.beat_sessions import COUNTERS, DAY_MS, Heartbeat
from resourceserver.integrations.receivers.receiving import Receiving
from resourceserver.integrations.receivers.wakatime_totals import (
    Days,
    Totals,
    days_between,
    named_range,
)
from resourceserver.integrations.records import Refused
from resourceserver.integrations.values import Flaw
from shared.metrics import RECEIVED

BASE: Final = "/api/compat/wakatime/v1"
MOST_BEATS: Final = 1000
"""The most beats of one request; of more, the client sends the rest again."""
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_AHEAD_MS: Final = DAY_MS
"""How far the clock of an editor may be ahead: by any time zone that was taken for UTC."""
MOST_COUNTED: Final = 1_000_000_000
"""The largest value of a counter of one beat."""

REFUSALS: Final[Mapping[str, str]] = {
    "not_an_object": "A heartbeat must be a JSON object.",
    "missing_time": "time: This field is required.",
    "invalid_time": "time: Must be a number of seconds since 1970.",
    "timestamp_out_of_range": "time: Lies before the year 2000, or in months of which only sums are kept.",
    "timestamp_in_future": "time: Lies more than a day ahead of the server's clock.",
    "too_many_devices": "There are as many machines as there may be.",
}
"""The words for each reason for which a beat can never be taken."""

_LAST: Final = re.compile(r"<<LAST_[A-Z]+>>")
"""What stands for the project, branch or language of the beat before."""


class NotReadable(Problem):
    """The body is not JSON."""

    status = 400
    code = "invalid_json"


class Sender(NamedTuple):
    """What the headers of a request say about its editor."""

    device: str
    zone: ZoneInfo | None
    user_agent: str | None


def key_of(request: Request) -> str:
    """Return the key of a request, empty if it has none: of its credentials, or of the query."""
    return credentials.key(request) or request.query_params.get("api_key", "").strip()


def sender(request: Request) -> Sender:
    """Return what the headers say."""
    headers = request.headers
    # Older clients send the name as it is, newer ones encoded as in a query.
    machine = _decoded(headers.get("x-machine-name", ""))
    device = _name("device", unquote_plus(machine)) or "wakatime"
    # Each beat is kept with this text, so it is cut as that of a beat is.
    user_agent = _name("user_agent", _decoded(headers.get("user-agent", "")))
    return Sender(device, _zone(headers.get("timezone", "")), user_agent)


def _decoded(header: str) -> str:
    """Return a header that may be UTF-8; the server has read it as Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except ValueError:
        return header


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if len(name) <= 64 else None
    except (ValueError, OSError, KeyError):
        return None


def read(body: bytes | bytearray, sent_by: Sender, now_ms: int) -> list[Heartbeat | Refused]:
    """Return the beats of a body in their order. Raises NotReadable."""
    if not events.is_parsable(body):
        raise NotReadable
    try:
        document = events.parse(body)
    except events.NotJSONError as error:
        raise NotReadable from error
    given = document if isinstance(document, list) else [document]
    return [_heartbeat(value, sent_by, now_ms) for value in given[:MOST_BEATS]]


def _heartbeat(value: Any, sent_by: Sender, now_ms: int) -> Heartbeat | Refused:
    try:
        given = values.members(value)
        at_ms = reading.instant_ms(values.epoch(given.get("time")))
        if at_ms < events.MIN_TIMESTAMP_MS:
            raise Flaw("timestamp_out_of_range")
        if at_ms > now_ms + MOST_AHEAD_MS:
            raise Flaw("timestamp_in_future")
    except Flaw as flaw:
        return values.refused(flaw, value)
    kind = _name("kind", given.get("type")) or "file"
    entity = _name("entity", given.get("entity")) or ""
    user_agent = _name("user_agent", given.get("user_agent")) or sent_by.user_agent
    category = _name("category", given.get("category"))
    beat = Beat(
        at_ms=at_ms,
        device=sent_by.device,
        project=_name("project", given.get("project"))
        or _name("project", given.get("alternate_project"))
        or "unknown",
        language=_name("language", given.get("language")),
        kind=kind,
        file=_name("file", entity) if kind == "file" else None,
        branch=_name("branch", given.get("branch")),
        editor=_editor(user_agent) if user_agent else None,
        activity=dumps.ACTIVITIES.get(category.lower(), "other") if category else None,
        is_write=given.get("is_write") is True,
        lines_added=_count(given, "line_additions", MOST_LINES),
        lines_removed=_count(given, "line_deletions", MOST_LINES),
        utc_offset=_offset(sent_by.zone, at_ms // 900_000) if sent_by.zone else None,
        counters=_counters(given),
    )
    if kind in ("url", "domain"):
        # Of an address, what may hold secrets is dropped, as ingest does.
        address = events.web_address(entity, full_urls=False)[0]
        entity = address or entity.partition("?")[0].partition("#")[0]
    details: dict[str, Any] = {"category": category, "user_agent": user_agent}
    for name in ("lines", "lineno", "cursorpos"):
        details[name] = _count(given, name, MOST_COUNTED)
    return Heartbeat(
        beat, entity, {name: each for name, each in details.items() if each is not None}
    )


def _counters(given: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    # Few beats have any.
    counted = ((name, _count(given, name, MOST_COUNTED)) for name in COUNTERS if name in given)
    return tuple((name, count) for name, count in counted if count)


def _count(given: Mapping[str, Any], name: str, most: int) -> int | None:
    count = values.count(given[name]) if name in given else None
    return None if count is None else min(count, most)


_KINDS: Final[Mapping[str, fields.Kind]] = {
    **{name: events.CODING_SESSIONS.fields[name] for name in ("language", "branch", "editor")},
    "file": events.CODING_SESSIONS.fields["file"],
    "project": fields.Name(events.MAX_NAME, is_cut=True),
    "device": fields.Name(events.MAX_DEVICE, is_cut=True),
    "kind": fields.Name(32, is_cut=True),
    "category": fields.Name(64, is_cut=True),
    "user_agent": fields.Name(255, is_cut=True),
    "entity": fields.Text(events.MAX_URL, keeps_end=True),
}
MOST_CHARACTERS: Final = 8192
"""The most characters of a text that are looked at."""


def _name(field: str, value: Any) -> str | None:
    """Return a name as ingest would store it, cut where it is too long; None for what is no name."""
    return _cleaned(field, value[:MOST_CHARACTERS]) if isinstance(value, str) else None


# The beats of a batch have few different names.
@lru_cache(maxsize=4096)
def _cleaned(field: str, given: str) -> str | None:
    text = values.text(given)
    if text is None or _LAST.fullmatch(text):
        return None
    cleaned: str | None = _KINDS[field].read(fields.storable(text))
    return cleaned


@lru_cache(maxsize=1024)
def _editor(user_agent: str) -> str | None:
    return _name("editor", dumps.editor(user_agent))


@lru_cache(maxsize=1024)
def _offset(zone: ZoneInfo, hour: int) -> str | None:
    """Return the offset of a zone within a quarter of an hour, since clocks change at the end of one."""
    offset = datetime.fromtimestamp(hour * 900, zone).utcoffset()
    return None if offset is None else reading.utc_offset(offset.total_seconds())


def answer(taken: Sequence[Heartbeat | Refused]) -> bytes:
    """Return the body of the answer: a pair for each beat."""
    pairs = ",".join(
        f"[{json.dumps({'error': REFUSALS[each.reason]})},400]"
        if isinstance(each, Refused)
        else "[null,201]"
        for each in taken
    )
    return f'{{"responses":[{pairs}]}}'.encode()


Handler = Callable[[Request], Awaitable[Response]]


def in_their_words(handle: Handler) -> Handler:
    """Return a handler that answers problems as WakaTime does."""

    async def handled(request: Request) -> Response:
        try:
            return await handle(request)
        except Problem as problem:
            errors.count(problem)
            words = "Unauthorized" if problem.status == 401 else problem.message
            return Response(
                json.dumps({"error": words}),
                status_code=problem.status,
                headers={**PRIVATE, **messages.headers(problem)},
                media_type="application/json",
            )

    return handled


def routes(receiving: Receiving, reader: Reader) -> list[Route]:
    """Return the routes for editors and widgets."""

    async def take(request: Request) -> Response:
        opened = await receiving.open(request, KIND, key_of(request))
        async with receiving.body(request, opened, most_bytes=MOST_BYTES) as body:
            now_ms = time.time_ns() // 1_000_000
            sent_by = sender(request)
            if len(body) <= delivery.SMALL:
                taken = read(body, sent_by, now_ms)
            else:
                taken = await asyncio.to_thread(read, body, sent_by, now_ms)
            given = Given(sent_by.device, taken, now_ms)
            if taken:
                taken = list((await beat_delivery.deliver(receiving, opened, given)).taken)
            refused = sum(isinstance(each, Refused) for each in taken)
            RECEIVED.add(KIND, "taken", amount=len(taken) - refused)
            RECEIVED.add(KIND, "refused", amount=refused)
        return _json(answer(taken), 202)

    def totals(find: Find) -> Handler:
        async def show(request: Request) -> Response:
            opened = await receiving.open(request, KIND, key_of(request))
            found = await find(Totals(reader, opened, datetime.now(UTC)), request)
            return _json(json.dumps(found).encode(), 200)

        return in_their_words(show)

    handler = in_their_words(take)
    return [
        *(
            Route(BASE + path, handler, methods=["POST"], name=name)
            for path, name in POSTED.items()
        ),
        *(
            Route(f"{BASE}/users/{{user}}/{path}", totals(find), methods=["GET"], name=name)
            for path, (name, find) in READ.items()
        ),
    ]


def _json(body: bytes, status: int) -> Response:
    return Response(body, status_code=status, headers=PRIVATE, media_type="application/json")


POSTED: Final = {
    "": "wakatime_base",
    "/heartbeats": "wakatime_heartbeats",
    "/heartbeats.bulk": "wakatime_bulk",
    "/users/{user}/heartbeats": "wakatime_user_heartbeats",
    "/users/{user}/heartbeats.bulk": "wakatime_user_bulk",
}
"""The addresses for beats. Any name of a user is that of the key's owner."""

Find = Callable[[Totals, Request], Awaitable[dict[str, Any]]]


def _days(totals: Totals, request: Request) -> Days:
    """Return the days of the parameters ``start`` and ``end``, or of ``range``."""
    query = request.query_params
    if "range" in query:
        return named_range(query["range"], totals.today, totals.opened.zone)
    start = query.get("start", "")
    return days_between(start, query.get("end", start), totals.today, totals.opened.zone)


def _day(totals: Totals, request: Request) -> Days:
    day = request.query_params.get("date", str(totals.today))
    return days_between(day, day, totals.today, totals.opened.zone)


READ: Final[Mapping[str, tuple[str, Find]]] = {
    "statusbar/today": ("wakatime_status_bar", lambda totals, _: totals.status_bar()),
    "status_bar/today": ("wakatime_status_bar", lambda totals, _: totals.status_bar()),
    "summaries": (
        "wakatime_summaries",
        lambda totals, request: totals.summaries(_days(totals, request)),
    ),
    "stats": ("wakatime_stats", lambda totals, _: totals.stats("last_7_days")),
    "stats/{range}": (
        "wakatime_stats",
        lambda totals, request: totals.stats(request.path_params["range"]),
    ),
    "all_time_since_today": ("wakatime_all_time", lambda totals, _: totals.since_today()),
    "projects": ("wakatime_projects", lambda totals, _: totals.projects()),
    "heartbeats": (
        "wakatime_read_heartbeats",
        lambda totals, request: totals.heartbeats(_day(totals, request)),
    ),
}
"""The addresses for totals, each with the name of its route."""
