"""Error responses: JSON for clients, a page for people, never a stack trace.

Exceptions of handlers are translated here, in one place. Endpoints for clients and all well-known addresses
respond with an OAuth error; all others with a page that says what happened and what to do.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg.errors import ForeignKeyViolation, ReadOnlySqlTransaction
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ExceptionHandler

from authserver import errors
from authserver.errors import (
    InvalidGrant,
    MethodNotAllowed,
    NotFound,
    OAuthError,
    OutdatedServer,
    TemporarilyUnavailable,
    TooManyRequests,
)
from authserver.people.sessions import ConfirmationNeeded, ForgedForm, SignInNeeded, StaleForm
from authserver.web.page import Page, Pages
from shared import metrics, schema

log = logging.getLogger("svc.error")


class RequestGone(Exception):
    """The pending request of a page was answered, has expired, or belongs to another browser."""


class LinkGone(Exception):
    """The one-time link of a page was used, has expired, or was replaced."""


@dataclass(frozen=True)
class Notice:
    """The content of an error page."""

    status: int
    title: str
    text: str


_REQUEST_GONE: Final = Page("request_gone.html", {"late": None}, status=400)
_LINK_GONE: Final = Notice(
    400,
    "This link cannot be used",
    "It was used already, it has expired, or a newer link replaced it. The operator of this service can "
    "create a new one.",
)
_FORM_REFUSED: Final = Notice(
    403,
    "This form could not be accepted",
    "It was opened before you signed in or out, or it did not come from a page of this service. Nothing "
    "was changed. Go back, reload the page and try again.",
)
_BY_STATUS: Final = {
    400: Notice(400, "This did not work", "Something in the request is missing or malformed."),
    404: Notice(
        404, "There is nothing here", "The address may be mistyped, or the page has moved."
    ),
    405: Notice(
        405, "This is not possible here", "This address does not accept that kind of request."
    ),
    408: Notice(408, "This took too long", "The form did not arrive in time. Try again."),
    413: Notice(413, "This is too much", "The form is larger than this service accepts."),
    429: Notice(429, "Too many attempts", "Wait a little, then try again."),
    431: Notice(
        431, "This is too much", "The browser sent more headers than this service accepts."
    ),
    500: Notice(
        500,
        "Something went wrong",
        "The mistake is ours, and it has been logged. Try again in a while. If it happens again, tell the "
        "operator of this service the reference below.",
    ),
    503: Notice(
        503, "The service is busy", "It cannot answer at this moment. Try again in a few seconds."
    ),
}


@dataclass(frozen=True)
class Failures:
    """Creates the responses to failed requests."""

    pages: Pages
    machine_paths: frozenset[str]

    def answer(self, path: str, error: OAuthError, headers: Mapping[str, str]) -> Response:
        """Return ``error`` as JSON or as a page, depending on ``path``; JSON if that is not known (empty)."""
        limit = error.limit if isinstance(error, TooManyRequests) else None
        metrics.count_refusal(error.status, error, limit)
        if not path or path in self.machine_paths or path.startswith("/.well-known/"):
            return errors.answer(error, dict(headers))
        notice = _BY_STATUS.get(error.status, _BY_STATUS[400])
        if error.status == 400:
            notice = Notice(
                400, notice.title, f"{error.description[:1].upper()}{error.description[1:]}."
            )
        return self.page(notice, {**errors.retry_after(error), **headers})

    def always(self, error: OAuthError) -> Callable[[str], Response]:
        """Return a function that responds to any path with ``error``."""
        return lambda path: self.answer(path, error, {})

    def page(self, notice: Notice, headers: Mapping[str, str]) -> Response:
        """Return the error page with ``notice``."""
        response = self.pages.render(Page("error.html", {"notice": notice}, notice.status))
        response.headers.update(headers)
        return response

    def handlers(self) -> dict[type[Exception], ExceptionHandler]:
        """Return the exception handlers of the application."""

        async def oauth_error(request: Request, error: Exception) -> Response:
            assert isinstance(error, OAuthError)  # noqa: S101 -- registered for OAuthError alone
            return self.answer(request.scope["path"], error, {})

        async def framework_error(request: Request, error: Exception) -> Response:
            assert isinstance(error, HTTPException)  # noqa: S101 -- registered for HTTPException alone
            path = request.scope["path"]
            if error.status_code == 405:
                return self.answer(path, MethodNotAllowed(), {"Allow": _allowed(request, path)})
            if path.startswith("/oauth/"):
                # No link leads there; only a client can have made the address up.
                return errors.answer(NotFound())
            return self.answer(path, NotFound(), {})

        async def database_error(request: Request, error: Exception) -> Response:
            assert isinstance(error, psycopg.Error)  # noqa: S101 -- registered for psycopg's alone
            mismatch = schema.log_mismatch(error)
            if mismatch is None:
                log.warning("the database does not answer: %s", type(error).__name__)
            answer_error = (
                OutdatedServer() if mismatch is schema.OUTDATED_SERVER else TemporarilyUnavailable()
            )
            return self.answer(request.scope["path"], answer_error, {})

        async def owner_gone(request: Request, _: Exception) -> Response:
            # The account or application was deleted while this request added a row for it.
            if request.scope["path"] in self.machine_paths:
                return self.answer(request.scope["path"], InvalidGrant(), {})
            return self.pages.render(_REQUEST_GONE)

        async def request_gone(_: Request, __: Exception) -> Response:
            return self.pages.render(_REQUEST_GONE)

        async def link_gone(_: Request, __: Exception) -> Response:
            return self.page(_LINK_GONE, {})

        async def sign_in_needed(_: Request, error: Exception) -> Response:
            assert isinstance(error, SignInNeeded)  # noqa: S101 -- registered for SignInNeeded alone
            page = "/confirm" if isinstance(error, ConfirmationNeeded) else "/sign-in"
            suffix = "" if error.path == "/" else f"?next={quote(error.path)}"
            return self.pages.redirect_browser(page + suffix, error.browser)

        async def form_refused(_: Request, error: Exception) -> Response:
            metrics.count_refusal(_FORM_REFUSED.status, error)
            return self.page(_FORM_REFUSED, {})

        return {
            OAuthError: oauth_error,
            HTTPException: framework_error,
            psycopg.OperationalError: database_error,
            psycopg.InterfaceError: database_error,
            # The database has become a read-only standby; another server takes over.
            ReadOnlySqlTransaction: database_error,
            ForeignKeyViolation: owner_gone,
            SignInNeeded: sign_in_needed,
            RequestGone: request_gone,
            LinkGone: link_gone,
            ForgedForm: form_refused,
            StaleForm: form_refused,
        }


def _allowed(request: Request, path: str) -> str:
    """Return the methods of all routes of ``path``; the framework names only those of the first."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    methods = {method for route in routes if route.path == path for method in route.methods or ()}
    return ", ".join(sorted(methods or {"GET", "HEAD"}))
