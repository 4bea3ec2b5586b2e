"""What the service says of itself to programs: its OpenAPI 3.1 description.

Nothing of what the service does is written here a second time. Paths, parameters, bodies and scopes are
taken from the declarations that routes are made of, failures from the answers that they would get, and
only what no declaration says (what a status means, how to get a token) has its words here. What a good
answer looks like stands beside, one file for each operation in ``examples/``, made by hand.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import metadata, parameters
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.errors import (
    AddressTooLong,
    Answers,
    DatabaseUnavailable,
    HeadersTooLarge,
    InsufficientScope,
    InternalError,
    NotFound,
    ParameterProblem,
    Problem,
    Unauthorized,
)
from resourceserver.api.operation import INGEST, SERVICE, Operation
from resourceserver.api.packing import packed
from resourceserver.api.parameters import Params
from resourceserver.description import capabilities, probes
from resourceserver.endpoints import ENDPOINTS
from resourceserver.export import route as export
from resourceserver.ingest import route
from resourceserver.ingest import schema as ingest_schema
from shared import API_VERSION
from shared.scopes import DOMAINS, SCOPES
from shared.settings import Settings

PATH: Final = "/openapi.json"
EXAMPLES: Final = Path(__file__).with_name("examples")

_ABOUT: Final = """\
Read and written by whoever they let in.

- Every request but the few marked so needs a token, sent as `Authorization: Bearer svc_dt_...`: an API
  token that its owner made [in their settings]({auth_url}/settings/api-access), or an access token that
  an application got through OAuth 2.0. The token says whose data is meant; nothing else in a request does.
- Times are UTC. A range of instants ends before `to`; a range of calendar days includes it.
- Durations are whole milliseconds. Other units stand in the names: `_m`, `_percent`, `_bpm`.
- A documented member is always there: null where nothing is known, `[]` where there is nothing. Ignore
  members that you do not know; there may be more one day.
- A list with `has_more` goes on with `cursor` set to its `next_cursor`, and everything else as before.
- A failure is a JSON object with `error` for programs and `message` for people. Each answer has an
  `X-Request-Id`, which our log has too.
- Assistants ask at `POST /mcp`, which speaks the Model Context Protocol and describes itself.
"""
_TAGS: Final = {
    "Activity": "Applications, sites and coding: where the time went.",
    "Code hosting": "Commits, pull requests and reviews.",
    "Health": "Samples, heart rate, recovery and sleep.",
    "Location": "Where somebody was.",
    "Music": "What somebody listened to.",
    "Content": "Recordings, insights, watch history and calendar.",
    "Profile": "Who the caller is, and what they are connected to.",
    INGEST: "What trackers write.",
    SERVICE: "What runs here. Needs no token.",
}
"""The parts of the service. Those of somebody's data are the domains of scopes."""

_MEANINGS: Final = {
    400: "The request is malformed; `parameter` names what is wrong with it, where that has a name.",
    401: "There is no token, or it is unknown, revoked, expired or made for another resource.",
    403: "The token is good and lacks the scope.",
    404: "There is no such route, or no such row of the caller's.",
    413: "There is more in the body than one request may hold.",
    414: "The address is longer than 16 KiB.",
    415: "The body is of a type or an encoding that is not read here.",
    431: "The headers are larger than 32 KiB.",
    500: "Something went wrong on our side; the log has it under the request's id.",
    503: "The database does not answer in time, or there is no room for one more of such requests.",
}
_HEADERS: Final = {
    "WWW-Authenticate": "What is wanted (RFC 6750) and where to learn who gives it out (RFC 9728).",
    "Retry-After": "In how many seconds to try again.",
}


def routes(chosen: Settings) -> list[Route]:
    """Return the route of the description, which is made once."""
    body = text(chosen).encode()

    async def openapi(_: Request) -> Response:
        headers = {"Cache-Control": "public, max-age=300"}
        return packed(Response(body, headers=headers, media_type="application/json"))

    return [Route(PATH, openapi, name="openapi")]


def text(chosen: Settings) -> str:
    """Return the description as it is served."""
    return json.dumps(document(chosen), indent=2, ensure_ascii=False) + "\n"


def operations() -> list[Operation]:
    """Return everything that is described, in the order of the description."""
    return [
        *map(_read, ENDPOINTS),
        *map(route.operation, route.STREAMS),
        ingest_schema.INGEST_SCHEMA,
        export.EXPORT,
        probes.HEALTHZ,
        probes.READYZ,
        capabilities.CAPABILITIES,
    ]


def _read(endpoint: Endpoint) -> Operation:
    (domain,) = [name for name, scopes in DOMAINS.items() if endpoint.scope in scopes]
    return Operation(
        name=endpoint.name,
        path=endpoint.path,
        tag=domain,
        summary=endpoint.summary,
        answers={200: endpoint.body},
        scope=endpoint.scope,
        params=endpoint.params,
    )


