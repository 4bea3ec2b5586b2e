"""Posting: the tracker's side of ingest, for commands that send events from this machine.

Events keep the text that they have in the file, so the server receives the same digits. A request that
fails for a temporary reason is repeated after growing pauses; events that the server wrote before it failed
count as duplicates in the retry.
"""

import email.utils
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httpx2

MAX_EVENTS: Final = 1000
FOREVER: Final = sys.maxsize
"""A number of retries without an end."""
_LONGEST_DELAY_S: Final = 300.0
_REFUSALS: Final = ("unauthorized", "insufficient_scope")
"""Error codes that are about the token."""


class PostingError(Exception):
    """Events that cannot be read or sent; the message is one line."""


class RefusedError(PostingError):
    """The server refuses the token, so a retry is useless."""


STREAMS: Final = ("app-sessions", "coding-sessions")
"""The streams, spelled as in addresses."""


class EventList(NamedTuple):
    """The events of a file, or of one stream of an export, each with its text in the file."""

    events: list[str]
    client: str | None = None
    """The member ``client`` of a file that is a whole request."""
    stream: str | None = None
    """The stream of events in an export."""


def parse_events(content: bytes) -> list[EventList]:
    """Return the events of a JSON array, of a request, of JSON values line by line, or of an export.

    An export gives one list for each stream, any other file gives one list. Raises PostingError.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PostingError(f"is not UTF-8 at byte {error.start}") from error
    try:
        return _parse(text)
    except RecursionError as error:
        raise PostingError("is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise PostingError(f"is not JSON: {error.msg} in line {error.lineno}") from error


_EXPORT: Final = re.compile(r'\{[ \t\n\r]*"exported_at"[ \t\n\r]*:')


def _parse(text: str) -> list[EventList]:
    start = _skip(text, 0)
    if _EXPORT.match(text, start):
        return _parse_export(text, start)
    return [_parse_list(text, start)]


def _parse_export(text: str, start: int) -> list[EventList]:
    """Return the events of an export.

    An export may be large and contains mostly other data. So only the events are kept. The text is read to
    its end, since an export that was broken off must be refused.
    """
    lists = []

    def read_stream(name: str, at: int) -> int:
        stream = name.replace("_", "-")
        if stream not in STREAMS or text[at : at + 1] != "[":
            return _end(text, at)
        events: list[str] = []
        end = _elements(text, at, events.append)
        lists.append(EventList(events, stream=stream))
        return end

    def read_member(name: str, at: int) -> int:
        is_resources = name == "resources" and text[at : at + 1] == "{"
        return _walk(text, at, read_stream) if is_resources else _end(text, at)

    end = _walk(text, start, read_member)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return lists


def _walk(text: str, start: int, visit: Callable[[str, int], int]) -> int:
    """Read the object at ``start`` and return the position of the text after it.

    ``visit`` receives the name of each member and the position of its value, and returns the position
    of the text after the value.
    """
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if not isinstance(name, str) or text[at : at + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
        at = visit(name, _skip(text, at + 1))
        mark = text[at : at + 1]
        if mark not in (",", "}"):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        if mark == ",":
            at = _skip(text, at + 1)
    return _skip(text, at + 1)


def _end(text: str, start: int) -> int:
    """Return the position of the text after the value at ``start``, without keeping an array in memory."""
    if text[start : start + 1] == "[":
        return _elements(text, start, lambda _: None)
    return _skip(text, _DECODER.raw_decode(text, start)[1])


def _parse_list(text: str, start: int) -> EventList:
    if text[start : start + 1] == "[":
        events: list[str] = []
        end = _elements(text, start, events.append)
        if end < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return EventList(events)
    values = []
    while start < len(text):
        value, end = _DECODER.raw_decode(text, start)
        values.append(text[start:end])
        start = _skip(text, end)
    if len(values) == 1 and isinstance(value, dict) and "events" in value:
        members = _members(values[0])
        if not members["events"].startswith("["):
            raise PostingError("events: must be an array")
        events = []
        _elements(members["events"], 0, events.append)
        return EventList(events, members.get("client"))
    return EventList(values)


def _elements(text: str, start: int, take: Callable[[str], object]) -> int:
    """Pass each element of the array at ``start`` to ``take``; return the position of the text after it."""
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        return _skip(text, at + 1)
    while True:
        _, end = _DECODER.raw_decode(text, at)
        take(text[at:end])
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark not in (",", "]"):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = _skip(text, at + 1)
        if mark == "]":
            return at


def _members(text: str) -> dict[str, str]:
    """Return the members of ``text``, a valid JSON object; the last of equal keys wins."""
    members: dict[str, str] = {}
    mark, at = text[0], 0
    while mark != "}":
        at = _skip(text, at + 1)
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        members[key] = text[at:end]
        at = _skip(text, end)
        mark = text[at]
    return members


_BLANK: Final = re.compile(r"[ \t\n\r]*")


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _refuse(constant: str) -> Any:
    raise PostingError(f"is not JSON: {constant} is not a number")


# Numbers keep their text. Python would refuse to convert one with more than 4300 digits.
_DECODER: Final = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse)


def address(url: str) -> httpx2.URL:
    """Return the address of a server. Raises PostingError, whose message repeats no secret in ``url``."""
    try:
        parsed = httpx2.URL(url.strip())
        host = parsed.raw_host
    except (httpx2.InvalidURL, ValueError) as error:
        raise PostingError(f"the server's address is invalid: {error}") from error
    if parsed.scheme not in ("http", "https") or not host:
        raise PostingError("the server's address must begin with http:// or https:// and a host")
    # Userinfo would replace the token, and the path of the endpoint is appended to this address.
    if parsed.userinfo or "@" in url or "?" in url or "#" in url:
        raise PostingError("the server's address must have no user, password, query or fragment")
    return parsed


class Rejection(NamedTuple):
    """An event that the server rejects; ``event`` is its index among all given events."""

    event: int
    code: str
    message: str


class Result(NamedTuple):
    """The server's answer about some of the events."""

    sent: int
    accepted: int
    duplicates: int
    rejected: list[Rejection]


