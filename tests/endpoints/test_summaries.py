"""GET /api/v1/account/summaries, and the job that writes its rows."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from psycopg import sql
from starlette.testclient import TestClient

import resourceserver.app
from authserver.people import accounts
from resourceserver.timeline import rollups, rounds, summaries
from resourceserver.timeline.rounds import in_a_row
from shared import database, queries, schema
from shared.pool import Connection
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Connect, Person, mark_all_days
from tests.endpoints.histories import (
    History,
    add_coding,
    add_sessions,
    carol_with,
    histories,
)
from tests.endpoints.histories import ask as ask_for
from tests.endpoints.timeline import CodingSession, Session
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]

PATH: Final = "/api/v1/account/summaries"
SAVE_PROFILE: Final = queries.load(Path(accounts.__file__).with_name("account.sql"))["save_profile"]
MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


def ask(api: TestClient, person: Person, **params: Any) -> dict[str, Any]:
    """Return stored summaries; ``start`` and ``end`` are the days."""
    return ask_for(api, person, PATH, **params)


def job(chosen: Settings, work: Callable[[Connection], Awaitable[int]]) -> int:
    """Return the result of ``work`` on a connection of the worker."""

    async def run() -> int:
        async with rounds.connected(database.login(chosen, "worker")) as worker:
            return await work(worker)

    return asyncio.run(run())


def make_due(chosen: Settings) -> int:
    return job(chosen, lambda worker: summaries.make_due(worker, quiet=None))


def make_all(chosen: Settings, person: Person) -> int:
    return job(chosen, lambda worker: summaries.make_all(worker, person.user_id))


def post(api: TestClient, person: Person, *events: tuple[str, str, str, str]) -> None:
    """Send app sessions as a tracker does: app, category, start and end."""
    answer = api.post(
        "/api/v1/ingest/app-sessions",
        json={
            "events": [
                {"app": app, "category": category, "started_at": start, "ended_at": end}
                for app, category, start, end in events
            ]
        },
        headers=person.headers("ingest:app_sessions"),
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["rejected"] == []


def mark(owner: Rows, person: Person, *days: str) -> None:
    for day in days:
        owner.execute(
            "insert into activity.summary_due (user_id, date) values (%s, %s) on conflict do nothing",
            [person.user_id, day],
        )


def marks(owner: Rows) -> list[str]:
    rows = owner.execute("select date::text from activity.summary_due order by date").fetchall()
    return [day for (day,) in rows]


def test_a_day_is_summed_up_after_its_events_arrive(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    post(
        api,
        alice,
        ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T09:30:00Z"),
        ("Slack", "Communication", "2025-06-16T09:30:00Z", "2025-06-16T09:31:00Z"),
        ("Code", "Development", "2025-06-16T09:31:00Z", "2025-06-16T09:41:00Z"),
        ("Chess", "Games", "2025-06-16T12:00:00Z", "2025-06-16T12:20:00Z"),
    )
    add_coding(
        owner, alice, [CodingSession("a", "laptop", "svc", "Python", None, 9 * HOUR, 10 * HOUR)]
    )

    made = make_due(deployment)
    body = ask(api, alice)

    assert made == 1
    assert body["data"][0].pop("generated_at") > "2025-06-16"
    assert body == {
        "data": [
            {
                "date": "2025-06-16",
                "tz": "UTC",
                "status": "final",
                "tracked_ms": 61 * MINUTE,
                "productive_ms": 40 * MINUTE,
                "neutral_ms": 1 * MINUTE,
                "distracted_ms": 20 * MINUTE,
                "coding_ms": 60 * MINUTE,
                "app_switches": 2,
                "focus_ms": 41 * MINUTE,
                "longest_focus_ms": 41 * MINUTE,
                "top_apps": [
                    {"app": "Code", "total_ms": 40 * MINUTE},
                    {"app": "Chess", "total_ms": 20 * MINUTE},
                    {"app": "Slack", "total_ms": 1 * MINUTE},
                ],
                "top_categories": [
                    {"category": "Development", "total_ms": 40 * MINUTE},
                    {"category": "Games", "total_ms": 20 * MINUTE},
                    {"category": "Communication", "total_ms": 1 * MINUTE},
                ],
                "top_projects": [{"project": "svc", "total_ms": 60 * MINUTE}],
                "text": None,
            }
        ],
        "count": 1,
        "limit": 31,
        "has_more": False,
        "next_cursor": None,
        "pending_days": [],
    }
    assert marks(owner) == []
    assert make_due(deployment) == 0


def test_late_events_change_a_final_summary(
    api: TestClient, deployment: Settings, alice: Person
) -> None:
    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    make_due(deployment)
    before = ask(api, alice)["data"][0]
    post(api, alice, ("Chess", "Games", "2025-06-16T11:00:00Z", "2025-06-16T12:00:00Z"))

    stale = ask(api, alice)
    make_due(deployment)
    after = ask(api, alice)["data"][0]

    assert stale["data"] == [before | {"status": "provisional"}]
    assert stale["pending_days"] == ["2025-06-16"]
    assert before["status"] == after["status"] == "final"
    assert (before["tracked_ms"], after["tracked_ms"]) == (HOUR, 2 * HOUR)
    assert after["generated_at"] > before["generated_at"]


def test_late_events_change_the_focus_of_the_evening_before(
    api: TestClient, deployment: Settings, alice: Person
) -> None:
    post(api, alice, ("Code", "Development", "2025-06-16T23:56:00Z", "2025-06-17T00:00:00Z"))
    make_due(deployment)
    post(api, alice, ("Code", "Development", "2025-06-17T00:00:01Z", "2025-06-17T00:06:00Z"))

    pending = ask(api, alice)["pending_days"]
    before = ask(api, alice)["data"]
    make_due(deployment)
    after = ask(api, alice)["data"]

    assert pending == ["2025-06-17", "2025-06-16"]
    assert [(day["date"], day["focus_ms"]) for day in before] == [("2025-06-16", 0)]
    assert [(day["date"], day["focus_ms"]) for day in after] == [
        ("2025-06-17", 6 * MINUTE),
        ("2025-06-16", 4 * MINUTE),
    ]


def test_days_with_new_events_are_pending_until_they_are_summed_up(
    api: TestClient, deployment: Settings, alice: Person
) -> None:
    post(api, alice, ("Code", "Development", "2025-06-15T09:00:00Z", "2025-06-15T23:40:00Z"))
    make_due(deployment)
    # There was no activity for half an hour around midnight, so the day before stays as it is.
    post(api, alice, ("Code", "Development", "2025-06-16T00:10:00Z", "2025-06-16T01:00:00Z"))
    post(api, alice, ("Code", "Development", "2025-06-20T09:00:00Z", "2025-06-20T10:00:00Z"))

    listed = ask(api, alice)
    until = ask(api, alice, end="2025-06-19")
    since = ask(api, alice, start="2025-06-17")
    no_rows = ask(api, alice, limit=0)

    assert [(day["date"], day["status"]) for day in listed["data"]] == [("2025-06-15", "final")]
    assert listed["pending_days"] == ["2025-06-20", "2025-06-16"]
    assert until["pending_days"] == ["2025-06-16"]
    assert since["pending_days"] == ["2025-06-20"]
    assert no_rows["pending_days"] == []


def test_a_new_time_zone_also_marks_the_neighbours_of_marked_days(
    owner: Rows, alice: Person
) -> None:
    owner.execute(
        "insert into activity.summary_due (user_id, date) values (%s, '2025-06-16')",
        [alice.user_id],
    )
    profile = {"display_name": None, "timezone": "Asia/Tokyo", "week_starts_on": 1}

    owner.execute(SAVE_PROFILE, {"user_id": alice.user_id, **profile})

    marked = owner.execute("select date::text from activity.summary_due order by date").fetchall()
    assert marked == [("2025-06-15",), ("2025-06-16",), ("2025-06-17",)]


def test_pending_days_are_those_of_the_page(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    store(owner, alice, "2025-06-10", "2025-06-12", "2025-06-14")
    mark(owner, alice, "2025-06-09", "2025-06-11", "2025-06-14", "2025-06-15")

    pages = [ask(api, alice, limit=1)]
    while pages[-1]["has_more"]:
        pages.append(ask(api, alice, limit=1, cursor=pages[-1]["next_cursor"]))

    assert [(page["data"][0]["date"], page["pending_days"]) for page in pages] == [
        ("2025-06-14", ["2025-06-15", "2025-06-14"]),
        ("2025-06-12", []),
        ("2025-06-10", ["2025-06-11", "2025-06-09"]),
    ]
    assert ask(api, bob)["pending_days"] == []


@pytest.mark.parametrize("change", ["score", "zone"])
def test_a_changed_score_or_zone_makes_summaries_provisional_until_they_are_renewed(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person, change: str
) -> None:
    owner.execute("update identity.user set timezone = 'Asia/Tokyo'")
    post(api, alice, ("Code", "Development", "2025-06-15T23:30:00Z", "2025-06-16T00:30:00Z"))
    make_due(deployment)
    if change == "score":
        owner.execute("select svc.set_score(%s, 'Development', -2)", [alice.user_id])
    else:
        profile = {"display_name": None, "timezone": "UTC", "week_starts_on": 1}
        owner.execute(SAVE_PROFILE, {"user_id": alice.user_id, **profile})

    stale = ask(api, alice)
    make_due(deployment)
    after = ask(api, alice)

    assert [(day["date"], day["status"]) for day in stale["data"]] == [
        ("2025-06-16", "provisional")
    ]
    assert "2025-06-16" in stale["pending_days"]
    assert after["pending_days"] == []
    assert [
        (day["date"], day["tz"], day["tracked_ms"], day["productive_ms"], day["status"])
        for day in after["data"]
    ] == {
        "score": [("2025-06-16", "Asia/Tokyo", HOUR, 0, "final")],
        "zone": [
            ("2025-06-16", "UTC", HOUR // 2, HOUR // 2, "final"),
            ("2025-06-15", "UTC", HOUR // 2, HOUR // 2, "final"),
        ],
    }[change]


def test_days_are_those_of_the_profile(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    owner.execute("update identity.user set timezone = 'Pacific/Kiritimati'")
    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T11:00:00Z"))

    make_due(deployment)

    assert [(day["date"], day["tz"], day["tracked_ms"]) for day in ask(api, alice)["data"]] == [
        ("2025-06-17", "Pacific/Kiritimati", HOUR),
        ("2025-06-16", "Pacific/Kiritimati", HOUR),
    ]


def test_a_day_that_is_not_over_is_provisional(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    (today,) = owner.execute("select (now() at time zone 'UTC')::date").fetchone() or [date.min]
    began = (today - date(2025, 6, 16)).days * DAY
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", began - 2 * DAY, began - 2 * DAY + HOUR),
            Session("2", "laptop", "Code", began, began + 1000),
        ],
    )
    mark(owner, alice, str(today), str(today - timedelta(days=2)))

    make_due(deployment)

    assert [(day["date"], day["status"]) for day in ask(api, alice)["data"]] == [
        (str(today), "provisional"),
        (str(today - timedelta(days=2)), "final"),
    ]
    assert make_due(deployment) == 0


def test_a_provisional_summary_becomes_final_when_it_is_due(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    make_due(deployment)
    owner.execute("update activity.daily_summary set status = 'provisional', tracked_ms = 5")
    owner.execute("update activity.daily_summary set final_at = now() + interval '1 minute'")
    too_early = make_due(deployment)
    owner.execute("update activity.daily_summary set final_at = now()")

    made = make_due(deployment)

    assert (too_early, made) == (0, 1)
    (day,) = ask(api, alice)["data"]
    assert (day["status"], day["tracked_ms"]) == ("final", HOUR)


def test_days_on_which_nothing_counts_have_no_summary(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", 9 * HOUR, 10 * HOUR, idle=True),
            Session("2", "laptop", "Code", 2 * DAY, 2 * DAY),
        ],
    )
    mark(owner, alice, "2025-06-16", "2025-06-17", "2025-06-18")

    make_due(deployment)

    (day,) = ask(api, alice)["data"]
    assert (day["date"], day["tracked_ms"], day["top_apps"]) == ("2025-06-18", 0, [])


def test_tops_have_at_most_five_names(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    apps = ["b", "a", "B", "ä", "c", "d"]
    add_sessions(
        owner,
        alice,
        [
            Session(app, "laptop", app, n * HOUR, (n + 1) * HOUR + (app == "d") * MINUTE)
            for n, app in enumerate(apps)
        ],
    )
    mark(owner, alice, "2025-06-16")

    make_due(deployment)

    (day,) = ask(api, alice)["data"]
    assert [top["app"] for top in day["top_apps"]] == ["d", "B", "a", "b", "c"]
    assert day["top_categories"] == [{"category": "Uncategorized", "total_ms": 6 * HOUR + MINUTE}]
    assert day["top_projects"] == []


def test_many_marks_are_handled_in_turns(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n:03}", "laptop", "Code", n * DAY + HOUR, n * DAY + 2 * HOUR)
            for n in range(-99, 1)
        ],
    )
    mark(owner, alice, *(str(date(2025, 6, 16) - timedelta(days=n)) for n in range(100)))

    made = make_due(deployment)

    assert made == 100
    assert marks(owner) == []
    assert ask(api, alice, limit=366)["count"] == 100


def test_people_take_turns(deployment: Settings, owner: Rows, alice: Person, bob: Person) -> None:
    first, second = sorted((alice, bob), key=lambda person: person.user_id)
    for person, days in ((first, 70), (second, 1)):
        add_sessions(
            owner,
            person,
            [Session(f"{n}", "laptop", "Code", n * DAY, n * DAY + HOUR) for n in range(days)],
        )
        mark(owner, person, *(str(date(2025, 6, 16) + timedelta(days=n)) for n in range(days)))
    mark_all_days(owner)

    made = make_due(deployment)
    rolled_up = job(deployment, lambda worker: rollups.make_due(worker, quiet=timedelta(0)))

    assert (made, rolled_up >= 71) == (71, True)
    for table in ("daily_summary", "app_timeline"):
        # The transaction ids of rows give the order: the second person's was not the last.
        query = f"select user_id, max(xmin::text::bigint) from activity.{table} group by 1"  # noqa: S608 -- a name from above
        last = dict(owner.execute(query.encode()).fetchall())
        assert last[second.user_id] < last[first.user_id], table


def test_slow_days_are_postponed_and_the_next_person_is_served(
    deployment: Settings, owner: Rows, alice: Person, bob: Person, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = sorted((alice, bob), key=lambda person: person.user_id)
    for person in (first, second):
        add_sessions(owner, person, [Session("1", "laptop", "Code", 0, HOUR)])
        mark(owner, person, "2025-06-16")
    # The lock of the owner keeps the job waiting until its time limit.
    with psycopg.connect(owner.info.dsn, password=owner.info.password) as rival:
        store(rival, first, "2025-06-16")

        made = job(
            deployment, lambda worker: summaries.make_due(worker, timedelta(seconds=3), quiet=None)
        )

        rival.rollback()
    assert made == 1
    assert owner.execute("select user_id from activity.summary_due").fetchall() == [
        (first.user_id,)
    ]
    assert f"the days of {first.user_id} take too long and are put off" in caplog.text
    assert make_due(deployment) == 1


def test_two_jobs_at_once_share_the_work(deployment: Settings, owner: Rows, alice: Person) -> None:
    people = [alice] + [
        Person(row[0], f"{n}@example.org", owner)
        for n in range(9)
        for row in owner.execute(
            "insert into identity.user (email) values (%s) returning user_id", [f"{n}@example.org"]
        ).fetchall()
    ]
    for person in people:
        add_sessions(
            owner,
            person,
            [Session(f"{n}", "laptop", "Code", n * DAY, n * DAY + HOUR) for n in range(5)],
        )
        mark(owner, person, *(f"2025-06-{16 + n}" for n in range(5)))

    async def both() -> tuple[int, int]:
        url = database.login(deployment, "worker")
        async with rounds.connected(url) as first, rounds.connected(url) as second:
            return await asyncio.gather(
                summaries.make_due(first, quiet=None), summaries.make_due(second, quiet=None)
            )

    made = asyncio.run(both())

    assert sum(made) == 50
    assert marks(owner) == []
    stored = owner.execute(
        "select count(*), sum(tracked_ms) from activity.daily_summary"
    ).fetchone()
    assert stored == (50, 50 * HOUR)


def test_a_day_that_is_written_to_is_summed_up_at_first_when_it_is_quiet_and_each_half_hour(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    def make_quiet_days() -> tuple[int, list[int]]:
        count = job(deployment, summaries.make_due)
        return count, [day["tracked_ms"] // HOUR for day in ask(api, alice)["data"]]

    def age(table: str, column: str, minutes: int) -> None:
        owner.execute(
            sql.SQL("update activity.{} set {} = now() - {} * interval '1 minute'").format(
                sql.Identifier(table), sql.Identifier(column), sql.Literal(minutes)
            )
        )

    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    first = make_quiet_days()
    post(api, alice, ("Code", "Development", "2025-06-16T10:00:00Z", "2025-06-16T11:00:00Z"))
    post(api, bob, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    beside_bob = make_quiet_days()
    pending = ask(api, alice)["pending_days"]
    age("summary_due", "marked_at", 4)
    quiet = make_quiet_days()
    post(api, alice, ("Code", "Development", "2025-06-16T11:00:00Z", "2025-06-16T12:00:00Z"))
    age("daily_summary", "generated_at", 29)
    recent = make_quiet_days()
    age("daily_summary", "generated_at", 31)
    old = make_quiet_days()

    assert first == (1, [1])
    assert beside_bob == (1, [1])
    assert pending == ["2025-06-16"]
    assert quiet == (1, [2])
    assert recent == (0, [2])
    assert old == (1, [3])
    assert marks(owner) == []


def test_a_day_waits_no_longer_because_its_neighbour_was_summed_up_just_now(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    for day in ("2025-06-15", "2025-06-16"):
        post(api, alice, ("Code", "Development", f"{day}T09:00:00Z", f"{day}T10:00:00Z"))
    make_due(deployment)
    owner.execute(
        "update activity.daily_summary set generated_at = now() - interval '40 minutes'"
        " where date = '2025-06-16'"
    )
    mark(owner, alice, "2025-06-15", "2025-06-16")

    count = job(deployment, summaries.make_due)

    assert (count, marks(owner)) == (1, ["2025-06-15"])


def test_a_turn_leaves_a_day_that_is_written_to_when_it_sums_up_a_quiet_one(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    for day in ("2025-06-10", "2025-06-16"):
        post(api, alice, ("Code", "Development", f"{day}T09:00:00Z", f"{day}T10:00:00Z"))
    make_due(deployment)
    mark(owner, alice, "2025-06-10", "2025-06-16")
    owner.execute(
        "update activity.summary_due set marked_at = now() - interval '4 minutes' where date = '2025-06-10'"
    )

    count = job(deployment, summaries.make_due)

    assert (count, marks(owner)) == (1, ["2025-06-16"])


def test_a_person_with_days_that_are_written_to_alone_has_no_turn(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    for person in (alice, bob):
        post(api, person, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    make_due(deployment)
    for person in (alice, bob):
        mark(owner, person, "2025-06-16")
    owner.execute(
        "update activity.summary_due set marked_at = now() - interval '4 minutes' where user_id = %s",
        [bob.user_id],
    )

    async def due() -> list[UUID]:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            return await summaries.people_due(worker, UUID(int=0))

    assert asyncio.run(due()) == [bob.user_id]


def test_a_person_in_another_job_is_skipped(
    api: TestClient, deployment: Settings, connect_as: Connect, alice: Person, bob: Person
) -> None:
    for person in (alice, bob):
        post(api, person, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    other = connect_as("worker")

    with other.transaction():
        other.execute(summaries.SQL["take_turn"], {"user_id": alice.user_id})
        meanwhile = make_due(deployment)
    afterwards = make_due(deployment)

    assert (meanwhile, afterwards) == (1, 1)
    assert ask(api, alice)["count"] == ask(api, bob)["count"] == 1


def test_a_mark_of_an_open_transaction_is_left_for_later(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    for day in ("2025-06-16", "2025-06-18"):
        post(api, alice, ("Code", "Development", f"{day}T09:00:00Z", f"{day}T10:00:00Z"))

    with owner.transaction():
        owner.execute("update activity.summary_due set marked_at = now() where date = '2025-06-16'")
        meanwhile = make_due(deployment)
        left = marks(owner)
    afterwards = make_due(deployment)

    assert (meanwhile, afterwards) == (2, 1)
    assert left == ["2025-06-16"]
    assert marks(owner) == []


@contextmanager
def held_at(
    owner: Rows, person: Person, day: str, work: Callable[[], int]
) -> Iterator[Future[int]]:
    """Run ``work`` in a thread, stopped in the block where it writes the summary of ``day``."""
    with (
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(owner.info.dsn, password=owner.info.password) as rival,
    ):
        store(rival, person, day)
        done = thread.submit(work)
        wait_for(lambda: waits_for(owner, rival), "the job to wait for the rival")
        try:
            yield done
        finally:
            rival.rollback()


def waits_for(owner: Rows, rival: Rows) -> bool:
    row = owner.execute(
        "select from pg_stat_activity where %s = any (pg_blocking_pids(pid))",
        [rival.info.backend_pid],
    ).fetchone()
    return row is not None


@pytest.mark.parametrize("is_anew", [False, True])
def test_a_tracker_does_not_wait_while_its_day_is_summed_up(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person, is_anew: bool
) -> None:
    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))

    def work() -> int:
        return make_all(deployment, alice) if is_anew else make_due(deployment)

    with held_at(owner, alice, "2025-06-16", work) as done:
        post(api, alice, ("Chess", "Games", "2025-06-16T11:00:00Z", "2025-06-16T12:00:00Z"))
        was_held = not done.done()
    made = done.result()
    (before,) = ask(api, alice)["data"]
    left = marks(owner)
    made_again = make_due(deployment)
    (after,) = ask(api, alice)["data"]

    assert (was_held, made, left, made_again) == (True, 1, ["2025-06-16"], 1)
    assert (before["tracked_ms"], after["tracked_ms"]) == (HOUR, 2 * HOUR)
    assert marks(owner) == []


def test_locked_marks_do_not_delay_the_job(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    add_sessions(owner, alice, [Session("1", "laptop", "Code", 40 * DAY, 40 * DAY + HOUR)])
    mark(owner, alice, *(str(date(2025, 6, 16) + timedelta(days=n)) for n in range(41)))

    with owner.transaction():
        owner.execute("select from activity.summary_due where date < '2025-07-26' for update")
        made = make_due(deployment)

    assert made == 1
    assert len(marks(owner)) == 40


def test_a_full_renewal_commits_month_by_month(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n:02}", "laptop", "Code", n * DAY + HOUR, n * DAY + 2 * HOUR)
            for n in range(40)
        ],
    )
    store(owner, alice, "2025-06-15", "2025-09-01")
    mark(owner, alice, "2025-06-16", "2025-07-25")

    with held_at(owner, alice, "2025-07-25", lambda: make_all(deployment, alice)) as done:
        meanwhile = stored(owner)
    made = done.result()

    assert meanwhile == [str(date(2025, 6, 16) + timedelta(days=n)) for n in range(31)]
    assert made == 40
    assert len(stored(owner)) == 40
    assert marks(owner) == []


def stored(owner: Rows) -> list[str]:
    rows = owner.execute("select date::text from activity.daily_summary order by date").fetchall()
    return [day for (day,) in rows]


def test_a_deleted_account_gets_no_summary_and_no_mark(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    owner.execute("select svc.end_account(%s, null, null)", [alice.user_id])

    made = make_due(deployment)

    assert made == 0
    assert marks(owner) == []
    assert owner.execute("select count(*) from activity.daily_summary").fetchone() == (0,)


def test_a_person_whose_summaries_fail_does_not_delay_others(
    api: TestClient,
    deployment: Settings,
    owner: Rows,
    alice: Person,
    bob: Person,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for person in (alice, bob):
        post(api, person, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    owner.execute(
        "update identity.user set timezone = 'Mars/Base' where user_id = %s", [alice.user_id]
    )

    made = make_due(deployment)

    assert made == 1
    assert marks(owner) == ["2025-06-16"]
    assert f"the days of {alice.user_id} are summed up later" in caplog.text


def test_a_job_sees_only_the_rows_of_its_person(
    api: TestClient, connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    for person in (alice, bob):
        post(api, person, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
        add_coding(owner, person, [CodingSession("a", "laptop", "svc", None, None, 0, HOUR)])
    worker = connect_as("worker")
    tables = [
        "activity.app_session", "activity.coding_session", "activity.device", "activity.summary_due",
        "identity.user",
    ]  # fmt: skip

    for table in tables:
        users = f"select distinct user_id from {table}"  # noqa: S608 -- a name from above
        outside = worker.execute(users).fetchall()
        with worker.transaction():
            worker.execute(summaries.SQL["begin_for"], {"user_id": alice.user_id, **schema.VERSION})
            inside = worker.execute(users).fetchall()
        afterwards = worker.execute(users).fetchall()

        assert (outside, inside, afterwards) == ([], [(alice.user_id,)], []), table


def test_a_job_can_write_into_no_other_account(
    connect_as: Connect, alice: Person, bob: Person
) -> None:
    worker = connect_as("worker")

    with worker.transaction(force_rollback=True):
        worker.execute(summaries.SQL["begin_for"], {"user_id": alice.user_id, **schema.VERSION})
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            worker.execute(
                """
                insert into activity.daily_summary (
                    user_id, date, tz, status, final_at, tracked_ms, productive_ms, neutral_ms,
                    distracted_ms, coding_ms, app_switches, focus_ms, longest_focus_ms, top_apps,
                    top_categories, top_projects
                )
                values (%s, now(), 'UTC', 'final', now(), 1, 1, 1, 1, 1, 1, 1, 1, '[]', '[]', '[]')
                """,
                [bob.user_id],
            )


def test_all_summaries_can_be_renewed(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    for person in (alice, bob):
        post(
            api,
            person,
            ("Code", "Development", "2025-04-01T09:00:00Z", "2025-04-01T10:00:00Z"),
            ("Code", "Development", "2025-06-16T23:30:00Z", "2025-06-17T00:30:00Z"),
        )
    make_due(deployment)
    owner.execute("update identity.user set timezone = 'Asia/Tokyo'")
    owner.execute(
        """
        insert into activity.category_rule (user_id, priority, field, match, pattern, category)
        values (%s, 1, 'app', 'exact', 'Code', 'Games')
        """,
        [alice.user_id],
    )

    made = make_all(deployment, alice)

    assert made == 2
    assert [
        (day["date"], day["tz"], day["productive_ms"], day["distracted_ms"])
        for day in ask(api, alice)["data"]
    ] == [("2025-06-17", "Asia/Tokyo", 0, HOUR), ("2025-04-01", "Asia/Tokyo", 0, HOUR)]
    assert [(day["date"], day["tz"]) for day in ask(api, bob)["data"]] == [
        ("2025-06-17", "UTC"),
        ("2025-06-16", "UTC"),
        ("2025-04-01", "UTC"),
    ]


def test_an_empty_account_has_no_days_to_sum_up(deployment: Settings, alice: Person) -> None:
    assert make_all(deployment, alice) == 0


def test_a_running_server_sums_up_days(
    api: TestClient, deployment: Settings, alice: Person
) -> None:
    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"))
    app = resourceserver.app.create(
        replace(deployment, jobs=True), sum_up_every=timedelta(milliseconds=50)
    )

    with AppClient(app):
        wait_for(lambda: ask(api, alice)["data"], "a summary")

    assert ask(api, alice)["count"] == 1


@pytest.mark.usefixtures("short_wait")
def test_a_job_survives_an_unreachable_database(
    deployment: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_LOG", schema.RateLimitedLog())
    nowhere = replace(
        deployment,
        jobs=True,
        role_urls={"worker": "postgresql://nobody@localhost:1/nothing?connect_timeout=2"},
    )
    app = resourceserver.app.create(nowhere, sum_up_every=timedelta(milliseconds=10))

    with AppClient(app) as server:
        wait_for(lambda: "the database does not answer" in caplog.text, "a turn that failed")
        answer = server.get("/api/v1/capabilities")

    assert answer.status_code == 200


@given(history=histories())
def test_summaries_equal_the_answers_of_other_endpoints(
    api: TestClient, deployment: Settings, owner: Rows, history: History
) -> None:
    carol = carol_with(owner, history)
    # The owner of the tables may name zones that settings would not.
    owner.execute(
        "update identity.user set timezone = %s where user_id = %s", [history.zone, carol.user_id]
    )
    starts = [s.started for s in history.sessions] + [s.started for s in history.coding]
    for start in starts:
        mark(owner, carol, str(date(2025, 6, 16) + timedelta(days=start // DAY)))
    first, last = history.date - timedelta(days=3), history.date + timedelta(days=5)

    make_due(deployment)

    found = {day["date"]: day for day in ask(api, carol, limit=366)["data"]}
    daily = ask_for(
        api, carol, "/api/v1/analytics/daily", start=str(first), end=str(last), tz=history.zone
    )
    shared = [
        "tracked_ms", "productive_ms", "neutral_ms", "distracted_ms", "coding_ms", "app_switches",
    ]  # fmt: skip
    for day in daily["data"]:
        if day["date"] not in found:
            assert (day["session_count"], day["coding_ms"]) == (0, 0)
            continue
        stored = found[day["date"]]
        assert {name: stored[name] for name in shared} == {name: day[name] for name in shared}
        range_of_day = {"start": day["starts_at"], "end": day["ends_at"]}
        focus = ask_for(api, carol, "/api/v1/analytics/focus-streaks", **range_of_day)
        assert stored["focus_ms"] == focus["totals"]["focus_ms"]
        assert stored["longest_focus_ms"] == (focus["totals"]["longest_ms"] or 0)
        usage = ask_for(api, carol, "/api/v1/analytics/app-usage", **range_of_day)
        assert stored["top_apps"] == [
            {"app": row["app"], "total_ms": row["total_ms"]}
            for row in usage["data"]
            if row["total_ms"] > 0
        ]


def store(owner: Rows, person: Person, *days: str) -> None:
    """Write summaries as the job would."""
    for day in days:
        owner.execute(
            """
            insert into activity.daily_summary (
                user_id, date, tz, status, final_at, tracked_ms, productive_ms, neutral_ms, distracted_ms,
                coding_ms, app_switches, focus_ms, longest_focus_ms, top_apps, top_categories, top_projects
            )
            values (%s, %s, 'UTC', 'final', now(), 4, 1, 2, 1, 0, 0, 0, 0, '[]', '[]', '[]')
            """,
            [person.user_id, day],
        )


def test_pages_neither_skip_nor_repeat_while_days_are_added(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    store(owner, alice, *(f"2025-06-{day:02}" for day in range(1, 30, 2)))

    first = ask(api, alice, limit=5)
    store(owner, alice, "2025-06-30", "2025-06-28")
    second = ask(api, alice, limit=5, cursor=first["next_cursor"])
    third = ask(api, alice, limit=5, cursor=second["next_cursor"])

    pages = [first, second, third]
    assert [day["date"] for page in pages for day in page["data"]] == [
        f"2025-06-{day:02}" for day in range(29, 0, -2)
    ]
    assert [page["has_more"] for page in pages] == [True, True, False]
    assert third["next_cursor"] is None


def test_a_range_includes_both_ends(api: TestClient, owner: Rows, alice: Person) -> None:
    store(owner, alice, "2025-06-15", "2025-06-16", "2025-06-17", "2025-06-18")

    both = ask(api, alice, start="2025-06-16", end="2025-06-17")
    since = ask(api, alice, start="2025-06-17")
    until = ask(api, alice, end="2025-06-15")

    assert [day["date"] for day in both["data"]] == ["2025-06-17", "2025-06-16"]
    assert [day["date"] for day in since["data"]] == ["2025-06-18", "2025-06-17"]
    assert [day["date"] for day in until["data"]] == ["2025-06-15"]


@pytest.mark.parametrize(("limit", "kept"), [("0", 0), ("366", 366), ("367", 366), ("9" * 30, 366)])
def test_a_limit_above_the_maximum_of_summaries_is_the_maximum(
    api: TestClient, alice: Person, limit: str, kept: int
) -> None:
    assert ask(api, alice, limit=limit)["limit"] == kept


def test_bob_sees_nothing_of_alices(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    store(owner, alice, "2025-06-16")

    assert ask(api, bob)["data"] == []


def test_consecutive_days_form_one_range() -> None:
    days = [date(2025, 6, day) for day in (3, 1, 2, 5, 9, 8)]

    assert list(in_a_row(days)) == [
        (date(2025, 6, 1), date(2025, 6, 3)),
        (date(2025, 6, 5), date(2025, 6, 5)),
        (date(2025, 6, 8), date(2025, 6, 9)),
    ]
    assert list(in_a_row(days, most=2)) == [
        (date(2025, 6, 1), date(2025, 6, 2)),
        (date(2025, 6, 3), date(2025, 6, 3)),
        (date(2025, 6, 5), date(2025, 6, 5)),
        (date(2025, 6, 8), date(2025, 6, 9)),
    ]
    assert list(in_a_row([])) == []
