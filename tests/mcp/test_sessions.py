"""Single sessions: those at an instant, those with certain words, and all of them page by page."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from tests.conftest import Person
from tests.mcp.assistant import Assistant

DAY: Final = {"from_": "2025-06-17", "to": "2025-06-17"}
TOOL: Final = "list_sessions"


def device(alice: Person) -> UUID:
    row = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    assert row is not None
    made: UUID = row[0]
    return made


def use(alice: Person, on: UUID, start: str, end: str, app: str, **more: Any) -> None:
    """Insert a session of 17 June 2025 in Berlin, from and to times of day in UTC."""
    given = {
        "user_id": alice.user_id,
        "idempotency_key": start,
        "device_id": on,
        "started_at": f"2025-06-17T{start}Z",
        "ended_at": f"2025-06-17T{end}Z",
        "app": app,
        **more,
    }
    alice.connection.execute(
        f"insert into activity.app_session ({', '.join(given)})"  # noqa: S608 -- names from here
        f" values ({', '.join('%s' for _ in given)})",
        list(given.values()),
    )


def code(alice: Person, on: UUID, start: str, project: str, **more: Any) -> None:
    given = {
        "user_id": alice.user_id,
        "idempotency_key": f"{project} {start}",
        "device_id": on,
        "started_at": f"2025-06-17T{start}Z",
        "ended_at": f"2025-06-17T{start[:3]}59Z",
        "project": project,
        **more,
    }
    alice.connection.execute(
        f"insert into activity.coding_session ({', '.join(given)})"  # noqa: S608 -- names from here
        f" values ({', '.join('%s' for _ in given)})",
        list(given.values()),
    )


@pytest.fixture
def tuesday(alice: Person) -> Person:
    """Alice in Berlin, with a Tuesday at a laptop."""
    alice.connection.execute("update identity.user set timezone = 'Europe/Berlin'")
    on = device(alice)
    use(alice, on, "08:00", "09:00", "Code", category="Development", title="svc: main.py")
    use(alice, on, "09:00", "09:20", "Mail", category="Email", title="Inbox 100% full")
    use(alice, on, "12:00", "12:30", "Firefox", category="Games", title="100 tips", domain="e.org")
    use(alice, on, "12:10", "12:20", "Music", category="Music", title="Été_2")
    use(alice, on, "12:40", "12:50", "lock screen", idle=True)
    code(alice, on, "08:00", "svc", language="Python", file="main.py", branch="Fix/100%")
    code(alice, on, "10:00", "site", language="HTML", file="INDEX_1.html")
    code(alice, on, "11:00", "notes")
    return alice


def names(answer: dict[str, Any]) -> list[str]:
    return [row.get("app") or row["project"] for row in answer["data"]]


# At an instant


def test_sessions_at_an_instant_begin_with_the_owner(assistant: Assistant, tuesday: Person) -> None:
    answer = assistant.ask(TOOL, at="2025-06-17T14:15:00+02:00")

    assert names(answer) == ["Music", "Firefox"]
    assert answer["data"][1] == {
        "started_at": "2025-06-17T12:00:00.000Z",
        "started_local": "Tue 2025-06-17 14:00",
        "ended_at": "2025-06-17T12:30:00.000Z",
        "ended_local": "Tue 2025-06-17 14:30",
        "duration_ms": 1_800_000,
        "duration_text": "30 min",
        "app": "Firefox",
        "title": "100 tips",
        "domain": "e.org",
        "category": "Games",
        "productivity": "distracting",
        "idle": False,
        "device": "laptop",
    }
    assert (answer["kind"], answer["truncated"]) == ("app", False)
    assert "next_cursor" not in answer
    assert answer["range"] == {
        "from": "2025-06-17",
        "to": "2025-06-17",
        "starts_at": "2025-06-17T12:15:00.000Z",
        "starts_local": "Tue 2025-06-17 14:15",
        "ends_at": "2025-06-17T12:15:00.001Z",
        "ends_local": "Tue 2025-06-17 14:15",
    }


@pytest.mark.parametrize(
    ("at", "under_way"),
    [
        ("2025-06-17T07:59:59.999Z", []),
        ("2025-06-17T08:00:00Z", ["Code"]),
        ("2025-06-17T08:59:59.999Z", ["Code"]),
        ("2025-06-17T09:00:00Z", ["Mail"]),
        ("2025-06-17T12:45:00Z", ["lock screen"]),
    ],
)
def test_a_session_includes_its_start_and_not_its_end(
    assistant: Assistant, tuesday: Person, at: str, under_way: list[str]
) -> None:
    assert names(assistant.ask(TOOL, at=at)) == under_way


def test_coding_sessions_at_an_instant(assistant: Assistant, tuesday: Person) -> None:
    answer = assistant.ask(TOOL, kind="coding", at="2025-06-17T08:30:00Z")

    assert names(answer) == ["svc"]
    assert answer["data"][0]["file"] == "main.py"
    assert answer["data"][0]["duration_text"] == "59 min"


# Search and filters


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("MAIN.PY", ["Code"]),
        ("100", ["Firefox", "Mail"]),
        ("100%", ["Mail"]),
        ("%", ["Mail"]),
        ("_", ["Music"]),
        ("été", ["Music"]),
        (".*", []),
        ("Firefox", []),
    ],
)
def test_titles_are_searched_literally_and_in_any_case(
    assistant: Assistant, tuesday: Person, search: str, expected: list[str]
) -> None:
    assert names(assistant.ask(TOOL, search=search, **DAY)) == expected


@pytest.mark.parametrize(
    ("search", "expected"), [("Main", ["svc"]), ("fix/100%", ["svc"]), ("_", ["site"]), ("svc", [])]
)
def test_files_and_branches_of_coding_are_searched(
    assistant: Assistant, tuesday: Person, search: str, expected: list[str]
) -> None:
    assert names(assistant.ask(TOOL, kind="coding", search=search, **DAY)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"apps": ["mail", "CODE", "nothing"]}, ["Mail", "Code"]),
        ({"categories": ["games"]}, ["Firefox"]),
        ({"categories": ["Uncategorized"]}, ["lock screen"]),
        ({"productivity": ["productive"]}, ["Code"]),
        ({"productivity": ["distracting", "productive"]}, ["Firefox", "Code"]),
        ({"apps": ["Code", "Mail"], "productivity": ["neutral"]}, ["Mail"]),
        ({"apps": ["Code"], "categories": ["Games"]}, []),
        ({"projects": ["SVC", "notes"]}, ["notes", "svc"]),
        ({"languages": ["python"]}, ["svc"]),
        ({"languages": ["unknown"]}, ["notes"]),
        ({"projects": ["svc"], "languages": ["HTML"]}, []),
        ({"apps": None, "languages": ["html"]}, ["site"]),
        ({}, ["lock screen", "Music", "Firefox", "Mail", "Code"]),
    ],
)
def test_a_filter_selects_sessions_that_match_every_member(
    assistant: Assistant, tuesday: Person, given: dict[str, Any], expected: list[str]
) -> None:
    assert names(assistant.ask(TOOL, filter=given, **DAY)) == expected


@pytest.mark.parametrize(
    "given", [{"productivity": ["productive"]}, {"categories": ["development"]}]
)
def test_a_short_page_skips_sessions_that_do_not_match(
    assistant: Assistant, tuesday: Person, given: dict[str, Any]
) -> None:
    answer = assistant.ask(TOOL, filter=given, limit=1, **DAY)

    assert names(answer) == ["Code"]
    assert "next_cursor" not in answer


def test_a_filter_by_site_includes_the_sites_that_are_parts_of_it(
    assistant: Assistant, alice: Person
) -> None:
    on = device(alice)
    for hour, domain in (("08", "e.org"), ("09", "News.e.org"), ("10", "the-e.org"), ("11", None)):
        use(alice, on, f"{hour}:00", f"{hour}:30", f"At {domain}", domain=domain)

    answer = assistant.ask(TOOL, period="all", filter={"domains": "E.org"})

    assert names(answer) == ["At News.e.org", "At e.org"]


# Pages


def every(assistant: Assistant, **given: Any) -> tuple[list[str], int]:
    """Return the titles of all rows, page by page, and the number of pages."""
    rows: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        answer = assistant.ask(TOOL, cursor=cursor, **given)
        assert answer["truncated"] is ("next_cursor" in answer)
        rows += [row["title"] for row in answer["data"]]
        cursor, pages = answer.get("next_cursor"), pages + 1
        assert pages < 300
    return rows, pages


@pytest.fixture
def many(alice: Person) -> list[str]:
    """The titles of 120 sessions in order; three start at a time, and a title has up to 2 kB."""
    on = device(alice)
    start = datetime(2025, 6, 17, tzinfo=UTC)
    for n in range(120):
        at = start + timedelta(minutes=n // 3)
        alice.connection.execute(
            "insert into activity.app_session (user_id, idempotency_key, device_id, started_at, ended_at,"
            " app, title, category) values (%s, %s, %s, %s, %s, 'Code', %s, 'Development')",
            [alice.user_id, str(n), on, at, at + timedelta(minutes=1), f"{n}" + "é\n" * (n * 4)],
        )
    rows = alice.connection.execute(
        "select title from activity.app_session order by started_at desc, app_session_id desc"
    ).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("limit", [1, 7, 50, 120, 200])
def test_all_pages_together_have_each_row_once(
    assistant: Assistant, many: list[str], limit: int
) -> None:
    rows, pages = every(assistant, from_="2025-06-17", to="2025-06-17", tz="UTC", limit=limit)

    assert rows == many
    # Long rows fill a page before its limit does.
    assert pages == {1: 120, 7: 18, 50: 6, 120: 6, 200: 6}[limit]


def test_pages_of_a_filter_have_each_row_once(assistant: Assistant, many: list[str]) -> None:
    rows, _ = every(assistant, period="all", filter={"categories": ["development"]}, limit=40)

    assert rows == many


def test_a_page_may_have_another_length(assistant: Assistant, many: list[str]) -> None:
    first = assistant.ask(TOOL, period="all", limit=2)

    second = assistant.ask(TOOL, period="all", limit=3, cursor=first["next_cursor"])

    assert [row["title"] for row in first["data"] + second["data"]] == many[:5]


@pytest.mark.parametrize(
    "other",
    [
        {"period": "this_year"},
        {"period": "all", "tz": "Asia/Kathmandu"},
        {"period": "all", "search": "é"},
        {"period": "all", "kind": "coding"},
        {"period": "all", "filter": {"apps": ["Code"]}},
        {"at": "2025-06-17T00:00:30Z"},
    ],
)
def test_a_cursor_of_another_question_is_refused(
    assistant: Assistant, many: list[str], other: dict[str, Any]
) -> None:
    cursor = assistant.ask(TOOL, period="all", limit=2)["next_cursor"]

    said = assistant.mistake(TOOL, cursor=cursor, **other)

    assert said == "cursor: must be the next_cursor of an earlier answer to the same question"


@pytest.mark.parametrize("cursor", ["", "x", ".", "00000000.", "0.MTcs", "a" * 5000, "é", "\x00"])
def test_an_invalid_cursor_is_refused(assistant: Assistant, alice: Person, cursor: str) -> None:
    said = assistant.mistake(TOOL, cursor=cursor)

    assert said == "cursor: must be the next_cursor of an earlier answer to the same question"


def test_the_longest_row_fits_an_answer(assistant: Assistant, alice: Person) -> None:
    """Every text as long as it may be, of letters that JSON writes with six each."""
    row = {"title": "\x01" * 1024, "url": "\x01" * 2048, "domain": "\x01" * 2048}
    on = device(alice)
    use(alice, on, "08:00", "09:00", "\x01" * 255, category="\x01" * 64, **row)
    use(alice, on, "10:00", "11:00", "\x01" * 254, category="\x01" * 64, **row)

    rows, pages = every(assistant, period="all")

    assert (len(rows), pages) == (2, 1)


# Invalid arguments


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"at": "2025-06-17"},
            "at: must be a time in tz, such as 2025-06-16T09:00, or with an offset",
        ),
        ({"at": "2025-06-17T14"}, "at: must be a time in tz, such as 2025-06-16T09:00, or with an"),
        ({"at": 1750162500}, "at: must be a string"),
        ({"at": "2025-02-30T14:15:00Z"}, "at: is not a date and time that exists"),
        ({"at": "9999-12-31T23:59:59.999Z"}, "at must be between 1900-01-01 and 9998-12-31"),
        ({"at": "0001-01-01T00:00:00Z"}, "at must be between 1900-01-01 and 9998-12-31"),
        (
            {"at": "2025-06-17T14:15:00Z", "period": "all"},
            "give either at, or period, or from and to",
        ),
        ({"limit": 0}, "limit: input should be greater than or equal to 1"),
        ({"limit": 201}, "limit: input should be less than or equal to 200"),
        ({"limit": "5"}, "limit: input should be a valid integer"),
        ({"limit": 1.5}, "limit: input should be a valid integer"),
        ({"search": ""}, "search: must have between 1 and 1024 characters"),
        ({"search": "\x00"}, "search: must not contain NUL"),
        ({"search": ["a"]}, "search: must be a string"),
        ({"kind": "App"}, "kind: input should be 'app' or 'coding'"),
        ({"cursor": 5}, "cursor: must be a string"),
        ({"filter": "Code"}, "filter: must be an object"),
        ({"filter": ["Code"]}, "filter: must be an object"),
        ({"filter": {"apps": 5}}, "filter.apps: input should be a valid list"),
        ({"filter": {"apps": []}}, "filter.apps: list should have at least 1 item"),
        ({"filter": {"apps": ["Code", 5]}}, "filter.apps[1]: must be a string"),
        ({"filter": {"apps": ["\ud800"]}}, "filter.apps[0]: must be a string"),
        ({"filter": {"productivity": ["good"]}}, "filter.productivity[0]: input should be 'produc"),
        (
            {"filter": {"app": ["Code"]}},
            "filter.app: there is no such argument; there are apps, domains, categories, ",
        ),
        (
            {"kind": "app", "filter": {"languages": ["Python"]}},
            "filter: languages can be asked of kind coding alone",
        ),
        (
            {"filter": {"apps": ["Code"], "productivity": ["neutral"], "projects": ["svc"]}},
            "filter: apps and productivity can be asked of kind app alone",
        ),
    ],
)
def test_invalid_arguments_are_an_error(
    assistant: Assistant, alice: Person, given: dict[str, Any], said: str
) -> None:
    assert assistant.mistake(TOOL, **given).startswith(said)
