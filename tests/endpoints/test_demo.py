"""The life that `svc demo` invents: every endpoint and every export has rows of it.

Properties of all of them are derived from their lists, without naming any. tests/deploy/test_demo.py tests
the command.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, get_args

import pytest
from click.testing import CliRunner, Result
from psycopg import sql
from starlette.testclient import TestClient

from deploy.demo.command import demo
from resourceserver.api.endpoint import Endpoint
from resourceserver.endpoints import ENDPOINTS
from resourceserver.export.resources import RESOURCES, Resource
from shared.settings import Settings
from tests.conftest import Person, owning, person
from tests.integrations.bringing import Importer, of_listens

# The examples of the description are in the last week but one.
UNTIL: Final = "2025-10-31"
WIDE: Final = {
    "date-time": {"from": "2025-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
    "date": {"from": "2025-09-01", "to": "2025-10-31"},
}
WITHOUT_ROWS: Final = {
    "activity.summary_due": "the command has summed up all days itself",
    "activity.rollup_due": "and has made all rollups",
    "activity.attention_due": "and has kept their switches, detours and streaks",
    "activity.raw_limit": "nothing of it is old enough to be removed",
    "activity.removed_day": "so no day has lost its sessions",
    "svc.turn": "and leaves nothing to the worker",
    "profile.upload": "a file that is being brought",
    "profile.integration": "an account at a service, of which an older demo wrote rows",
    "profile.integration_key": "the key of a connection",
    "profile.connection_secret": "or what opens the account",
    "activity.beat": "what an editor has sent",
    "health.message": "what a phone has sent",
    "health.bucket": "parts of it",
    "health.sleep_stage": "other parts of it",
    "location.derivation_due": "imports mark the days from which visits follow",
    "profile.subscription": "who has none runs the service themselves, as does who tries it out",
}


def run(chosen: Settings, *words: str) -> Result:
    return CliRunner().invoke(demo, words, obj=chosen)


@pytest.fixture(scope="module")
def alice(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person with two months of an invented life, and a file without any record that can be kept."""
    with owning(deployment) as connection:
        made = person(connection, "alice")
        connection.execute("update identity.user set timezone = 'Europe/Berlin'")
        done = run(deployment, "alice@example.org", "--days=61", f"--until={UNTIL}")
        assert done.exit_code == 0, done.output
        history = tmp_path_factory.mktemp("brought") / "history.plays"
        history.write_text("bad\n")
        Importer(deployment, made).run(history, of_listens())
        yield made


@pytest.fixture(scope="module")
def api(resource_client: TestClient) -> TestClient:
    """The resource server."""
    return resource_client


def column(alice: Person, query: str) -> list[Any]:
    return [value for (value,) in alice.connection.execute(query).fetchall()]


def test_every_table_of_user_data_has_rows(alice: Person) -> None:
    tables = column(alice, "select svc.tables_of_people()::text")

    empty = {
        table
        for table in tables
        if alice.connection.execute(
            sql.SQL("select from {} where user_id = %s limit 1").format(sql.SQL(table)),
            [alice.user_id],
        ).fetchone()
        is None
    }
    assert empty == set(WITHOUT_ROWS)


# Every endpoint


def schemas(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    if not endpoint.params.model_fields:
        return {}
    found: dict[str, dict[str, Any]] = endpoint.params.model_json_schema()["properties"]
    for schema in found.values():
        for alternative in schema.get("anyOf", []):
            if alternative.get("type") != "null":
                schema.update(alternative)
    return found


def params(endpoint: Endpoint) -> dict[str, str]:
    """Return the examples of required parameters, and a range if there can be one."""
    # In the week of the examples the invented person wrote no code.
    is_wide = endpoint.scope == "read:code"
    return {
        name: schema["examples"][0]
        if "examples" in schema and not is_wide
        else WIDE[schema["format"]][name]
        for name, schema in schemas(endpoint).items()
        if "examples" in schema or (name in ("from", "to") and schema["format"] in WIDE)
    }


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=[endpoint.name for endpoint in ENDPOINTS])
def test_every_endpoint_has_rows_that_fit_its_model(
    api: TestClient, alice: Person, endpoint: Endpoint
) -> None:
    answer = api.get(endpoint.path, params=params(endpoint), headers=alice.headers())

    assert answer.status_code == 200, answer.text
    endpoint.body.model_validate_json(answer.content)
    assert answer.json()["data"]


# Every resource of an export


