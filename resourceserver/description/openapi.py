"""``/openapi.json``: the OpenAPI 3.1 description of the service.

It is derived. Paths, parameters, bodies and scopes come from the declarations from which the routes are
derived, and failures from the answers that clients would get. Only what no declaration contains is written
here: the meaning of a status, how to get a token. ``examples/`` has an example answer of each operation,
written by hand.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import members, metadata, parameters
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.errors import (
    CODES,
    AddressTooLong,
    Answers,
    DatabaseUnavailable,
    HeadersTooLarge,
    InsufficientScope,
    InternalError,
    MethodNotAllowed,
    NotFound,
    ParameterProblem,
    Problem,
    TooManyRequests,
    Unauthorized,
)
from resourceserver.api.operation import INGEST, PROFILE, SERVICE, Operation
from resourceserver.api.packing import packed
from resourceserver.api.parameters import Params
from resourceserver.api.turns import RETRY_AFTER_S
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
The data that people measure about their own lives, for clients to which they grant access.

- Requests need a token, sent as `Authorization: Bearer svc_dt_...`: an API token that its owner created
  [in Settings]({auth_url}/settings/api-access), or an access token that an application got through
  OAuth 2.0. The token alone decides whose data is read or written. A few operations need no token and say so.
- [The guide]({base_url}/docs/guide) leads through the first program, and defines every number.
- Times are UTC. A range of instants excludes `to`; a range of calendar days includes it.
- Durations are whole milliseconds. Names contain other units: `_m`, `_percent`, `_bpm`.
- A documented member is always present: null for an unknown value, `[]` for an empty list. Ignore
  unknown members; later versions may add some.
- If a list has `has_more`, get its next page with `cursor` set to `next_cursor`, and all other parameters
  unchanged.
- A failure is a JSON object with `error` for programs and `message` for people. Each answer has an
  `X-Request-Id`, which is also in the server's log.
- Assistants use `POST /mcp`, which implements the Model Context Protocol and describes itself.
"""
_TAGS: Final = {
    "Activity": "Time spent in applications, on sites and on coding.",
    "Code hosting": "Commits, pull requests and reviews.",
    "Health": "Samples, heart rate, recovery and sleep.",
    "Location": "Places and visits.",
    "Music": "Listening history.",
    "Content": "Recordings, insights, watch history and calendar.",
    PROFILE: "The token itself, its owner, their integrations and organizations.",
    INGEST: "Events from trackers.",
    SERVICE: "This deployment. Needs no token.",
}
"""The parts of the service. For personal data they are the domains of the scopes."""

_MEANINGS: Final = {
    400: "The request is malformed; `parameter` names the invalid parameter or field, if it has a name.",
    401: "The token is missing, unknown, revoked, expired or bound to another resource.",
    403: "The token is valid but lacks the scope.",
    404: "The route does not exist, or the caller has no such row.",
    405: "The path has other methods than that of the request; `Allow` lists them.",
    408: "The body comes too slowly.",
    413: "The body is larger than a request may be.",
    414: "The address is longer than 16 KiB.",
    415: "The server does not accept the type or the encoding of the body.",
    431: "The headers are larger than 32 KiB.",
    429: "The account has sent too many requests at once.",
    500: "The server failed; its log has the reason under the request's id.",
    503: "The database does not answer in time, its disk is full, or too many such requests are running.",
}
_SWITCH: Final = (
    "**Switch**: one application follows another after at most 5 minutes. Stretches of one application with"
    " at most 5 minutes between them are one; those with less than a second of their own time do not count."
)
_HEADERS: Final = {
    "WWW-Authenticate": "The required scope (RFC 6750) and the address of the resource metadata (RFC 9728).",
    "Retry-After": "The number of seconds to wait before the next attempt.",
}
_ALLOW: Final = {
    "Allow": {
        "description": "The methods of the path.",
        "schema": {"type": "string"},
        "example": "GET, HEAD",
    }
}

