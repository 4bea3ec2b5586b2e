"""Settings → Devices: renamed, retired and used again."""

import html
import re
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from shared.settings import Settings
from tests.conftest import Person
from tests.endpoints.test_app_usage import event
from tests.endpoints.test_devices import PATH as API
from tests.endpoints.test_devices import send
from tests.oauth.conftest import Welcome
from tests.oauth.visitor import Visitor, forms

Rows = psycopg.Connection[Any]

PATH = "/settings/devices"


@pytest.fixture
def laptop(api: TestClient, alice: Person, owner: Rows) -> UUID:
    """The id of alice's laptop, which has sent a session."""
    send(
        api,
        alice,
        "app-sessions",
        "aw-bridge/1",
        event("Code", "09:00:00", "10:00:00", device="laptop"),
    )
    row = owner.execute("select device_id from activity.device").fetchone()
    assert row is not None
    device_id: UUID = row[0]
    return device_id


def listed(api: TestClient, person: Person, **query: str) -> list[tuple[str, str | None, bool]]:
    answer = api.get(API, params=query, headers=person.headers("read:activity"))
    assert answer.status_code == 200, answer.text
    return [
        (each["name"], each["display_name"], each["retired_at"] is not None)
        for each in answer.json()["data"]
    ]


def submit(browser: Visitor, page: Response, action: str, **typed: Any) -> Response:
    found = [n for n, each in enumerate(forms(page)) if each.action == f"{PATH}/{action}"]
    return browser.submit(page, form=found[0], **typed)


def one(device_id: UUID, view: str = "/sources") -> str:
    return f"{PATH}?device={device_id}&back={view}"


def test_a_device_is_renamed_for_people_and_not_for_trackers(
    alice_browser: Visitor, laptop: UUID, api: TestClient, alice: Person, settings: Settings
) -> None:
    page = alice_browser.get(one(laptop))
    renamed = alice_browser.follow(submit(alice_browser, page, "name", name=" Work ≈ 🧑‍💻 "))
    after = listed(api, alice)
    send(
        api,
        alice,
        "app-sessions",
        "aw-bridge/1",
        event("Vim", "11:00:00", "12:00:00", device="laptop"),
    )
    emptied = submit(alice_browser, renamed, "name", name="")

    assert "The name is saved." in renamed.text
    assert 'value="Work ≈ 🧑‍💻"' in renamed.text
    assert f'<a href="{settings.base_url}/sources">Back to the dashboard</a>' in renamed.text
    assert "<strong><bdi>laptop</bdi></strong>" in alice_browser.get(PATH).text
    assert after == [("laptop", "Work ≈ 🧑‍💻", False)]
    assert emptied.status_code == 303
    assert listed(api, alice) == [("laptop", None, False)]


@pytest.mark.parametrize("name", ["א" * 1024, "a\u202eb", "\u200b", "x" * 101, "line\u2028break"])
def test_a_wrong_name_is_refused_and_kept_in_the_form(
    alice_browser: Visitor, laptop: UUID, api: TestClient, alice: Person, name: str
) -> None:
    page = alice_browser.get(one(laptop))

    refused = submit(alice_browser, page, "name", name=name)

    assert refused.status_code == 400
    assert re.search(r'id="name-problem">', refused.text)
    assert html.escape(name) in refused.text
    assert listed(api, alice) == [("laptop", None, False)]


def test_a_retired_device_is_listed_on_request_until_it_sends_again(
    alice_browser: Visitor, laptop: UUID, api: TestClient, alice: Person
) -> None:
    page = alice_browser.get(one(laptop))
    retired = alice_browser.follow(submit(alice_browser, page, "retire", what="retire"))
    lists = listed(api, alice), listed(api, alice, include_retired="true")
    marked = '<span class="tag">retired</span>' in alice_browser.get(PATH).text
    submit(alice_browser, retired, "retire", what="use")
    used = listed(api, alice)
    submit(alice_browser, page, "retire", what="retire")
    send(
        api,
        alice,
        "app-sessions",
        "aw-bridge/1",
        event("Vim", "11:00:00", "12:00:00", device="laptop"),
    )

    assert "The device is retired. Its records remain." in retired.text
    assert lists == ([], [("laptop", None, True)])
    assert marked
    assert used == [("laptop", None, False)]
    assert listed(api, alice) == [("laptop", None, False)]
    assert "Retire it" in alice_browser.get(one(laptop)).text


def test_the_records_of_a_retired_device_count_as_before(
    alice_browser: Visitor, laptop: UUID, api: TestClient, alice: Person
) -> None:
    submit(alice_browser, alice_browser.get(one(laptop)), "retire", what="retire")

    answer = api.get(
        "/api/v1/sessions/apps",
        params={"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"},
        headers=alice.headers("read:activity"),
    )

    assert [each["device"]["name"] for each in answer.json()["data"]] == ["laptop"]


def test_the_list_has_pages(alice_browser: Visitor, owner: Rows, alice: Person) -> None:
    owner.execute(
        "insert into activity.device (user_id, name) "
        "select %s, 'device ' || n from generate_series(1, 51) as n",
        [alice.user_id],
    )

    first, second, third = (alice_browser.get(f"{PATH}?page={n}&back=/sources") for n in (1, 2, 3))

    names = [re.findall(r"<strong><bdi>(.*?)<", page.text) for page in (first, second, third)]
    assert [len(each) for each in names] == [50, 1, 0]
    assert len({*names[0], *names[1]}) == 51
    assert 'href="/settings/devices?page=2&amp;back=/sources"' in first.text


@pytest.mark.parametrize("query", ["page=0", "page=-1", "page=" + "9" * 400, "page=%00", "device="])
def test_no_address_breaks_the_list(alice_browser: Visitor, query: str) -> None:
    assert alice_browser.get(f"{PATH}?{query}").status_code == 200


def test_bob_neither_sees_nor_changes_a_device_of_alice(
    welcome: Welcome, bob: Person, laptop: UUID, api: TestClient, alice: Person, owner: Rows
) -> None:
    browser = welcome(bob)
    owner.execute("insert into activity.device (user_id, name) values (%s, 'b')", [bob.user_id])
    own = re.search(r"\?device=([0-9a-f-]{36})", browser.get(PATH).text)
    assert own is not None
    page = browser.get(one(UUID(own[1])))

    answers = [
        browser.get(one(laptop)),
        submit(browser, page, "name", device=str(laptop), name="mine"),
        submit(browser, page, "retire", device=str(laptop), what="retire"),
        submit(browser, page, "retire", device="x", what="retire"),
        submit(browser, page, "retire", device=str(uuid4()), what="retire"),
    ]

    assert [each.status_code for each in answers] == [404] * 5
    assert "laptop" not in browser.get(PATH).text
    assert listed(api, alice) == [("laptop", None, False)]


def test_a_form_of_another_session_changes_nothing(
    alice_browser: Visitor, laptop: UUID, api: TestClient, alice: Person
) -> None:
    page = alice_browser.get(one(laptop))

    answers = [
        submit(alice_browser, page, "name", csrf="x", name="typed"),
        submit(alice_browser, page, "retire", csrf="x", what="retire"),
        submit(alice_browser, page, "retire", what="remove"),
    ]

    assert [each.status_code for each in answers] == [403, 403, 400]
    assert 'value="typed"' in answers[0].text
    assert listed(api, alice) == [("laptop", None, False)]
