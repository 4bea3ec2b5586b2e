"""search and fetch: records of every kind by their words, one record as a whole, and what nobody may see."""

import base64
import json
from dataclasses import replace
from html import unescape
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from starlette.routing import compile_path
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import cookies
from resourceserver.dashboard.views import VIEWS
from resourceserver.mcp.tool import listed_schema, output_schema
from resourceserver.mcp.tools import TOOLS
from shared.settings import Settings
from tests.conftest import Person, mark_all_days
from tests.dashboard.conftest import BASE_URL, Visit
from tests.mcp.assistant import Assistant, error
from tests.mcp.test_code_activity import happen
from tests.mcp.test_content import explain, meet, record
from tests.mcp.test_places import Place, Stay, place, stay
from tests.mcp.test_sessions import code, device, use

__all__ = ["place", "stay"]

SCOPES: Final = {
    "window": "read:activity",
    "coding": "read:activity",
    "commit": "read:code",
    "calendar": "read:content",
    "recording": "read:content",
    "weekly insight": "read:content",
    "place": "read:location",
}
"""The kinds of records, and the scope of each."""


@pytest.fixture
def life(alice: Person, place: Place, stay: Stay) -> Person:
    """Alice in Berlin, with one record about pricing of each kind."""
    owner = alice.connection
    owner.execute("update identity.user set timezone = 'Europe/Berlin'")
    on = device(alice)
    use(alice, on, "08:00", "08:20", "Firefox", title="Pricing: draft 2", url="https://e.org/p")
    use(alice, on, "09:00", "09:20", "Mail", title="Inbox 100% full")
    code(alice, on, "10:00", "shop", file="src/pricing.py", branch="main", language="Python")
    happen(alice, "2025-06-17T11:00:00Z", "commit", "pushed", "alice/shop", title="Fix pricing of gifts",
           additions=3, ref="main")  # fmt: skip
    meet(owner, alice, "Talk with Anna", "2025-06-18T08:00Z", "2025-06-18T09:00Z",
         description="Pricing of the second quarter")  # fmt: skip
    record(owner, alice, "2025-06-18T22:30Z", None, "We talked about PRICING, and about snow.")
    explain(owner, alice, "2025-06-09", "2025-06-15", "A calm week", "Much reading about pricing.")
    stay(place("Pricing Museum", city="Rome", country_code="IT"), "2025-06-14T22:30Z",
         "2025-06-15T00:00Z", note="lovely")  # fmt: skip
    return alice


def search(assistant: Assistant, query: str) -> list[str]:
    return [row["title"] for row in assistant.ask("search", query=query)["results"]]


def documents(assistant: Assistant, query: str) -> dict[str, dict[str, Any]]:
    """Return the records with these words as a whole, by kind."""
    found = [
        assistant.ask("fetch", id=row["id"])
        for row in assistant.ask("search", query=query)["results"]
    ]
    return {each["metadata"]["kind"]: each for each in found}


def test_one_search_finds_records_of_every_kind_the_newest_first(
    assistant: Assistant, life: Person
) -> None:
    answer = assistant.ask("search", query="pricing")

    assert answer.keys() == {"results"}
    assert all(row.keys() == {"id", "title", "url"} for row in answer["results"])
    # The newest of each of four domains, then the second of each, and so on.
    assert [row["title"] for row in answer["results"]] == [
        "Untitled",
        "Fix pricing of gifts",
        "src/pricing.py",
        "Pricing Museum",
        "Talk with Anna",
        "Pricing: draft 2",
        "A calm week",
    ]


def test_words_are_found_in_any_order_and_case_and_all_must_occur(
    assistant: Assistant, life: Person
) -> None:
    assert search(assistant, "  DRAFT\n pricing ") == ["Pricing: draft 2"]
    assert search(assistant, "pricing firefox") == ["Pricing: draft 2"]
    assert search(assistant, "gifts shop pric") == ["Fix pricing of gifts"]
    assert search(assistant, "rome museum it") == ["Pricing Museum"]
    assert search(assistant, "anna quarter") == ["Talk with Anna"]
    assert search(assistant, "snow pricing") == ["Untitled"]
    assert search(assistant, "snow quarter") == []


def test_every_character_of_a_word_stands_for_itself(assistant: Assistant, life: Person) -> None:
    assert search(assistant, "100%") == ["Inbox 100% full"]
    assert search(assistant, "100% f%ll") == []
    assert search(assistant, "_") == search(assistant, "%%") == search(assistant, "\\") == []
    assert search(assistant, "'; drop table x; --") == []
    use(life, device_of(life), "13:00", "13:01", "Files", title="a_b\\c")
    assert search(assistant, "A_B\\") == ["a_b\\c"]


