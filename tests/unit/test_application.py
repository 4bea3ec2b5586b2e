"""The layers of an application that every request passes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.application import Application, Refusals
from tests.client import AppClient


class Known(Exception):
    """An exception with a handler."""


class MoreThanKnown(Known):
    """A kind of it."""


async def hello(request: Request) -> Response:
    return PlainTextResponse(f"hello by {request.method}")


async def another_hello(_: Request) -> Response:
    return PlainTextResponse("never seen")


def sync(_: Request) -> Response:
    return PlainTextResponse("sync")


async def named(request: Request) -> Response:
    return PlainTextResponse(request.path_params["name"])


async def known(_: Request) -> Response:
    raise MoreThanKnown


async def unknown(_: Request) -> Response:
    raise ZeroDivisionError


async def broken_off(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise Known


class BrokenOff:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await broken_off(scope, receive, send)


class Echo:
    """An application that names the method and the route of a request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = PlainTextResponse(f"{scope['method']} {scope['route'].name}")
        await answer(scope, receive, send)


class Outer:
    """A middleware that adds a header with the paths that it has seen."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self.app = app
        self.name = name.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                assert isinstance(headers, list)
                message["headers"] = [*headers, (b"seen-by", self.name)]
            await send(message)

        # A message is a mutable mapping; a plain dictionary keeps this class short.
        await self.app(scope, receive, named)  # type: ignore[arg-type]


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    yield


async def answer_known(_: Request, __: Exception) -> Response:
    return PlainTextResponse("known", 409)


async def fail_again(_: Request, __: Exception) -> Response:
    raise ZeroDivisionError


async def answer_framework(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse("framework", error.status_code, error.headers)


@pytest.fixture
def client() -> Iterator[AppClient]:
    app = Application(
        routes=[
            Route("/hello", hello, name="hello"),
            Route("/hello", another_hello, name="another"),
            Route("/hello", hello, methods=["PUT"], name="put"),
            Route("/sync", sync),
            Route("/named/{name}", named),
            Route("/known", known),
            Route("/unknown", unknown),
            Route("/fails-twice", fails_twice),
            Route("/broken-off", BrokenOff()),
            Route("/echo", hello, methods=["PUT"], name="put to it"),
            Route("/echo", Echo(), name="echo"),
            Route("/echo", BrokenOff(), name="never seen"),
            Route("/known-behind", known, middleware=[Middleware(Outer, name="route")]),
        ],
        refusals=Refusals(
            internal_error=lambda path: PlainTextResponse(f"our mistake at {path}", 500),
            headers_too_large=lambda _: PlainTextResponse("headers", 431),
            host_unclear=lambda _: PlainTextResponse("host", 400),
            unreadable=lambda _, status: PlainTextResponse("unreadable", status),
            address_too_long=lambda _: PlainTextResponse("address", 414),
        ),
        exception_handlers={
            Known: answer_known,
            KeyError: fail_again,
            HTTPException: answer_framework,
        },
        lifespan=lifespan,
        error_middleware=[Middleware(Outer, name="errors")],
        route_middleware=[Middleware(Outer, name="routes")],
    )
    with AppClient(app, raise_server_exceptions=False) as client:
        yield client


async def fails_twice(_: Request) -> Response:
    raise KeyError


def test_the_first_route_of_a_path_and_method_answers(client: AppClient) -> None:
    assert client.get("/hello").text == "hello by GET"
    assert client.put("/hello").text == "hello by PUT"
    assert client.head("/hello").status_code == 200


def test_an_application_answers_every_method_of_its_path(client: AppClient) -> None:
    assert client.get("/echo").text == "GET echo"
    assert client.request("PURGE", "/echo").text == "PURGE echo"
    assert client.put("/echo").text == "hello by PUT"
    assert client.get("/echo/").status_code == 404


def test_functions_that_are_not_async_and_paths_with_parameters_work_too(client: AppClient) -> None:
    assert client.get("/sync").text == "sync"
    assert client.get("/named/alice").text == "alice"


def test_other_methods_and_paths_are_refused_by_the_framework(client: AppClient) -> None:
    refused = client.delete("/hello")

    assert (refused.status_code, refused.text) == (405, "framework")
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert client.get("/hello/").status_code == 404
    assert client.get("/nowhere").text == "framework"


def test_an_exception_is_answered_by_the_handler_of_its_nearest_class(client: AppClient) -> None:
    answer = client.get("/known")

    assert (answer.status_code, answer.text) == (409, "known")
    assert answer.headers.get_list("seen-by") == ["errors"]


def test_middleware_of_a_route_sees_its_answers_to_errors(client: AppClient) -> None:
    answer = client.get("/known-behind")

    assert (answer.status_code, answer.text) == (409, "known")
    assert answer.headers.get_list("seen-by") == ["route", "routes", "errors"]


@pytest.mark.parametrize("path", ["/unknown", "/fails-twice"])
def test_any_other_exception_is_logged_under_the_id_of_the_request(
    client: AppClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    answer = client.get(path)

    assert (answer.status_code, answer.text) == (500, f"our mistake at {path}")
    (record,) = (each for each in caplog.records if each.name == "svc.error")
    assert record.getMessage() == f"request_id={answer.headers['x-request-id']} unexpected error"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_an_answer_that_has_begun_is_broken_off(
    client: AppClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = client.get("/broken-off")

    assert answer.status_code == 200
    names = [each.name for each in caplog.records if each.name.startswith("svc")]
    assert names == ["svc.error", "svc.access"]


def test_middleware_of_routes_does_not_see_refused_requests(client: AppClient) -> None:
    small = client.get("/hello")
    large = client.get("/hello", headers={"X-Large": "x" * 33_000})
    long = client.get(f"/hello?{'x' * 17_000}")

    assert small.headers.get_list("seen-by") == ["routes", "errors"]
    assert (large.status_code, large.headers.get_list("seen-by")) == (431, ["errors"])
    assert (long.status_code, long.headers.get_list("seen-by")) == (414, ["errors"])


@pytest.mark.parametrize(
    ("hosts", "version", "status"),
    [(0, "1.1", 400), (0, "1.0", 200), (1, "1.1", 200), (2, "1.1", 400), (2, "1.0", 400)],
)
def test_a_request_has_one_host(client: AppClient, hosts: int, version: str, status: int) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/hello",
        "query_string": b"",
        "http_version": version,
        "headers": [(b"host", b"svc.example")] * hosts,
    }

    async def answer() -> None:
        await client.app(scope, receive, send)

    asyncio.run(answer())

    assert sent[0]["status"] == status
