"""The receiver of messages about health, on a running server."""

import base64
import gzip
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import httpx2
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.settings import Settings
from tests.conftest import Person
from tests.integrations.more_samples import screen_time_message
from tests.receivers import life_dashboard
from tests.receivers.connecting import Connected, Served, connect, serving
from tests.receivers.life_dashboard import HOUR, START, Part
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]
Message = dict[str, Any]

METRICS = {
    "steps": ("steps", Decimal(1)),
    "distance": ("distance_m", Decimal(1)),
    "active_calories": ("active_energy_kj", Decimal("4.184")),
    "heart_rate": ("heart_rate", Decimal(1)),
    "oxygen_saturation": ("blood_oxygen_percent", Decimal(1)),
    "heart_rate_variability": ("hrv_rmssd_ms", Decimal(1)),
}
"""The metric of each list of the strategies, and the factor to its unit."""


@pytest.fixture(scope="module")
def served(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with the receiver of health alone."""
    with serving(deployment, tmp_path_factory.mktemp("server"), "health") as running:
        yield running


@pytest.fixture
def client(served: Served) -> httpx2.Client:
    return served.client


@pytest.fixture
def phone(owner: Rows, alice: Person) -> Connected:
    """Alice's phone, connected."""
    return connect(owner, alice, "health")


def post(client: httpx2.Client, phone: Connected, message: Message) -> dict[str, Any]:
    """Send a message, and return the counts of the answer."""
    body = json.dumps(message).encode()
    answer = client.post("/receive/health", content=body, headers=phone.bearer)
    assert answer.status_code == 200, answer.text
    counts: dict[str, Any] = answer.json()
    assert counts.pop("status") == "ok"
    return counts


def summary(client: httpx2.Client, person: Person) -> dict[str, dict[str, Any]]:
    """Return what the API says of each metric in the time of the strategies."""
    answer = client.get(
        "/api/v1/health/summary",
        params={
            "from": (START - 24 * HOUR).isoformat(),
            "to": (START + 96 * HOUR).isoformat(),
            "tz": "UTC",
        },
        headers={"Authorization": f"Bearer {person.token('read:health')}"},
    )
    assert answer.status_code == 200, answer.text
    return {row["metric_type"]: row for row in answer.json()["data"]}


def dashboard(number: int = 0, /, **lists: Any) -> Message:
    """Return a message of Life Dashboard Companion; each number gives another one."""
    return {
        "timestamp": f"2026-03-02T12:00:{number:02}Z",
        "app_version": "2.4.0",
        "source": "health_connect",
    } | lists


def steps(count: int, uuid: str | None = None) -> Message:
    """Return a record of steps."""
    record = {"count": count, "start_time": "2026-03-02T08:00:00Z"}
    return record | {"end_time": "2026-03-02T09:00:00Z"} | ({"uuid": uuid} if uuid else {})


def bucket(**measured: Any) -> Message:
    """Return the part of a bucket."""
    return {"bucket_start": "2026-03-02T08:00:00Z", "bucket_end": "2026-03-02T09:00:00Z"} | measured


# Any split, order and repetition


def expected(parts: list[Part]) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """Return the total of each metric that adds up, and the mean of each other one."""
    totals: dict[str, Fraction] = defaultdict(Fraction)
    samples: dict[str, dict[str, Fraction]] = defaultdict(dict)
    merged: dict[tuple[str, str], list[tuple[Fraction, int]]] = defaultdict(list)
    for name, element, is_bucket in parts:
        metric, factor = METRICS[name]
        if is_bucket and "total" in element:
            totals[metric] += _fraction(element["total"]) * Fraction(factor)
        elif is_bucket:
            part = (_fraction(element["avg"]), element["sample_count"])
            merged[metric, element["bucket_start"]].append(part)
        else:
            member = next(
                iter(element.keys() - {"time", "start_time", "end_time", "uuid", "source"})
            )
            if "time" in element:
                samples[metric][element["time"]] = _fraction(element[member])
            else:
                totals[metric] += _fraction(element[member]) * Fraction(factor)
    for (metric, start), some in merged.items():
        total = sum((value * count for value, count in some), Fraction())
        mean = total / sum(count for _, count in some)
        samples[metric][start] = _whole(mean) if metric == "heart_rate" else mean
    means = {
        metric: sum(values.values(), Fraction()) / len(values) for metric, values in samples.items()
    }
    return dict(totals), means


def _fraction(number: float) -> Fraction:
    return Fraction(repr(number))


def _whole(mean: Fraction) -> Fraction:
    exact = Decimal(mean.numerator) / Decimal(mean.denominator)
    return Fraction(exact.quantize(Decimal(1), ROUND_HALF_UP))


@settings(max_examples=20)
@given(data=st.data())
def test_any_split_order_and_repetition_gives_the_same_totals(
    client: httpx2.Client, owner: Rows, alice: Person, phone: Connected, data: st.DataObject
) -> None:
    parts = data.draw(life_dashboard.parts())
    messages = data.draw(life_dashboard.deliveries(parts))
    for table in ("sample", "heart_rate", "bucket", "message"):
        owner.execute(f"delete from health.{table}")  # noqa: S608 -- names of this test

    for message in messages:
        post(client, phone, message)

    rows = summary(client, alice)
    totals, means = expected(parts)
    assert rows.keys() == totals.keys() | means.keys()
    for metric, total in totals.items():
        assert rows[metric]["total"] == pytest.approx(float(total), abs=0.0051)
    for metric, mean in means.items():
        assert rows[metric]["average"] == pytest.approx(float(mean), abs=0.0051)


def test_a_body_that_comes_again_at_once_is_added_once(
    client: httpx2.Client, alice: Person, phone: Connected
) -> None:
    message = dashboard(steps=[bucket(sample_count=2, total=100)])
    together = threading.Barrier(4)

    def send(_: int) -> dict[str, Any]:
        together.wait(60)
        return post(client, phone, message)

    with ThreadPoolExecutor(4) as threads:
        counts = list(threads.map(send, range(4)))

    assert sorted(each["added"] for each in counts) == [0, 0, 0, 1]
    assert summary(client, alice)["steps"]["total"] == 100


def test_a_message_and_an_import_add_metrics_in_one_order(
    client: httpx2.Client, owner: Rows, alice: Person, phone: Connected
) -> None:
    add = "insert into health.metric values (%s, %s, %s, 'sum') on conflict do nothing"
    message = dashboard(
        steps=[steps(100)], active_calories=[bucket(sample_count=1, total=1, unit="kcal")]
    )

    with ThreadPoolExecutor(1) as thread:
        with owner.transaction():
            owner.execute(add, [alice.user_id, "active_energy_kj", "kJ"])
            sent = thread.submit(post, client, phone, message)
            wait_for_rivals(owner, 1)
            # The message does not wait with this metric already.
            owner.execute(add, [alice.user_id, "steps", "count"])
        counts = sent.result(30)

    assert (counts["added"], counts["refused"]) == (2, 0)


def test_two_messages_write_what_measured_in_one_order(
    client: httpx2.Client, owner: Rows, alice: Person, phone: Connected
) -> None:
    add = (
        "insert into health.source (user_id, provider, name, kind, priority) "
        "values (%s, 'life_dashboard', %s, 'other', 100) on conflict do nothing"
    )
    pulse = {"time": "2026-03-02T08:00:00Z", "bpm": 60, "source": "Belt"}
    message = dashboard(steps=[steps(100) | {"source": "Watch"}], heart_rate=[pulse])

    with ThreadPoolExecutor(1) as thread:
        with owner.transaction():
            owner.execute(add, [alice.user_id, "Belt"])
            sent = thread.submit(post, client, phone, message)
            wait_for_rivals(owner, 1)
            # The message does not wait with this row already.
            owner.execute(add, [alice.user_id, "Watch"])
        counts = sent.result(30)

    assert (counts["added"], counts["refused"]) == (2, 0)


def test_two_messages_write_records_in_one_order(
    client: httpx2.Client, owner: Rows, phone: Connected
) -> None:
    lock = "select from health.sample where provider_key like '%%' || %s for update"
    # More than one statement takes, and the last one comes first.
    uuids = ["b", *(f"a{number:04}" for number in range(1000))]
    post(client, phone, dashboard(1, steps=[steps(1, uuid) for uuid in uuids]))
    message = dashboard(2, steps=[steps(2, uuid) for uuid in uuids])

    with ThreadPoolExecutor(1) as thread:
        with owner.transaction():
            owner.execute(lock, ["a0999"])
            sent = thread.submit(post, client, phone, message)
            wait_for_rivals(owner, 1)
            # The message does not wait with this row already.
            owner.execute(lock, ["b"])
        counts = sent.result(30)

    assert (counts["changed"], counts["refused"]) == (1001, 0)


def test_parts_of_a_bucket_keep_their_count_minimum_and_maximum(
    client: httpx2.Client, owner: Rows, alice: Person, phone: Connected
) -> None:
    early = bucket(sample_count=3, avg=70, min=60, max=80)
    late = bucket(sample_count=1, avg=90, min=90, max=90)

    first = post(client, phone, dashboard(1, heart_rate=[early]))
    second = post(client, phone, dashboard(2, heart_rate=[late]))

    assert [(each["added"], each["changed"]) for each in (first, second)] == [(1, 0), (0, 1)]
    assert summary(client, alice)["heart_rate"]["average"] == 75
    assert owner.execute(
        "select sample_count, total, minimum, maximum from health.bucket"
    ).fetchall() == [(4, 300, 60, 90)]


def test_a_message_is_remembered_for_thirty_days(
    client: httpx2.Client, owner: Rows, phone: Connected
) -> None:
    message = dashboard(steps=[bucket(sample_count=2, total=100)])
    post(client, phone, message)

    owner.execute("update health.message set received_at = now() - interval '29 days 23 hours'")
    again = post(client, phone, message)
    owner.execute("update health.message set received_at = now() - interval '30 days 1 hour'")
    later = post(client, phone, message)

    assert [again["read"], later["read"]] == [0, 1]


# What comes again


def test_a_record_with_an_id_is_replaced_by_its_newer_version(
    client: httpx2.Client, alice: Person, phone: Connected
) -> None:
    first = post(client, phone, dashboard(1, steps=[steps(500, "a")]))
    changed = post(client, phone, dashboard(2, steps=[steps(300, "a")]))
    same = post(client, phone, dashboard(3, steps=[steps(300, "a")]))

    assert [(n["added"], n["changed"], n["known"]) for n in (first, changed, same)] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]
    assert summary(client, alice)["steps"]["total"] == 300