def document(chosen: Settings) -> dict[str, Any]:
    """Return the description of the service at the addresses of ``chosen``."""
    described = operations()
    answers = Answers(f"{chosen.base_url}{metadata.PATH}")
    bodies = {body for each in described for body in each.answers.values()}
    _, models = models_json_schema(
        # In one order, since each name is given where it is met first.
        [(body, "serialization") for body in sorted(bodies, key=lambda body: body.__qualname__)],
        ref_template=_SCHEMA.format("{model}"),
        schema_generator=_Schema,
    )
    paths: dict[str, Any] = {}
    for each in described:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, answers)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Personal Activity Analytics Service",
            "version": API_VERSION,
            "summary": "One person's own measured activity.",
            "description": _ABOUT.format(auth_url=chosen.auth_url),
        },
        "servers": [{"url": chosen.base_url}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": {
                name: _published(schema) for name, schema in sorted(models["$defs"].items())
            }
            | {"Error": _ERROR},
            "headers": {"X-Request-Id": _REQUEST_ID},
            "responses": {_name(problem): _failure([problem], answers) for problem in _ANYWHERE},
            "securitySchemes": _security_schemes(chosen),
        },
    }


_SCHEMA: Final = "#/components/schemas/{}"
_ANYWHERE: Final = (NotFound(), AddressTooLong(), HeadersTooLarge(), InternalError())
"""What may become of any request, whatever it asks for."""

_ERROR: Final = {
    "type": "object",
    "description": "Why a request failed.",
    "required": ["error", "message"],
    "properties": {
        "error": {
            "type": "string",
            "description": "A word for programs; there may be new ones.",
        },
        "message": {"type": "string", "description": "A sentence for people."},
        "parameter": {
            "type": "string",
            "description": "The parameter, or the field of the body, that is at fault.",
        },
    },
}
_REQUEST_ID: Final = {
    "description": "Names the request in our log.",
    "schema": {"type": "string"},
    "example": "3f9c1be0a72d4458",
}


class _Schema(GenerateJsonSchema):
    """JSON Schema without titles, which would only say the names of members again."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- pydantic calls it with the schema
        """Say that no field has a title."""
        return False


def _published(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of an object as clients may rely on it: there may be more members one day."""
    return {name: value for name, value in _in_markdown(schema).items() if name not in _UNSAID}


_UNSAID: Final = {"additionalProperties", "title"}


def _in_markdown(value: Any) -> Any:
    """Return ``value`` with the descriptions in it as Markdown; docstrings quote with two backticks."""
    if isinstance(value, dict):
        return {
            name: " ".join(each.replace("``", "`").split())
            if name == "description" and isinstance(each, str)
            else _in_markdown(each)
            for name, each in value.items()
        }
    return [_in_markdown(each) for each in value] if isinstance(value, list) else value


def _operation(described: Operation, answers: Answers) -> dict[str, Any]:
    """Return the description of one operation."""
    operation: dict[str, Any] = {
        "operationId": described.name,
        "tags": [described.tag],
        "summary": described.summary,
        "description": _needs(described),
        "security": [{name: [described.scope]} for name in ("apiToken", "oauth")]
        if described.scope
        else [],
    }
    if described.params.model_fields:
        operation["parameters"] = _parameters(described.params)
    if described.request is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {
                "application/json": {
                    "schema": described.request,
                    **_example(f"{described.name}.request"),
                }
            },
        }
    return operation | {"responses": _responses(described, answers)}


def _needs(described: Operation) -> str:
    """Return in words what a token needs."""
    if described.scope is None:
        return "Needs no token."
    needs_more = "scopes" in vars(described.params)
    rest = ", and that of every other domain that is asked about" if needs_more else ""
    return f"Needs the scope `{described.scope}`{rest}."


def _parameters(params: type[Params]) -> list[dict[str, Any]]:
    schema = _in_markdown(params.model_json_schema(schema_generator=_Schema))
    required = schema.get("required", [])
    # What must be there comes first.
    names = sorted(schema["properties"], key=lambda name: name not in required)
    return [
        _parameter(name, schema["properties"][name], is_required=name in required) for name in names
    ]


def _parameter(name: str, schema: JsonSchemaValue, *, is_required: bool) -> dict[str, Any]:
    """Return the description of a query parameter. One that may be absent is never null."""
    rest = dict(schema)
    described: dict[str, Any] = {
        "name": name,
        "in": "query",
        "required": is_required,
        "description": rest.pop("description"),
    }
    if "anyOf" in rest:
        (own,) = [each for each in rest.pop("anyOf") if each != {"type": "null"}]
        rest |= own
    if rest.get("default", 0) is None:
        del rest["default"]
    examples = rest.pop("examples", [])
    described["schema"] = rest
    return described | ({"example": examples[0]} if examples else {})