_DEFINITIONS: Final = {
    "tracked_ms": "**Tracked time**: of all sessions that run at an instant and are not idle, the one that"
    " started last owns it. Tracked time is what sessions own, so that the times of applications, categories,"
    " devices, hours and days each add up to it.",
    "app_switches": _SWITCH,
    "switch_count": _SWITCH,
    "focus_ms": "**Focus**: a streak begins with productive time. It is broken by a gap of more than"
    " 5 minutes, by 30 seconds of distracting time, or by more than 2 minutes of neutral time; productive"
    " time sets these counts to zero. It ends with its last productive time, and counts from 10 minutes on.",
    "change_points": "**Change**: the known days are divided into segments of at least 14 so that the squared"
    " distances from the mean of each segment, plus a penalty for each change, are as small as possible. The"
    " usual difference of a weekday from the week around it is taken from each value first. The penalty is 3"
    " times the variance of a day, which follows from the means of successive weeks, times the natural"
    " logarithm of the number of days.",
    "agreeing_ms": "**Sleep Regularity Index** (Phillips and others, 2017): how much of the time a person is"
    " asleep, or awake, as 24 hours before; 200 times the share, less 100. A night's times are on the clock"
    " of its place. A person is asleep from the beginning to the end of main sleeps and naps, and otherwise"
    " awake; pairs with a day without a main sleep do not count.",
    "lower_quartile": "**Quartiles** are interpolated between the two values beside them.",
    "via": "**Files** that the person brought are listed beside connections. Nothing is connected for them,"
    " so `connected` is false, `status` is `disconnected` and `connected_at` is null. Their records are kept"
    " all the same, and `last_sync_at` says when the last file was brought. **Trackers** are listed if the"
    " token has the scope `read:activity` too.",
}
"""Definitions by members of answers; an operation is described with those of the members that it answers."""


def routes(chosen: Settings) -> list[Route]:
    """Return the route of the description, which is rendered once, for the first request."""

    @cache
    def body() -> bytes:
        return text(chosen).encode()

    async def openapi(_: Request) -> Response:
        headers = {"Cache-Control": "public, max-age=300"}
        return packed(Response(body(), headers=headers, media_type="application/json"))

    return [Route(PATH, openapi, name="openapi")]


def text(chosen: Settings) -> str:
    """Return the description as JSON text."""
    return json.dumps(document(chosen), indent=2, ensure_ascii=False) + "\n"


def operations() -> list[Operation]:
    """Return all described operations, in the order of the description."""
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
    domains = [name for name, scopes in DOMAINS.items() if endpoint.scope in scopes]
    return Operation(
        name=endpoint.name,
        path=endpoint.path,
        # Only what concerns the token itself needs no scope.
        tag=domains[0] if domains else PROFILE,
        summary=endpoint.summary,
        answers={200: endpoint.body},
        scope=endpoint.scope,
        takes_any_token=endpoint.scope is None,
        params=endpoint.params,
    )