@pytest.fixture(scope="module")
def exported(api: TestClient, alice: Person) -> dict[str, Any]:
    """Alice's export."""
    answer = api.get("/api/v1/export", headers=alice.headers())
    assert answer.status_code == 200
    resources: dict[str, Any] = answer.json()["resources"]
    return resources


each_resource = pytest.mark.parametrize(
    "resource", RESOURCES, ids=[resource.name for resource in RESOURCES]
)


@each_resource
def test_every_resource_has_rows_that_fit_its_model(
    exported: dict[str, Any], resource: Resource
) -> None:
    rows = exported[resource.name]

    assert rows
    for row in rows:
        resource.row.model_validate_json(json.dumps(row))


LISTS: Final = {
    row: endpoint
    for endpoint in ENDPOINTS
    if "data" in endpoint.body.model_fields
    for row in get_args(endpoint.body.model_fields["data"].annotation)
}
"""The endpoints that answer lists, by the models of their rows."""


def answered(resource: Resource) -> Any:
    """Return the model of the rows of answers to which those of an export add members, if there is one."""
    return next((each for each in resource.row.__mro__ if each in LISTS), None)


@pytest.mark.parametrize(
    ("resource", "endpoint"),
    [
        pytest.param(resource, LISTS[answered(resource)], id=resource.name)
        for resource in RESOURCES
        if answered(resource)
    ],
)
def test_an_export_has_the_rows_of_the_endpoints(
    api: TestClient,
    alice: Person,
    exported: dict[str, Any],
    resource: Resource,
    endpoint: Endpoint,
) -> None:
    wishes: list[dict[str, str]] = [{"include_cancelled": "true", "limit": "1000000"}]
    if "metric_type" in schemas(endpoint):
        types = {row["metric_type"] for row in exported[resource.name]}
        wishes = [{"metric_type": each, "limit": "1000000"} for each in sorted(types)]
    edges = {
        name: WIDE[schema["format"]][name]
        for name, schema in schemas(endpoint).items()
        if name in ("from", "to")
    }

    rows = [row for wish in wishes for row in listed(api, alice, endpoint, edges | wish)]

    # The rows of an export have members more than those of answers, such as their keys.
    more = resource.row.model_fields.keys() - answered(resource).model_fields.keys()
    alike = [
        {name: value for name, value in row.items() if name not in more}
        for row in exported[resource.name]
    ]
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, alike))


def listed(
    api: TestClient, who: Person, endpoint: Endpoint, wish: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield all rows of a list, page after page."""
    headers = who.headers()
    cursor: dict[str, str] = {}
    while True:
        body = api.get(endpoint.path, params=wish | cursor, headers=headers).json()
        yield from body["data"]
        if not body.get("has_more"):
            return
        cursor = {"cursor": body["next_cursor"]}


# The contents of the life


def test_weekends_differ_from_weekdays(alice: Person) -> None:
    weekday, weekend = column(
        alice,
        """
        select sum(ended_at - started_at) / count(distinct started_at::date)
          from (
                   select started_at,
                          ended_at,
                          extract(isodow from started_at) >= 6 as is_weekend
                     from activity.app_session
                    where not idle
               ) as session
         group by is_weekend
         order by is_weekend
        """,
    )

    assert weekday > 1.5 * weekend


def test_a_trip_is_spent_in_another_zone(alice: Person) -> None:
    offsets = column(
        alice,
        "select distinct utc_offset from activity.app_session"
        " where started_at < '2025-10-25Z' order by 1",
    )

    assert offsets == ["+01:00", "+02:00"]


def test_a_project_ends_and_another_continues(alice: Person) -> None:
    last = dict(
        alice.connection.execute(
            "select project, max(started_at)::date::text from activity.coding_session group by 1"
        ).fetchall()
    )

    assert last["lighthouse"] < "2025-10-12"
    assert last["harbour"] == "2025-10-31"


def test_counts_of_devices_are_those_of_ingest(alice: Person) -> None:
    counted = alice.connection.execute(
        "select device_id, stream, first_event_at, last_event_at, event_count"
        " from activity.device_stream order by 1, 2"
    ).fetchall()

    there = alice.connection.execute(
        """
        select device_id, 'app_sessions', min(started_at), max(ended_at), count(*)
          from activity.app_session group by device_id
         union all
        select device_id, 'coding_sessions', min(started_at), max(ended_at), count(*)
          from activity.coding_session group by device_id
         order by 1, 2
        """
    ).fetchall()
    assert len(there) == 3
    assert counted == there
