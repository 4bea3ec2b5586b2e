"""Posting: the tracker's side of ingest, for commands that send events from this machine.

Events are carried as the text they were found in, so that what reaches the server is what the file
holds, to the last digit. A request that fails for a reason that may pass is made again, later and
later: what the server wrote before it failed, the retry counts as duplicates.
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
"""As a number of retries."""
_LONGEST_DELAY_S: Final = 300.0
_REFUSALS: Final = ("unauthorized", "insufficient_scope")
"""Codes of an answer about the token."""


class PostingError(Exception):
    """Events that cannot be read or sent; the message is one line."""


class RefusedError(PostingError):
    """The server knows what is asked of it and refuses the token; no waiting changes that."""


STREAMS: Final = ("app-sessions", "coding-sessions")
"""What events can be of, as addresses spell it."""


class Found(NamedTuple):
    """Events that a file holds, each as it stands there."""

    events: list[str]
    client: str | None = None
    """The ``client`` beside the events, where the file is a whole request."""
    stream: str | None = None
    """What they are of, where the file says so."""


def find_events(content: bytes) -> list[Found]:
    """Return the events of a JSON array, of a request, of JSON values line by line, or of an export.

    An export has one list of them for each stream, and all other files have one. Raises PostingError.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PostingError(f"is not UTF-8 at byte {error.start}") from error
    try:
        return _find(text)
    except RecursionError as error:
        raise PostingError("is nested too deep") from error
    except json.JSONDecodeError as error:
        raise PostingError(f"is not JSON: {error.msg} in line {error.lineno}") from error


_EXPORT: Final = re.compile(r'\{[ \t\n\r]*"exported_at"[ \t\n\r]*:')


def _find(text: str) -> list[Found]:
    start = _skip(text, 0)
    if _EXPORT.match(text, start):
        return _find_streams(text, start)
    return [_find_in_one(text, start)]


def _find_streams(text: str, start: int) -> list[Found]:
    """Return the events of an export.

    It may be large, and most of it is no event. So it is walked through, and never built as a whole; to its
    end, for one that was broken off is none.
    """
    found = []

    def look(name: str, at: int) -> int:
        stream = name.replace("_", "-")
        if stream not in STREAMS or text[at : at + 1] != "[":
            return _end(text, at)
        events: list[str] = []
        end = _elements(text, at, events.append)
        found.append(Found(events, stream=stream))
        return end

    def enter(name: str, at: int) -> int:
        is_entered = name == "resources" and text[at : at + 1] == "{"
        return _walk(text, at, look) if is_entered else _end(text, at)

    end = _walk(text, start, enter)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return found


