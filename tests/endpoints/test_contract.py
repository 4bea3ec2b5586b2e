"""Properties of every read endpoint, derived from the list of declarations, without naming any."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from resourceserver.api.endpoint import Endpoint
from resourceserver.api.operation import Operation
from resourceserver.api.parameters import Params
from resourceserver.description import openapi
from resourceserver.endpoints import ENDPOINTS
from shared import tokens
from shared.scopes import SCOPES
from shared.settings import Settings
from tests.conftest import Person, owning, person

READS: Final = [
    operation
    for operation in openapi.operations()
    if operation.method == "GET" and operation.scopes is not None
]
METADATA: Final = 'resource_metadata="http://testserver/.well-known/oauth-protected-resource"'

MALFORMED: Final = {
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
    "boolean": ["", "1", "yes", "True", "null", "\x00"],
    "string": ["", "\x00", "x" * 1025],
}  # fmt: skip
"""Values by format, or by type without one."""

NOT_TEXT: Final = ["%00", "%ff%fe", "%ed%a0%80", "%C0%80", "a%00b", "%"]
"""Values that are no text: NUL, bytes that are not UTF-8, half of a surrogate pair."""

ENDS: Final = {
    "date-time": ("2025-06-16T09:00:00Z", "2025-06-16T09:00:00.001Z"),
    "date": ("2025-06-16", "2025-06-17"),
}
EDGES: Final = {
    "date-time": ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"),
    "date": ("0001-01-01", "9999-12-31"),
}
"""The first and the last that may be written."""


@pytest.fixture(scope="module")
def alice(deployment: Settings) -> Iterator[Person]:
    """A person with an empty account. Nothing here writes, so one account serves all tests."""
    with owning(deployment) as connection:
        yield person(connection, "alice")


@pytest.fixture(scope="module")
def api(resource_client: TestClient) -> TestClient:
    """The resource server."""
    return resource_client


each_read = pytest.mark.parametrize("read", READS, ids=[read.name for read in READS])


@cache
def described(params: type[Params]) -> dict[str, Any]:
    """Return the JSON Schema of an operation's parameters, cached because pydantic is slow at it."""
    schema = params.model_json_schema()
    for parameter in schema.get("properties", {}).values():
        # An optional parameter is described together with null.
        for alternative in parameter.get("anyOf", []):
            if alternative.get("type") != "null":
                parameter.update(alternative)
    return schema


def schemas(read: Operation) -> dict[str, dict[str, Any]]:
    """Return the schema of each parameter."""
    found: dict[str, dict[str, Any]] = described(read.params).get("properties", {})
    return found


def malformed(schema: dict[str, Any]) -> list[str]:
    """Return values that this parameter has never."""
    values = list(MALFORMED[schema.get("format", schema["type"])])
    if "enum" in schema:
        values += [schema["enum"][0].upper(), ",".join(schema["enum"])]
    if "pattern" in schema:
        values += [each for each in ("-", " ", "é") if not re.search(schema["pattern"], each)]
    if schema["type"] == "integer":
        if schema["minimum"] < 0:
            values.remove("-1")
        values += [
            str(schema[end] + step)
            for end, step in (("minimum", -1), ("maximum", 1))
            if end in schema
        ]
    return values


def valid(read: Operation) -> dict[str, str]:
    """Return an example of each parameter that is required, as the description gives it."""
    return {
        name: schema["examples"][0]
        for name, schema in schemas(read).items()
        if name in described(read.params).get("required", ())
    }


def get(api: TestClient, read: Operation, headers: dict[str, str], **changed: Any) -> Any:
    return api.get(read.path, params=valid(read) | changed, headers=headers)


def scope_of(read: Operation) -> str:
    """Return a scope that opens an operation; one that reads nothing opens what needs no scope."""
    return read.scope or "ingest:health"


def needed(read: Operation) -> str:
    """Return the end of a challenge."""
    return f', scope="{read.scope}"' if read.scope else ""


