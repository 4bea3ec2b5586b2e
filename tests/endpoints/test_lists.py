"""Properties of all lists of rows: order, pages, limits, and the edges of a range."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.lists import LISTS, List

Rows = psycopg.Connection[Any]

each_list = pytest.mark.parametrize("listed", LISTS.values(), ids=list(LISTS))
each_list_of_a_range = pytest.mark.parametrize(
    "listed",
    [listed for listed in LISTS.values() if listed.is_of_a_range],
    ids=[name for name, listed in LISTS.items() if listed.is_of_a_range],
)

DAY = timedelta(days=1)
NOON = datetime(2025, 6, 16, tzinfo=UTC)


def ids(body: dict[str, Any]) -> list[str]:
    return [row["id"] for row in body["data"]]


@each_list
def test_an_empty_account_has_an_empty_page(api: TestClient, alice: Person, listed: List) -> None:
    body = listed.ask(api, alice)

    assert body["data"] == []
    assert (body["count"], body["limit"]) == (0, listed.default)
    assert (body["has_more"], body["next_cursor"]) == (False, None)


@each_list
def test_a_list_has_no_rows_of_another_person(
    api: TestClient, owner: Rows, alice: Person, bob: Person, listed: List
) -> None:
    listed.put(owner, bob, NOON)
    own = listed.put(owner, alice, NOON)

    body = listed.ask(api, alice)

    assert ids(body) == [own]


@each_list
def test_pages_neither_skip_nor_repeat_while_rows_are_added(
    api: TestClient, owner: Rows, alice: Person, listed: List
) -> None:
    days = [NOON, NOON, NOON, NOON - DAY, NOON - 2 * DAY, NOON - 2 * DAY, NOON - 2 * DAY]
    rows = [(at, listed.put(owner, alice, at)) for at in days]
    pages = [listed.ask(api, alice, limit="2")]

    while pages[-1]["has_more"]:
        listed.put(owner, alice, NOON + DAY)
        cursor = pages[-1]["next_cursor"]
        pages.append(listed.ask(api, alice, limit="2", cursor=cursor))

    assert [row for page in pages for row in ids(page)] == [
        row for _, row in sorted(rows, reverse=True)
    ]
    assert [page["count"] for page in pages] == [2, 2, 2, 1]
    assert [page["limit"] for page in pages] == [2, 2, 2, 2]
    assert pages[-1]["next_cursor"] is None


@each_list
def test_a_page_that_is_just_full_is_the_last(
    api: TestClient, owner: Rows, alice: Person, listed: List
) -> None:
    listed.put(owner, alice, NOON)
    listed.put(owner, alice, NOON)

    body = listed.ask(api, alice, limit="2")

    assert (body["count"], body["has_more"], body["next_cursor"]) == (2, False, None)


@each_list
def test_a_limit_of_zero_only_returns_whether_there_are_rows(
    api: TestClient, owner: Rows, alice: Person, listed: List
) -> None:
    before = listed.ask(api, alice, limit="0")
    listed.put(owner, alice, NOON)
    listed.put(owner, alice, NOON - DAY)
    cursor = listed.ask(api, alice, limit="1")["next_cursor"]

    after = listed.ask(api, alice, limit="0")
    midway = listed.ask(api, alice, limit="0", cursor=cursor)

    assert (before["data"], before["has_more"], before["next_cursor"]) == ([], False, None)
    assert (after["data"], after["has_more"], after["next_cursor"]) == ([], True, None)
    assert (midway["data"], midway["has_more"], midway["next_cursor"]) == ([], True, cursor)
    assert (after["count"], after["limit"]) == (0, 0)


@each_list
@pytest.mark.parametrize("many", ["10001", "1000000000000000000000000000000"])
def test_a_limit_above_the_maximum_of_a_list_is_the_maximum(
    api: TestClient, alice: Person, listed: List, many: str
) -> None:
    at_cap = listed.ask(api, alice, limit=str(listed.cap))
    above = listed.ask(api, alice, limit=many)

    assert (at_cap["limit"], above["limit"]) == (listed.cap, listed.cap)


@each_list_of_a_range
def test_the_start_of_a_range_belongs_to_it_and_its_end_does_not(
    api: TestClient, owner: Rows, alice: Person, listed: List
) -> None:
    moment = timedelta(milliseconds=1)
    listed.put(owner, alice, NOON - moment)
    first = listed.put(owner, alice, NOON)
    last = listed.put(owner, alice, NOON + DAY - moment)
    listed.put(owner, alice, NOON + DAY)

    body = listed.ask(api, alice, **{"from": "2025-06-16T02:00+02:00", "to": "2025-06-17T00:00Z"})

    assert ids(body) == [last, first]
    assert body["range"] == {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"}


@each_list_of_a_range
def test_a_range_of_no_length_has_no_rows(
    api: TestClient, owner: Rows, alice: Person, listed: List
) -> None:
    listed.put(owner, alice, NOON)

    body = listed.ask(api, alice, **{"from": "2025-06-16T00:00Z", "to": "2025-06-16T00:00Z"})

    assert (body["data"], body["has_more"]) == ([], False)


@each_list_of_a_range
def test_a_range_may_cover_the_whole_calendar(
    api: TestClient, owner: Rows, alice: Person, listed: List
) -> None:
    row = listed.put(owner, alice, NOON)

    body = listed.ask(api, alice, **{"from": "0001-01-01T00:00Z", "to": "9999-12-31T23:59:59.999Z"})

    assert ids(body) == [row]
