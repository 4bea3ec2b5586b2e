"""Editors that send beats as they send them to WakaTime: keys, bodies, answers, and what is stored."""

import base64
import gzip
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.integrations.receivers.wakatime import BASE, MOST_BEATS, READ
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.connecting import Connected, connect, state

BULK: Final = f"{BASE}/users/current/heartbeats.bulk"
AGENT: Final = "wakatime/v1.98.1 (linux-6.1.0) go1.22.4 vscode/1.90.0 vscode-wakatime/24.6.0"
NOW: Final = int(time.time())
NINE: Final = NOW - 86_400
TODAY: Final = datetime.fromtimestamp(NOW, UTC).date()
OK: Final = [None, 201]


@pytest.fixture(scope="module")
def server(deployment: Settings) -> Iterator[TestClient]:
    """The resource server with this receiver."""
    chosen = replace(deployment, base_url="http://testserver", receivers=("wakatime",))
    app = resourceserver.app.create(chosen)
    with AppClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def editor(owner: psycopg.Connection[Any], alice: Person) -> Connected:
    """A connection of alice."""
    return connect(owner, alice, "wakatime")


def bearer(editor: Connected, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {editor.key}"} | headers


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def beat(at: Any = NINE, **members: Any) -> dict[str, Any]:
    return {
        "time": at,
        "entity": "/src/svc/app.py",
        "type": "file",
        "category": "coding",
        "project": "svc",
        "branch": "main",
        "language": "Python",
        "user_agent": AGENT,
    } | members


def post(
    server: TestClient, editor: Connected, *beats: Any, path: str = BULK, **headers: str
) -> httpx2.Response:
    # Half of a surrogate pair can be sent as ASCII alone.
    body = json.dumps(list(beats))
    sent = bearer(editor, **headers) | {"Content-Type": "application/json"}
    return server.post(path, content=body, headers=sent)


def sessions(owner: psycopg.Connection[Any], *columns: str) -> list[Any]:
    """Return these columns of all sessions as JSON has them, in the order of their starts."""
    rows = owner.execute(
        "select to_json(session) from activity.coding_session as session order by started_at, project"
    )
    found = [row for (row,) in rows]
    return [
        tuple(row[name] for name in columns) if columns[1:] else row[columns[0]] for row in found
    ]


def test_beats_become_a_session_and_each_has_its_answer(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    answer = post(
        server,
        editor,
        beat(NINE + 0.25, is_write=True, line_additions=3, ai_line_changes=7),
        beat(NINE + 60, entity="/src/svc/db.py", human_line_changes=2),
        beat(NINE + 120, category="debugging", line_deletions=1),
        **{"X-Machine-Name": "alice%27s+laptop", "TimeZone": "Asia/Kathmandu"},
    )

    assert (answer.status_code, answer.json()) == (202, {"responses": [OK, OK, OK]})
    row = owner.execute("select to_json(s) from activity.coding_session as s").fetchone()
    assert row is not None
    session = row[0]
    assert (
        session
        | {
            "idempotency_key": f"wk:svc:Python:{NINE * 1000 + 250}",
            "project": "svc",
            "language": "Python",
            "file": None,
            "branch": "main",
            "editor": "vscode",
            "activity": "coding",
            "lines_added": 3,
            "lines_removed": 1,
            "is_write": True,
            "utc_offset": "+05:45",
            "source": "wakatime",
            "metadata": {
                "beats": 3,
                "activities": {"coding": 2, "debugging": 1},
                "ai_line_changes": 7,
                "human_line_changes": 2,
            },
        }
        == session
    )
    started, ended = (datetime.fromisoformat(session[name]) for name in ("started_at", "ended_at"))
    assert (started.timestamp(), ended.timestamp()) == (NINE + 0.25, NINE + 120)
    assert owner.execute("select name from activity.device").fetchall() == [("alice's laptop",)]
    found = state(owner, editor)
    assert (found["reached"], found["record_count"], found["problem"]) == ("live", 3, None)


@pytest.mark.parametrize(
    "path",
    [
        BASE,
        f"{BASE}/heartbeats",
        f"{BASE}/users/alice/heartbeats",
        f"{BASE}/users/current/heartbeats.bulk",
    ],
)
def test_all_addresses_take_a_single_beat_and_compressed_bodies(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any], path: str
) -> None:
    headers = bearer(editor, **{"Content-Encoding": "gzip", "Content-Type": "application/json"})

    answer = server.post(path, content=gzip.compress(json.dumps(beat()).encode()), headers=headers)

    assert (answer.status_code, answer.json()) == (202, {"responses": [OK]})
    assert sessions(owner, "project") == ["svc"]


def test_a_key_is_taken_wherever_editors_put_it(
    server: TestClient, editor: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    key = str(editor.key)
    given = [
        basic(key),
        basic(f"{key}:"),
        basic(f":{key}"),
        basic(f"waka_{key}"),
        {"Authorization": f"Bearer {key.upper()}"},
    ]
    for headers in given:
        assert server.post(BULK, json=[], headers=headers).status_code == 202

    with caplog.at_level(logging.INFO, "svc.access"):
        answer = server.post(BULK, params={"api_key": key}, json=[beat()])

    assert answer.status_code == 202
    assert "route=wakatime_user_bulk" in caplog.text
    assert key not in caplog.text
    # No other address takes a key of the query.
    assert server.get("/api/v1/me", params={"api_key": key}).status_code == 401
    assert server.get("/api/v1/me", headers=bearer(editor)).status_code == 401


def test_pages_of_any_origin_may_send(server: TestClient, editor: Connected) -> None:
    preflight = server.options(
        BULK,
        headers={
            "Origin": "https://editor.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, x-machine-name",
        },
    )
    answer = post(server, editor, beat(), Origin="https://editor.example")

    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "headers",
    [{}, basic("0c5e8f1e-8e3f-4c43-9a5b-0b2f6a3c1d11"), {"Authorization": "Basic !"}, basic("")],
)
def test_a_wrong_key_is_refused_in_words_of_wakatime(
    server: TestClient, headers: dict[str, str]
) -> None:
    answer = server.post(BULK, json=[beat()], headers=headers)

    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})