def device_of(alice: Person) -> UUID:
    row = alice.connection.execute("select device_id from activity.device").fetchone()
    assert row is not None
    found: UUID = row[0]
    return found


def test_a_title_is_found_once_where_it_is_newest(assistant: Assistant, life: Person) -> None:
    on = device_of(life)
    for minute in range(10, 40):
        use(life, on, f"15:{minute}:00", f"15:{minute}:30", "Firefox", title="Weather")
    for week in range(3):
        meet(life.connection, life, "Weather round", f"{2020 + week}-01-01T08:00Z",
             f"{2020 + week}-01-01T09:00Z")  # fmt: skip

    session, event = sorted(
        assistant.ask("search", query="weather")["results"], key=lambda row: row["title"]
    )

    assert session["url"].endswith(
        "/day/2025-06-17?from=2025-06-17T15:39:00.000Z&to=2025-06-17T15:40:00.000Z"
    )
    assert "from=2022-01-01" in event["url"]


def test_no_domain_hides_another(assistant: Assistant, life: Person) -> None:
    on = device_of(life)
    for minute in range(10, 40):
        use(life, on, f"16:{minute}:00", f"16:{minute}:30", "Firefox", title=f"Pricing {minute}")

    titles = search(assistant, "pricing")

    assert len(titles) == 20
    assert {"Untitled", "Fix pricing of gifts", "Pricing Museum", "Talk with Anna"} <= {*titles}


def test_a_record_is_fetched_as_a_whole(
    assistant: Assistant, life: Person, resource_client: TestClient
) -> None:
    found = documents(assistant, "pricing")

    assert found.keys() == SCOPES.keys()
    window, talk, said = found["window"], found["calendar"], found["recording"]
    assert (window["title"], window["text"]) == ("Pricing: draft 2", "Pricing: draft 2")
    facts = window["metadata"]
    assert (facts["application"], facts["address"]) == ("Firefox", "https://e.org/p")
    assert facts["started_local"] == "Tue 2025-06-17 10:00"
    assert facts["ended_local"] == "Tue 2025-06-17 10:20"
    assert (facts["duration"], facts["started_at"]) == ("20 min", "2025-06-17T08:00:00.000Z")
    assert found["coding"]["metadata"]["project"] == "shop"
    assert found["commit"]["text"] == "Fix pricing of gifts"
    assert found["commit"]["metadata"]["lines_added"] == "3"
    assert (talk["title"], talk["text"]) == ("Talk with Anna", "Pricing of the second quarter")
    assert talk["metadata"]["attendees"] == "3"
    assert said["text"] == "We talked about PRICING, and about snow."
    assert said["metadata"]["day"] == "2025-06-19"
    assert found["weekly insight"]["text"] == "Much reading about pricing."
    stays = found["place"]["metadata"]
    assert (found["place"]["text"], stays["stays"]) == ("lovely", "1")
    assert stays["last_stays"] == "Sun 2025-06-15 00:30 to Sun 2025-06-15 02:00"
    assert {type(value) for each in found.values() for value in each["metadata"].values()} == {str}


def test_answers_have_their_shape_and_are_repeated_as_the_one_text(
    assistant: Assistant, life: Person
) -> None:
    (row,) = assistant.ask("search", query="snow")["results"]
    calls = {"search": {"query": "snow"}, "fetch": {"id": row["id"]}}
    shapes = {"search": {"results"}, "fetch": {"id", "title", "text", "url", "metadata"}}

    for name, arguments in calls.items():
        (tool,) = [each for each in TOOLS if each.name == name]
        result = assistant.call(name, **arguments).json()["result"]

        answer = result["structuredContent"]
        for schema in (listed_schema(tool.answer), output_schema(tool.answer)):
            Draft202012Validator(schema).validate(answer)
        assert [json.loads(each["text"]) for each in result["content"]] == [answer]
        assert answer.keys() == shapes[name]
        (parameter,) = tool.listing()["inputSchema"]["properties"]
        assert tool.listing()["inputSchema"]["required"] == [parameter]


