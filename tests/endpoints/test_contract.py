"""What holds for every read endpoint, derived from the list of declarations; none is named here."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from resourceserver.endpoint import Endpoint
from resourceserver.endpoints import ENDPOINTS
from shared import tokens
from shared.scopes import SCOPES
from tests.conftest import Person

EXAMPLES: dict[str, dict[str, str]] = {
    "date-time": {"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"},
    "date": {"from": "2025-06-16", "to": "2025-06-17"},
}
METADATA = 'resource_metadata="http://testserver/.well-known/oauth-protected-resource"'

MALFORMED = {
    "date-time": [
        "", "yesterday", "2025-06-16", "2025-06-16T09:00:00", "1750064400", "2025-W25-1T09:00Z",
        "2025-02-30T00:00:00Z", "2025-06-16T24:00:00Z", "2025-06-16T09:00:60Z",
        "2025-06-16T09:00:00+24:00", "0001-01-01T00:00:00+01:00", "2025-06-16T09:00:00Z\x00",
        "\uff12\uff10\uff12\uff15-06-16T09:00:00Z",
    ],
    "date": ["", "today", "2025-6-16", "2025-06-31", "20250616", "2025-06-16T00:00:00Z", "0000-01-01"],
    "iana-timezone": [
        "", "Berlin", "+02:00", "UTC+2", "../etc/passwd", "europe/berlin", "Factory", "\x00",
    ],
    "cursor": ["", "x", "bm9uc2Vuc2U", "MTc1MDA2NDQwMDAwMCwx", "\x00", "é", "A" * 5000],
    "integer": ["", "-1", "+1", "1.5", "ten", "1e3", "0x10", " 1", "\uff11", "\x00"],
    "string": ["", "\x00", "x" * 1025],
}  # fmt: skip

each_endpoint = pytest.mark.parametrize(
    "endpoint", ENDPOINTS, ids=[endpoint.name for endpoint in ENDPOINTS]
)


def parameters(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    properties: dict[str, dict[str, Any]] = endpoint.params.model_json_schema()["properties"]
    return properties


def kind(schema: dict[str, Any]) -> str:
    """Return what is malformed for a parameter: a key of MALFORMED."""
    # One that may be absent is described beside null.
    (schema,) = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    found: str = schema.get("format", schema["type"])
    return found


def valid(endpoint: Endpoint) -> dict[str, str]:
    return {
        name: EXAMPLES[schema["format"]][name]
        for name, schema in parameters(endpoint).items()
        if "default" not in schema
    }


def get(api: TestClient, endpoint: Endpoint, headers: dict[str, str], **changed: Any) -> Any:
    return api.get(endpoint.path, params=valid(endpoint) | changed, headers=headers)


MALFORMED_CASES = [
    pytest.param(endpoint, name, value, id=f"{endpoint.name}-{name}-{value!r}")
    for endpoint in ENDPOINTS
    if endpoint.params.model_fields
    for name, schema in parameters(endpoint).items()
    for value in MALFORMED[kind(schema)]
]
REQUIRED_CASES = [
    pytest.param(endpoint, name, id=f"{endpoint.name}-{name}")
    for endpoint in ENDPOINTS
    if endpoint.params.model_fields
    for name in valid(endpoint)
]


def test_names_and_paths_are_unique() -> None:
    assert len({endpoint.name for endpoint in ENDPOINTS}) == len(ENDPOINTS)
    assert len({endpoint.path for endpoint in ENDPOINTS}) == len(ENDPOINTS)


@each_endpoint
def test_a_query_takes_exactly_the_declared_parameters(endpoint: Endpoint) -> None:
    placeholders = set(re.findall(r"%\((\w+)\)s", endpoint.query))

    values = endpoint.params.model_validate(valid(endpoint)).values()

    assert placeholders == set(values) | {"user_id"}


@each_endpoint
def test_an_empty_account_has_an_answer_that_fits_the_model(
    api: TestClient, alice: Person, endpoint: Endpoint
) -> None:
    answer = get(api, endpoint, alice.headers(endpoint.scope))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "private, no-store"
    assert "Authorization" in answer.headers["vary"]
    endpoint.body.model_validate_json(answer.content)


@pytest.mark.checklist(48)
@each_endpoint
def test_no_credential_is_401_with_a_challenge_that_names_no_error(
    api: TestClient, endpoint: Endpoint
) -> None:
    answer = api.get(endpoint.path)

    assert answer.status_code == 401
    assert answer.json() == {"error": "unauthorized", "message": "a token is required"}
    assert answer.headers["www-authenticate"] == f'Bearer {METADATA}, scope="{endpoint.scope}"'


@pytest.mark.checklist(49, 52)
@each_endpoint
def test_a_bad_token_is_401_whatever_is_wrong_with_it(
    api: TestClient, alice: Person, endpoint: Endpoint
) -> None:
    good = alice.token(endpoint.scope)
    bad = [
        "nonsense",
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        good + "0",
        tokens.mint(tokens.ACCESS, alice.user_id).text,
        tokens.mint(tokens.REFRESH, alice.user_id).text,
        alice.token(endpoint.scope, expires="-1 second"),
        alice.token(endpoint.scope, resource="http://testserver/mcp"),
    ]

    for text in bad:
        answer = get(api, endpoint, {"Authorization": f"Bearer {text}"})

        assert answer.status_code == 401, text
        assert answer.json()["error"] == "unauthorized"
        assert answer.headers["www-authenticate"] == (
            f'Bearer error="invalid_token", {METADATA}, scope="{endpoint.scope}"'
        )


@pytest.mark.checklist(50)
@each_endpoint
def test_another_scope_is_403_and_names_the_one_that_is_missing(
    api: TestClient, alice: Person, endpoint: Endpoint
) -> None:
    others = [scope for scope in SCOPES if scope != endpoint.scope]

    # Without parameters: what may not be read says nothing of what it would have needed.
    answer = api.get(endpoint.path, headers=alice.headers(*others))

    assert answer.status_code == 403
    assert answer.json() == {
        "error": "insufficient_scope",
        "message": f"{endpoint.scope} is required",
    }
    assert answer.headers["www-authenticate"] == (
        f'Bearer error="insufficient_scope", scope="{endpoint.scope}", {METADATA}, '
        f'error_description="{endpoint.scope} is required"'
    )


@pytest.mark.parametrize(("endpoint", "name"), REQUIRED_CASES)
def test_a_required_parameter_that_is_missing_is_named(
    api: TestClient, alice: Person, endpoint: Endpoint, name: str
) -> None:
    params = valid(endpoint)
    del params[name]

    answer = api.get(endpoint.path, params=params, headers=alice.headers(endpoint.scope))

    assert answer.status_code == 400
    assert answer.json() == {
        "error": "missing_parameter",
        "message": f"{name}: is required",
        "parameter": name,
    }


@pytest.mark.parametrize(("endpoint", "name", "value"), MALFORMED_CASES)
def test_a_malformed_parameter_is_named(
    api: TestClient, alice: Person, endpoint: Endpoint, name: str, value: str
) -> None:
    answer = get(api, endpoint, alice.headers(endpoint.scope), **{name: value})

    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_parameter"
    assert answer.json()["parameter"] == name
    assert answer.json()["message"].startswith(f"{name}: ")


@pytest.mark.parametrize(("endpoint", "name"), REQUIRED_CASES)
def test_a_doubled_parameter_is_named(
    api: TestClient, alice: Person, endpoint: Endpoint, name: str
) -> None:
    value = valid(endpoint)[name]

    answer = get(api, endpoint, alice.headers(endpoint.scope), **{name: [value, value]})

    assert answer.status_code == 400
    assert answer.json()["parameter"] == name


@each_endpoint
def test_a_range_the_wrong_way_round_names_its_start(
    api: TestClient, alice: Person, endpoint: Endpoint
) -> None:
    if "from" not in valid(endpoint):
        assert "to" not in valid(endpoint)
        return
    params = valid(endpoint)

    answer = get(
        api, endpoint, alice.headers(endpoint.scope), **{"from": params["to"], "to": params["from"]}
    )

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "from"


@each_endpoint
def test_unknown_parameters_are_ignored(api: TestClient, alice: Person, endpoint: Endpoint) -> None:
    answer = get(api, endpoint, alice.headers(endpoint.scope), user_id="x", nonsense=["1", "2"])

    assert answer.status_code == 200


@each_endpoint
def test_head_is_get_without_a_body(api: TestClient, alice: Person, endpoint: Endpoint) -> None:
    answer = api.head(endpoint.path, params=valid(endpoint), headers=alice.headers(endpoint.scope))

    assert answer.status_code == 200
    assert answer.content == b""


@each_endpoint
def test_another_method_is_405(api: TestClient, endpoint: Endpoint) -> None:
    answer = api.post(endpoint.path)

    assert answer.status_code == 405
    assert answer.json()["error"] == "method_not_allowed"
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


@each_endpoint
def test_a_trailing_slash_is_another_path(api: TestClient, endpoint: Endpoint) -> None:
    answer = api.get(endpoint.path + "/", follow_redirects=False)

    assert answer.status_code == 404
    assert answer.json() == {"error": "not_found", "message": "not found"}


@each_endpoint
def test_every_answer_has_a_request_id(api: TestClient, alice: Person, endpoint: Endpoint) -> None:
    own = get(api, endpoint, alice.headers(endpoint.scope))
    given = get(api, endpoint, {"X-Request-Id": "3f2b4c1d-0123-4567-89ab-cdef01234567"})

    assert re.fullmatch(r"[0-9a-f]{16}", own.headers["x-request-id"])
    assert given.headers["x-request-id"] == "3f2b4c1d-0123-4567-89ab-cdef01234567"
