"""The guide says what the service does: its lists are complete, and its constants those of the answers."""

import re
from datetime import timedelta
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from authserver import errors as oauth_errors
from authserver.oauth import device, grants
from resourceserver.api import errors
from resourceserver.description.guide import GUIDES, PATH
from resourceserver.ingest.events import CODES
from shared.scopes import SCOPES
from tests.conftest import Person

TEXT: Final = {guide.name: guide.text for guide in GUIDES}
MINUS: Final = "\N{MINUS SIGN}"
SERVED_ELSEWHERE: Final = {"/docs", "/docs/guide.css", "/static/style.css", "/static/mark.svg"}


def first_cells(text: str) -> list[str]:
    """Return the names in code type in the first column of all tables."""
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(.*?)`", row)]


def test_each_page_is_served_with_a_menu_of_all_and_the_addresses_of_this_deployment(
    api: TestClient,
) -> None:
    links = set()
    for guide in GUIDES:
        answer = api.get(guide.path)
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "text/html; charset=utf-8",
        )
        assert f"<title>{guide.title} · " in answer.text
        assert f'href="{guide.path}" aria-current="page"' in answer.text
        assert "localhost:8401" not in answer.text
        links |= set(re.findall(r'(?:href|src)="(/[^"?#]*)', answer.text))
    # The headings are links too, and nothing leads nowhere.
    assert links == {guide.path for guide in GUIDES} | SERVED_ELSEWHERE
    assert [path for path in sorted(links) if api.get(path).status_code != 200] == []
    assert '<h2 id="the-refresh-rule">' in api.get(f"{PATH}/applications").text
    assert "http://testserver/api/v1/ingest/app-sessions" in api.get(f"{PATH}/trackers").text
    assert api.get("/").json()["guide"] == f"http://testserver{PATH}"


def test_the_tracker_guide_lists_all_reasons_for_a_rejection_in_their_order() -> None:
    of_events = [name for name in first_cells(TEXT["trackers"]) if name in CODES]

    assert of_events == list(CODES)


def test_the_example_of_the_tracker_guide_is_accepted(api: TestClient, alice: Person) -> None:
    body = re.search(r"-d '(\{.*?\})'\n```", TEXT["trackers"], re.DOTALL)
    assert body is not None

    answer = api.post(
        "/api/v1/ingest/app-sessions",
        content=body[1],
        headers=alice.headers("ingest:app_sessions") | {"Content-Type": "application/json"},
    )

    assert answer.json()["accepted"] == 1
    assert answer.json().keys() == {"accepted", "duplicates", "rejected", "server_time"}


def test_the_application_guide_lists_all_scopes_and_codes_of_errors() -> None:
    listed = first_cells(TEXT["applications"])
    of_api = re.findall(r"^\| \d{3}.*? \| (.*?) \|", TEXT["applications"], re.MULTILINE)
    at_token_endpoint = {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unsupported_grant_type",
        "temporarily_unavailable",
    }
    of_devices = {"authorization_pending", "slow_down", "access_denied", "expired_token"}

    assert [name for name in listed if name in SCOPES] == list(SCOPES)
    assert {name for cell in of_api for name in re.findall(r"`(.*?)`", cell)} == set(errors.CODES)
    assert set(listed) - set(SCOPES) - {"error"} == at_token_endpoint | of_devices
    assert at_token_endpoint | of_devices <= {
        each.error
        for each in vars(oauth_errors).values()
        if isinstance(each, type) and issubclass(each, oauth_errors.OAuthError)
    }


def test_the_application_guide_says_how_long_codes_and_tokens_live() -> None:
    text = " ".join(TEXT["applications"].split())

    assert f"within {grants.CODE_LIFETIME.total_seconds():.0f} seconds" in text
    assert timedelta(hours=1) == grants.ACCESS_TOKEN_LIFETIME
    assert "An access token lives an hour" in text
    assert f"a refresh token {grants.REFRESH_TOKEN_LIFETIME.days} days" in text
    assert f"valid for {device.LIFETIME.total_seconds() / 60:.0f} minutes (`expires_in`)" in text
    assert f"every {device.INTERVAL_S} seconds (`interval`)" in text


@pytest.mark.parametrize("path", ["context-switches", "focus-streaks"])
def test_constants_are_those_of_the_answers(api: TestClient, alice: Person, path: str) -> None:
    day = {"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"}
    answer = api.get(f"/api/v1/analytics/{path}", params=day, headers=alice.headers())

    definition = answer.json()["definition"]

    assert definition
    for name, value in definition.items():
        assert f"`{name}` = {value})" in TEXT["numbers"]


def test_scores_of_categories_are_those_of_the_service(owner: psycopg.Connection[Any]) -> None:
    rows = re.findall(rf"^\| ([{MINUS}\d]+) \| (.*?) \|", TEXT["numbers"], re.MULTILINE)
    listed = {
        name: int(score.replace(MINUS, "-"))
        for score, names in rows
        for name in names.partition(", and ")[0].split(", ")
    }

    found = owner.execute("select category, score from reference.category").fetchall()

    assert listed == {row[0]: row[1] for row in found}


@pytest.mark.parametrize("name", ["trackers", "applications", "numbers", "programs"])
def test_paths_exist(api: TestClient, name: str) -> None:
    paths = api.get("/openapi.json").json()["paths"]

    named = set(re.findall(r"/api/v1/[a-z/-]+", TEXT[name]))

    assert named <= paths.keys()


def test_the_metrics_that_add_up_are_named(owner: psycopg.Connection[Any]) -> None:
    found = owner.execute(
        "select pg_get_constraintdef(oid) from pg_constraint "
        "where conname = 'metric_that_is_known_to_add_up_does'"
    ).fetchone()
    assert found is not None

    metrics = set(re.findall(r"'(\w+)'::text", found[0])) - {"sum"}

    assert len(metrics) == 9
    assert [name for name in sorted(metrics) if f"`{name}`" not in TEXT["numbers"]] == []