def test_each_address_is_one_of_the_dashboard(assistant: Assistant, life: Person) -> None:
    meet(life.connection, life, "Pricing in another age", "0044-03-15T08:00Z", "0044-03-15T09:00Z")
    paths = {compile_path(path)[0]: view for view in VIEWS for path in view.paths}

    for row in assistant.ask("search", query="pricing")["results"]:
        address = urlsplit(row["url"])
        ((match, view),) = [
            (found, view)
            for pattern, view in paths.items()
            if (found := pattern.match(address.path))
        ]
        query = dict(pair.split("=") for pair in address.query.split("&") if pair)
        assert f"{address.scheme}://{address.netloc}" == "http://testserver"
        assert view.address.parse({**query, **match.groupdict(), "path": address.path})
        assert assistant.ask("fetch", id=row["id"])["url"] == row["url"]


def test_the_dashboard_shows_each_record_at_its_address(
    assistant: Assistant, api: TestClient, life: Person, deployment: Settings
) -> None:
    chosen = replace(deployment, base_url=BASE_URL)
    assert chosen.dashboard_key is not None
    visit = Visit(api, cookies(chosen, chosen.dashboard_key), life.token())

    mark_all_days(life.connection)

    for row in assistant.ask("search", query="pricing")["results"]:
        page = visit.open(row["url"].removeprefix(BASE_URL))

        assert page.status_code == 200, row
        # A recording without a title is known by its time, and coding by its project.
        shown = {"Untitled": "2025-06-18T22:30", "src/pricing.py": "shop"}
        assert shown.get(row["title"], row["title"]) in unescape(page.text), row


def test_only_domains_whose_scopes_the_token_has_are_searched(
    api: TestClient, life: Person
) -> None:
    everything = documents(Assistant(api, life.headers()), "pricing")
    for scope in sorted({*SCOPES.values()}):
        held = Assistant(api, life.headers(*{"read:activity", scope}))

        found = documents(held, "pricing")

        expected = {kind for kind, needed in SCOPES.items() if needed in ("read:activity", scope)}
        assert found.keys() == expected
        for kind, document in everything.items():
            if kind not in expected:
                refused = held.call("fetch", id=document["id"])
                assert error(refused) == (403, 403, 7)
                assert (
                    f'scope="read:activity {SCOPES[kind]}"' in refused.headers["www-authenticate"]
                )


def test_a_record_of_another_person_is_as_unknown_as_one_of_nobody(
    api: TestClient, life: Person, bob: Person
) -> None:
    alice, other = Assistant(api, life.headers()), Assistant(api, bob.headers())
    ids = [row["id"] for row in alice.ask("search", query="pricing")["results"]]
    nobodys = "e" + base64.urlsafe_b64encode(UUID(int=5).bytes).decode().rstrip("=")
    said = "id: must be the id of a result of search"

    assert search(other, "pricing") == []
    assert {other.mistake("fetch", id=each) for each in (*ids, nobodys)} == {said}
    assert len(ids) == len({*ids}) == len(SCOPES)


@pytest.mark.parametrize(
    "wrong",
    ["", "e", "x" + "A" * 22, "e" + "A" * 21, "e" + "A" * 23, "e" + "A" * 21 + "B", "e" + "A" * 22 + "==",
     "s" + "A" * 22, "s" + "A" * 22 + "_" * 8, "e" + "%" * 22, "é" + "A" * 22, "s" + "é" * 30],
)  # fmt: skip
def test_a_wrong_id_is_an_error(assistant: Assistant, wrong: str) -> None:
    said = assistant.mistake("fetch", id=wrong)

    assert said.startswith("id: must ")


@pytest.mark.parametrize(
    "query", ["", "   ", "\n\t", "a " * 21, "a\x00b", "\ud800", 5, None, ["a"]]
)
def test_a_wrong_query_is_an_error(assistant: Assistant, query: Any) -> None:
    said = assistant.mistake("search", query=query)

    assert said.startswith("query: ")


def test_there_is_one_parameter_alone(assistant: Assistant) -> None:
    assert assistant.mistake("search", query="a", limit=5).startswith("limit: there is no such")
    assert assistant.mistake("fetch", id="e", tz="UTC") != ""


def test_a_text_that_is_too_long_is_cut(assistant: Assistant, life: Person) -> None:
    record(life.connection, life, "2025-06-19T08:00Z", "Long", 'so "long" \\ ' * 5000)
    use(life, device_of(life), "17:00", "17:01", "Files", title="Long" * 200)

    found = documents(assistant, "long")

    said = found["recording"]
    assert said["metadata"]["truncated"] == "yes"
    assert ('so "long" \\ ' * 5000).startswith(said["text"])
    assert 8_000 < len(said["text"]) < 28 * 1024
    assert found["window"]["text"] == "Long" * 200
    assert len(assistant.call("fetch", id=said["id"]).content) <= 64 * 1024
    assert max(map(len, search(assistant, "long"))) == 100
