"""Properties of every page: headers, canonical host and error pages."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from httpx2 import Response
from psycopg.conninfo import make_conninfo
from starlette.testclient import TestClient

import authserver.app
from shared import database
from shared.settings import Settings
from tests import limits
from tests.client import AppClient
from tests.conftest import Connect
from tests.oauth.visitor import CALLBACK, Application, Visitor

Rows = psycopg.Connection[Any]

STRICT = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def every_page(browser: Visitor, application: Application) -> dict[str, Response]:
    stranger = Visitor(browser.client)
    return {
        "settings": browser.get("/settings"),
        "sign-out": browser.get("/sign-out"),
        "consent": browser.follow(browser.get(application.authorize_path())),
        "sign-in": stranger.get("/sign-in"),
        "refusal": stranger.get(application.authorize_path(scope="x")),
        "bad client": stranger.get(application.authorize_path(client_id="x")),
        "not found": stranger.get("/nothing"),
        "method": stranger.post("/oauth/authorize"),
        "bad link": stranger.get("/join?link=x"),
        "forged form": stranger.post("/sign-out", {"next": "/"}),
        "large form": stranger.post("/sign-in", {"email": "a" * 70_000}),
    }


@pytest.mark.checklist(21)
def test_line_21_every_page_has_the_headers(
    alice_browser: Visitor, application: Application
) -> None:
    pages = every_page(alice_browser, application)

    assert {name: page.status_code for name, page in pages.items()} == {
        "settings": 200,
        "sign-out": 200,
        "consent": 200,
        "sign-in": 200,
        "refusal": 400,
        "bad client": 400,
        "not found": 404,
        "method": 405,
        "bad link": 400,
        "forged form": 403,
        "large form": 413,
    }
    for name, page in pages.items():
        may_end_at_client = name in ("consent", "sign-in")
        expected = STRICT if may_end_at_client else f"{STRICT}; form-action 'self'"
        assert page.headers["content-security-policy"] == expected, name
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "access-control-allow-origin" not in page.headers


def test_an_error_page_has_the_reference_of_its_log_line(
    alice_browser: Visitor, application: Application
) -> None:
    pages = every_page(alice_browser, application)

    for name in ("refusal", "forged form", "large form"):
        page = pages[name]
        assert f"Reference <code>{page.headers['x-request-id']}</code>" in page.text, name
    gone = alice_browser.get("/oauth/consent?request=x")
    assert f"Reference <code>{gone.headers['x-request-id']}</code>" in gone.text


def test_the_page_after_signing_out_says_so(alice_browser: Visitor) -> None:
    response = alice_browser.submit(alice_browser.get("/settings"))

    assert "You are signed out in this browser." in alice_browser.follow(response).text


def test_signing_in_without_a_destination_leads_to_the_dashboard(
    alice_browser: Visitor, visitor: Visitor, settings: Settings
) -> None:
    home = alice_browser.get("/")

    assert (home.status_code, home.headers["location"]) == (303, f"{settings.base_url}/")
    assert visitor.get("/").headers["location"] == "/sign-in"
    assert alice_browser.get("/settings").status_code == 200
    assert visitor.get("/settings").headers["location"] == "/sign-in?next=/settings"


def test_a_link_to_sign_out_asks_first(alice_browser: Visitor, visitor: Visitor) -> None:
    page = alice_browser.get("/sign-out")

    assert page.status_code == 200
    assert alice_browser.get("/settings").status_code == 200
    signed_out = alice_browser.submit(page)
    assert signed_out.headers["location"] == "/sign-in?done=signed-out"
    assert alice_browser.get("/settings").status_code == 303
    assert visitor.get("/sign-out").headers["location"] == "/sign-in?done=signed-out"


def test_the_page_after_a_sign_out_loads_one_image_of_the_dashboard(
    visitor: Visitor, settings: Settings
) -> None:
    image = f"{settings.base_url}/signed-out.svg"

    before, after = visitor.get("/sign-in"), visitor.get("/sign-in?done=signed-out")
    everywhere = visitor.get("/sign-in?done=signed-out-everywhere")

    assert image not in before.text
    assert f'<img src="{image}" alt="" width="0" height="0">' in after.text
    policy = STRICT.replace("img-src 'self'", f"img-src 'self' {image}")
    assert before.headers["content-security-policy"] == STRICT
    assert after.headers["content-security-policy"] == policy
    assert everywhere.headers["content-security-policy"] == policy


def test_the_sign_in_page_names_who_can_help_with_a_forgotten_password(settings: Settings) -> None:
    chosen = replace(settings, operator_contact="Ada <room 12>", jobs=False)
    with AppClient(authserver.app.create(chosen), "http://localhost:8400") as client:
        page = client.get("/sign-in")

    assert "Forgot your password?" in page.text
    assert "a link to choose a new one: Ada &lt;room 12&gt;." in page.text


def test_no_page_has_inline_scripts_or_foreign_content(
    alice_browser: Visitor, application: Application
) -> None:
    for name, page in every_page(alice_browser, application).items():
        assert not re.search(
            r'<script(?! src="/static/)|<style|\sstyle=|\son\w+=|javascript:', page.text
        ), name
        assert re.findall(r'(?:src|href|action)="([^"/][^"]*|//[^"]*)"', page.text) == [], name


def test_the_style_sheet_is_served_under_the_address_that_pages_name(visitor: Visitor) -> None:
    address = re.search(r'href="(/static/style[^"]+)"', visitor.get("/sign-in").text)
    assert address is not None

    response = visitor.get(address[1])

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/css; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/static/", "/static/../app.py", "/static/%2e%2e/app.py", "/static/x"]
)
def test_nothing_else_is_served_as_a_file(visitor: Visitor, path: str) -> None:
    assert visitor.get(path).status_code == 404


@pytest.mark.parametrize("host", ["127.0.0.1:8400", "[::1]:8400", "evil.example", "localhost", ""])
@pytest.mark.parametrize(
    "path", ["/", "/sign-in?next=%2F", "/nothing", "/oauth/authorize?a=b&c=%2B"]
)
def test_a_page_under_another_host_redirects_to_the_issuers_host(
    visitor: Visitor, host: str, path: str
) -> None:
    response = visitor.get(path, headers={"Host": host})

    assert response.status_code == 303
    assert response.headers["location"] == f"http://localhost:8400{path}"
    assert "set-cookie" not in response.headers


def test_the_redirect_always_leads_to_the_issuers_host(visitor: Visitor) -> None:
    response = visitor.get(
        "http://localhost:8400//evil.example/%0d%0aX:y", headers={"Host": "other"}
    )

    assert response.headers["location"].startswith("http://localhost:8400//evil.example/")
    assert "\n" not in response.headers["location"]


def test_the_host_is_case_insensitive(visitor: Visitor) -> None:
    assert visitor.get("/sign-in", headers={"Host": "LocalHost:8400"}).status_code == 200


def test_the_default_port_of_the_issuer_is_optional(settings: Settings) -> None:
    app = authserver.app.create(replace(settings, auth_url="https://auth.example"))
    with AppClient(app, "https://auth.example", follow_redirects=False) as client:
        named = client.get("/sign-in", headers={"Host": "auth.example:443"})
        other = client.get("/sign-in", headers={"Host": "auth.example:80"})

    assert named.status_code == 200
    assert other.status_code == 303


def test_endpoints_for_clients_respond_under_any_host(server: TestClient) -> None:
    response = server.post("/oauth/token", headers={"Host": "10.0.0.7"}, follow_redirects=False)

    assert response.status_code == 400


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/sign-in", "GET, HEAD, POST"),
        ("/sign-out", "GET, HEAD, POST"),
        ("/", "GET, HEAD"),
        ("/oauth/authorize", "GET, HEAD"),
        ("/oauth/consent", "GET, HEAD, POST"),
        ("/oauth/register", "POST"),
    ],
)
def test_a_wrong_method_is_405_with_the_allowed_methods(
    visitor: Visitor, path: str, allowed: str
) -> None:
    response = visitor.client.delete(path)

    assert response.status_code == 405
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/sign-in/", "/oauth/authorize/", "/Sign-In", "/oauth"])
def test_an_unknown_path_is_404_and_never_a_redirect(visitor: Visitor, path: str) -> None:
    response = visitor.get(path)

    assert response.status_code == 404
    assert "There is nothing here" in response.text


@pytest.fixture
def unreachable(settings: Settings) -> Iterator[TestClient]:
    """The server without a database."""
    url = database.role_url(settings, "authserver")
    nowhere = make_conninfo(url, host="127.0.0.1", port=1, hostaddr="127.0.0.1")
    app = authserver.app.create(replace(settings, role_urls={"authserver": nowhere}))
    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as client:
        yield client


@pytest.mark.usefixtures("short_wait")
def test_without_the_database_people_get_a_page_and_machines_an_error(
    unreachable: TestClient, application: Application
) -> None:
    page = unreachable.get(application.authorize_path())
    answer = unreachable.post(
        "/oauth/register", json={"redirect_uris": ["https://app.example/callback"]}
    )

    assert page.status_code == 503
    assert page.headers["retry-after"] == "1"
    assert "Try again in a few seconds" in page.text
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.json()["error"] == "temporarily_unavailable"


def test_a_read_only_database_counts_as_unavailable(settings: Settings) -> None:
    url = database.role_url(settings, "authserver")
    standby = make_conninfo(url, options="-c default_transaction_read_only=on")
    app = authserver.app.create(replace(settings, role_urls={"authserver": standby}))
    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as client:
        answer = client.post("/oauth/register", json={"redirect_uris": [CALLBACK]})

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


@pytest.mark.checklist(21)
def test_line_21_no_page_about_a_failure_can_be_framed(
    unreachable: TestClient, server: TestClient, application: Application, owner: Rows
) -> None:
    owner.execute("revoke select on oauth.client from svc_authserver")
    try:
        ours = server.get(application.authorize_path())
    finally:
        owner.execute("grant select on oauth.client to svc_authserver")
    with limits.short():
        no_database = unreachable.get(application.authorize_path())
    headers = server.get(application.authorize_path(), headers={"Cookie": "a" * 33_000})
    other_name = server.get("/sign-in", headers={"Host": "evil.example"}, follow_redirects=False)

    responses = [ours, no_database, headers, other_name]
    assert [response.status_code for response in responses] == [500, 503, 431, 303]
    for response in responses:
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in response.headers
    for page in (ours, no_database, headers):
        assert page.headers["content-security-policy"] == f"{STRICT}; form-action 'self'"


def test_without_the_database_pages_that_need_none_still_respond(unreachable: TestClient) -> None:
    assert unreachable.get("/.well-known/oauth-authorization-server").status_code == 200
    assert unreachable.get("/sign-in").status_code == 200


def test_after_a_restart_of_the_database_one_request_at_most_is_lost(
    alice_browser: Visitor, ending_as: Connect
) -> None:
    alice_browser.get("/settings")
    ending_as("authserver").execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'svc_authserver'"
        " and datname = current_database() and pid <> pg_backend_pid()"
    )

    first = alice_browser.get("/settings")
    second = alice_browser.get("/settings")

    assert first.status_code in (200, 503)
    assert second.status_code == 200


def test_an_internal_error_is_a_page_or_json_and_never_a_stack_trace(
    server: TestClient, owner: Rows
) -> None:
    # No handler expects that the server's role lacks a right.
    owner.execute("revoke select, insert on oauth.client from svc_authserver")
    try:
        answer = server.post(
            "/oauth/register", json={"redirect_uris": ["https://app.example/callback"]}
        )
        page = server.get("/oauth/authorize?client_id=svc_client_0000000000000000000000")
    finally:
        owner.execute("grant select, insert on oauth.client to svc_authserver")

    for response in (answer, page):
        assert response.status_code == 500
        assert "Traceback" not in response.text
        assert "psycopg" not in response.text
        assert response.headers["x-request-id"]