def test_totals_of_days_count_instead_of_records(
    client: httpx2.Client, alice: Person, phone: Connected
) -> None:
    days = [{"date": "2026-03-02", "steps": 800}]
    late = dashboard(2, daily_totals=[{"date": "2026-03-02", "steps": 8421}])

    post(client, phone, late | {"timestamp": "2026-03-03T06:00:00Z"})
    post(client, phone, dashboard(1, steps=[steps(9999, "a")], daily_totals=days))

    assert summary(client, alice)["steps"]["total"] == 8421


def test_a_larger_sum_and_a_newer_average_of_health_auto_export_replace_what_was_there(
    client: httpx2.Client, alice: Person, phone: Connected
) -> None:
    for count, weight in ((100, 70), (250, 80), (150, 75)):
        metrics = [
            {
                "name": name,
                "units": units,
                "data": [
                    {"date": "2026-03-02 08:00:00 +0000", "qty": value, "source": "Watch|Phone"},
                    {"date": "2026-03-02 09:00:00 +0000", "qty": 1},
                ],
            }
            for name, units, value in (
                ("step_count", "count", count),
                ("weight_body_mass", "kg", weight),
            )
        ]
        post(client, phone, {"data": {"metrics": metrics}})

    rows = summary(client, alice)
    assert (rows["steps"]["total"], rows["weight_kg"]["maximum"]) == (251, 75)