def document(chosen: Settings) -> dict[str, Any]:
    """Return the description of a service with the settings ``chosen``."""
    described = operations()
    answers = Answers(f"{chosen.base_url}{metadata.PATH}")
    bodies = {body for each in described for body in each.answers.values()}
    _, models = models_json_schema(
        # Sorted, since the first model with a name decides about the name.
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
            "summary": "The data that people measure about their own lives.",
            "description": _ABOUT.format(auth_url=chosen.auth_url, base_url=chosen.base_url),
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
_ANYWHERE: Final = (
    NotFound(),
    MethodNotAllowed(),
    AddressTooLong(),
    HeadersTooLarge(),
    InternalError(),
)
"""Failures that every path may return."""

_ERROR: Final = {
    "type": "object",
    "description": "Why a request failed.",
    "required": ["error", "message"],
    "properties": {
        "error": {
            "type": "string",
            "description": "A code for programs. The examples are all codes of this version.",
            "examples": list(CODES),
        },
        "message": {"type": "string", "description": "A sentence for people."},
        "parameter": {
            "type": "string",
            "description": "The invalid parameter or field of the body.",
        },
    },
}
_REQUEST_ID: Final = {
    "description": "The id of the request in the server's log.",
    "schema": {"type": "string"},
    "example": "3f9c1be0a72d4458",
}


class _Schema(GenerateJsonSchema):
    """JSON Schema without titles, which would only repeat the names of members."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- pydantic calls it with the schema
        """Return False: no field has a title."""
        return False


def _published(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of an object without what may change, such as the absence of further members.

    Members without a description of their own get that of all members of their name.
    """
    published = {
        name: value for name, value in _in_markdown(schema).items() if name not in _OMITTED
    }
    for name, member in published.get("properties", {}).items():
        member.setdefault("description", members.DESCRIPTIONS.get(name, ""))
    return published


_OMITTED: Final = {"additionalProperties", "title"}


def _in_markdown(value: Any) -> Any:
    """Return ``value`` with its descriptions as Markdown, which quotes code with one backtick."""
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
        "description": "\n\n".join([_needs(described), *_definitions(described)]),
        "security": []
        if described.scopes is None
        else [{name: list(described.scopes)} for name in ("apiToken", "oauth")],
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
    """Return a sentence about the scopes that an operation needs."""
    if described.scopes is None:
        return "Needs no token."
    if described.scope is None:
        return "Needs a token, with any scope."
    needs_more = "scopes" in vars(described.params)
    rest = ", and the scope of each other requested domain" if needs_more else ""
    return f"Needs the scope `{described.scope}`{rest}."


def _definitions(described: Operation) -> list[str]:
    """Return definitions of what the answers of an operation measure, each once."""
    schemas = [body.model_json_schema() for body in described.answers.values()]
    models = [model for schema in schemas for model in (schema, *schema.get("$defs", {}).values())]
    names = {name for model in models for name in model.get("properties", ())}
    return list(dict.fromkeys(text for name, text in _DEFINITIONS.items() if name in names))


def _parameters(params: type[Params]) -> list[dict[str, Any]]:
    schema = _in_markdown(params.model_json_schema(schema_generator=_Schema))
    required = schema.get("required", [])
    # Required parameters come first.
    names = sorted(schema["properties"], key=lambda name: name not in required)
    return [
        _parameter(name, schema["properties"][name], is_required=name in required) for name in names
    ]


def _parameter(name: str, schema: JsonSchemaValue, *, is_required: bool) -> dict[str, Any]:
    """Return the description of a query parameter. An optional one is absent, never null."""
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
    if rest.get("format") == "date":
        described["description"] += f" From {parameters.FIRST_DAY} to {parameters.LAST_DAY}."
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
    """Return the failures of an operation, without those of every operation."""
    problems = list(described.problems)
    if described.params.model_fields:
        problems += _parameter_problems(described.params)
    scopes = described.scopes
    if scopes is not None:
        problems += [
            Unauthorized(scopes),
            Unauthorized.invalid_token(scopes),
            *(InsufficientScope(scopes, scope) for scope in scopes),
            TooManyRequests(RETRY_AFTER_S),
            DatabaseUnavailable(),
        ]
    return problems


def _parameter_problems(params: type[Params]) -> list[ParameterProblem]:
    """Return the failures of a request without parameters, and of one whose last parameter is malformed."""
    examples = {
        name: str(field.examples[0])
        for name, field in (
            (field.alias or name, field) for name, field in params.model_fields.items()
        )
        if field.examples
    }
    last = list(params.model_json_schema()["properties"])[-1]
    problems = []
    for given in ({}, {**examples, last: "\0"}):
        try:
            parameters.parse(params, QueryParams(given))
        except ParameterProblem as problem:
            problems.append(problem)
    return problems


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
    """Return the description of a failure; its examples are the answers that clients get."""
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
        "headers": _headers(last.headers) | (_ALLOW if last.status_code == 405 else {}),
        "content": {
            "application/json": {
                "schema": {"$ref": _SCHEMA.format("Error")},
                "examples": examples,
            }
        },
    }


def _headers(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the description of the headers of an answer that concern clients."""
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
            "description": "A token that the owner of the data created for their own program, in"
            f" {chosen.auth_url}/settings/api-access. It is valid until it expires or is revoked.",
        },
        "oauth": {
            "type": "oauth2",
            "description": "For applications to which people grant access to their data: authorization"
            " code with PKCE (S256), public clients, open registration. The metadata is at"
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
    """Return the example with a name; a test finds missing ones."""
    path = EXAMPLES / f"{name}.json"
    return {"example": json.loads(path.read_text(encoding="utf-8"))} if path.exists() else {}