def parameters(*, is_required: bool) -> list[Any]:
    return [
        pytest.param(read, name, id=f"{read.name}-{name}")
        for read in READS
        for name in schemas(read)
        if not is_required or name in valid(read)
    ]


def with_parameter(*names: str) -> pytest.MarkDecorator:
    reads = [read for read in READS if set(names) <= set(schemas(read))]
    return pytest.mark.parametrize("read", reads, ids=[read.name for read in reads])


UNUSED: Final = {
    # No two switches begin at one instant, so their cursor needs no id.
    "context_switches": {"cursor_id"},
    # These are of the statements about streaks, which follow the query.
    "focus_streaks": {"cursor", "cursor_at", "cursor_id", "limit"},
    # What decides which statements follow the query.
    "goals": {"include_history", "include_current"},
    "hourly": {"include_unreported"},
    # These are of the statement about the days, which follows the query.
    "trend": {"first_day", "is_counted", "tz"},
}
"""Parameters of endpoints whose queries do not use them."""


def test_names_and_paths_are_unique() -> None:
    assert len({read.name for read in READS}) == len(READS)
    assert len({read.path for read in READS}) == len(READS)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=[endpoint.name for endpoint in ENDPOINTS])
def test_a_query_has_exactly_the_declared_parameters(endpoint: Endpoint) -> None:
    placeholders = set(re.findall(r"%\((\w+)\)s", endpoint.query))
    (read,) = [read for read in READS if read.name == endpoint.name]

    values = endpoint.params.model_validate(valid(read)).values()

    assert placeholders - {"user_id"} == set(values) - UNUSED.get(endpoint.name, set()), (
        f"the query {endpoint.name} has other parameters than {endpoint.params.__name__}"
    )
    # The hours of a day are the same for everybody; what they were spent on is read after them.
    assert any("user_id" in statement.parameters for statement in endpoint.statements.values())


@each_read
def test_no_parameter_names_a_user(read: Operation) -> None:
    assert [name for name in schemas(read) if "user" in name] == []


@each_read
def test_an_empty_account_has_an_answer_that_fits_the_model(
    api: TestClient, alice: Person, read: Operation
) -> None:
    answer = get(api, read, alice.headers(scope_of(read)))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "private, no-store"
    assert "Authorization" in answer.headers["vary"].split(", ")
    read.answers[200].model_validate_json(answer.content)


@with_parameter("tz")
def test_a_zone_is_answered_as_it_was_given(
    api: TestClient, alice: Person, read: Operation
) -> None:
    # The query gets another name of this zone, since PostgreSQL takes this one for an abbreviation.
    answer = get(api, read, alice.headers(scope_of(read)), tz="CET")

    assert answer.status_code == 200
    assert answer.json().get("tz") == "CET"


@pytest.mark.checklist(48)
@each_read
def test_no_credential_is_401_with_a_challenge_that_names_no_error(
    api: TestClient, read: Operation
) -> None:
    answer = api.get(read.path)

    assert answer.status_code == 401
    assert answer.json() == {"error": "unauthorized", "message": "a token is required"}
    assert answer.headers["www-authenticate"] == f"Bearer {METADATA}{needed(read)}"


@pytest.mark.checklist(49, 52)
@each_read
def test_a_bad_token_is_401_whatever_is_wrong_with_it(
    api: TestClient, alice: Person, read: Operation
) -> None:
    scope = scope_of(read)
    good = alice.token(scope)
    bad = [
        "nonsense",
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        good + "0",
        tokens.mint(tokens.ACCESS, alice.user_id).text,
        tokens.mint(tokens.REFRESH, alice.user_id).text,
        alice.token(scope, expires="-1 second"),
        alice.token(scope, resource="http://testserver/mcp"),
    ]

    for text in bad:
        answer = get(api, read, {"Authorization": f"Bearer {text}"})

        assert answer.status_code == 401, text
        assert answer.json()["error"] == "unauthorized"
        assert answer.headers["www-authenticate"] == (
            f'Bearer error="invalid_token", {METADATA}{needed(read)}'
        )


