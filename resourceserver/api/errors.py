"""The errors of the resource server's API, and their answers.

    Problem
    ├── NotFound             404
    ├── MethodNotAllowed     405
    ├── Unauthorized         401   with a challenge (RFC 6750, section 3; RFC 9728, section 5.1)
    ├── InsufficientScope    403   with a challenge
    ├── HostUnclear          400
    ├── NotHTTP              400
    ├── MethodUnknown        501
    ├── HeadTooSlow          408
    ├── AddressTooLong       414
    ├── HeadersTooLarge      431
    ├── ParameterProblem     400   names the parameter
    │   ├── MissingParameter
    │   └── InvalidParameter
    ├── TooManyRequests      429   with Retry-After
    ├── DatabaseUnavailable  503
    │   ├── ServerFull
    │   ├── TookTooLong
    │   ├── StorageFull
    │   ├── OutdatedServer
    │   └── OutdatedSchema
    └── InternalError        500

Code raises them where it detects the failure; they become answers here, in one place.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ExceptionHandler

from shared import metrics

PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Authorization"}
"""For every answer that needed a credential: caches must not keep personal data. Packing adds to Vary."""

CODES: Final = (
    *("invalid_parameter", "missing_parameter", "invalid_json", "invalid_request"),
    *("unauthorized", "insufficient_scope", "origin_not_allowed"),
    *("not_found", "method_not_allowed", "unsupported_media_type"),
    *("batch_too_large", "payload_too_large", "uri_too_long", "rate_limited"),
    *("database_unavailable", "outdated_server", "storage_full", "storage_unavailable"),
    "internal_error",
)
"""All codes of problems, as the description lists them."""


class Problem(Exception):
    """A failed request; a class's docstring is its message where none is given."""

    status = 500
    code = "internal_error"
    parameter: str | None = None
    headers: Mapping[str, str] = {}
    """Headers of its answer, besides those of its kind."""

    def __init__(self, message: str | None = None) -> None:
        """Keep the message for the client."""
        self.message = message or (self.__doc__ or "").strip()
        super().__init__(self.message)

    def body(self) -> bytes:
        """Return the error body."""
        content = {"error": self.code, "message": self.message}
        if self.parameter is not None:
            content["parameter"] = self.parameter
        return json.dumps(content).encode()


class InternalError(Problem):
    """something went wrong on our side; the X-Request-Id header names it in our log"""


class NotFound(Problem):
    """not found"""

    status = 404
    code = "not_found"


class MethodNotAllowed(Problem):
    """this method is not allowed here"""

    status = 405
    code = "method_not_allowed"


class HostUnclear(Problem):
    """the request needs one Host header"""

    status = 400
    code = "invalid_request"


class NotHTTP(Problem):
    """the request is not valid HTTP/1.1"""

    status = 400
    code = "invalid_request"


class MethodUnknown(Problem):
    """this method is not known here"""

    status = 501
    code = "invalid_request"


class HeadTooSlow(Problem):
    """the request line and the headers did not arrive in time"""

    status = 408
    code = "invalid_request"


class AddressTooLong(Problem):
    """the path and the query are longer than 16 KiB"""

    status = 414
    code = "uri_too_long"


class HeadersTooLarge(Problem):
    """the headers are larger than 32 KiB"""

    status = 431
    code = "invalid_request"


class TooManyRequests(Problem):
    """too many requests of this account at once; wait for their answers"""

    status = 429
    code = "rate_limited"

    def __init__(
        self, retry_after_s: int, message: str | None = None, *, limit: str = "requests_at_once"
    ) -> None:
        """Keep the number of seconds after which the client may try again, and the limit for metrics."""
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.limit = limit


class DatabaseUnavailable(Problem):
    """the database does not answer"""

    status = 503
    code = "database_unavailable"


class ServerFull(DatabaseUnavailable):
    """the server is full of other requests; try again in a while"""


class TookTooLong(DatabaseUnavailable):
    """the database did not finish in time; try again later, or with less at once"""


class StorageFull(DatabaseUnavailable):
    """the disk of this service is full; try again later"""

    code = "storage_full"
    headers: Mapping[str, str] = {"Retry-After": "60"}


class OutdatedServer(DatabaseUnavailable):
    """this server is older than the database; try again in a while"""

    code = "outdated_server"


