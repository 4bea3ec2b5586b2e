"""Today of an account without data: the way to the first event, until it is there."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from shared.settings import Settings
from tests.conftest import Person
from tests.dashboard.conftest import Page, Visit

READING: Final = ("read:activity", "read:code", "read:health", "read:profile")


@pytest.fixture
def visit(alice: Person, api: TestClient, sealing: Cookies) -> Visit:
    """Alice's browser; she has no data."""
    return Visit(api, sealing, alice.token(*READING))


def add_event(api: TestClient, person: Person, **changed: Any) -> None:
    now = datetime.now(UTC)
    sent = {
        "app": "First try",
        "device": "laptop",
        "started_at": (now - timedelta(minutes=5)).isoformat(),
        "ended_at": now.isoformat(),
        **changed,
    }
    answer = api.post(
        "/api/v1/ingest/app-sessions",
        json={"events": [sent]},
        headers=person.headers("ingest:app_sessions"),
    )
    assert answer.json()["accepted"] == 1, answer.text


def test_an_empty_account_shows_the_steps_and_no_empty_chart(
    visit: Visit, deployment: Settings
) -> None:
    page = visit.open("/")

    assert page.text.count("data-tick>not yet<") == 3
    assert f"{deployment.auth_url}/welcome" in Page(page.text).links
    assert "<svg" not in page.text
    assert '<ul class="tiles">' not in page.text
    assert page.headers["refresh"] == "5"


def test_the_first_event_turns_the_steps_into_the_picture_of_the_day(
    visit: Visit, api: TestClient, alice: Person
) -> None:
    visit.open("/")
    add_event(api, alice)
    page = visit.open("/")

    tracked = {source: value for value, source in Page(page.text).figures}
    assert int(tracked["hours#/totals/tracked_ms"]) > 0
    assert 'id="first-steps"' not in page.text
    assert "refresh" not in page.headers
    assert page.text.count("usual") == 1
    assert re.search(r"What is usual stands here after 4 \w+days with data\.", page.text)


def test_an_account_with_only_old_data_is_not_empty(
    visit: Visit, api: TestClient, alice: Person
) -> None:
    add_event(api, alice, started_at="2024-01-01T09:00:00Z", ended_at="2024-01-01T10:00:00Z")

    page = visit.open("/")

    assert 'id="first-steps"' not in page.text
    assert "refresh" not in page.headers


def test_without_the_scope_to_see_sources_an_account_is_not_taken_for_empty(
    alice: Person, api: TestClient, sealing: Cookies
) -> None:
    page = Visit(api, sealing, alice.token("read:health")).open("/")

    assert page.status_code == 200
    assert 'id="first-steps"' not in page.text
    assert "refresh" not in page.headers