@pytest.mark.checklist(50)
@pytest.mark.parametrize("read", [read for read in READS if read.scope], ids=lambda read: read.name)
def test_another_scope_is_403_and_names_the_missing_one(
    api: TestClient, alice: Person, read: Operation
) -> None:
    others = [scope for scope in SCOPES if scope != read.scope]

    # Without parameters: a request without the scope must not report what else it lacks.
    answer = api.get(read.path, headers=alice.headers(*others))

    assert answer.status_code == 403
    assert answer.json() == {
        "error": "insufficient_scope",
        "message": f"{read.scope} is required",
    }
    assert answer.headers["www-authenticate"] == (
        f'Bearer error="insufficient_scope", scope="{read.scope}", {METADATA}, '
        f'error_description="{read.scope} is required"'
    )


@pytest.mark.parametrize(("read", "name"), parameters(is_required=True))
def test_a_missing_parameter_is_named(
    api: TestClient, alice: Person, read: Operation, name: str
) -> None:
    params = valid(read)
    del params[name]

    answer = api.get(read.path, params=params, headers=alice.headers(scope_of(read)))

    assert answer.status_code == 400
    assert answer.json() == {
        "error": "missing_parameter",
        "message": f"{name}: is required",
        "parameter": name,
    }


@pytest.mark.parametrize(("read", "name"), parameters(is_required=False))
def test_a_malformed_parameter_is_named(
    api: TestClient, alice: Person, read: Operation, name: str
) -> None:
    headers = alice.headers(scope_of(read))

    for value in malformed(schemas(read)[name]):
        answer = get(api, read, headers, **{name: value})

        assert answer.status_code == 400, value
        assert answer.json()["error"] == "invalid_parameter"
        assert answer.json()["parameter"] == name, value
        assert answer.json()["message"].startswith(f"{name}: ")


@pytest.mark.parametrize(("read", "name"), parameters(is_required=False))
def test_a_doubled_parameter_is_named(
    api: TestClient, alice: Person, read: Operation, name: str
) -> None:
    value = valid(read).get(name, "1")

    answer = get(api, read, alice.headers(scope_of(read)), **{name: [value, value]})

    assert answer.status_code == 400
    assert answer.json()["parameter"] == name


@pytest.mark.parametrize(("read", "name"), parameters(is_required=False))
def test_a_value_that_is_no_text_is_refused_or_matches_nothing(
    api: TestClient, alice: Person, read: Operation, name: str
) -> None:
    query = urlencode({key: value for key, value in valid(read).items() if key != name})
    headers = alice.headers(scope_of(read))

    for written in NOT_TEXT:
        answer = api.get(f"{read.path}?{query}&{name}={written}", headers=headers)

        if answer.status_code == 200:
            # Where any text is valid, this one becomes another text, which matches nothing.
            assert schemas(read)[name]["type"] == "string", written
            assert answer.json()["data"] == [], written
        else:
            assert answer.status_code == 400, written
            assert answer.json()["parameter"] == name, written


@each_read
def test_a_parameter_with_a_malformed_name_is_ignored(
    api: TestClient, alice: Person, read: Operation
) -> None:
    headers = alice.headers(scope_of(read))

    for name in ("%00", "%ff", "%ed%a0%80", "a" * 9000, "[]", "from[]", "=", "&&"):
        answer = api.get(f"{read.path}?{urlencode(valid(read))}&{name}=%00", headers=headers)

        assert answer.status_code == 200, name


@with_parameter("from", "to")
def test_a_reversed_range_names_its_start(api: TestClient, alice: Person, read: Operation) -> None:
    early, late = ENDS[schemas(read)["from"]["format"]]

    answer = get(api, read, alice.headers(scope_of(read)), **{"from": late, "to": early})

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "from"


@with_parameter("from", "to")
def test_the_longest_range_is_answered_or_refused_as_too_long(
    api: TestClient, alice: Person, read: Operation
) -> None:
    first, last = EDGES[schemas(read)["from"]["format"]]
    headers = alice.headers(scope_of(read))

    whole = get(api, read, headers, **{"from": first, "to": last})
    start = get(api, read, headers, **{"from": first, "to": first})
    end = get(api, read, headers, **{"from": last, "to": last})

    for answer in (whole, start, end):
        if answer.status_code == 200:
            read.answers[200].model_validate_json(answer.content)
        else:
            assert answer.status_code == 400
            assert answer.json()["parameter"] in ("from", "to")


