"""``GET /`` of the resource server: the start page."""

from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class _Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs)["href"])


@pytest.mark.parametrize("accept", [None, "*/*", "application/json"])
def test_a_program_gets_the_addresses_as_json(api: TestClient, accept: str | None) -> None:
    response = api.get("/", headers={} if accept is None else {"Accept": accept})

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["vary"] == "Accept"
    body = response.json()
    assert body["documentation"] == "http://testserver/docs"
    assert body["account"] == "http://localhost:8400/"
    assert body["mcp"] == "http://testserver/mcp"


def test_a_browser_gets_a_page_with_the_same_addresses(api: TestClient) -> None:
    page = api.get("/", headers={"Accept": BROWSER})
    body = api.get("/").json()

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert api.get("/docs/start.css").headers["content-type"].startswith("text/css")
    assert _Links(page.text).links == [url for url in body.values() if "://" in url]


def test_each_address_of_this_server_answers(api: TestClient) -> None:
    own = [url for url in api.get("/").json().values() if url.startswith("http://testserver/")]

    statuses = {url: api.get(url).status_code for url in own}

    # Assistants only POST to the MCP endpoint, with a token.
    assert statuses.pop("http://testserver/mcp") in (401, 405)
    assert len(statuses) == 6
    assert set(statuses.values()) == {200}
