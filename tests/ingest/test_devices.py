"""Other effects of a batch: devices, their counts, and days to sum up again."""

import asyncio
import random
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.api import session
from resourceserver.api.errors import Unauthorized
from resourceserver.ingest.events import APP_SESSIONS, MAX_DEVICES, judge, read_batch
from shared import database, tokens
from shared.pipeline import Pipelines
from shared.settings import Settings
from tests.conftest import Person
from tests.ingest.conftest import HOUR, PATH, SCOPE, Exchange, numbered
from tests.ingest.test_transaction import encoded, together, write
from tests.waiting import wait_for_rivals

CODING_PATH = "/api/v1/ingest/coding-sessions"
CODING_SCOPE = "ingest:coding_sessions"
CODING = {
    "idempotency_key": "1",
    "started_at": "2025-06-16T11:00:00Z",
    "duration_ms": 60_000,
    "project": "svc",
}


def streams(person: Person, columns: str = "name, stream, event_count, last_event_at") -> list[Any]:
    return person.connection.execute(
        f"select {columns} from activity.device_stream"  # noqa: S608 - columns are ours
        " join activity.device using (user_id, device_id) where user_id = %s"
        ' order by name collate "C", stream',
        [person.user_id],
    ).fetchall()


def due(person: Person) -> list[date]:
    return [
        day
        for (day,) in person.connection.execute(
            "select date from activity.summary_due where user_id = %s order by date",
            [person.user_id],
        )
    ]


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2025, 6, 16, hour, minute, tzinfo=UTC)


def test_each_device_counts_its_events_of_each_stream(api: TestClient, alice: Person) -> None:
    events = [
        HOUR | {"idempotency_key": "1", "device": "laptop"},
        HOUR | {"idempotency_key": "2", "device": "laptop", "ended_at": "2025-06-16T10:30:00Z"},
        HOUR | {"idempotency_key": "3", "device": "laptop", "ended_at": "2025-06-16T09:30:00Z"},
        HOUR | {"idempotency_key": "3", "device": "laptop"},
        HOUR | {"idempotency_key": "4", "device": "phone"},
        HOUR | {"idempotency_key": "5", "device": "never", "app": ""},
    ]

    api.post(PATH, json={"events": events}, headers=alice.headers(SCOPE))
    coding = {"events": [CODING | {"device": "laptop"}]}
    api.post(CODING_PATH, json=coding, headers=alice.headers(CODING_SCOPE))

    assert streams(alice) == [
        ("laptop", "app_sessions", 3, at(10, 30)),
        ("laptop", "coding_sessions", 1, at(11, 1)),
        ("phone", "app_sessions", 1, at(10)),
    ]


def test_a_batch_of_duplicates_is_a_sync_and_counts_nothing(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)
    batch = {"events": numbered([1, 2]), "client": {"name": "laptop/1.0"}}
    api.post(PATH, json=batch, headers=headers)
    alice.connection.execute(
        "update activity.device_stream set last_sync_at = '2025-01-01', source = 'laptop/0.9'"
    )
    longer = HOUR | {"idempotency_key": "laptop:1", "ended_at": "2025-06-16T12:00:00Z"}

    before = clock(alice.connection)
    api.post(PATH, json=batch | {"events": [longer]}, headers=headers)

    ((name, count, event_at, source, sync_at),) = streams(
        alice, "name, event_count, last_event_at, source, last_sync_at"
    )
    assert (name, count, event_at, source) == ("laptop", 2, at(10), "laptop/1.0")
    assert before <= sync_at <= clock(alice.connection)


def clock(connection: psycopg.Connection[Any]) -> datetime:
    """Return the time by the clock of the database."""
    (now,) = connection.execute("select clock_timestamp()").fetchone() or (None,)
    assert isinstance(now, datetime)
    return now


def test_a_duplicate_counts_for_no_device(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)
    api.post(PATH, json={"events": [HOUR | {"device": "laptop"}]}, headers=headers)

    api.post(PATH, json={"events": [HOUR | {"device": "phone"}]}, headers=headers)

    assert streams(alice) == [
        ("laptop", "app_sessions", 1, at(10)),
        ("phone", "app_sessions", 0, None),
    ]


def test_a_refused_batch_is_no_sync(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)

    api.post(PATH, json={"events": []}, headers=headers)
    api.post(PATH, json={"events": [HOUR | {"app": ""}]}, headers=headers)
    api.post(PATH, json={"events": [HOUR] * 1001}, headers=headers)

    assert streams(alice) == []
    assert due(alice) == []


