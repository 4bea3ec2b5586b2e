"""`/api/v1/export`: all data that a token may read, in each of its formats.

test_demo.py tests that all rows equal those of the endpoints, and tests/faults/test_export.py tests
interrupted answers.
"""

import asyncio
import csv
import io
import json
import re
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.export import formats
from resourceserver.export.reading import Export
from resourceserver.export.resources import RESOURCES
from shared.scopes import SCOPES
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person

Rows = psycopg.Connection[Any]

PATH = "/api/v1/export"
HEADER = (
    "resource,id,started_at,ended_at,duration_ms,name,category,project,"
    "language,title,device,value,unit,latitude,longitude,extra"
)
FORMATS = ["json", "csv", "ndjson", "zip"]


def device(owner: Rows, person: Person, name: str = "laptop") -> Any:
    row = owner.execute(
        "insert into activity.device (user_id, name, platform) values (%s, %s, 'linux')"
        " returning device_id",
        [person.user_id, name],
    ).fetchone()
    assert row is not None
    return row[0]


def session(owner: Rows, person: Person, device_id: Any, **columns: Any) -> None:
    """Insert an app session; columns that are not given have the values of an hour on 16 June."""
    optional = ("title", "url", "domain", "category", "utc_offset", "source", "metadata")
    row = dict.fromkeys(optional) | {
        "user_id": person.user_id,
        "device_id": device_id,
        "app_session_id": "00000000-0000-4000-8000-000000000001",
        "idempotency_key": "k1",
        "started_at": "2025-06-16 09:00Z",
        "ended_at": "2025-06-16 10:00Z",
        "idle": False,
        "app": "Code",
    }
    owner.execute(
        """
        insert into activity.app_session
               (user_id, device_id, app_session_id, idempotency_key, started_at, ended_at, idle, app,
                title, url, domain, category, utc_offset, source, metadata)
        values (%(user_id)s, %(device_id)s, %(app_session_id)s, %(idempotency_key)s, %(started_at)s,
                %(ended_at)s, %(idle)s, %(app)s, %(title)s, %(url)s, %(domain)s, %(category)s,
                %(utc_offset)s, %(source)s, %(metadata)s)
        """,
        row | columns,
    )


def export(api: TestClient, person: Person, *scopes: str, **params: str) -> Response:
    return api.get(PATH, params=params, headers=person.headers(*scopes))


def rows(answer: Response, resource: str) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["resources"][resource]


