"""The log line of a request, which has no secrets."""

import logging
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from authserver.people import first_account
from shared.log_lines import JSONHandler
from shared.settings import Settings
from tests.conftest import Person
from tests.oauth.conftest import PASSWORD
from tests.oauth.visitor import VERIFIER, Application, Visitor, forms, parameters


@pytest.mark.checklist(58)
def test_line_58_no_log_line_of_a_full_life_cycle_holds_a_secret(
    visitor: Visitor,
    settings: Settings,
    application: Application,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    link = first_account.link(settings)
    assert link is not None
    joined = visitor.submit(visitor.get(link), email="alice@example.org", password=PASSWORD)
    assert joined.status_code == 303
    visitor.submit(visitor.get("/settings"))
    asked = visitor.get(application.authorize_path(state="a-state-of-alices"))
    page = visitor.follow(asked)
    visitor.submit(page, email="alice@example.org", password="a wrong password")
    consent = visitor.follow(visitor.submit(page, email="alice@example.org", password=PASSWORD))
    code = parameters(visitor.submit(consent, decision="allow"))["code"][0]
    pair = application.exchange(code).json()
    next_pair = application.refresh(pair["refresh_token"]).json()
    application.exchange(code)
    application.revoke(next_pair["refresh_token"])

    ours = [record for record in caplog.records if record.name.startswith("svc")]
    in_json = map(JSONHandler("authserver").format, ours)
    written = "\n".join([*(record.getMessage() for record in ours), *in_json])
    assert '"route":"token","method":"POST","status":200' in written
    assert "route=token method=POST status=200" in written
    assert "route=authorize method=GET status=303" in written
    for secret in (
        PASSWORD,
        "a wrong password",
        VERIFIER,
        "a-state-of-alices",
        link.partition("link=")[2],
        code,
        pair["access_token"],
        pair["refresh_token"],
        next_pair["access_token"],
        next_pair["refresh_token"],
        visitor.cookies["svc_session"],
        *(value for _, value in forms(consent)[0].fields if len(value) > 30),
    ):
        assert secret not in written
    assert "svc_dt_" not in written
    assert "svc_rt_" not in written
    assert "svc_ac_" not in written
    assert "alice" not in written


Lines = Callable[[str], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Returns how the log lines of a route end, behind their duration."""
    caplog.set_level(logging.INFO, "svc.access")

    def of(route: str) -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.name == "svc.access"]
        return [line.partition("client_id=")[2] for line in messages if f" route={route} " in line]

    return of


def test_the_line_of_a_token_pair_names_its_client_and_grant(
    application: Application,
    alice_browser: Visitor,
    owner: psycopg.Connection[Any],
    lines: Lines,
) -> None:
    pair = application.pair(alice_browser)
    application.refresh(pair["refresh_token"])

    row = owner.execute("select grant_id from oauth.grant").fetchone()
    assert row is not None
    assert lines("token") == [f"{application.client_id} grant_id={row[0]}"] * 2


def test_the_line_of_every_other_step_names_the_client(
    application: Application, alice_browser: Visitor, lines: Lines
) -> None:
    pair = application.pair(alice_browser)
    application.refresh("x")
    application.revoke(pair["refresh_token"], client_id=application.client_id)

    named = f"{application.client_id} grant_id=-"
    assert lines("authorize") == [named]
    assert lines("consent") == [named]
    assert lines("token")[1:] == [named]
    assert lines("revoke") == [named]


@pytest.mark.parametrize(
    "client_id", ["x", "svc_client_0\r\nrequest_id=1 route=token", "svc_client_" + "0" * 23, "é"]
)
def test_a_malformed_client_id_is_not_logged(
    server: TestClient, application: Application, lines: Lines, client_id: str
) -> None:
    application.refresh("x", client_id=client_id)
    application.revoke("x", client_id=client_id)
    server.get(application.authorize_path(client_id=client_id))

    assert lines("token") == ["- grant_id=-"]
    assert lines("revoke") == ["- grant_id=-"]
    assert lines("authorize") == ["- grant_id=-"]


def test_the_line_of_a_request_with_a_token_names_its_client_and_grant(
    api: TestClient,
    application: Application,
    alice_browser: Visitor,
    owner: psycopg.Connection[Any],
    lines: Lines,
) -> None:
    pair = application.pair(alice_browser, scope="read:activity ingest:app_sessions")
    bearer = {"Authorization": f"Bearer {pair['access_token']}"}
    hour = {"app": "Code", "started_at": "2025-06-16T09:00:00Z", "duration_ms": 1}

    api.get("/api/v1/devices", headers=bearer)
    api.get("/api/v1/export", headers=bearer)
    api.post("/api/v1/ingest/app-sessions", json={"events": [hour]}, headers=bearer)

    row = owner.execute("select grant_id from oauth.grant").fetchone()
    assert row is not None
    named = f"{application.client_id} grant_id={row[0]}"
    assert lines("devices") == [named]
    assert lines("export") == [named]
    assert lines("ingest_app_sessions") == [named]


def test_the_line_of_an_api_token_names_its_grant_alone(
    api: TestClient, alice: Person, owner: psycopg.Connection[Any], lines: Lines
) -> None:
    api.get("/api/v1/devices", headers=alice.headers("read:activity"))

    row = owner.execute("select grant_id from oauth.grant").fetchone()
    assert row is not None
    assert lines("devices") == [f"- grant_id={row[0]}"]


def test_the_line_of_a_refused_request_names_no_client(
    api: TestClient, alice: Person, lines: Lines
) -> None:
    api.get("/api/v1/devices", headers={"Authorization": f"Bearer {alice.token()[:-1]}-"})
    api.get("/api/v1/me", headers=alice.headers("read:activity"))

    assert lines("devices") == ["- grant_id=-"]
    assert lines("me") == ["- grant_id=-"]
