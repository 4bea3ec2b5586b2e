"""The receiver of ListenBrainz's protocol, which most players and scrobblers can send to a server of choice.

A submission is refused as a whole, with 400, where ListenBrainz does so: an application then throws it away.
Of a submission that can be read, each listen is judged by itself.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import errors
from resourceserver.api.errors import PRIVATE, Problem
from resourceserver.api.session import Reader
from resourceserver.integrations import values
from resourceserver.integrations.format import Person
from resourceserver.integrations.formats import listenbrainz
from resourceserver.integrations.receivers import credentials, delivery, messages, reading
from resourceserver.integrations.receivers.receiving import Receiving, WrongKey
from resourceserver.integrations.records import Listen, Refused
from resourceserver.integrations.values import Flaw
from shared import pipeline, queries

STATEMENTS: Final = {
    name: pipeline.statement(text)
    for name, text in queries.load(Path(__file__).with_name("listenbrainz.sql")).items()
}

PREFIXES: Final = ("", "/api/compat/listenbrainz")
"""Before the paths: many applications append ``/1/…`` to the origin, whatever path its address has."""
NAME: Final = "me"
"""The name of the person whose key it is: the key alone selects whose listens are read."""
MOST_LISTENS: Final = 1000
MOST_BYTES: Final = 10_240
"""The most bytes of a listen."""
_MOST_BODY: Final = MOST_LISTENS * MOST_BYTES + 64 * 1024
FIRST: Final = datetime(2002, 10, 1, tzinfo=UTC)
"""The first instant that ListenBrainz accepts, before which nobody counted what they heard."""
_SCOPE: Final = "read:music"
_MOST_READ: Final = 1000
_USUAL_READ: Final = 25
_LAST_S: Final = 253_402_300_799
"""The end of the year 9999."""


class InvalidSubmission(Problem):
    """A body that is no submission; the message is for the application."""

    status = 400
    code = "invalid_request"


class NoToken(Problem):
    """You need to provide an Authorization header."""

    status = 401
    code = "unauthorized"


class NoTokenToValidate(NoToken):
    """You need to provide an Authorization token."""

    status = 400


class NoSuchName(Problem):
    """Cannot find this user: the token reads the listens of its own person alone."""

    status = 404
    code = "not_found"


class InvalidNumber(Problem):
    """A parameter that is no number."""

    status = 400
    code = "invalid_parameter"


def routes(receiving: Receiving, reader: Reader) -> list[Route]:
    """Return the routes of the receiver, at the root and below a path."""

    async def validate_token(request: Request) -> Response:
        try:
            await receiving.open(request, "listenbrainz", _token(request, NoTokenToValidate))
        except WrongKey:
            return _answer({"code": 200, "message": "Token invalid.", "valid": False})
        return _answer({"code": 200, "message": "Token valid.", "valid": True, "user_name": NAME})

    async def submit_listens(request: Request) -> Response:
        opened = await receiving.open(request, "listenbrainz", _token(request, NoToken))
        async with receiving.body(request, opened, most_bytes=_MOST_BODY) as body:
            items = await delivery.parse(read, body, delivery.person(opened))
            if items:
                await receiving.take(opened, items)
        return _answer({"status": "ok"})

    async def listens(request: Request) -> Response:
        max_ts, min_ts = _number(request, "max_ts"), _number(request, "min_ts")
        if max_ts is not None and min_ts is not None and max_ts < min_ts:
            raise InvalidNumber("max_ts must not be less than min_ts.")
        count = _number(request, "count")
        return await answer_from(
            request,
            "listens",
            max_ts=max_ts,
            min_ts=min_ts,
            count=_USUAL_READ if count is None else min(count, _MOST_READ),
            name=NAME,
        )

    async def listen_count(request: Request) -> Response:
        return await answer_from(request, "listen_count")

    async def answer_from(request: Request, statement: str, **params: Any) -> Response:
        opened = await receiving.open(request, "listenbrainz", _token(request, NoToken))
        if request.path_params["name"].lower() != NAME:
            raise NoSuchName
        body = await reading.read(reader, opened, _SCOPE, STATEMENTS[statement], params)
        return Response(body, headers=PRIVATE, media_type="application/json")

    handlers = {
        ("validate-token", "GET"): validate_token,
        ("submit-listens", "POST"): submit_listens,
        ("user/{name}/listens", "GET"): listens,
        ("user/{name}/listen-count", "GET"): listen_count,
    }
    return [
        Route(
            f"{prefix}/1/{path}",
            _in_its_words(handler),
            methods=[method],
            name=f"listenbrainz_{handler.__name__}",
        )
        for prefix in PREFIXES
        for (path, method), handler in handlers.items()
    ]


def _token(request: Request, missing: type[NoToken]) -> str:
    """Return the token of a request. Raises ``missing`` without one."""
    token = credentials.key(request) or request.query_params.get("token", "")
    if not token:
        raise missing
    return token


def _number(request: Request, name: str) -> int | None:
    """Return a parameter of a read. Raises InvalidNumber."""
    given = request.query_params.get(name)
    if given is None:
        return None
    number = values.number(given)
    if number is None or not 0 <= number <= _LAST_S:
        raise InvalidNumber(f"{name} must be a whole number that is not negative.")
    return int(number)


def _answer(
    content: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        json.dumps(content).encode(),
        status,
        {**PRIVATE, **(headers or {})},
        media_type="application/json",
    )


def _in_its_words(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler whose problems are answered in the form of ListenBrainz."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Problem as problem:
            errors.count(problem)
            is_wrong = isinstance(problem, WrongKey)
            message = "Invalid authorization token." if is_wrong else problem.message
            content = {"code": problem.status, "error": message}
            return _answer(content, problem.status, messages.headers(problem))

    return answer


def read(body: bytes | bytearray, person: Person) -> list[Listen | Refused]:
    """Return the listens of a submission; none for what is playing now. Raises InvalidSubmission."""
    try:
        submission = messages.document(body)
    except Flaw as flaw:
        raise InvalidSubmission("The body is not a JSON document.") from flaw
    kind = submission.get("listen_type") if isinstance(submission, dict) else None
    if kind not in ("single", "playing_now", "import"):
        raise InvalidSubmission("listen_type must be single, playing_now or import.")
    payload = submission.get("payload")
    if not isinstance(payload, list) or not payload:
        raise InvalidSubmission("payload must be an array of listens.")
    if kind != "import" and len(payload) > 1:
        raise InvalidSubmission(f"payload must have exactly one listen if listen_type is {kind}.")
    if len(payload) > MOST_LISTENS:
        raise InvalidSubmission(f"payload may have at most {MOST_LISTENS} listens.")
    if kind == "playing_now":
        return []
    # In a small body no listen can be too large.
    may_be_large = len(body) > MOST_BYTES
    return [_listen(each, person, may_be_large=may_be_large) for each in payload]


def _listen(value: Any, person: Person, *, may_be_large: bool) -> Listen | Refused:
    try:
        if may_be_large and _size(value) > MOST_BYTES:
            raise Flaw("listen_too_large")
        listen = listenbrainz.listen_of(value)
        messages.check_time(listen.listened_at, person.now)
        if listen.listened_at < FIRST:
            raise Flaw("time_out_of_range")
    except Flaw as flaw:
        return values.refused(flaw, value)
    return listen


def _size(value: Any) -> int:
    """Return the bytes of a listen. Raises Flaw if it is nested too deeply."""
    try:
        return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except RecursionError as error:
        raise Flaw("listen_too_large") from error