def test_the_day_of_health_connect_webhook_grows_and_never_shrinks(
    client: httpx2.Client, alice: Person, phone: Connected
) -> None:
    def day(count: int, end: str) -> Message:
        record = {"count": count, "start_time": "2026-03-02T00:00:00Z", "end_time": end}
        return {"timestamp": end, "app_version": "1.9.13", "steps": [record]}

    whole = "2026-03-03T00:00:00Z"
    for message in (day(900, "2026-03-02T20:00:00.5Z"), day(400, "2026-03-02T10:00:00.5Z")):
        post(client, phone, message)
    post(client, phone, day(1200, whole))
    post(client, phone, day(700, whole) | {"app_version": "1.9.14"})

    assert summary(client, alice)["steps"]["total"] == 1200


# Sleep in stages


def stages(*written: tuple[str, str, str]) -> Message:
    """Return a message of Health Auto Export with stages of the night to the 2nd of March."""
    data = [
        {
            "startDate": f"{start}:00 +0000",
            "endDate": f"{end}:00 +0000",
            "value": kind,
            "source": "Watch",
        }
        for kind, start, end in written
    ]
    return {"data": {"metrics": [{"name": "sleep_analysis", "units": "hr", "data": data}]}}


EVENING = ("Core", "2026-03-01 22:00", "2026-03-01 23:30")
NIGHT = ("Deep", "2026-03-02 01:00", "2026-03-02 03:00")
MORNING = ("REM", "2026-03-02 04:30", "2026-03-02 06:00")
LATE_NAP = ("Core", "2026-03-02 07:00", "2026-03-02 07:30")
IN_BED = ("In Bed", "2026-03-01 22:00", "2026-03-02 06:30")


