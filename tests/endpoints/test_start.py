"""``GET /`` of the resource server for programs: what there is."""

import pytest
from starlette.testclient import TestClient


@pytest.mark.parametrize("accept", [None, "*/*", "application/json"])
def test_a_program_gets_the_addresses_as_json(api: TestClient, accept: str | None) -> None:
    response = api.get("/", headers={} if accept is None else {"Accept": accept})

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["vary"] == "Accept"
    body = response.json()
    assert body["documentation"] == "http://testserver/docs"
    assert body["account"] == "http://localhost:8400/settings"
    assert body["mcp"] == "http://testserver/mcp"


def test_each_address_of_this_server_answers(api: TestClient) -> None:
    own = [url for url in api.get("/").json().values() if url.startswith("http://testserver/")]

    statuses = {url: api.get(url).status_code for url in own}

    # Assistants only POST to the MCP endpoint, with a token.
    assert statuses.pop("http://testserver/mcp") in (401, 405)
    assert len(statuses) == 7
    assert set(statuses.values()) == {200}