@dataclass(frozen=True)
class Poster:
    """Posts events to one stream of one server."""

    http: httpx2.Client
    """A client with the server's address and the token."""
    path: str
    client: str
    """The JSON text of ``client``."""
    retries: int
    """How often a request is repeated, or FOREVER."""
    say: Callable[[str], None]
    """Prints a line for the user."""
    wait: Callable[[float], None] = time.sleep

    def post(self, events: list[str]) -> Iterator[Result]:
        """Send all ``events`` and yield a result for each request that the server accepted.

        Raises PostingError where the server cannot be reached or refuses the request.
        """
        for start in range(0, len(events), MAX_EVENTS):
            yield from self._post(events[start : start + MAX_EVENTS], start)

    def _post(self, events: list[str], first: int) -> Iterator[Result]:
        body = f'{{"events":[{",".join(events)}],"client":{self.client}}}'.encode()
        answer = self._answer(body)
        if answer.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            yield _result(answer, len(events), first)
        elif len(events) > 1:
            half = len(events) // 2
            yield from self._post(events[:half], first)
            yield from self._post(events[half:], first + half)
        else:
            code, message = _error(answer)
            yield Result(1, 0, 0, [Rejection(first, code, message)])

    def _answer(self, body: bytes) -> httpx2.Response:
        """Return the first answer that a retry would not change. Raises PostingError."""
        for attempt in range(self.retries + 1):
            try:
                answer = self.http.post(self.path, content=body)
            except httpx2.TransportError as error:
                problem, least_s = f"cannot be reached: {_reason(error)}", 0.0
            except (httpx2.RequestError, httpx2.InvalidURL, UnicodeError) as error:
                # An unreadable answer or an invalid host name is no temporary reason.
                message = f"cannot send a request to {self.http.base_url}: {_reason(error)}"
                raise PostingError(message) from error
            else:
                if answer.status_code < 500 and answer.status_code != 429:
                    return answer
                problem = f"answered {answer.status_code}: {_error(answer)[1]}"
                least_s = _retry_after_s(answer)
            if attempt < self.retries:
                # The power stays an integer: after a week it would be too large for a float.
                delay_s = min(2**attempt, _LONGEST_DELAY_S)
                # Up to half of it in addition, so that many trackers do not retry at the same moment.
                delay_s *= random.uniform(1.0, 1.5)  # noqa: S311 -- no secret depends on it
                delay_s = min(max(delay_s, least_s), _LONGEST_DELAY_S)
                self.say(f"{self.http.base_url} {problem}; trying again in {delay_s:.0f} s")
                self.wait(delay_s)
        raise PostingError(f"{self.http.base_url} {problem}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after_s(answer: httpx2.Response) -> float:
    """Return the seconds of ``Retry-After``, 0 without that header (RFC 9110, section 10.2.3)."""
    given = answer.headers.get("retry-after", "")
    if given.isdecimal():
        return float(given[:9])
    try:
        at = email.utils.parsedate_to_datetime(given)
    except ValueError:
        return 0.0
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def _error(answer: httpx2.Response) -> tuple[str, str]:
    """Return code and message of an error body, or the status where the body is no error body."""
    try:
        body = answer.json()
        return str(body["error"]), str(body.get("message", body["error"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return str(answer.status_code), answer.reason_phrase or str(answer.status_code)


def _result(answer: httpx2.Response, sent: int, first: int) -> Result:
    """Return the result of ``sent`` events, the first of which has the index ``first``."""
    match answer.status_code:
        case 200:
            try:
                body = answer.json()
                return Result(
                    sent,
                    int(body["accepted"]),
                    int(body["duplicates"]),
                    [
                        Rejection(first + entry["index"], entry["code"], entry["message"])
                        for entry in body["rejected"]
                    ],
                )
            except (ValueError, TypeError, KeyError) as error:
                raise PostingError(f"{answer.url} is not an ingest endpoint") from error
        case 401 | 403:
            code, message = _error(answer)
            # A proxy in front of the server may refuse requests for reasons of its own.
            problem = RefusedError if code in _REFUSALS else PostingError
            raise problem(f"the server refuses the token: {message}")
        case status if 300 <= status < 400 and "location" in answer.headers:
            raise PostingError(f"{answer.url} has moved to {answer.headers['location']}")
        case 404 | 405:
            raise PostingError(
                f"{answer.url} is not an ingest endpoint: it answered {answer.status_code}"
            )
    raise PostingError(f"{answer.url} answered {answer.status_code}: {_error(answer)[1]}")