def test_too_many_wrong_keys_of_an_address_have_to_wait(deployment: Settings) -> None:
    chosen = replace(deployment, base_url="http://testserver", receivers=("wakatime",))
    with AppClient(resourceserver.app.create(chosen)) as server:
        statuses = [server.post(BULK, json=[]).status_code for _ in range(61)]
        last = server.post(BULK, json=[])

    assert statuses == [401] * 60 + [429]
    assert "error" in last.json()
    assert last.headers["retry-after"] == "60"


def test_only_beats_that_can_never_be_taken_are_refused(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    answer = post(
        server,
        editor,
        "beat",
        beat(None),
        beat("soon"),
        beat(NOW + 2 * 86_400),
        beat(900_000_000),
        # Small mistakes cost no time.
        beat(NINE, entity=None, project="p" * 300, language=7, branch="b\0" * 200, lines="x"),
        beat(NINE + 1, project="<<LAST_PROJECT>>", type=None, category=9, user_agent={}),
        beat(NINE + 2, entity="\ud800", project="\ud800", line_additions=10**30),
        beat(str(NINE + 3)),
    )

    pairs = answer.json()["responses"]
    assert answer.status_code == 202
    assert [status for _, status in pairs] == [400] * 5 + [201] * 4
    assert all(set(value) == {"error"} for value, status in pairs if status == 400)
    assert sessions(owner, "project") == ["p" * 255, "unknown", "\ufffd", "svc"]
    refused = owner.execute(
        "select reason, count from profile.import_refusal order by 1"
    ).fetchall()
    assert refused == [
        ("invalid_time", 1),
        ("missing_time", 1),
        ("not_an_object", 1),
        ("timestamp_in_future", 1),
        ("timestamp_out_of_range", 1),
    ]


def test_beats_of_a_time_whose_sessions_are_removed_are_refused_and_the_others_kept(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    closed = datetime(2020, 5, 1, tzinfo=UTC)
    owner.execute(
        "insert into activity.raw_limit (user_id, closed_before, removed_before)"
        " select user_id, %s, %s from identity.user",
        [closed.date(), closed.date()],
    )
    at = closed.timestamp()

    answer = post(server, editor, beat(at - 60), beat(NINE), beat(at), beat(at - 30 * 86_400))
    # The machine is known now, so these are written without a thread where that is possible.
    again = post(server, editor, beat(at - 60), beat(NINE))

    pairs = answer.json()["responses"]
    assert [status for _, status in pairs] == [400, 201, 201, 400]
    assert [status for _, status in again.json()["responses"]] == [400, 201]
    assert pairs[0][0] == {
        "error": "time: Lies before the year 2000, or in months of which only sums are kept."
    }
    starts = [datetime.fromisoformat(each).timestamp() for each in sessions(owner, "started_at")]
    assert starts == [at, NINE]
    assert owner.execute("select reason, count from profile.import_refusal").fetchall() == [
        ("timestamp_out_of_range", 3)
    ]


def test_clocks_may_be_a_year_behind_or_some_hours_ahead(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    year = 365 * 86_400
    answer = post(server, editor, beat(NOW - year), beat(NOW + 7200), beat(NOW - year + 60))
    again = post(server, editor, beat(NOW - year), beat(NOW + 7200), beat(NOW - year + 60))

    assert answer.json() == again.json() == {"responses": [OK, OK, OK]}
    starts = [datetime.fromisoformat(each).timestamp() for each in sessions(owner, "started_at")]
    assert starts == [NOW - year, NOW + 7200]
    # Beats that old are not kept.
    assert owner.execute("select count(*) from activity.beat").fetchone() == (1,)
    assert state(owner, editor)["record_count"] == 3


def test_a_change_of_zone_during_a_session_keeps_the_first(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    post(server, editor, beat(NINE + 600), Timezone="Asia/Tokyo")
    post(server, editor, beat(NINE), Timezone="Europe/Berlin")
    post(server, editor, beat(NINE + 7200), Timezone="../etc/passwd")

    zones = sessions(owner, "utc_offset")
    assert (zones[0] in ("+01:00", "+02:00"), zones[1]) == (True, None)


def test_a_body_that_is_not_json_is_refused(server: TestClient, editor: Connected) -> None:
    headers = bearer(editor, **{"Content-Type": "application/json"})

    for body in (b"", b"beats", b"[NaN]", b'{"a": '):
        answer = server.post(BULK, content=body, headers=headers)
        assert (answer.status_code, set(answer.json())) == (400, {"error"})


def test_of_too_many_beats_the_rest_has_no_answer(server: TestClient, editor: Connected) -> None:
    answer = post(server, editor, *(beat(NINE + number) for number in range(MOST_BEATS + 5)))

    assert answer.json() == {"responses": [OK] * MOST_BEATS}


def test_a_long_user_agent_of_a_request_is_cut_for_each_of_its_beats(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    beats = (beat(NINE + number, user_agent=None) for number in range(2))
    post(server, editor, *beats, **{"User-Agent": "wakatime/" + "x" * 30_000})

    kept = owner.execute("select length(content->>'user_agent') from activity.beat").fetchall()
    assert kept == [(255,), (255,)]


def test_a_paused_connection_answers_success_and_keeps_nothing(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    owner.execute("update profile.connection set paused_at = now()")

    assert post(server, editor, beat()).json() == {"responses": [OK]}
    assert sessions(owner, "project") == []


def test_the_gap_is_a_setting_of_the_connection(
    server: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    short = connect(owner, alice, "wakatime", gap_minutes="5")

    post(server, short, beat(NINE), beat(NINE + 299), beat(NINE + 599))

    assert len(sessions(owner, "project")) == 2


def test_an_account_full_of_machines_takes_no_new_one(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any], alice: Person
) -> None:
    owner.execute(
        "insert into activity.device (user_id, name) select %s, number::text"
        "  from generate_series(1, 1000) as number",
        [alice.user_id],
    )

    refused = post(server, editor, beat(), **{"X-Machine-Name": "one too many"})
    known = post(server, editor, beat(), **{"X-Machine-Name": "7"})

    assert [status for _, status in refused.json()["responses"]] == [400]
    assert known.json() == {"responses": [OK]}
    assert len(sessions(owner, "project")) == 1


def test_of_addresses_what_may_be_secret_is_dropped(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any]
) -> None:
    post(server, editor, beat(type="url", entity="https://a:b@example.org/x?token=1#top"))
    post(server, editor, beat(type="domain", entity="example.org?token=1"))

    kept = owner.execute("select content->>'entity' from activity.beat order by 1").fetchall()
    assert kept == [("example.org",), ("https://example.org/x",)]
    assert sessions(owner, "file") == [None, None]


def test_beats_of_bob_never_touch_alice(
    server: TestClient, editor: Connected, owner: psycopg.Connection[Any], bob: Person
) -> None:
    other = connect(owner, bob, "wakatime")
    post(server, editor, beat(NINE))

    post(server, other, beat(NINE + 60))

    assert len(sessions(owner, "project")) == 2


@pytest.fixture
def widget(owner: psycopg.Connection[Any], alice: Person) -> Connected:
    """A connection of alice that may show her totals."""
    return connect(owner, alice, "wakatime", scopes=("read:activity",))


def get(server: TestClient, key: Connected, path: str, **query: str) -> Any:
    answer = server.get(f"{BASE}/users/current/{path}", params=query, headers=bearer(key))
    assert answer.status_code == 200, answer.text
    return answer.json()


def milliseconds(rows: list[Any]) -> int:
    return sum(round(row["total_seconds"] * 1000) for row in rows)


def test_totals_are_those_of_the_api_to_the_millisecond(
    server: TestClient, widget: Connected, owner: psycopg.Connection[Any], alice: Person
) -> None:
    owner.execute("update identity.user set timezone = 'America/St_Johns'")
    spread = [NOW - 12 * 86_400 + number * 21_111.357 for number in range(48)]
    for at in spread:
        post(
            server,
            widget,
            *(
                beat(at + offset, project=project, language=language)
                for offset, project, language in (
                    (0, "svc", "Python"),
                    (100.123, "svc", "SQL"),
                    (333.457, "site", None),
                    (700.001, "svc", "Python"),
                )
                if at + offset < NOW
            ),
        )
    # A tracker's time counts too.
    event = {"started_at": f"{datetime.fromtimestamp(NINE, UTC):%FT%TZ}", "duration_ms": 61_001}
    server.post(
        "/api/v1/ingest/coding-sessions",
        json={"events": [event | {"project": "other"}]},
        headers=alice.headers("ingest:coding_sessions"),
    )
    today = datetime.now(ZoneInfo("America/St_Johns")).date()
    first = today - timedelta(days=13)

    stats = get(server, widget, "stats/last_14_days")["data"]
    summaries = get(server, widget, "summaries", start=str(first), end=str(today))
    all_time = get(server, widget, "all_time_since_today")["data"]
    status_bar = get(server, widget, "statusbar/today")["data"]
    projects = get(server, widget, "projects")["data"]

    coding = server.get(
        "/api/v1/analytics/coding",
        params={"from": stats["start"], "to": stats["end"]},
        headers=alice.headers("read:activity"),
    ).json()
    total_ms = coding["totals"]["coding_ms"]
    assert total_ms > 0
    begun = datetime.fromisoformat(stats["start"]).astimezone(ZoneInfo("America/St_Johns"))
    assert (begun.date(), begun.hour, begun.minute) == (first, 0, 0)
    days = summaries["data"]
    assert [day["range"]["date"] for day in days] == [
        str(first + timedelta(days=number)) for number in range(14)
    ]
    for sums in (
        [stats],
        [all_time],
        stats["projects"],
        stats["languages"],
        stats["categories"],
        [day["grand_total"] for day in days],
        [summaries["cumulative_total"]],
    ):
        assert milliseconds(sums) == total_ms
    for day in days:
        in_api = server.get(
            "/api/v1/analytics/coding",
            params={"from": day["range"]["start"], "to": day["range"]["end"]},
            headers=alice.headers("read:activity"),
        ).json()
        assert milliseconds([day["grand_total"]]) == in_api["totals"]["coding_ms"]
        assert milliseconds(day["projects"]) == in_api["totals"]["coding_ms"]
    assert status_bar == days[-1]
    assert {each["name"] for each in projects} == {"svc", "site", "other"}


def test_durations_are_written_as_wakatime_does(
    server: TestClient, widget: Connected, owner: psycopg.Connection[Any]
) -> None:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    yesterday = midnight - 86_400
    post(server, widget, *(beat(yesterday + 600 * number) for number in range(8)))

    day = get(server, widget, "summaries", range="Yesterday")["data"][0]

    assert day["grand_total"] == {
        "total_seconds": 4200.0,
        "hours": 1,
        "minutes": 10,
        "digital": "1:10",
        "decimal": "1.17",
        "text": "1 hr 10 mins",
    }
    assert (
        day["languages"][0] | {"name": "Python", "percent": 100, "digital": "1:10:00"}
        == (day["languages"][0])
    )


def test_beats_of_a_day_can_be_read_with_the_key_that_sent_them(
    server: TestClient, widget: Connected, owner: psycopg.Connection[Any], alice: Person
) -> None:
    day = datetime.fromtimestamp(NINE, UTC).date()
    post(server, connect(owner, alice, "wakatime"), beat(NINE + 2))
    post(server, widget, beat(NINE + 0.5, lineno=7, is_write=True), **{"X-Machine-Name": "laptop"})

    answer = get(server, widget, "heartbeats", date=str(day))

    (only,) = answer["data"]
    assert only.pop("id")
    assert only == {
        "time": NINE + 0.5,
        "entity": "/src/svc/app.py",
        "type": "file",
        "category": "coding",
        "project": "svc",
        "branch": "main",
        "language": "Python",
        "is_write": True,
        "lines": None,
        "lineno": 7,
        "cursorpos": None,
        "user_agent": AGENT,
        "machine_name": "laptop",
    }


def test_an_answer_has_a_bounded_number_of_beats(
    server: TestClient, widget: Connected, owner: psycopg.Connection[Any]
) -> None:
    day = datetime.fromtimestamp(NINE, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    owner.execute(
        """
        insert into activity.beat (user_id, import_id, beat_at, beat_key, content)
        select user_id, import_id, %s + number * interval '1 second', gen_random_uuid(), '{}'
          from profile.connection, generate_series(0, 20000) as number
        """,
        [day],
    )

    beats = get(server, widget, "heartbeats", date=str(day.date()))["data"]

    assert [each["time"] - day.timestamp() for each in beats] == list(range(20_000))


@pytest.mark.parametrize("path", sorted(READ))
def test_totals_need_the_consent_of_the_person(
    server: TestClient, editor: Connected, path: str
) -> None:
    where = f"{BASE}/users/current/{path.format(range='last_7_days')}"
    query = {"start": str(TODAY), "end": str(TODAY)}

    refused = server.get(where, params=query, headers=bearer(editor))
    unknown = server.get(where, params=query)

    assert (refused.status_code, set(refused.json())) == (403, {"error"})
    assert (unknown.status_code, unknown.json()) == (401, {"error": "Unauthorized"})


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"start": "tomorrow", "end": "today"},
        {"start": "2020-01-01", "end": "2020-01-02"},
        {"start": str(TODAY), "end": "9999-12-31"},
        {"start": str(TODAY), "end": "2020-01-01"},
    ],
)
def test_days_that_cannot_be_read_are_refused(
    server: TestClient, widget: Connected, query: dict[str, str]
) -> None:
    answer = server.get(f"{BASE}/users/alice/summaries", params=query, headers=bearer(widget))

    assert (answer.status_code, set(answer.json())) == (400, {"error"})


def test_a_key_reads_nothing_of_another_person(
    server: TestClient, widget: Connected, owner: psycopg.Connection[Any], bob: Person
) -> None:
    post(server, connect(owner, bob, "wakatime"), beat(NINE), beat(NINE + 60))

    assert get(server, widget, "stats/last_14_days")["data"]["total_seconds"] == 0
    assert get(server, widget, "projects")["data"] == []