def test_older_events_leave_the_newest_end_as_it_is(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)
    older = {"idempotency_key": "old", "started_at": "2024-01-01T00:00:00Z", "ended_at": None}
    api.post(PATH, json={"events": [HOUR]}, headers=headers)

    api.post(PATH, json={"events": [HOUR | older | {"duration_ms": 5}]}, headers=headers)

    assert streams(alice) == [("default", "app_sessions", 2, at(10))]


def test_a_sync_that_began_earlier_does_not_replace_a_newer_time(
    api: TestClient, alice: Person
) -> None:
    headers = alice.headers(SCOPE)
    api.post(PATH, json={"events": [HOUR], "client": {"name": "default/1"}}, headers=headers)
    alice.connection.execute(
        "update activity.device_stream set last_sync_at = '2999-01-01', source = 'default/2'"
    )

    api.post(PATH, json={"events": [HOUR], "client": {"name": "default/1"}}, headers=headers)

    ((sync_at, source),) = streams(alice, "last_sync_at, source")
    assert (sync_at.year, source) == (2999, "default/2")


def test_a_tracker_that_no_longer_sends_its_name_has_none(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)
    event = HOUR | {"device": "laptop"}

    api.post(PATH, json={"events": [event], "client": {"name": "x/1"}}, headers=headers)
    api.post(PATH, json={"events": [event]}, headers=headers)

    assert streams(alice, "source") == [(None,)]


def test_a_platform_is_recorded_once(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)

    def platform_after(sent: str | None) -> str | None:
        event = HOUR | {"platform": sent}
        api.post(PATH, json={"events": [event]}, headers=headers)
        row = alice.connection.execute("select platform from activity.device").fetchone()
        assert row is not None
        found: str | None = row[0]
        return found

    assert [platform_after(sent) for sent in (None, "linux", "macos", None)] == [
        None,
        "linux",
        "linux",
        "linux",
    ]


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        ("2025-06-16T00:00:00Z", "2025-06-16T00:00:00Z", [16]),
        ("2025-06-15T23:59:59.999Z", "2025-06-16T00:00:00Z", [15]),
        ("2025-06-15T23:59:59.999Z", "2025-06-16T00:00:00.001Z", [15, 16]),
        ("2025-06-16T00:00:00Z", "2025-06-17T00:00:00Z", [16]),
        ("2025-06-16T23:00:00-02:00", "2025-06-16T23:30:00-02:00", [17]),
        ("2025-06-15T12:00:00Z", "2025-06-16T12:00:00Z", [15, 16]),
    ],
)
def test_the_days_in_utc_that_a_new_event_overlaps_are_marked(
    api: TestClient, alice: Person, bob: Person, start: str, end: str, days: list[int]
) -> None:
    event = HOUR | {"started_at": start, "ended_at": end}

    api.post(PATH, json={"events": [event]}, headers=alice.headers(SCOPE))

    assert due(alice) == [date(2025, 6, day) for day in days]
    assert due(bob) == []


def test_duplicates_mark_no_day_and_new_events_mark_theirs_again(
    api: TestClient, alice: Person
) -> None:
    headers = alice.headers(CODING_SCOPE)
    first, second, third = (
        CODING | {"idempotency_key": f"{day}", "started_at": f"2025-06-{day}T11:00:00Z"}
        for day in (16, 17, 18)
    )
    api.post(CODING_PATH, json={"events": [first, second]}, headers=headers)
    alice.connection.execute("update activity.summary_due set marked_at = '2025-01-01'")
    more_of_the_second_day = second | {"idempotency_key": "new"}

    api.post(CODING_PATH, json={"events": [first, more_of_the_second_day, third]}, headers=headers)

    assert alice.connection.execute(
        "select date, marked_at = '2025-01-01' from activity.summary_due order by date"
    ).fetchall() == [
        (date(2025, 6, 16), True),
        (date(2025, 6, 17), False),
        (date(2025, 6, 18), False),
    ]


def test_a_renewed_mark_differs_even_if_the_clock_has_not_moved(
    api: TestClient, alice: Person
) -> None:
    headers = alice.headers(CODING_SCOPE)
    api.post(CODING_PATH, json={"events": [CODING]}, headers=headers)
    alice.connection.execute("update activity.summary_due set marked_at = '2100-01-01'")
    new = CODING | {"idempotency_key": "new"}

    api.post(CODING_PATH, json={"events": [new]}, headers=headers)

    assert alice.connection.execute(
        "select marked_at > '2100-01-01' from activity.summary_due"
    ).fetchall() == [(True,)]


HOLD_DAY = """
insert into activity.summary_due (user_id, date) select user_id, '2025-06-16' from identity.user
"""


