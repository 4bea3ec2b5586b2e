"""What a client of the resource server may be told when a request fails, and how it is written.

    Problem
    ├── NotFound             404
    ├── MethodNotAllowed     405
    ├── Unauthorized         401   with a challenge (RFC 6750, section 3; RFC 9728, section 5.1)
    ├── InsufficientScope    403   with a challenge
    ├── ParameterProblem     400   names the parameter
    │   ├── MissingParameter
    │   └── InvalidParameter
    ├── DatabaseUnavailable  503
    └── InternalError        500

Raised where the fact is known, turned into an answer here, once, at the edge.
"""

import json
import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ExceptionHandler

from shared.settings import Settings

log = logging.getLogger("svc.error")

PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Authorization"}
"""For every answer that needed a credential: personal data must not rest in caches."""


class Problem(Exception):
    """A failed request; a class's docstring is its message where none is given."""

    status = 500
    code = "internal_error"
    parameter: str | None = None

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


class DatabaseUnavailable(Problem):
    """the database does not answer"""

    status = 503
    code = "database_unavailable"


class Unauthorized(Problem):
    """a token is required"""

    status = 401
    code = "unauthorized"

    def __init__(self, scopes: tuple[str, ...], message: str | None = None) -> None:
        """Keep the scopes to ask for; a message means that a token was presented."""
        super().__init__(message)
        self.scopes = scopes
        self.is_token_invalid = message is not None

    @classmethod
    def invalid_token(cls, scopes: tuple[str, ...]) -> "Unauthorized":
        """Return the problem of a token that was presented and opens nothing."""
        return cls(
            scopes, "the token is unknown, malformed, revoked, expired or made for another resource"
        )


class InsufficientScope(Problem):
    """The token is good, and holds less than the endpoint needs."""

    status = 403
    code = "insufficient_scope"

    def __init__(self, scopes: tuple[str, ...], missing: str) -> None:
        """Name the missing scope; ``scopes`` are all that the request needs."""
        super().__init__(f"{missing} is required")
        self.scopes = scopes


class ParameterProblem(Problem):
    """A parameter that is missing or malformed."""

    status = 400

    def __init__(self, parameter: str, reason: str) -> None:
        """Name the parameter first, for clients that read only the message."""
        super().__init__(f"{parameter}: {reason}")
        self.parameter = parameter


class MissingParameter(ParameterProblem):
    """A required parameter is not there."""

    code = "missing_parameter"


class InvalidParameter(ParameterProblem):
    """A parameter is there and malformed."""

    code = "invalid_parameter"


def handlers(chosen: Settings) -> dict[type[Exception], ExceptionHandler]:
    """Return the exception handlers of the application."""
    metadata_url = f"{chosen.base_url}/.well-known/oauth-protected-resource"

    def answer(problem: Problem, headers: dict[str, str]) -> Response:
        return Response(
            problem.body(), problem.status, headers | extra(problem), media_type="application/json"
        )

    def extra(problem: Problem) -> dict[str, str]:
        match problem:
            case Unauthorized():
                error = 'error="invalid_token", ' if problem.is_token_invalid else ""
                scopes = " ".join(problem.scopes)
                challenge = f'Bearer {error}resource_metadata="{metadata_url}", scope="{scopes}"'
                return PRIVATE | {"WWW-Authenticate": challenge}
            case InsufficientScope():
                scopes = " ".join(problem.scopes)
                challenge = (
                    f'Bearer error="insufficient_scope", scope="{scopes}", '
                    f'resource_metadata="{metadata_url}", error_description="{problem.message}"'
                )
                return PRIVATE | {"WWW-Authenticate": challenge}
            case ParameterProblem():
                return PRIVATE
            case DatabaseUnavailable():
                return {"Cache-Control": "no-store", "Retry-After": "1"}
        return {"Cache-Control": "no-store"}

    async def problem_raised(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)  # noqa: S101 -- registered for Problem alone
        return answer(error, {})

    async def framework_raised(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 -- registered for HTTPException alone
        problem = MethodNotAllowed() if error.status_code == 405 else NotFound()
        return answer(problem, dict(error.headers or {}))

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("unexpected error in %s", request.scope.get("route"), exc_info=error)
        return answer(InternalError(), {})

    return {Problem: problem_raised, HTTPException: framework_raised, Exception: unexpected}
