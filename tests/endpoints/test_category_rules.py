"""Category rules in answers: the service's and people's own, with any days rolled up."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import MakeRollups, Person, mark_all_days
from tests.endpoints.histories import ask
from tests.endpoints.test_app_usage import event, post
from tests.sql.test_categories import insert

Owner = psycopg.Connection[Any]

DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}


def known_as(api: TestClient, person: Person, **range_: str) -> list[str]:
    """Return the category of each session, the newest first."""
    listed = ask(api, person, "/api/v1/sessions/apps", **(range_ or DAY), limit=1000)
    return [row["category"] for row in listed["data"]]


@pytest.mark.parametrize(
    ("app", "url", "category"),
    [
        ("Code", None, "Development"),
        ("Code.exe", None, "Development"),
        ("jetbrains-idea", None, "Development"),
        ("org.gnome.Terminal", None, "Development"),
        ("Microsoft Word", None, "Writing"),
        ("WINWORD.EXE", None, "Writing"),
        ("Figma", None, "Design"),
        ("Zotero", None, "Reference"),
        ("EXCEL.EXE", None, "Business"),
        ("zoom.us", None, "Communication"),
        ("TelegramDesktop", None, "Communication"),
        ("com.whatsapp", None, "Communication"),
        ("Finder", None, "Utilities"),
        ("explorer.exe", None, "Utilities"),
        ("com.amazon.mShop.android.shopping", None, "Shopping"),
        ("NetNewsWire", None, "News"),
        ("org.videolan.vlc", None, "Entertainment"),
        ("com.zhiliaoapp.musically", None, "Social"),
        ("Steam", None, "Games"),
        ("Firefox", None, "Uncategorized"),
        ("Google Chrome", None, "Uncategorized"),
        ("com.apple.mobilesafari", None, "Uncategorized"),
        ("loginwindow", None, "Uncategorized"),
        ("Xcodeish", None, "Uncategorized"),
        ("Firefox", "https://www.github.com/svc", "Development"),
        ("Firefox", "https://gist.github.com/x", "Development"),
        ("Firefox", "https://de.m.wikipedia.org/wiki/Gezeiten", "Reference"),
        ("Firefox", "https://mail.google.com/", "Communication"),
        ("Firefox", "https://docs.google.com/document", "Writing"),
        ("Firefox", "https://accounts.google.com/", "Utilities"),
        ("Firefox", "https://a.b.c.d.e.f.youtube.com/", "Entertainment"),
        ("Firefox", "https://notyoutube.com/", "Uncategorized"),
        ("Firefox", "https://youtube.com.example.org/", "Uncategorized"),
        ("Firefox", "https://com/", "Uncategorized"),
        ("Firefox", "http://localhost:8400/", "Uncategorized"),
        ("Code", "https://www.youtube.com/", "Entertainment"),
        ("Slack", "https://tides.example/", "Communication"),
    ],
)
def test_the_services_rules_know_common_applications_and_sites(
    api: TestClient, alice: Person, app: str, url: str | None, category: str
) -> None:
    post(api, alice, [event(app, "09:00:00", "10:00:00", url=url)])

    body = ask(api, alice, "/api/v1/analytics/categories", **DAY)

    assert [row["category"] for row in body["data"]] == [category]
    assert known_as(api, alice) == [category]


def test_the_services_rules_are_numerous_and_name_existing_categories(db: Owner) -> None:
    rules = db.execute("select field, pattern, category from reference.category_rule").fetchall()

    counts = {field: sum(1 for each, _, _ in rules if each == field) for field, _, _ in rules}
    assert counts["app"] + counts["domain"] > 150
    assert min(counts.values()) > 60
    assert {category for _, _, category in rules} == {
        name for (name,) in db.execute("select category from reference.category")
    } - {"Uncategorized"}
    # A site is recorded without www., and a name above it is looked for among four labels at most.
    sites = [pattern for field, pattern, _ in rules if field == "domain"]
    assert [
        site for site in sites if site.startswith("www.") or not 2 <= len(site.split(".")) <= 4
    ] == []
    assert [pattern for _, pattern, _ in rules if pattern != pattern.strip() or not pattern] == []


def test_the_services_rules_name_no_browser(db: Owner) -> None:
    browsers = [
        *("firefox", "firefox.exe", "org.mozilla.firefox", "firefox-esr", "librewolf", "zen"),
        *("google chrome", "chrome", "chrome.exe", "google-chrome", "com.android.chrome"),
        *("chromium", "chromium-browser", "brave", "brave.exe", "brave-browser", "brave browser"),
        *("safari", "com.apple.safari", "com.apple.mobilesafari", "arc", "arc.exe", "vivaldi"),
        *("microsoft edge", "msedge.exe", "microsoft-edge", "opera", "opera.exe", "tor browser"),
        *("duckduckgo", "orion", "epiphany", "org.gnome.epiphany", "samsung internet", "edge"),
    ]

    known = db.execute(
        "select pattern from reference.category_rule where field = 'app' and pattern = any (%s)",
        [browsers],
    ).fetchall()

    assert known == []


# A morning in which every question has an answer that a category is part of.
START = "2025-06-16T08:00:00Z"
MORNING = [
    event("Code", "09:00:00", "09:30:00", title="main.py"),
    event("Mystery", "09:30:00", "10:00:00", title="Tides", url="https://tides.example/"),
    event("Code", "10:00:00", "10:30:00", title="main.py"),
]
RULES = {
    "app": ("app", "exact", "mystery", "Games"),
    "title": ("title", "regex", "^tides$", "Games"),
    "domain": ("domain", "contains", "tides.", "Games"),
}
DATES = {"from": "2025-06-16", "to": "2025-06-16"}

Look = Callable[[TestClient, Person], Any]


def row_of(body: dict[str, Any], **named: str) -> dict[str, Any]:
    (found,) = [row for row in body["data"] if named.items() <= row.items()]
    return dict(found)


LOOKS: dict[str, tuple[Look, Any, Any]] = {
    "daily": (
        lambda api, alice: [
            ask(api, alice, "/api/v1/analytics/daily", **DATES)["totals"][name]
            for name in ("neutral_ms", "distracted_ms")
        ],
        [1_800_000, 0],
        [0, 1_800_000],
    ),
    "app-usage": (
        lambda api, alice: row_of(ask(api, alice, "/api/v1/analytics/app-usage", **DAY), app="Mystery")[
            "category"
        ],
        "Uncategorized",
        "Games",
    ),
    "categories": (
        lambda api, alice: {
            row["category"]: row["total_ms"]
            for row in ask(api, alice, "/api/v1/analytics/categories", **DAY)["data"]
        },
        {"Development": 3_600_000, "Uncategorized": 1_800_000},
        {"Development": 3_600_000, "Games": 1_800_000},
    ),
    "daily-categories": (
        lambda api, alice: [
            row["category"]
            for row in ask(api, alice, "/api/v1/analytics/daily-categories", **DAY)["data"][0][
                "categories"
            ]
        ],
        ["Development", "Uncategorized"],
        ["Development", "Games"],
    ),
    "hourly": (
        lambda api, alice: row_of(
            ask(api, alice, "/api/v1/analytics/hourly", date="2025-06-16"),
            starts_at="2025-06-16T09:00:00.000Z",
        )["distracted_ms"],
        0,
        1_800_000,
    ),
    "context-switches": (
        lambda api, alice: [
            (row["from_category"], row["to_category"])
            for row in ask(api, alice, "/api/v1/analytics/context-switches", **DAY)["data"]
        ],
        [("Uncategorized", "Development"), ("Development", "Uncategorized")],
        [("Games", "Development"), ("Development", "Games")],
    ),
    "focus-streaks": (
        lambda api, alice: [
            (row["ended_at"], row["broken_by"]["reason"])
            for row in ask(api, alice, "/api/v1/analytics/focus-streaks", **DAY)["data"]
        ],
        [("2025-06-16T10:30:00.000Z", "end_of_data"), ("2025-06-16T09:30:00.000Z", "neutral")],
        [("2025-06-16T10:30:00.000Z", "end_of_data"), ("2025-06-16T09:30:00.000Z", "distraction")],
    ),
    "sessions/apps": (
        known_as,
        ["Development", "Uncategorized", "Development"],
        ["Development", "Games", "Development"],
    ),
    "sessions/apps of a category": (
        lambda api, alice: [
            row["app"]
            for row in ask(api, alice, "/api/v1/sessions/apps", **DAY, category="Games")["data"]
        ],
        [],
        ["Mystery"],
    ),
    "sessions/by-app": (
        lambda api, alice: row_of(ask(api, alice, "/api/v1/sessions/by-app", **DAY), app="Mystery")[
            "productivity"
        ],
        "neutral",
        "distracting",
    ),
    "sessions/daily": (
        lambda api, alice: ask(api, alice, "/api/v1/sessions/daily", **DAY)["data"][0][
            "session_count"
        ],
        3,
        3,
    ),
    "correlation": (
        lambda api, alice: ask(
            api, alice, "/api/v1/account/correlation", metric_a="distracted_ms", **DATES
        )["metric_a"]["average"],
        0,
        1_800_000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_rolled_up", [False, True], ids=["raw", "rolled up"])
@pytest.mark.parametrize("field", RULES)
def test_a_rule_changes_every_answer_at_the_next_read_until_it_is_removed(
    api: TestClient,
    owner: Owner,
    alice: Person,
    make_rollups: MakeRollups,
    field: str,
    is_rolled_up: bool,
) -> None:
    post(api, alice, MORNING)
    if is_rolled_up:
        make_rollups()

    before = {name: look(api, alice) for name, (look, _, _) in LOOKS.items()}
    problem, rule = insert(owner, alice, *RULES[field])
    after = {name: look(api, alice) for name, (look, _, _) in LOOKS.items()}
    if is_rolled_up:
        make_rollups()
    rolled_up = {name: look(api, alice) for name, (look, _, _) in LOOKS.items()}
    owner.execute("select svc.delete_rule(%s, %s)", [alice.user_id, rule])
    removed = {name: look(api, alice) for name, (look, _, _) in LOOKS.items()}

    assert problem is None
    assert before == removed == {name: expected for name, (_, expected, _) in LOOKS.items()}
    assert after == rolled_up == {name: expected for name, (_, _, expected) in LOOKS.items()}


def test_a_baseline_of_weeks_follows_the_rules_too(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    at = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0) - timedelta(days=2)
    post(
        api,
        alice,
        [
            {
                "app": "Mystery",
                "started_at": at.isoformat(),
                "ended_at": (at + timedelta(minutes=30)).isoformat(),
            }
        ],
    )
    make_rollups()

    def distracted() -> int:
        body = ask(api, alice, "/api/v1/analytics/hourly-patterns", weeks=1)
        return sum(row["distracted_average_ms"] for row in body["data"])

    before = distracted()
    insert(owner, alice, *RULES["app"])

    assert (before, distracted()) == (0, 1_800_000)


@pytest.mark.parametrize("is_rolled_up", [False, True], ids=["raw", "rolled up"])
def test_a_score_changes_the_next_read(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups, is_rolled_up: bool
) -> None:
    post(api, alice, MORNING)
    if is_rolled_up:
        make_rollups()

    owner.execute("select svc.set_score(%s, 'Uncategorized', -2)", [alice.user_id])

    names = ("daily", "hourly", "sessions/by-app", "correlation")
    assert {name: LOOKS[name][0](api, alice) for name in names} == {
        "daily": [0, 1_800_000],
        "hourly": 1_800_000,
        "sessions/by-app": "distracting",
        "correlation": 1_800_000,
    }


@pytest.mark.parametrize("is_rolled_up", [False, True], ids=["raw", "rolled up"])
def test_another_order_changes_the_next_read(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups, is_rolled_up: bool
) -> None:
    post(api, alice, MORNING)
    rules = [
        insert(owner, alice, field, "contains", pattern, category)[1]
        for field, pattern, category in (
            ("title", "tides", "First title"),
            ("title", "ide", "Second title"),
            ("domain", "tides", "Site"),
        )
    ]
    if is_rolled_up:
        make_rollups()

    def sorted_now() -> str:
        body = ask(api, alice, "/api/v1/analytics/app-usage", **DAY)
        return str(row_of(body, app="Mystery")["category"])

    categories = [sorted_now()]
    for rule, by in ((rules[0], 1), (rules[2], -9), (rules[2], 9), (rules[1], 1)):
        owner.execute("select svc.move_rule(%s, %s, %s)", [alice.user_id, rule, by])
        categories.append(sorted_now())

    assert categories == ["First title", "Second title", "Site", "Second title", "First title"]


@pytest.mark.parametrize("is_rolled_up", [False, True], ids=["raw", "rolled up"])
def test_the_first_id_decides_between_rules_with_one_priority_everywhere(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups, is_rolled_up: bool
) -> None:
    post(api, alice, MORNING)
    owner.execute(
        """
        insert into activity.category_rule
               (user_id, category_rule_id, priority, field, match, pattern, category)
        values (%(user_id)s, '00000000-0000-4000-8000-000000000003', 7, 'title', 'exact', 'tides', 'c'),
               (%(user_id)s, '00000000-0000-4000-8000-000000000001', 7, 'title', 'contains', 'tide', 'a'),
               (%(user_id)s, '00000000-0000-4000-8000-000000000002', 7, 'app', 'exact', 'mystery', 'b')
        """,
        {"user_id": alice.user_id},
    )
    mark_all_days(owner)
    if is_rolled_up:
        make_rollups()

    judged = owner.execute(
        "select known_as from svc.judge(%s, '{Mystery}', '{Tides}', '{null}', '{null}')",
        [alice.user_id],
    ).fetchall()

    assert judged == [("a",)]
    assert known_as(api, alice)[1] == "a"
    assert LOOKS["app-usage"][0](api, alice) == "a"


@pytest.mark.parametrize("seed", range(5))
def test_the_settings_page_and_answers_agree_on_every_category(
    api: TestClient, owner: Owner, alice: Person, seed: int
) -> None:
    rng = Random(seed)
    parts = ["code", "Tide", "slack", "x", "github.com", "ä", "news"]
    for _ in range(12):
        field = rng.choice(["app", "title", "domain"])
        match = rng.choice(["exact", "contains", "regex"])
        insert(owner, alice, field, match, rng.choice(parts), f"Own {rng.randrange(4)}")
    apps = ["Code", "CODE", "Slack", "Mystery", "tide x", "Firefox"]
    titles = [None, "tide", "TIDE table", "x", "Ä"]
    sites = [None, "github.com", "gist.github.com", "tides.example", "news.ycombinator.com"]
    sent = [None, None, "Design"]
    things = rng.sample(list(product(apps, titles, sites, sent)), 60)
    columns = [list(column) for column in zip(*things, strict=True)]
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, name)
            values (%(user_id)s, 'd')
            returning user_id, device_id
        )
        insert into activity.app_session (
            user_id, device_id, idempotency_key, app, title, domain, category, started_at, ended_at
        )
        select user_id, device_id, n::text, app, title, domain, category,
               timestamptz '2025-06-16 23:00Z' - n * interval '1 minute',
               timestamptz '2025-06-16 23:01Z' - n * interval '1 minute'
          from device,
               unnest(%(apps)s::text[], %(titles)s::text[], %(sites)s::text[], %(sent)s::text[])
               with ordinality as thing (app, title, domain, category, n)
        """,
        {
            "user_id": alice.user_id,
            **dict(zip(("apps", "titles", "sites", "sent"), columns, strict=True)),
        },
    )

    judged = owner.execute(
        "select known_as from svc.judge(%s, %s::text[], %s::text[], %s::text[], %s::text[])",
        [alice.user_id, *columns],
    ).fetchall()

    assert [category for (category,) in judged] == known_as(api, alice)
    assert len(set(judged)) > 3