def test_a_token_revoked_between_the_events_and_the_counters_writes_nothing(
    deployment: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token(SCOPE))
    assert token is not None
    who = session.Credential(token, (SCOPE,), ())
    batch = read_batch({"events": numbered([1, 2])})
    rows = judge(APP_SESSIONS, batch, now_ms=2**42, full_urls=False).rows

    async def run() -> None:
        login = database.login(deployment, "ingester")
        with closing(Pipelines.to(login, size=1, depth=1, patience_s=30, prepare=True)) as writers:
            with owner.transaction(force_rollback=True):
                # The events are written, and then the mark of their day waits for another transaction.
                owner.execute(HOLD_DAY)
                later = asyncio.create_task(write(writers, who, rows))
                await asyncio.to_thread(wait_for_rivals, owner, 1)
                assert not later.done()
                with psycopg.connect(owner.info.dsn, password=owner.info.password) as other:
                    other.execute("update oauth.access_token set revoked_at = now()")
            with pytest.raises(Unauthorized):
                await later

    asyncio.run(run())
    assert owner.execute("select from activity.app_session").fetchall() == []
    assert due(alice) == []


# The ceiling


def give_devices(person: Person, count: int) -> None:
    person.connection.execute(
        "insert into activity.device (user_id, name)"
        " select %s, 'device ' || number from generate_series(1, %s) as number",
        [person.user_id, count],
    )


def device_count(person: Person) -> int:
    row = person.connection.execute(
        "select count(*) from activity.device where user_id = %s", [person.user_id]
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("path", "scope", "event"), [(PATH, SCOPE, HOUR), (CODING_PATH, CODING_SCOPE, CODING)]
)
def test_events_of_new_devices_over_the_limit_are_rejected_one_by_one(
    api: TestClient, alice: Person, bob: Person, path: str, scope: str, event: dict[str, Any]
) -> None:
    give_devices(alice, MAX_DEVICES - 1)
    batch = {
        "events": [
            event | {"idempotency_key": "1", "device": "last"},
            event | {"idempotency_key": "2", "device": "Beyond"},
            event | {"idempotency_key": "3", "device": "last", "started_at": "never"},
            event | {"idempotency_key": "4", "device": "device 7"},
            event | {"idempotency_key": "2", "device": "last"},
            event | {"idempotency_key": "4", "device": "device 7"},
        ]
    }

    answer = api.post(path, json=batch, headers=alice.headers(scope)).json()
    again = api.post(path, json=batch, headers=alice.headers(scope)).json()
    others = api.post(path, json=batch, headers=bob.headers(scope)).json()

    assert (answer["accepted"], answer["duplicates"]) == (2, 1)
    assert [(each["index"], each["code"]) for each in answer["rejected"]] == [
        (1, "too_many_devices"),
        (2, "invalid_timestamp"),
        (4, "too_many_devices"),
    ]
    assert (again["accepted"], again["duplicates"]) == (0, 3)
    assert again["rejected"] == answer["rejected"]
    assert [name for name, *_ in streams(alice)] == ["device 7", "last"]
    assert device_count(alice) == MAX_DEVICES
    assert others["accepted"] == 3