def test_an_app_session_is_the_event_as_it_was_sent(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    session(
        owner,
        alice,
        device(owner, alice),
        title="main.py - svc",
        url="https://example.org/a",
        domain="example.org",
        category="Development",
        idle=True,
        utc_offset="+02:00",
        source="aw-bridge/1.2",
        metadata='{"window": {"x": 1.50}}',
    )
    owner.execute(
        "insert into activity.category_rule (user_id, priority, field, match, pattern, category)"
        " values (%s, 1, 'app', 'exact', 'Code', 'Writing')",
        [alice.user_id],
    )

    answer = export(api, alice)

    assert rows(answer, "app_sessions") == [
        {
            "id": "00000000-0000-4000-8000-000000000001",
            "idempotency_key": "k1",
            "started_at": "2025-06-16T09:00:00.000Z",
            "ended_at": "2025-06-16T10:00:00.000Z",
            "duration_ms": 3600000,
            "app": "Code",
            "title": "main.py - svc",
            "url": "https://example.org/a",
            "category": "Development",
            "idle": True,
            "device": "laptop",
            "platform": "linux",
            "utc_offset": "+02:00",
            "metadata": {"window": {"x": 1.5}},
            "source": "aw-bridge/1.2",
        }
    ]


def test_a_coding_session_is_the_event_as_it_was_sent(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    owner.execute(
        """
        insert into activity.coding_session
               (user_id, device_id, coding_session_id, idempotency_key, started_at, ended_at,
                project, language, lines_added)
        values (%s, %s, '00000000-0000-4000-8000-000000000002', 'c1',
                '2025-06-16 09:00Z', '2025-06-16 09:30Z', 'svc', 'Python', 12)
        """,
        [alice.user_id, device(owner, alice)],
    )

    answer = export(api, alice, resources="coding_sessions")

    assert rows(answer, "coding_sessions") == [
        {
            "id": "00000000-0000-4000-8000-000000000002",
            "idempotency_key": "c1",
            "started_at": "2025-06-16T09:00:00.000Z",
            "ended_at": "2025-06-16T09:30:00.000Z",
            "duration_ms": 1800000,
            "project": "svc",
            "language": "Python",
            "branch": None,
            "file": None,
            "editor": None,
            "activity": "coding",
            "lines_added": 12,
            "lines_removed": None,
            "is_write": None,
            "device": "laptop",
            "platform": "linux",
            "utc_offset": None,
            "metadata": None,
            "source": None,
        }
    ]


def test_it_names_its_owner_range_and_time(api: TestClient, alice: Person) -> None:
    before = datetime.now(UTC)

    body = export(api, alice, **{"from": "2025-06-16", "tz": "Europe/Berlin"}).json()

    assert list(body) == [
        "exported_at",
        "user",
        "range",
        "tz",
        "resources",
        "pending_days",
        "removed_before",
        "omitted",
    ]
    assert datetime.fromisoformat(body["exported_at"]) >= before.replace(microsecond=0)
    assert body["user"]["id"] == str(alice.user_id)
    assert body["user"]["email"] == "alice@example.org"
    assert body["range"] == {"from": "2025-06-16", "to": None}
    assert body["tz"] == "Europe/Berlin"
    assert list(body["resources"]) == [resource.name for resource in RESOURCES]
    assert body["omitted"] == []


def test_it_names_the_days_with_missing_summaries(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    owner.execute(
        "insert into activity.summary_due (user_id, date) values (%s, '2025-06-16')",
        [alice.user_id],
    )

    answer = export(api, alice)

    assert answer.json()["pending_days"] == ["2025-06-16"]
    assert answer.headers["export-pending-days"] == "1"
    assert export(api, alice, to="2025-06-15").json()["pending_days"] == []
    assert export(api, alice, resources="goals").json()["pending_days"] == []


@pytest.mark.parametrize("format_", FORMATS)
def test_an_answer_is_a_file_with_the_day_in_its_name_and_is_not_cached(
    api: TestClient, alice: Person, format_: str
) -> None:
    days = [datetime.now(UTC).date()]
    answer = export(api, alice, format=format_)
    days.append(datetime.now(UTC).date())

    assert answer.status_code == 200
    assert answer.headers["content-disposition"] in {
        f'attachment; filename="activity-export-{day}.{format_}"' for day in days
    }
    assert answer.headers["cache-control"] == "private, no-store"
    assert "Authorization" in answer.headers["vary"]
    assert "content-length" not in answer.headers


def test_formats_have_their_types(api: TestClient, alice: Person) -> None:
    types = {
        format_: export(api, alice, format=format_).headers["content-type"] for format_ in FORMATS
    }

    assert types == {
        "json": "application/json",
        "csv": "text/csv; charset=utf-8",
        "ndjson": "application/x-ndjson",
        "zip": "application/zip",
    }


# The scopes of the token


def test_resources_without_their_scope_are_left_out_and_named(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    session(owner, alice, device(owner, alice))

    answer = export(api, alice, "read:activity", "read:music")

    body = answer.json()
    assert list(body["resources"]) == [
        *("app_sessions", "coding_sessions", "devices", "goals"),
        *("category_rules", "category_scores", "daily_summaries", "screen_times", "listens"),
    ]
    assert len(body["resources"]["app_sessions"]) == 1
    assert "health_samples" in body["omitted"]
    assert set(body["omitted"]) | set(body["resources"]) == {each.name for each in RESOURCES}
    assert answer.headers["export-omitted"] == ", ".join(body["omitted"])
    # The profile needs its own scope.
    assert body["user"].pop("id") == str(alice.user_id)
    assert set(body["user"].values()) == {None}


def test_an_import_has_what_became_of_each_of_its_parts_on_one_line(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    owner.execute(
        """
        with brought as (
            insert into profile.import (user_id, file_name, file_size, digest)
            values (%s, 'history.zip', 7, sha256(''))
            returning user_id,
                      import_id
        ),
        part as (
            insert into profile.import_part (user_id, import_id, name, position, records, added, refused)
            select user_id, import_id, name, position, 2, 2 - position, position
              from brought
             cross join (values ('a.json', 0), ('b.json', 1)) as each (name, position)
            returning user_id,
                      import_id,
                      name,
                      refused
        )
        insert into profile.import_refusal (user_id, import_id, name, reason, count, examples)
        select user_id, import_id, name, 'missing_time', refused, '{x}' from part where refused > 0
        """,
        [alice.user_id],
    )

    scopes = "read:activity", "read:profile"
    answer = export(api, alice, *scopes, format="ndjson", resources="imports")

    [brought] = map(json.loads, answer.text.splitlines())
    assert (brought["resource"], brought["file"], brought["size"]) == ("imports", "history.zip", 7)
    assert [(part["name"], part["new"], part["refusals"]) for part in brought["parts"]] == [
        ("a.json", 2, []),
        ("b.json", 1, [{"reason": "missing_time", "count": 1, "examples": ["x"]}]),
    ]


def test_a_category_rule_that_is_switched_off_says_so(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    owner.execute(
        "insert into activity.category_rule"
        " (user_id, priority, field, match, pattern, category, switched_off_at)"
        " values (%(id)s, 1, 'app', 'exact', 'code', 'Development', null),"
        " (%(id)s, 2, 'title', 'regex', 'slow', 'Development', '2026-11-16 09:00Z')",
        {"id": alice.user_id},
    )

    body = export(api, alice, "read:activity", resources="category_rules").json()

    assert [rule["switched_off_at"] for rule in body["resources"]["category_rules"]] == [
        None,
        "2026-11-16T09:00:00.000Z",
    ]


def test_a_named_resource_without_its_scope_is_403(api: TestClient, alice: Person) -> None:
    answer = export(api, alice, "read:activity", "read:code", resources="code_events,heart_rates")

    assert answer.status_code == 403
    assert answer.json() == {
        "error": "insufficient_scope",
        "message": "read:health is required",
    }
    assert (
        'error="insufficient_scope", scope="read:activity read:code read:health"'
        in answer.headers["www-authenticate"]
    )


def test_without_read_activity_nothing_is_exported(api: TestClient, alice: Person) -> None:
    others = [scope for scope in SCOPES if scope != "read:activity"]

    answer = export(api, alice, *others, resources="listens")

    assert answer.status_code == 403
    assert answer.json()["message"] == "read:activity is required"


def test_resources_can_be_chosen_in_any_order(api: TestClient, alice: Person) -> None:
    body = export(
        api, alice, "read:activity", "read:music", resources="listens,goals,listens"
    ).json()

    assert body["resources"] == {"goals": [], "listens": []}
    assert body["omitted"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", "xml"),
        ("format", ""),
        ("format", "JSON"),
        ("resources", ""),
        ("resources", "nonsense"),
        ("resources", "app_sessions,"),
        ("resources", "app_sessions, goals"),
        ("from", "2025-06-31"),
        ("from", "2025-06-16T00:00:00Z"),
        ("to", "today"),
        ("tz", "+02:00"),
    ],
)
def test_a_malformed_parameter_is_named(
    api: TestClient, alice: Person, name: str, value: str
) -> None:
    answer = export(api, alice, **{name: value})

    assert answer.status_code == 400
    assert answer.json()["parameter"] == name
    assert answer.json()["message"].startswith(f"{name}: ")


def test_a_reversed_range_names_its_start(api: TestClient, alice: Person) -> None:
    answer = export(api, alice, **{"from": "2025-06-17", "to": "2025-06-16"})

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "from"


def test_parameters_are_not_checked_without_the_scope(api: TestClient, alice: Person) -> None:
    params = {"format": "xml", "resources": "heart_rates,nonsense"}

    nobody = api.get(PATH, params=params)
    revoked = alice.headers()
    alice.connection.execute("update oauth.grant set revoked_at = now()")
    gone = api.get(PATH, params=params, headers=revoked)
    poor = export(api, alice, "read:activity", **params)

    assert (nobody.status_code, gone.status_code, poor.status_code) == (401, 401, 403)
    assert gone.json()["error"] == "unauthorized"
    assert poor.json()["message"] == "read:health is required"


def test_a_revoked_token_exports_nothing(api: TestClient, alice: Person) -> None:
    headers = alice.headers()
    alice.connection.execute("update oauth.grant set revoked_at = now()")

    answer = api.get(PATH, headers=headers)

    assert answer.status_code == 401
    assert answer.json()["error"] == "unauthorized"


# The contents of a range of days


def keys(answer: Response) -> list[str]:
    return [row["idempotency_key"] for row in rows(answer, "app_sessions")]


@pytest.fixture
def june(owner: Rows, alice: Person) -> None:
    """Sessions around 16 June, each with its time in its key."""
    laptop = device(owner, alice)
    for number, (key, started_at, ended_at) in enumerate(
        [
            ("before", "2025-06-15 22:00Z", "2025-06-16 00:00Z"),
            ("into", "2025-06-15 23:30Z", "2025-06-16 00:30Z"),
            ("moment", "2025-06-16 00:00Z", "2025-06-16 00:00Z"),
            ("out", "2025-06-16 23:30Z", "2025-06-17 00:30Z"),
            ("after", "2025-06-17 00:00Z", "2025-06-17 01:00Z"),
        ]
    ):
        session(
            owner,
            alice,
            laptop,
            app_session_id=f"00000000-0000-4000-8000-{number:012}",
            idempotency_key=key,
            started_at=started_at,
            ended_at=ended_at,
        )


@pytest.mark.usefixtures("june")
def test_without_days_everything_is_exported_the_oldest_first(
    api: TestClient, alice: Person
) -> None:
    assert keys(export(api, alice)) == ["before", "into", "moment", "out", "after"]


@pytest.mark.usefixtures("june")
def test_a_range_of_days_includes_overlapping_rows_and_both_ends(
    api: TestClient, alice: Person
) -> None:
    day = {"from": "2025-06-16", "to": "2025-06-16"}

    assert keys(export(api, alice, **day)) == ["into", "moment", "out"]
    assert keys(export(api, alice, **{"from": "2025-06-17"})) == ["out", "after"]
    assert keys(export(api, alice, to="2025-06-15")) == ["before", "into"]


@pytest.mark.usefixtures("june")
def test_days_begin_in_the_zone(api: TestClient, alice: Person) -> None:
    day = {"from": "2025-06-17", "to": "2025-06-17"}

    east = export(api, alice, tz="Europe/Berlin", **day)
    west = export(api, alice, tz="America/New_York", **day)

    assert keys(east) == ["out", "after"]
    assert keys(west) == []


# CSV


def lines(answer: Response) -> list[list[str]]:
    """Return the cells of a CSV file without its header; its lines end in CRLF."""
    assert answer.status_code == 200
    text = answer.content.decode()
    assert text.startswith(f"{HEADER}\r\n")
    assert not re.search(r"(?<!\r)\n", text)
    return list(csv.reader(io.StringIO(text, newline="")))[1:]


def test_csv_has_one_line_a_row_and_the_rest_as_json(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    session(owner, alice, device(owner, alice), title='"a", b', category="Writing")

    answer = export(api, alice, format="csv", resources="app_sessions")

    (line,) = lines(answer)
    assert line[:15] == [
        *("app_sessions", "00000000-0000-4000-8000-000000000001"),
        *("2025-06-16T09:00:00.000Z", "2025-06-16T10:00:00.000Z", "3600000"),
        *("Code", "Writing", "", "", '"a", b', "laptop", "", "", "", ""),
    ]
    assert json.loads(line[15]) == {"idempotency_key": "k1", "idle": False, "platform": "linux"}


def test_csv_of_an_empty_account_has_a_header_and_the_rows_of_every_account(
    api: TestClient, alice: Person
) -> None:
    answer = export(api, alice, "read:activity", format="csv")

    assert answer.content.decode() == f"{HEADER}\r\n"
    assert "listens" in answer.headers["export-omitted"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_text_that_a_spreadsheet_would_run_is_escaped(
    api: TestClient, alice: Person, owner: Rows, text: str
) -> None:
    session(owner, alice, device(owner, alice), title=text, app="-c", utc_offset="+02:00")

    one = export(api, alice, format="csv", resources="app_sessions")
    packed = export(api, alice, format="zip", resources="app_sessions")

    (line,) = lines(one)
    (cells,) = files(packed)["app_sessions.csv"]
    assert (line[5], line[9]) == ("'-c", f"'{text}")
    assert (cells["app"], cells["title"], cells["utc_offset"]) == ("'-c", f"'{text}", "'+02:00")


def test_numbers_are_not_escaped(api: TestClient, alice: Person, owner: Rows) -> None:
    owner.execute(
        "insert into location.point (user_id, recorded_at, latitude, longitude, source)"
        " values (%s, '2025-06-16 09:00Z', -33.8568, 151.2153, 'owntracks')",
        [alice.user_id],
    )

    (line,) = lines(export(api, alice, format="csv", resources="locations"))

    assert line[13:15] == ["-33.8568", "151.2153"]


def test_members_of_members_have_columns_and_stay_whole_in_the_rest(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    owner.execute(
        """
        with place as (
            insert into location.place (user_id, name, latitude, longitude)
            values (%(user_id)s, 'Café X', 52.371, 4.891)
            returning user_id, place_id
        )
        insert into location.event (user_id, place_id, type, status, started_at, source)
        select user_id, place_id, 'check_in', 'confirmed', '2025-06-16 09:00Z', 'swarm'
          from place
        """,
        {"user_id": alice.user_id},
    )

    (line,) = lines(export(api, alice, format="csv", resources="location_events"))

    assert (line[5], line[13], line[14]) == ("Café X", "52.371", "4.891")
    assert json.loads(line[15])["place"]["name"] == "Café X"


# NDJSON and zip


def test_ndjson_has_one_row_a_line_with_its_resource(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    # Stored as it was sent, line breaks between its values included.
    session(owner, alice, device(owner, alice), metadata='{\n"a":\r\n"\\n"}')

    answer = export(
        api,
        alice,
        "read:activity",
        "read:profile",
        format="ndjson",
        resources="app_sessions,profile",
    )

    parsed = [json.loads(line) for line in answer.content.decode().split("\n")[:-1]]
    assert [row["resource"] for row in parsed] == ["app_sessions", "profile"]
    assert parsed[0]["metadata"] == {"a": "\n"}
    assert parsed[1]["email"] == "alice@example.org"


def files(answer: Response) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each CSV file in an archive."""
    assert answer.status_code == 200
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        return {
            name: list(csv.DictReader(io.StringIO(archive.read(name).decode(), newline="")))
            for name in archive.namelist()
            if name.endswith(".csv")
        }


def test_a_zip_file_has_a_file_for_each_resource_with_columns_of_its_own(
    api: TestClient, alice: Person, owner: Rows
) -> None:
    session(owner, alice, device(owner, alice), metadata='{"a":[1]}')

    answer = export(api, alice, "read:activity", format="zip")

    found = files(answer)
    assert "listens.csv" not in found
    assert found["goals.csv"] == []
    assert found["app_sessions.csv"] == [
        {
            "id": "00000000-0000-4000-8000-000000000001",
            "idempotency_key": "k1",
            "started_at": "2025-06-16T09:00:00.000Z",
            "ended_at": "2025-06-16T10:00:00.000Z",
            "duration_ms": "3600000",
            "app": "Code",
            "title": "",
            "url": "",
            "category": "",
            "idle": "false",
            "device": "laptop",
            "platform": "linux",
            "utc_offset": "",
            "metadata": '{"a":[1]}',
            "source": "",
        }
    ]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        about = json.loads(archive.read("about.json"))
    assert about["user"]["id"] == str(alice.user_id)
    assert "listens" in about["omitted"]


# Owners


@pytest.mark.parametrize("format_", FORMATS)
def test_an_export_of_alice_has_nothing_of_bob(
    api: TestClient, alice: Person, bob: Person, owner: Rows, format_: str
) -> None:
    for person in (alice, bob):
        mark = f"{person.email[:3]}-was-here"
        laptop = device(owner, person, mark)
        session(owner, person, laptop, idempotency_key=mark, app=mark)
        owner.execute(
            "insert into activity.category_score (user_id, category, score) values (%s, %s, 1)",
            [person.user_id, mark],
        )

    answer = export(api, alice, format=format_)

    content = answer.content
    if format_ == "zip":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = b"".join(map(archive.read, archive.namelist()))
    assert b"ali-was-here" in content
    assert b"bob" not in content
    assert str(bob.user_id).encode() not in content


# As any other endpoint


def test_head_is_get_without_a_body(api: TestClient, alice: Person) -> None:
    answer = api.head(PATH, params={"format": "csv"}, headers=alice.headers())

    assert answer.status_code == 200
    assert answer.content == b""
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].endswith('.csv"')
    assert api.head(PATH).status_code == 401


def test_no_credential_is_401_and_another_method_405(api: TestClient) -> None:
    nobody = api.get(PATH)
    posted = api.post(PATH)

    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"].endswith('scope="read:activity"')
    assert posted.status_code == 405
    assert set(posted.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_a_token_of_another_resource_is_refused(api: TestClient, alice: Person) -> None:
    token = alice.token(resource="http://testserver/mcp")

    answer = api.get(PATH, headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 401


def test_it_is_compressed_only_on_request(api: TestClient, alice: Person) -> None:
    headers = alice.headers()

    packed = api.get(PATH, headers=headers | {"Accept-Encoding": "gzip"})
    plain = api.get(PATH, headers=headers | {"Accept-Encoding": "identity"})
    archive = api.get(PATH, params={"format": "zip"}, headers=headers | {"Accept-Encoding": "gzip"})

    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json()["user"] == plain.json()["user"]
    assert "content-encoding" not in plain.headers
    # A zip file is compressed already.
    assert "content-encoding" not in archive.headers


@pytest.mark.usefixtures("short_wait")
def test_an_unreachable_database_is_a_503(deployment: Settings, alice: Person) -> None:
    nowhere = "postgresql://svc_reader@127.0.0.1:1/nowhere"
    roles = dict.fromkeys(("reader", "ingester", "worker"), nowhere)
    app = resourceserver.app.create(
        replace(deployment, base_url="http://testserver", role_urls=roles)
    )
    with AppClient(app, raise_server_exceptions=False) as api:
        answer = api.get(PATH, headers=alice.headers())

    assert answer.status_code == 503
    assert answer.json()["error"] == "database_unavailable"
    assert answer.headers["retry-after"] == "1"


def test_every_readable_table_of_user_data_is_exported(db: Rows) -> None:
    tables = db.execute(
        """
        select table_class.oid::regclass::text
          from pg_class as table_class
         where relkind in ('r', 'p')
           and has_table_privilege('svc_reader', oid, 'select')
           and exists (
                   select from pg_attribute
                    where attrelid = table_class.oid
                      and attname = 'user_id'
               )
        """
    ).fetchall()

    statements = " ".join(
        text
        for resource in RESOURCES
        for text in (
            [resource.rows]
            if isinstance(resource.rows, str)
            else [each.text.decode() for each in resource.rows.statements.values()]
        )
    )
    named = set(re.findall(r"(?:from|join)\s+(\w+\.\w+)", statements))
    assert named >= {"activity.app_session", "health.sleep"}
    # These days are a member of the whole export, `pending_days`.
    named.add("activity.summary_due")
    # Until when sessions are gone is another one, `removed_before`.
    named.add("activity.raw_limit")
    # Beats are forgotten after 30 days; the sessions that follow from them are exported.
    named.add("activity.beat")
    # What is kept of switches, detours and streaks follows from sessions, which are exported.
    named.add("activity.attention")
    assert {name.replace('"', "") for (name,) in tables} - named == set()


@pytest.mark.parametrize("format_", FORMATS)
def test_an_answer_begins_before_the_first_row_is_read(format_: str) -> None:
    _, written = formats.FORMATS[format_]
    unread = Export(
        connection=cast("psycopg.AsyncConnection[Any]", None),
        about={"exported_at": "2025-06-16T09:00:00.000Z", "user": {}, "range": {}, "tz": "UTC"},
        resources=list(RESOURCES),
        omitted=[],
        pending_days=[],
        removed_before=None,
        params={},
    )

    async def first_piece() -> bytes:
        return await anext(aiter(written(unread)))

    # Before anything is sent, a failure would be an answer of its own, not the end of this one.
    assert isinstance(asyncio.run(first_piece()), bytes)
