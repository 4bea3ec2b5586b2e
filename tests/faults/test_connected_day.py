"""A day of one person that arrives through all connections at once, while the database restarts.

Each application sends its messages in any order, again after each failure, and some of them twice. What the
API says of the day afterwards is compared with sums made of the same messages without the service.
"""

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import httpx2
import psycopg
import pytest

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.derived import derivation
from resourceserver.integrations.receivers.wakatime import BASE
from resourceserver.timeline import rounds
from shared import database
from shared.settings import Settings
from tests import https
from tests.conftest import Person, person
from tests.faults import crashing
from tests.https import plain
from tests.pulls.calendars import PATH, Worker, event, text
from tests.receivers.connecting import Served, connect, serving

pytestmark = pytest.mark.proof

RESTARTS: Final = 3
LONGEST_S: Final = 120.0
BEAT_S: Final = 45
DOUBLED: Final = 5
"""One message of so many is sent twice."""

BERLIN: Final = ZoneInfo("Europe/Berlin")
DAY: Final = datetime.now(BERLIN).date() - timedelta(days=2)


def at(hour: int, second: float = 0) -> datetime:
    """Return a time of the day."""
    midnight = datetime(DAY.year, DAY.month, DAY.day, tzinfo=BERLIN)
    return midnight.astimezone(UTC) + timedelta(hours=hour, seconds=second)


def epoch(instant: datetime) -> int:
    return int(instant.timestamp())


@dataclass(frozen=True)
class Message:
    """What an application sends in one request."""

    path: str
    body: Any
    headers: dict[str, str]
    is_answered: tuple[int, ...] = (200,)

    def is_taken(self, client: httpx2.Client) -> bool:
        """Send it; return whether it was answered with success."""
        try:
            answer = client.post(self.path, json=self.body, headers=self.headers)
        except httpx2.TransportError:
            return False
        # All these applications send again after such an answer, and nothing else is right here.
        assert answer.status_code in (*self.is_answered, 429, 503), answer.text
        return answer.status_code in self.is_answered


DEVICE: Final = "alice-laptop"
HOME, WORK = (52.5200, 13.4050), (52.4900, 13.3700)
TRACKS: Final = [f"Track {number}" for number in range(30)]
STEPS: Final = {hour: 137 * hour + 11 for hour in range(7, 23)}
"""The steps of each hour."""
PULSE: Final = {minute: 55 + minute % 70 for minute in range(600)}
"""The heart rate of each minute."""
WORDS: Final = [(9 * 3600, 12 * 3600), (13 * 3600, 14 * 3600), (15 * 3600 + 1000, 17 * 3600)]
"""Beginning and end of typing, in seconds of the day."""


def beats() -> list[Message]:
    """Return the beats of an editor, in bulks."""
    times = [second for first, last in WORDS for second in (*range(first, last, BEAT_S), last)]
    each = [
        {
            "time": epoch(at(0)) + second,
            "entity": "/src/notes/app.py",
            "type": "file",
            "category": "coding",
            "project": "notes",
            "language": "Python",
            "user_agent": "wakatime/13.1.0 (Linux) Python3.11 vim-wakatime/11",
        }
        for second in times
    ]
    random.shuffle(each)
    return [
        Message(f"{BASE}/users/current/heartbeats.bulk", each[start : start + 25], {}, (201, 202))
        for start in range(0, len(each), 25)
    ]


def listens() -> list[Message]:
    """Return plays, one at a time."""
    return [
        Message(
            "/1/submit-listens",
            {
                "listen_type": "single",
                "payload": [
                    {
                        "listened_at": epoch(at(19, 240 * number)),
                        "track_metadata": {
                            "artist_name": "Gorillaz",
                            "track_name": track,
                            "additional_info": {"duration_ms": 240_000},
                        },
                    }
                ],
            },
            {},
        )
        for number, track in enumerate(TRACKS)
    ]


