"""The description: valid for two validators, complete, and in agreement with the service."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Route
from starlette.testclient import TestClient

import authserver.app
import resourceserver.app
from resourceserver.api import errors, members
from resourceserver.api.errors import TooManyRequests
from resourceserver.api.operation import Operation
from resourceserver.api.turns import RETRY_AFTER_S, Turns
from resourceserver.dashboard.views import VIEWS
from resourceserver.description import openapi
from resourceserver.description.openapi import EXAMPLES
from resourceserver.endpoints import ENDPOINTS
from resourceserver.ingest import events
from resourceserver.ingest import route as ingest
from shared.scopes import SCOPES
from shared.settings import Settings
from tests.conftest import Person
from tests.endpoints import snapshot
from tests.endpoints.snapshot import NEUTRAL

DOCUMENT: Final[dict[str, Any]] = json.loads(snapshot.PATH.read_text())
"""The committed copy, which each worker reads faster than it can make it."""
OPERATIONS: Final = [
    operation for path in DOCUMENT["paths"].values() for operation in path.values()
]
REDOCLY: Final = Path(__file__).parent.parent / "redocly"

each_operation = pytest.mark.parametrize(
    "operation", OPERATIONS, ids=[operation["operationId"] for operation in OPERATIONS]
)


def test_the_committed_copy_is_the_served_description() -> None:
    assert snapshot.PATH.read_text() == openapi.text(NEUTRAL), (
        "docs/openapi.json is not what the service says of itself; `make openapi` renews it"
    )


def test_it_is_served_without_a_credential_and_compressed_on_request(
    api: TestClient, deployment: Settings
) -> None:
    plain = api.get("/openapi.json", headers={"Accept-Encoding": "identity"})
    packed = api.get("/openapi.json", headers={"Accept-Encoding": "gzip"})

    chosen = Settings(auth_url=deployment.auth_url, base_url="http://testserver")
    assert plain.status_code == 200
    assert plain.headers["content-type"] == "application/json"
    assert plain.text == openapi.text(chosen)
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json()


def test_it_lists_the_codes_of_all_problems() -> None:
    problems = [errors.Problem]
    for each in problems:
        problems += [kind for kind in each.__subclasses__() if kind not in problems]

    listed = DOCUMENT["components"]["schemas"]["Error"]["properties"]["error"]["examples"]
    ours = [kind for kind in problems if kind.__module__.startswith("resourceserver")]
    assert sorted(listed) == sorted({kind.code for kind in ours if "code" in vars(kind)})


def test_it_is_openapi_3_1_of_version_1() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()

    assert DOCUMENT["openapi"].startswith("3.1.")
    assert DOCUMENT["info"]["version"] == "1.0.0"
    assert DOCUMENT["servers"] == [{"url": "https://data.svc.example"}]


@pytest.mark.foreign
def test_a_strict_validator_finds_no_problem(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    node, program = shutil.which("node"), REDOCLY / "node_modules/@redocly/cli/bin/cli.js"
    if node is None or not program.exists():
        if request.config.getoption("--hypothesis-profile") in ("bounded", "proof"):
            pytest.fail("redocly is not installed; make proof does it", pytrace=False)
        pytest.skip("redocly is not installed; make proof does it, and runs this")

    said = subprocess.run(
        # The operator decides about the licence of their service.
        [node, program, "lint", "--extends=recommended", "--skip-rule=info-license", "--format=json",
         snapshot.PATH],
        env=os.environ | {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    found = json.loads(said.stdout)
    assert found["problems"] == []
    assert found["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}


def test_every_route_is_described(deployment: Settings) -> None:
    without = {
        "resource_metadata", "mcp_resource_metadata",  # described by RFC 9728
        "openapi", "docs", "guide",
        # Pages for people.
        "sign_in", "signed_in", "show_sign_out", "sign_out", "signed_out_image",
        *(f"view_{view.name}" for view in VIEWS),
        "create_upload", "append_upload",  # for the page of the authorization server, by the tus protocol
    }  # fmt: skip
    served = {
        (route.name, route.path, method)
        for route in resourceserver.app.create(deployment).routes
        if isinstance(route, Route) and route.name not in without
        for method in (route.methods or set()) - {"HEAD", "OPTIONS"}
    }

    described = {
        (operation["operationId"], path, method.upper())
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    }
    assert described == served


def test_both_ways_to_get_a_token_are_described(deployment: Settings) -> None:
    schemes = DOCUMENT["components"]["securitySchemes"]
    path_of = authserver.app.create(deployment).url_path_for
    flow = schemes["oauth"]["flows"]["authorizationCode"]

    assert {name: scheme["type"] for name, scheme in schemes.items()} == {
        "apiToken": "http",
        "oauth": "oauth2",
    }
    assert schemes["apiToken"]["scheme"] == "bearer"
    assert flow["scopes"] == SCOPES
    assert flow["authorizationUrl"] == f"https://auth.svc.example{path_of('authorize')}"
    assert flow["tokenUrl"] == flow["refreshUrl"] == f"https://auth.svc.example{path_of('token')}"


@pytest.mark.parametrize(
    "endpoint", [each for each in ENDPOINTS if each.scope], ids=lambda endpoint: endpoint.name
)
def test_the_described_scope_is_the_required_one(
    api: TestClient, alice: Person, endpoint: Any
) -> None:
    (operation,) = [each for each in OPERATIONS if each["operationId"] == endpoint.name]
    others = [scope for scope in SCOPES if [scope] != operation["security"][0]["apiToken"]]

    answer = api.get(endpoint.path, headers=alice.headers(*others))

    (name,) = operation["security"][0]["apiToken"]
    assert operation["security"] == [{"apiToken": [name]}, {"oauth": [name]}]
    assert f"`{name}`" in operation["description"]
    assert answer.status_code == 403
    described = operation["responses"]["403"]["content"]["application/json"]["examples"]
    assert answer.json() == described["insufficient_scope"]["value"]


@each_operation
def test_every_parameter_is_described_and_is_never_null(operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", []):
        assert parameter["description"]
        assert parameter["in"] == "query"
        assert isinstance(parameter["required"], bool)
        assert "null" not in json.dumps(parameter["schema"])
        assert "format" in parameter["schema"] or "type" in parameter["schema"]
        # The example works for people who try the operation out.
        assert parameter["required"] is ("example" in parameter)


@pytest.mark.parametrize(
    ("name", "defined"),
    [
        ("app_usage", ["Tracked time"]),
        ("daily", ["Tracked time", "Switch"]),
        ("context_switches", ["Switch"]),
        ("focus_streaks", ["Switch", "Focus"]),
        ("summaries", ["Tracked time", "Switch", "Focus"]),
        ("me", []),
    ],
)
def test_an_operation_defines_the_measures_of_its_answer(name: str, defined: list[str]) -> None:
    (operation,) = [each for each in OPERATIONS if each["operationId"] == name]

    assert re.findall(r"\*\*([\w ]+)\*\*", operation["description"]) == defined


def test_days_are_described_with_their_bounds() -> None:
    described = {
        parameter["description"]
        for operation in OPERATIONS
        for parameter in operation.get("parameters", [])
        if parameter["schema"].get("format") == "date"
    }

    assert described
    assert [text for text in described if "1900-01-01 to 9998-12-31" not in text] == []


@each_operation
def test_every_failure_has_the_error_body_and_its_headers(operation: dict[str, Any]) -> None:
    responses = {status: resolved(response) for status, response in operation["responses"].items()}
    needs_token = bool(operation["security"])

    assert {"200", "404", "405", "414", "431", "500"} <= set(responses)
    assert "Allow" in responses["405"]["headers"]
    needs_scope = needs_token and operation["security"][0]["apiToken"] != []
    assert ({"401", "429", "503"} <= set(responses)) >= needs_token
    assert ("403" in responses) == needs_scope
    assert ("400" in responses) == ("parameters" in operation or "requestBody" in operation)
    for status, response in responses.items():
        assert "X-Request-Id" in response["headers"]
        assert response["description"]
        if status in ("401", "403"):
            assert response["headers"]["WWW-Authenticate"]["example"].startswith("Bearer ")
        if status == "503":
            assert response["headers"]["Retry-After"]["example"] == "1"
        if status == "429":
            assert response["headers"]["Retry-After"]["example"] == "5"
        if status != "200" and operation["operationId"] not in ("healthz", "readyz"):
            content = response["content"]["application/json"]
            assert content["schema"] == {"$ref": "#/components/schemas/Error"}
            for example in content["examples"].values():
                check(content["schema"], example["value"])


@each_operation
def test_exactly_the_operations_that_wait_for_a_place_can_answer_429(
    api: TestClient, alice: Person, monkeypatch: pytest.MonkeyPatch, operation: dict[str, Any]
) -> None:
    (described,) = (each for each in openapi.operations() if each.name == operation["operationId"])
    required = {
        each["name"]: each["example"]
        for each in operation.get("parameters", [])
        if each["required"]
    }
    body = None
    if "requestBody" in operation:
        body = json.loads((EXAMPLES / f"{described.name}.request.json").read_text())

    async def refuse(_: Turns, __: object) -> None:
        raise TooManyRequests(RETRY_AFTER_S)

    monkeypatch.setattr(Turns, "take", refuse)

    answer = api.request(
        described.method,
        described.path,
        params=required,
        json=body,
        headers=alice.headers(described.scope or "ingest:health"),
    )

    assert answer.status_code == (429 if "429" in operation["responses"] else 200)


@each_operation
def test_every_answer_has_a_valid_example(operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        content = resolved(response)["content"]["application/json"]
        if "examples" not in content:
            name = operation["operationId"] + ("" if status == "200" else f".{status}")
            assert "example" in content, f"{EXAMPLES.name}/{name}.json is missing"
            check(content["schema"], content["example"])
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        check(content["schema"], content["example"])


@pytest.mark.parametrize("described", openapi.operations(), ids=lambda described: described.name)
def test_every_example_fits_its_model(described: Operation) -> None:
    # The published schema allows members of later versions; the model does not.
    for status, body in described.answers.items():
        name = described.name if status == 200 else f"{described.name}.{status}"

        body.model_validate_json((EXAMPLES / f"{name}.json").read_text())


@pytest.mark.parametrize(
    "described", [ingest.operation(stream) for stream in ingest.STREAMS], ids=lambda each: each.name
)
def test_every_event_of_an_example_is_accepted(
    api: TestClient, alice: Person, described: Operation
) -> None:
    example = json.loads((EXAMPLES / f"{described.name}.request.json").read_text())

    answer = api.post(described.path, json=example, headers=alice.headers(str(described.scope)))

    assert answer.json()["accepted"] == len(example["events"])
    assert set(answer.json()) == set(described.answers[200].model_fields)


def test_every_example_is_in_use() -> None:
    named = {described.name for described in openapi.operations()}

    assert {path.name.split(".")[0] for path in EXAMPLES.iterdir()} == named


def test_names_of_schemas_are_those_of_models() -> None:
    # pydantic would name two models with one name by the paths of their modules.
    assert [name for name in DOCUMENT["components"]["schemas"] if "__" in name] == []


def test_the_codes_of_rejections_are_a_component_of_their_own() -> None:
    """Clients that are generated have one type for them, instead of several with one name."""
    schemas = DOCUMENT["components"]["schemas"]
    reference = {"$ref": "#/components/schemas/RejectionCode"}
    codes = {name: schemas[name]["properties"]["code"] for name in ("Rejection", "RejectionReason")}

    assert schemas["RejectionCode"]["enum"] == list(events.CODES)
    assert {name: {**code, **reference} == code for name, code in codes.items()} == {
        "Rejection": True,
        "RejectionReason": True,
    }
    # Nowhere else are they written out.
    assert json.dumps(DOCUMENT).count(json.dumps(list(events.CODES))[1:-1]) == 1


def test_every_schema_of_an_answer_is_described_and_may_grow() -> None:
    schemas = DOCUMENT["components"]["schemas"]

    assert [name for name, schema in schemas.items() if not schema.get("description")] == []
    assert '"additionalProperties": false' not in json.dumps(schemas)
    assert "``" not in json.dumps(DOCUMENT)


def undescribed(name: str, schema: dict[str, Any]) -> list[str]:
    """Return the members of an object, and of objects within it, that have no description."""
    properties = schema.get("properties", {})
    missing = [f"{name}.{each}" for each, of in properties.items() if not of.get("description")]
    inner = [*properties.items(), *([(name, schema["items"])] if "items" in schema else [])]
    return missing + [found for each, of in inner for found in undescribed(f"{name}.{each}", of)]


def test_every_member_is_described() -> None:
    requests = {
        operation["operationId"]: operation["requestBody"]["content"]["application/json"]["schema"]
        for operation in OPERATIONS
        if "requestBody" in operation
    }
    schemas = DOCUMENT["components"]["schemas"] | requests

    assert [found for name in schemas for found in undescribed(name, schemas[name])] == []


def test_members_of_one_name_share_a_description_unless_they_have_their_own() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    totals = schemas["AppUsageTotals"]["properties"], schemas["DailyTotals"]["properties"]

    assert {each["tracked_ms"]["description"] for each in totals} == {
        members.DESCRIPTIONS["tracked_ms"]
    }
    assert schemas["AppUsage"]["properties"]["category"]["description"] == (
        "The category with most of the application's time in the range."
    )


@pytest.mark.parametrize("path", sorted(DOCUMENT["paths"]))
def test_the_first_two_failures_are_those_of_the_service(api: TestClient, path: str) -> None:
    for method, operation in DOCUMENT["paths"][path].items():
        if not operation["security"]:
            continue
        described = operation["responses"]["401"]

        answer = api.request(method, path)

        examples = described["content"]["application/json"]["examples"]
        assert answer.json() == examples["unauthorized"]["value"]
        assert set(described["headers"]) <= {name.title() for name in answer.headers} | {
            "WWW-Authenticate"
        }


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    """Return the target of a reference within the document, or the value itself."""
    found: dict[str, Any] = value
    if "$ref" in value:
        found = DOCUMENT
        for name in value["$ref"].removeprefix("#/").split("/"):
            found = found[name]
    return found


def check(schema: dict[str, Any], value: Any) -> None:
    """Validate ``value`` against ``schema``, which may refer to others of the document."""
    whole = {**schema, "components": DOCUMENT["components"]}

    Draft202012Validator(whole, format_checker=FormatChecker()).validate(value)