@pytest.mark.parametrize(
    "messages",
    [
        [stages(EVENING, NIGHT, MORNING, IN_BED)],
        [stages(MORNING), stages(EVENING), stages(NIGHT), stages(IN_BED)],
        [stages(IN_BED), stages(MORNING, NIGHT), stages(NIGHT, EVENING), stages(MORNING)],
    ],
    ids=["at once", "backwards", "overlapping"],
)
def test_stages_of_a_night_are_one_sleep_however_they_come(
    client: httpx2.Client, owner: Rows, phone: Connected, messages: list[Message]
) -> None:
    for message in messages:
        post(client, phone, message)

    hour = 3_600_000
    assert owner.execute(
        "select started_at, in_bed_ms, asleep_ms, light_ms, deep_ms, rem_ms, is_nap from health.sleep"
    ).fetchall() == [
        (
            datetime(2026, 3, 1, 22, tzinfo=UTC),
            8.5 * hour,
            5 * hour,
            1.5 * hour,
            2 * hour,
            1.5 * hour,
            False,
        )
    ]


def test_stages_of_a_part_of_a_night_never_replace_a_sleep_whose_stages_are_gone(
    client: httpx2.Client, owner: Rows, phone: Connected
) -> None:
    post(client, phone, stages(EVENING, NIGHT, MORNING))
    owner.execute("update health.sleep_stage set received_at = now() - interval '31 days'")

    # An export of a range begins at midnight.
    post(client, phone, stages(NIGHT, MORNING))
    post(client, phone, stages(MORNING, LATE_NAP))

    assert owner.execute("select asleep_ms from health.sleep").fetchall() == [(18_000_000,)]
    assert owner.execute("select count(*) from health.sleep_stage").fetchone() == (3,)