def _walk(text: str, start: int, visit: Callable[[str, int], int]) -> int:
    """Walk through the object at ``start`` and return where what follows it begins.

    ``visit`` is told the name of each member and where its value begins, and returns what follows that.
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
    """Return where what follows the value at ``start`` begins; nothing is kept of an array."""
    if text[start : start + 1] == "[":
        return _elements(text, start, lambda _: None)
    return _skip(text, _DECODER.raw_decode(text, start)[1])


def _find_in_one(text: str, start: int) -> Found:
    if text[start : start + 1] == "[":
        events: list[str] = []
        end = _elements(text, start, events.append)
        if end < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return Found(events)
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
        return Found(events, members.get("client"))
    return Found(values)


def _elements(text: str, start: int, take: Callable[[str], object]) -> int:
    """Hand each element of the array at ``start`` to ``take``; return where what follows begins."""
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
    """Return the members of the object that ``text`` is known to be; the last of equal keys wins."""
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
    raise PostingError(f"is not JSON: {constant} is no number")


# Numbers are passed on as they stand. Python itself would stumble over those of 4300 digits.
_DECODER: Final = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse)


def address(url: str) -> httpx2.URL:
    """Return the address of a server. Raises PostingError, without what may be secret in ``url``."""
    try:
        parsed = httpx2.URL(url.strip())
        host = parsed.raw_host
    except (httpx2.InvalidURL, ValueError) as error:
        raise PostingError(f"the server's address is none: {error}") from error
    if parsed.scheme not in ("http", "https") or not host:
        raise PostingError("the server's address must begin with http:// or https:// and a host")
    # Userinfo would take the token's place; the path of the endpoint follows what stands here.
    if parsed.userinfo or "@" in url or "?" in url or "#" in url:
        raise PostingError("the server's address must have no user, password, query or fragment")
    return parsed


class Rejection(NamedTuple):
    """An event that the server will not have; ``event`` is its place among all events given, from 0."""

    event: int
    code: str
    message: str


class Result(NamedTuple):
    """What became of some of the events."""

    sent: int
    accepted: int
    duplicates: int
    rejected: list[Rejection]


@dataclass(frozen=True)
class Poster:
    """Posts events to one stream of one server."""

    http: httpx2.Client
    """Knows the server's address and the token."""
    path: str
    client: str
    """The JSON text of ``client``."""
    retries: int
    """How often a request is made again, or FOREVER."""
    say: Callable[[str], None]
    """Takes a line for the person who waits."""
    wait: Callable[[float], None] = time.sleep

    def post(self, events: list[str]) -> Iterator[Result]:
        """Send all ``events`` and yield a result for each request that the server took.

        Raises PostingError where the server cannot be reached or wants none of them.
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
        """Return the first answer that trying again would not change. Raises PostingError."""
        for attempt in range(self.retries + 1):
            try:
                answer = self.http.post(self.path, content=body)
            except httpx2.TransportError as error:
                problem, least_s = f"cannot be reached: {_words(error)}", 0.0
            except (httpx2.RequestError, httpx2.InvalidURL, UnicodeError) as error:
                # No answer that can be read, or a name that no resolver takes: that does not pass.
                message = f"{self.http.base_url} cannot be asked: {_words(error)}"
                raise PostingError(message) from error
            else:
                if answer.status_code < 500 and answer.status_code != 429:
                    return answer
                problem = f"answered {answer.status_code}: {_error(answer)[1]}"
                least_s = _retry_after_s(answer)
            if attempt < self.retries:
                # From a second on; after a week of this no float would hold the power by itself.
                delay_s = min(2**attempt, _LONGEST_DELAY_S)
                # Up to half as long again, so that many trackers do not come back together.
                # Spreads clients that failed together; nothing secret hangs on it.
                delay_s *= random.uniform(1.0, 1.5)  # noqa: S311
                delay_s = min(max(delay_s, least_s), _LONGEST_DELAY_S)
                self.say(f"{self.http.base_url} {problem}; trying again in {delay_s:.0f} s")
                self.wait(delay_s)
        raise PostingError(f"{self.http.base_url} {problem}")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after_s(answer: httpx2.Response) -> float:
    """Return the seconds that the server asks to wait, 0 where it does not (RFC 9110, 10.2.3)."""
    given = answer.headers.get("retry-after", "")
    if given.isdecimal():
        return float(given[:9])
    try:
        at = email.utils.parsedate_to_datetime(given)
    except ValueError:
        return 0.0
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def _error(answer: httpx2.Response) -> tuple[str, str]:
    """Return code and message of an error body, or what the status says where there is none."""
    try:
        body = answer.json()
        return str(body["error"]), str(body.get("message", body["error"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return str(answer.status_code), answer.reason_phrase or str(answer.status_code)


def _result(answer: httpx2.Response, sent: int, first: int) -> Result:
    """Return what became of ``sent`` events, the first of which is number ``first``."""
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
                raise PostingError(f"{answer.url} is no ingest endpoint") from error
        case 401 | 403:
            code, message = _error(answer)
            # What stands between us and the server may have its own reasons to refuse everybody.
            problem = RefusedError if code in _REFUSALS else PostingError
            raise problem(f"the token is refused: {message}")
        case status if 300 <= status < 400 and "location" in answer.headers:
            raise PostingError(f"{answer.url} has moved to {answer.headers['location']}")
        case 404 | 405:
            raise PostingError(
                f"{answer.url} is no ingest endpoint: it answered {answer.status_code}"
            )
    raise PostingError(f"{answer.url} answered {answer.status_code}: {_error(answer)[1]}")