def test_concurrent_batches_stay_within_the_limit_of_devices(
    deployment: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    give_devices(alice, MAX_DEVICES - 1)
    token = tokens.parse(tokens.ACCESS, alice.token(SCOPE))
    assert token is not None
    who = session.Credential(token, (SCOPE,), ())
    names = ("device 1", "device 2", "one", "other")
    batch = read_batch(
        {"events": [HOUR | {"idempotency_key": name, "device": name} for name in names]}
    )
    rows = judge(APP_SESSIONS, batch, now_ms=2**42, full_urls=False).rows
    known, new = rows[:2], rows[2:]

    async def run() -> list[Any]:
        login = database.login(deployment, "ingester")
        with closing(Pipelines.to(login, size=2, depth=1, patience_s=30, prepare=True)) as writers:
            # Preparing a statement takes a lock on its tables.
            await asyncio.gather(*(write(writers, who, [row]) for row in known))
            with owner.transaction():
                # The first has added its device and waits here, while the second looks for room.
                owner.execute("lock table activity.app_session in exclusive mode")
                tasks = [asyncio.create_task(write(writers, who, [row])) for row in new]
                await asyncio.to_thread(wait_for_rivals, owner, 2)
            return await asyncio.gather(*tasks)

    written = asyncio.run(run())

    assert sorted((each.new, len(each.refused_devices)) for each in written) == [(0, 1), (1, 0)]
    assert device_count(alice) == MAX_DEVICES


def test_counters_are_right_under_eight_clients_with_overlapping_batches(
    api: TestClient, alice: Person
) -> None:
    chance = random.Random(7)
    headers = alice.headers(SCOPE, CODING_SCOPE)

    def batch(event: dict[str, Any]) -> bytes:
        start = datetime(2025, 6, 10, tzinfo=UTC)
        return encoded(
            *(
                event
                | {
                    "idempotency_key": f"{number}",
                    "device": f"device {number % 3}",
                    "started_at": (start + timedelta(minutes=31 * number)).isoformat(),
                    "ended_at": None,
                    "duration_ms": 60_000 + number,
                }
                for number in chance.sample(range(200), 120)
            )
        )

    app, coding = ([batch(event) for _ in range(4)] for event in (HOUR, CODING))
    posts = [(PATH, body) for body in app] + [(CODING_PATH, body) for body in coding]
    exchanges = [
        Exchange(
            api, {"Content-Type": "application/json"} | headers, iter([body]), ends=True, path=path
        )
        for path, body in posts
    ]

    async def run() -> None:
        await asyncio.gather(*(made.run() for made in exchanges))

    assert api.portal is not None
    api.portal.call(run)

    assert [made.status for made in exchanges] == [200] * 8
    for stream, table, made in (
        ("app_sessions", "app_session", exchanges[:4]),
        ("coding_sessions", "coding_session", exchanges[4:]),
    ):
        counted = alice.connection.execute(
            "select name, event_count, last_event_at from activity.device_stream"
            " join activity.device using (user_id, device_id) where stream = %s order by name",
            [stream],
        ).fetchall()
        rows = alice.connection.execute(
            f"select name, count(*), max(ended_at) from activity.{table}"  # noqa: S608 - ours
            " join activity.device using (user_id, device_id) group by name order by name"
        ).fetchall()
        assert counted == rows
        assert sum(each.body["accepted"] for each in made) == sum(row[1] for row in rows)
    assert due(alice) == [
        day
        for (day,) in alice.connection.execute(
            "select distinct (at - interval '1 millisecond')::date from ("
            " select started_at + interval '1 millisecond' from activity.app_session"
            " union all select ended_at from activity.app_session"
            " union all select started_at + interval '1 millisecond' from activity.coding_session"
            " union all select ended_at from activity.coding_session) as edge (at) order by 1"
        )
    ]


def test_rivals_with_the_same_events_count_them_once(api: TestClient, alice: Person) -> None:
    headers = alice.headers(SCOPE)

    together(api, [(headers, encoded(*numbered(range(100))))] * 8)

    assert streams(alice) == [("default", "app_sessions", 100, at(10))]


def in_opposite_order(
    api: TestClient, person: Person, hold: LiteralString, days: list[str]
) -> None:
    """Post two batches of three devices while another transaction locks the middle row that both change.

    ``days`` are those of the first batch and those of the second, three each.
    """
    headers = {"Content-Type": "application/json"} | person.headers(SCOPE)
    owner = person.connection
    batches = [
        [
            HOUR
            | {
                "idempotency_key": f"{half} {n}",
                "device": f"{n}",
                "started_at": f"{day}T09:00:00Z",
                "ended_at": f"{day}T10:00:00Z",
            }
            for n, day in enumerate(days[half : half + 3])
        ]
        for half in (0, 3)
    ]
    for batch in batches:
        older = [event | {"idempotency_key": f"old {event['idempotency_key']}"} for event in batch]
        api.post(PATH, json={"events": older}, headers=headers)
    bodies = encoded(*batches[0]), encoded(*reversed(batches[1]))
    rivals = [Exchange(api, headers, iter([body]), ends=True) for body in bodies]

    async def run() -> None:
        # Each rival has its first before any its last.
        owner.execute("begin")
        owner.execute(hold)
        answers = asyncio.gather(*(rival.run() for rival in rivals))
        await asyncio.to_thread(wait_for_rivals, owner, 2)
        owner.execute("rollback")
        await answers

    assert api.portal is not None
    api.portal.call(run)

    assert [rival.status for rival in rivals] == [200, 200]
    assert [row[2] for row in streams(person)] == [4, 4, 4]


def test_rivals_whose_days_come_in_opposite_order_do_not_deadlock(
    api: TestClient, alice: Person
) -> None:
    hold: LiteralString = "select from activity.summary_due where date = '2025-06-16' for update"

    in_opposite_order(api, alice, hold, ["2025-06-15", "2025-06-16", "2025-06-17"] * 2)


def test_rivals_whose_devices_come_in_opposite_order_do_not_deadlock(
    api: TestClient, alice: Person
) -> None:
    hold: LiteralString = """
        select from activity.device_stream
          join activity.device using (user_id, device_id)
         where name = '1'
           for update of device_stream
        """

    # Days of their own, so that they do not wait for each other's.
    in_opposite_order(api, alice, hold, [f"2025-06-1{n}" for n in range(6)])