def test_time_in_bed_of_two_days_never_removes_a_sleep_that_it_touches(
    client: httpx2.Client, owner: Rows, phone: Connected
) -> None:
    post(client, phone, stages(NIGHT))
    days = ("In Bed", "2026-03-02 02:00", "2026-03-04 01:00")
    post(client, phone, stages(days, ("Core", "2026-03-04 00:30", "2026-03-04 02:00")))

    assert owner.execute("select asleep_ms from health.sleep").fetchall() == [(7_200_000,)]


def test_stages_with_microseconds_are_a_sleep(
    client: httpx2.Client, owner: Rows, phone: Connected
) -> None:
    message = json.dumps(stages(NIGHT)).replace(":00 +0000", ":00.123456 +0000")
    post(client, phone, json.loads(message))

    assert owner.execute("select asleep_ms from health.sleep").fetchall() == [(7_200_000,)]


def test_stages_never_remove_what_another_connection_brought(
    client: httpx2.Client, owner: Rows, alice: Person, bob: Person, phone: Connected
) -> None:
    other = connect(owner, bob, "health")
    post(client, other, stages(NIGHT))

    post(client, phone, stages(EVENING, NIGHT, MORNING))

    assert owner.execute(
        "select user_id, asleep_ms from health.sleep order by asleep_ms"
    ).fetchall() == [(bob.user_id, 7_200_000), (alice.user_id, 18_000_000)]


# Keys and answers


def _basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Authorization", "Bearer {}"),
        ("authorization", "token {}"),
        ("X-API-Key", "{}"),
        ("X-Auth-Token", "Bearer {}"),
        ("My-Own-Header", "{}"),
    ],
)
def test_the_key_may_be_in_any_header(
    client: httpx2.Client, phone: Connected, name: str, form: str
) -> None:
    headers = {name: form.format(phone.key)}

    answer = client.post("/receive/health", json=dashboard(steps=[steps(1)]), headers=headers)

    assert answer.status_code == 200


def test_the_key_may_be_a_user_name_or_a_password(client: httpx2.Client, phone: Connected) -> None:
    for text in (f"{phone.key}:", f"health:{phone.key}"):
        headers = {"Authorization": _basic(text)}
        answer = client.post("/receive/health", json=dashboard(), headers=headers)
        assert answer.status_code == 200


def test_a_wrong_key_is_401_and_stores_nothing(
    client: httpx2.Client, owner: Rows, alice: Person, phone: Connected
) -> None:
    music = connect(owner, alice, "listenbrainz")
    wrong = [{}, {"Authorization": "Bearer x"}, {"X-API-Key": music.key}, music.bearer]

    answers = [
        client.post("/receive/health", json=dashboard(steps=[steps(1)]), headers=headers)
        for headers in wrong
    ]

    assert {answer.status_code for answer in answers} == {401}
    assert answers[0].json()["error"] == "unauthorized"
    assert owner.execute("select from health.sample").fetchall() == []


def test_a_paused_connection_answers_success_and_stores_nothing(
    client: httpx2.Client, owner: Rows, phone: Connected
) -> None:
    phone.pause()

    counts = post(client, phone, dashboard(steps=[steps(1)]))

    assert counts["read"] == 0
    assert owner.execute("select from health.message").fetchall() == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b'{"a":1}', b'{"data":' * 50_000, b"[" + b"0," * 1_100_000],
    ids=["empty", "list", "cut off", "bytes", "other", "deep", "long"],
)
def test_a_body_of_an_unknown_shape_is_400_and_counted(
    client: httpx2.Client, phone: Connected, body: bytes
) -> None:
    answer = client.post("/receive/health", content=body, headers=phone.bearer)

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert answer.json()["message"].startswith("the body ")
    assert phone.refusals == {"unknown_message": 1}