# Rules that are allowed because they cannot hang anything.

HOSTILE = [
    "(a+)+$", "(a|a)*b", "(.*a){20}", "(([a-z])+.)+[A-Z]([a-z])+$", "(a|b)*a(a|b){120}x", "((a*)*)*b",
    "(a?){25}a{200}", "(.*){25}x", r"(\w+\s?)+$", "(a|aa)+$",
]  # fmt: skip


@pytest.fixture
def hostile(owner: Owner, alice: Person) -> Iterator[None]:
    """A day of alice's with titles of the maximum length, and the slowest rules of any version."""
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, name) values (%(user_id)s, 'd')
            returning device_id
        )
        insert into activity.app_session
               (user_id, device_id, idempotency_key, app, title, started_at, ended_at)
        select %(user_id)s, device_id, n::text, 'Mystery',
               left(repeat((array['a', 'ab', 'aab '])[n %% 3 + 1], 1024 - n), 1023) || '!',
               timestamptz '2025-06-16 09:00Z' + n * interval '1 minute',
               timestamptz '2025-06-16 09:00Z' + n * interval '1 minute' + interval '1 minute'
          from device, generate_series(1, 60) as n
        """,
        {"user_id": alice.user_id},
    )
    owner.execute(
        """
        insert into activity.category_rule (user_id, priority, field, match, pattern, category)
        select %s, n, 'title', 'regex', pattern, 'Own'
          from unnest(%s::text[]) with ordinality as rule (pattern, n)
        """,
        [alice.user_id, [f"({HOSTILE[n % 10]})x{n}" for n in range(50)]],
    )
    owner.execute("select svc.end_category_change(%s, '{}')", [alice.user_id])
    yield
    owner.execute("delete from activity.category_rule")


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    "name", ["categories", "app-usage", "hourly", "sessions/apps", "focus-streaks"]
)
def test_every_read_answers_with_the_slowest_possible_rules(
    api: TestClient, alice: Person, name: str
) -> None:
    look, *_ = LOOKS[name]

    assert look(api, alice) is not None