def _responses(described: Operation, answers: Answers) -> dict[str, Any]:
    """Return every answer of an operation by its status."""
    responses = {status: _success(described, status) for status in described.answers}
    for status, problems in _by_status(_problems(described)).items():
        if status not in responses:
            responses[status] = _failure(problems, answers)
    for problem in _ANYWHERE:
        responses[problem.status] = {"$ref": f"#/components/responses/{_name(problem)}"}
    return {str(status): responses[status] for status in sorted(responses)}


def _problems(described: Operation) -> list[Problem]:
    """Return what may go wrong with an operation and not with every other."""
    problems = list(described.problems)
    if described.params.model_fields:
        problems += _parameter_problems(described.params)
    if described.scope:
        scopes = (described.scope,)
        problems += [
            Unauthorized(scopes),
            Unauthorized.invalid_token(scopes),
            InsufficientScope(scopes, described.scope),
            DatabaseUnavailable(),
        ]
    return problems


def _parameter_problems(params: type[Params]) -> list[ParameterProblem]:
    """Return what becomes of a request without parameters, and of one whose last one is malformed."""
    examples = {
        name: str(field.examples[0])
        for name, field in (
            (field.alias or name, field) for name, field in params.model_fields.items()
        )
        if field.examples
    }
    last = list(params.model_json_schema()["properties"])[-1]
    found = []
    for given in ({}, {**examples, last: "\0"}):
        try:
            parameters.parse(params, QueryParams(given))
        except ParameterProblem as problem:
            found.append(problem)
    return found


def _by_status(problems: Iterable[Problem]) -> dict[int, list[Problem]]:
    grouped: dict[int, list[Problem]] = {}
    for problem in problems:
        grouped.setdefault(problem.status, []).append(problem)
    return grouped


def _name(problem: Problem) -> str:
    return type(problem).__name__


def _success(described: Operation, status: int) -> dict[str, Any]:
    body = described.answers[status]
    name = described.name if status == 200 else f"{described.name}.{status}"
    content: dict[str, Any] = {
        "application/json": {
            "schema": {"$ref": _SCHEMA.format(body.__name__)},
            **_example(name),
        }
    }
    for media_type, text in described.media_types.items():
        content[media_type] = {"schema": {"type": "string", "description": text}}
    return {
        "description": " ".join((body.__doc__ or "").split()),
        "headers": _headers({"Retry-After": "1"} if status == 503 else {})
        | {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in described.headers.items()
        },
        "content": content,
    }


def _failure(problems: list[Problem], answers: Answers) -> dict[str, Any]:
    """Return the description of a failure; its examples are the very answers that clients get."""
    given = [(problem, answers.of(problem)) for problem in problems]
    examples: dict[str, Any] = {}
    for problem, answer in given:
        name = problem.code
        if isinstance(problem, Unauthorized) and problem.is_token_invalid:
            name = "invalid_token"
        elif name in examples:
            name = f"{name}_{len(examples)}"
        examples[name] = {"value": json.loads(bytes(answer.body))}
    _, last = given[-1]
    return {
        "description": _MEANINGS[last.status_code],
        "headers": _headers(last.headers),
        "content": {
            "application/json": {
                "schema": {"$ref": _SCHEMA.format("Error")},
                "examples": examples,
            }
        },
    }


def _headers(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the description of those headers of an answer that a client may want to read."""
    return {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}} | {
        name: {"description": text, "schema": {"type": "string"}, "example": given[name]}
        for name, text in _HEADERS.items()
        if name in given
    }


def _security_schemes(chosen: Settings) -> dict[str, Any]:
    return {
        "apiToken": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "svc_dt_...",
            "description": "A token that the owner of the data made for a program of their own, in"
            f" {chosen.auth_url}/settings/api-access. It lives until it is revoked, or for as long as"
            " its owner chose.",
        },
        "oauth": {
            "type": "oauth2",
            "description": "For applications that other people's data is shared with: authorization"
            " code with PKCE (S256), public clients, open registration. Everything else stands in"
            f" {chosen.auth_url}/.well-known/oauth-authorization-server.",
            "flows": {
                "authorizationCode": {
                    "authorizationUrl": f"{chosen.auth_url}/oauth/authorize",
                    "tokenUrl": f"{chosen.auth_url}/oauth/token",
                    "refreshUrl": f"{chosen.auth_url}/oauth/token",
                    "scopes": SCOPES,
                }
            },
        },
    }


def _example(name: str) -> dict[str, Any]:
    """Return the example of that name; a test says where there is none."""
    path = EXAMPLES / f"{name}.json"
    return {"example": json.loads(path.read_text(encoding="utf-8"))} if path.exists() else {}