def test_good_records_of_a_message_with_bad_ones_are_kept(
    client: httpx2.Client, alice: Person, phone: Connected
) -> None:
    message = dashboard(
        steps=[
            steps(10, "good"),
            steps(-1),
            {"count": 1},
            None,
            steps(10**16),
            steps(5) | {"source": "\ud800"},
        ],
        heart_rate=[
            {"bpm": 0, "time": "2026-03-02T08:00:00Z"},
            bucket(sample_count=0, avg=70, min=60, max=80),
            bucket(sample_count=5, avg=700, min=60, max=80),
            bucket(sample_count=5, avg=70, min=60, max=1e16),
        ],
        weight=[{"kilograms": 70, "time": "2126-03-02T08:00:00Z"}],
        moods=[{"mood": "good"}],
        exercise=[{"type": "running"}],
    )

    counts = post(client, phone, message)

    assert counts == {"read": 13, "added": 1, "changed": 0, "known": 0, "refused": 12}
    assert summary(client, alice)["steps"]["total"] == 10
    assert phone.refusals == {
        "value_out_of_range": 6,
        "missing_time": 1,
        "not_an_object": 1,
        "unstorable_text": 1,
        "timestamp_in_future": 1,
        "unknown_metric": 1,
        "workouts_are_not_kept": 1,
    }


def test_the_newest_count_of_screen_time_is_kept(
    client: httpx2.Client, alice: Person, phone: Connected
) -> None:
    first = screen_time_message()
    [day] = first["screen_time"]
    grown = day | {"apps": [day["apps"][0] | {"minutes": 50}, {"package": "maps", "minutes": 1}]}
    later = screen_time_message(timestamp="2025-06-16T10:00:00Z", screen_time=[grown])

    counts = [post(client, phone, each) for each in (first, later, first | {"again": True})]

    assert [(each["added"], each["changed"], each["known"]) for each in counts] == [
        (1, 0, 0),
        (1, 1, 0),
        (0, 0, 1),
    ]
    answer = client.get(
        "/api/v1/analytics/day-timeline",
        params={"date": "2025-06-16", "tz": "UTC"},
        headers={"Authorization": f"Bearer {alice.token('read:activity')}"},
    )
    shown = [(each["app"], each["duration_ms"]) for each in answer.json()["screen_time"]]
    assert shown == [("org.mozilla.firefox", 3_000_000), ("maps", 60_000)]
    assert answer.json()["screen_time"][0]["source"] == "life_dashboard"


def test_a_body_of_twenty_mebibytes_is_taken_and_a_larger_one_is_413(
    client: httpx2.Client, owner: Rows, phone: Connected
) -> None:
    filled = dashboard(steps=[steps(1)]) | {"_diagnostics": "x" * (20 * 1024 * 1024 - 300)}
    body = json.dumps(filled).encode()
    headers = phone.bearer | {"Content-Encoding": "gzip"}

    answers = [
        client.post("/receive/health", content=gzip.compress(each), headers=headers)
        for each in (body, body.replace(b"x" * 400, b"x" * 1400, 1))
    ]

    assert [answer.status_code for answer in answers] == [200, 413]
    assert owner.execute("select value from health.sample").fetchall() == [(1.0,)]


def test_what_an_application_brought_goes_with_its_connection(
    client: httpx2.Client, owner: Rows, alice: Person, phone: Connected
) -> None:
    message = dashboard(steps=[bucket(sample_count=2, total=100)])
    post(client, phone, message)
    post(client, phone, stages(EVENING))
    post(client, phone, screen_time_message())

    owner.execute(
        "select svc.remove_import(user_id, import_id) from profile.connection where user_id = %s",
        [alice.user_id],
    )

    for table in ("sample", "sleep", "sleep_stage", "bucket", "message"):
        rows = owner.execute(f"select from health.{table}").fetchall()
        assert rows == [], table
    assert owner.execute("select from activity.screen_time").fetchall() == []
    assert post(client, phone, message)["added"] == 1
    assert summary(client, alice)["steps"]["total"] == 100