def places_of_owntracks() -> list[Message]:
    """Return points at home until eight, every five minutes."""
    return [
        Message(
            "/receive/owntracks",
            {
                "_type": "location",
                "lat": HOME[0],
                "lon": HOME[1],
                "tst": epoch(at(0, second)),
                "acc": 8,
            },
            {"X-Limit-D": "phone"},
        )
        for second in range(0, 8 * 3600 + 1, 300)
    ]


def places_of_overland() -> list[Message]:
    """Return points at work from nine to five, every five minutes, ten at a time."""
    points = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [WORK[1], WORK[0]]},
            "properties": {
                "timestamp": f"{at(9, second):%Y-%m-%dT%H:%M:%SZ}",
                "horizontal_accuracy": 5,
            },
        }
        for second in range(0, 8 * 3600 + 1, 300)
    ]
    return [
        Message("/receive/overland", {"locations": points[start : start + 10]}, {})
        for start in range(0, len(points), 10)
    ]


def health() -> list[Message]:
    """Return steps of each hour, first a part of them and then all, and the heart rate of each minute."""

    def sent(name: str, units: str, data: list[dict[str, Any]]) -> Message:
        content = {"data": {"metrics": [{"name": name, "units": units, "data": data}]}}
        return Message("/receive/health", content, {})

    def date(hour: int, minute: int = 0) -> str:
        return f"{at(hour, 60 * minute).astimezone(BERLIN):%Y-%m-%d %H:%M:%S %z}"

    return [
        sent("step_count", "count", [{"date": date(hour), "qty": steps // part}])
        for hour, steps in STEPS.items()
        for part in (3, 1)
    ] + [
        sent(
            "heart_rate",
            "count/min",
            [
                {
                    "date": date(6, minute),
                    "Min": PULSE[minute],
                    "Avg": PULSE[minute],
                    "Max": PULSE[minute],
                }
                for minute in range(start, start + 60)
            ],
        )
        for start in range(0, len(PULSE), 60)
    ]


BY_KIND: Final = {
    "wakatime": beats,
    "listenbrainz": listens,
    "owntracks": places_of_owntracks,
    "overland": places_of_overland,
    "health": health,
}


def authorized(kind: str, key: str) -> list[Message]:
    """Return the messages of an application with its key."""
    return [
        replace(message, headers=message.headers | {"Authorization": f"Bearer {key}"})
        for message in BY_KIND[kind]()
    ]


def meetings() -> str:
    """Return a calendar with two meetings of the day, one of them weekly since the week before."""
    weekly = f"{at(10) - timedelta(days=7):%Y%m%dT%H%M%SZ}"
    once = f"{at(15):%Y%m%dT%H%M%SZ}"
    return text(
        event("weekly", weekly, "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=2", "SUMMARY:Weekly"),
        event("once", once, "DURATION:PT30M", "SUMMARY:Once"),
    )


async def derive(settings: Settings, of: Person) -> None:
    """Derive visits, as the worker does."""
    async with rounds.connected(database.login(settings, "worker")) as worker:
        await derivation.derive(worker, of.user_id)


def answers(client: httpx2.Client, headers: dict[str, str]) -> dict[str, Any]:
    """Return what the API says of the day."""
    span = {"from": f"{at(0):%Y-%m-%dT%H:%M:%SZ}", "to": f"{at(24):%Y-%m-%dT%H:%M:%SZ}"}

    def ask(path: str, **more: str) -> Any:
        answer = client.get(f"/api/v1/{path}", params=span | more, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    coding, music = ask("analytics/coding"), ask("music/daily", tz="Europe/Berlin")
    health = ask("health/summary", tz="Europe/Berlin")
    return {
        "coding": {row["project"]: row["total_ms"] for row in coding["data"]["projects"]},
        "listening": (music["totals"]["play_count"], music["totals"]["listened_ms"]),
        "points": len(ask("locations", limit="1000")["data"]),
        "visits": sorted(
            (row["started_at"], row["ended_at"]) for row in ask("locations/events")["data"]
        ),
        "steps": [row["total"] for row in health["data"] if row["metric_type"] == "steps"],
        "pulse": sorted(row["bpm"] for row in ask("health/heart-rate", limit="1000")["data"]),
        "meetings": sorted(
            (row["title"], row["duration_ms"]) for row in ask("calendar/events")["data"]
        ),
    }


def expected() -> dict[str, Any]:
    """Return the same, computed from what was sent."""

    def instants(first: datetime, last: datetime) -> tuple[str, str]:
        return (f"{first:%Y-%m-%dT%H:%M:%S}.000Z", f"{last:%Y-%m-%dT%H:%M:%S}.000Z")

    return {
        "coding": {"notes": sum(1000 * (last - first) for first, last in WORDS)},
        "listening": (len(TRACKS), 240_000 * len(TRACKS)),
        "points": 2 * (8 * 12 + 1),
        "visits": [instants(at(0), at(8)), instants(at(9), at(17))],
        "steps": [sum(STEPS.values())],
        "pulse": sorted(PULSE.values()),
        "meetings": [("Once", 1_800_000), ("Weekly", 3_600_000)],
    }


@dataclass(eq=False)
class Day:
    """Everything of the day: a database that restarts, a server with receivers, and a person."""

    postgres: EmbeddedPostgres
    settings: Settings
    served: Served
    taken: int = 0

    @contextmanager
    def owner(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the owner, for the time between two crashes."""
        url = self.settings.database_url or ""
        with closing(psycopg.connect(url, autocommit=True)) as opened:
            yield opened

    def send(self, messages: list[Message], until: float) -> None:
        """Send messages in any order, each again until it is taken, and some of them twice."""
        waiting = [*messages, *random.sample(messages, len(messages) // DOUBLED)]
        random.shuffle(waiting)
        while waiting:
            assert time.monotonic() < until, f"{len(waiting)} messages are not taken"
            message = waiting.pop()
            if message.is_taken(self.served.client):
                self.taken += 1
            else:
                waiting.insert(0, message)

    def restart(self, after: int, senders: list[Future[None]]) -> None:
        """Kill the database after so many messages are taken, and start it again."""
        while self.taken < after and not all(sender.done() for sender in senders):
            time.sleep(0.005)  # the senders decide how long it takes
        for sender in senders:
            if sender.done():
                sender.result()
        crashing.kill(self.postgres)
        self.postgres.stop()
        self.postgres.start()


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    """A deployment of this test's own."""
    directory = Path(tempfile.mkdtemp(prefix="svc-day-"))
    # The server runs as another account if the tests run as root.
    directory.chmod(0o755)
    try:
        with ExitStack() as within:
            postgres = within.enter_context(EmbeddedPostgres(directory / "postgres"))
            settings = Settings(
                database_url=postgres.url, data_dir=directory / "deployment", jobs=False
            )
            migrate(settings, lambda _: None)
            yield Day(
                postgres, settings, within.enter_context(serving(settings, tmp_path, *BY_KIND))
            )
    finally:
        shutil.rmtree(directory)


def test_a_day_through_all_connections_is_whole_after_restarts(day: Day) -> None:
    with day.owner() as owner:
        alice = person(owner, "alice")
        owner.execute("update identity.user set timezone = 'Europe/Berlin'")
        headers = alice.headers(
            "read:activity", "read:health", "read:location", "read:music", "read:content"
        )
        sent = {kind: authorized(kind, connect(owner, alice, kind).key) for kind in BY_KIND}
    total = sum(map(len, sent.values()))
    until = time.monotonic() + LONGEST_S

    with ThreadPoolExecutor(len(sent) + 1) as threads:
        work = [threads.submit(day.send, messages, until) for messages in sent.values()]
        for number in range(1, RESTARTS + 1):
            day.restart(total * number // (RESTARTS + 1), work)
        for each in work:
            each.result()

    with day.owner() as owner:
        with https.host(lambda _: plain(meetings().encode())) as host:
            pulled = Worker.of(day.settings, owner, alice, host.url(PATH)).pull(host)
        asyncio.run(derive(day.settings, alice))
        assert pulled == "read=3 new=3 changed=0"
        refused = owner.execute("select reason, count, examples from profile.import_refusal")
        assert refused.fetchall() == []
    assert answers(day.served.client, headers) == expected()