@with_parameter("tz")
def test_an_answer_names_any_zone_as_the_request_does(
    api: TestClient, alice: Person, read: Operation
) -> None:
    headers = alice.headers(scope_of(read))

    # Postgres has another name for the last one.
    for zone in ("Africa/Monrovia", "Pacific/Kiritimati", "America/St_Johns", "Etc/GMT-14", "CET"):
        answer = get(api, read, headers, tz=zone)

        assert answer.status_code == 200, zone
        assert answer.json()["tz"] == zone
        read.answers[200].model_validate_json(answer.content)


@with_parameter("limit")
def test_a_limit_above_the_maximum_is_the_maximum(
    api: TestClient, alice: Person, read: Operation
) -> None:
    most = re.search(r"more than (\d+) are \1", schemas(read)["limit"]["description"])
    assert most is not None

    for asked in (10**30, int(most[1]) + 1, int(most[1])):
        answer = get(api, read, alice.headers(scope_of(read)), limit=str(asked))

        assert answer.status_code == 200
        assert answer.json()["limit"] == int(most[1])


@each_read
def test_unknown_parameters_are_ignored(api: TestClient, alice: Person, read: Operation) -> None:
    answer = get(api, read, alice.headers(scope_of(read)), user_id="x", nonsense=["1", "2"])

    assert answer.status_code == 200


@each_read
def test_an_address_of_tens_of_kilobytes_is_refused(api: TestClient, read: Operation) -> None:
    answer = api.get(f"{read.path}?{'a' * 17_000}")

    assert answer.status_code == 414
    assert answer.json()["error"] == "uri_too_long"
    assert answer.headers["x-request-id"]


@each_read
def test_head_is_get_without_a_body(api: TestClient, alice: Person, read: Operation) -> None:
    headers = alice.headers(scope_of(read))

    full = get(api, read, headers)
    answer = api.head(read.path, params=valid(read), headers=headers)

    assert answer.status_code == 200
    assert answer.content == b""
    for name in ("content-type", "cache-control", "vary"):
        assert set(answer.headers[name].split(", ")) == set(full.headers[name].split(", "))


@each_read
def test_another_method_is_405(api: TestClient, read: Operation) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE", "NONSENSE"):
        answer = api.request(method, read.path)

        assert answer.status_code == 405, method
        assert answer.json()["error"] == "method_not_allowed"
        assert {"GET", "HEAD"} <= set(answer.headers["allow"].split(", "))


@each_read
def test_another_path_is_404(api: TestClient, alice: Person, read: Operation) -> None:
    for change in ("{}/", "{}/x", "{}%20", "/{}", "{}x", "{}%2F", "{}%00"):
        path = f"http://testserver{change.format(read.path)}"
        for headers in ({}, alice.headers()):
            answer = api.get(path, headers=headers, follow_redirects=False)

            assert answer.status_code == 404, path
            assert answer.json() == {"error": "not_found", "message": "not found"}


@each_read
def test_the_request_id_of_every_answer_is_in_its_log_line(
    api: TestClient, alice: Person, read: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    own = get(api, read, alice.headers(scope_of(read)))
    given = get(api, read, {"X-Request-Id": "3f2b4c1d-0123-4567-89ab-cdef01234567"})

    assert re.fullmatch(r"[0-9a-f]{16}", own.headers["x-request-id"])
    assert given.headers["x-request-id"] == "3f2b4c1d-0123-4567-89ab-cdef01234567"
    lines = [record.getMessage() for record in caplog.records if record.name == "svc.access"]
    assert [line.split(" duration_ms")[0] for line in lines] == [
        f"request_id={own.headers['x-request-id']} route={read.name} method=GET status=200",
        f"request_id={given.headers['x-request-id']} route={read.name} method=GET status=401",
    ]