class OutdatedSchema(DatabaseUnavailable):
    """the database is not ready for this server; try again in a while"""


class Unauthorized(Problem):
    """a token is required"""

    status = 401
    code = "unauthorized"

    def __init__(self, scopes: tuple[str, ...], message: str | None = None) -> None:
        """Keep the required scopes; a message means that a token was presented."""
        super().__init__(message)
        self.scopes = scopes
        self.is_token_invalid = message is not None

    @classmethod
    def invalid_token(cls, scopes: tuple[str, ...]) -> "Unauthorized":
        """Return the problem of a token that was presented and is not valid."""
        return cls(
            scopes, "the token is unknown, malformed, revoked, expired or made for another resource"
        )


class InsufficientScope(Problem):
    """The token is valid but lacks a scope of the endpoint."""

    status = 403
    code = "insufficient_scope"

    def __init__(self, scopes: tuple[str, ...], missing: str) -> None:
        """Name the missing scope; ``scopes`` are all that the request needs."""
        super().__init__(f"{missing} is required")
        self.scopes = scopes
        self.missing = missing


class ParameterProblem(Problem):
    """A parameter that is missing or malformed."""

    status = 400

    def __init__(self, parameter: str, reason: str) -> None:
        """Name the parameter first, for clients that read only the message."""
        super().__init__(f"{parameter}: {reason}")
        self.parameter = parameter


class MissingParameter(ParameterProblem):
    """A required parameter is absent."""

    code = "missing_parameter"


class InvalidParameter(ParameterProblem):
    """A parameter is present and malformed."""

    code = "invalid_parameter"


UNREADABLE: Final[Mapping[int, type[Problem]]] = {
    each.status: each for each in (NotHTTP, HeadTooSlow, HeadersTooLarge, MethodUnknown, ServerFull)
}
"""The problems of requests that the web server refuses, by status."""


def count(problem: Problem) -> None:
    """Count a request that was refused for a problem; for each answer to one, once."""
    limit = problem.limit if isinstance(problem, TooManyRequests) else None
    metrics.count_refusal(problem.status, problem, limit)


@dataclass(frozen=True)
class Answers:
    """Writes problems as answers. ``metadata_url`` is the address in a challenge (RFC 9728)."""

    metadata_url: str

    def of(self, problem: Problem) -> Response:
        """Return the answer to a failed request."""
        count(problem)
        headers = {**self._headers(problem), **problem.headers}
        return Response(problem.body(), problem.status, headers, media_type="application/json")

    def handlers(self) -> dict[type[Exception], ExceptionHandler]:
        """Return the exception handlers of the application."""

        async def problem_raised(_: Request, error: Exception) -> Response:
            return self.of(cast("Problem", error))

        async def framework_raised(_: Request, error: Exception) -> Response:
            raised = cast("HTTPException", error)
            answer = self.of(MethodNotAllowed() if raised.status_code == 405 else NotFound())
            answer.headers.update(raised.headers or {})
            return answer

        return {Problem: problem_raised, HTTPException: framework_raised}

    def _headers(self, problem: Problem) -> dict[str, str]:
        match problem:
            case (
                NotFound()
                | MethodNotAllowed()
                | HostUnclear()
                | NotHTTP()
                | MethodUnknown()
                | HeadTooSlow()
                | AddressTooLong()
                | HeadersTooLarge()
                | InternalError()
            ):
                return {"Cache-Control": "no-store"}
            case Unauthorized() | InsufficientScope():
                return PRIVATE | {"WWW-Authenticate": self._challenge(problem)}
            case DatabaseUnavailable():
                return PRIVATE | {"Retry-After": "1"}
            case TooManyRequests():
                return PRIVATE | {"Retry-After": str(problem.retry_after_s)}
        return PRIVATE

    def _challenge(self, problem: "Unauthorized | InsufficientScope") -> str:
        scope = " ".join(problem.scopes)
        where = f'resource_metadata="{self.metadata_url}"'
        if isinstance(problem, InsufficientScope):
            return (
                f'Bearer error="{problem.code}", scope="{scope}", {where}, '
                f'error_description="{problem.message}"'
            )
        error = 'error="invalid_token", ' if problem.is_token_invalid else ""
        needed = f', scope="{scope}"' if scope else ""
        return f"Bearer {error}{where}{needed}"
