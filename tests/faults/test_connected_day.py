"""A day of one person that arrives through all connections at once, while the database restarts.

Each application sends its messages in any order, again after each failure, and some of them twice. From each
service the worker pulls (``pulled_day``). What the API says of the day afterwards is compared with sums made
of the same messages and portions without the service.
"""

import asyncio
import random
import shutil
import tempfile
import time
from collections import Counter
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
from tests.conftest import Person, person
from tests.faults import crashing, pulled_day
from tests.faults.pulled_day import PLAY_MS, PLAYS, PORTIONS, SCROBBLES
from tests.pulls.calendars import event
from tests.receivers.connecting import Served, connect, serving

pytestmark = pytest.mark.long

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
HOME, WORK, CLUB = (52.5200, 13.4050), (52.4900, 13.3700), (52.5000, 13.4200)
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


def plays() -> list[dict[str, Any]]:
    """Return what a player submits."""
    return [
        {
            "listened_at": epoch(at(19, 240 * number)),
            "track_metadata": {
                "artist_name": "Gorillaz",
                "track_name": track,
                "additional_info": {"duration_ms": 240_000},
            },
        }
        for number, track in enumerate(TRACKS)
    ]


def listens() -> list[Message]:
    """Return plays, one at a time."""
    return [
        Message("/1/submit-listens", {"listen_type": "single", "payload": [play]}, {})
        for play in plays()
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


def places_of_osmand() -> list[Message]:
    """Return points at the club from six to ten in the evening, every five minutes."""
    return [
        Message(
            f"/receive/osmand/{{key}}?lat={CLUB[0]}&lon={CLUB[1]}&timestamp={epoch(at(18, second))}",
            None,
            {},
        )
        for second in range(0, 4 * 3600 + 1, 300)
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
    "osmand": places_of_osmand,
    "health": health,
}


def authorized(kind: str, key: str) -> list[Message]:
    """Return the messages of an application with its key."""
    return [
        # One application has the key in its address.
        replace(
            message,
            path=message.path.replace("{key}", key),
            headers=message.headers | {"Authorization": f"Bearer {key}"},
        )
        for message in BY_KIND[kind]()
    ]


def meetings() -> list[str]:
    """Return three meetings of the day, one of them weekly since the week before."""
    weekly = f"{at(10) - timedelta(days=7):%Y%m%dT%H%M%SZ}"
    once, late = f"{at(15):%Y%m%dT%H%M%SZ}", f"{at(17):%Y%m%dT%H%M%SZ}"
    return [
        event("weekly", weekly, "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=2", "SUMMARY:Weekly"),
        event("once", once, "DURATION:PT30M", "SUMMARY:Once"),
        event("late", late, "DURATION:PT15M", "SUMMARY:Late"),
    ]


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
        "plays": Counter(row["source"] for row in ask("music/history", limit="1000")["data"]),
        "code": sorted(
            (row["provider"], row["type"], row["occurred_at"])
            for row in ask("codehost/activity", limit="1000")["data"]
        ),
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

    def instants(*times: datetime) -> tuple[str, ...]:
        return tuple(f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z" for time in times)

    # What the player sent here and ListenBrainz has as well is one play. Another service has keys of its own:
    # its plays are kept beside them, since which of them are the same can only be guessed.
    plays = Counter(listenbrainz=len(TRACKS) + PORTIONS * PLAYS, lastfm=PORTIONS * SCROBBLES)
    commits = [each for portion in range(PORTIONS) for each in pulled_day.commits(at(0), portion)]
    opened = [pulled_day.commits(at(0), portion)[-1] for portion in range(PORTIONS)]
    return {
        "coding": {"notes": sum(1000 * (last - first) for first, last in WORDS)},
        "listening": (plays.total(), 240_000 * len(TRACKS) + PORTIONS * PLAYS * PLAY_MS),
        "plays": plays,
        "code": sorted(
            [(host, "commit", *instants(each)) for host in ("github", "gitlab") for each in commits]
            + [("github", "pull_request", *instants(each)) for each in opened]
        ),
        "points": 2 * (8 * 12 + 1) + 4 * 12 + 1,
        "visits": [instants(at(0), at(8)), instants(at(9), at(17)), instants(at(18), at(22))],
        "steps": [sum(STEPS.values())],
        "pulse": sorted(PULSE.values()),
        "meetings": [("Late", 900_000), ("Once", 1_800_000), ("Weekly", 3_600_000)],
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

    def wait(self, after: int, work: list[Future[None]]) -> None:
        """Wait until so many messages are taken, or all work is done."""
        while self.taken < after and not all(each.done() for each in work):
            time.sleep(0.005)  # the senders decide how long it takes
        for each in work:
            if each.done():
                each.result()

    def restart(self) -> None:
        """Kill the database, and start it again."""
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


COUNTED: Final = """
    select source,
           sum(added)::integer
      from profile.import_part
     where kind in ('code', 'music')
     group by source
     order by source
"""
STORED: Final = """
    select source,
           count(*)::integer
      from (
               select source
                 from music.listen
                union all
               select provider
                 from code.event
           ) as stored
     group by source
     order by source
"""


def test_a_day_through_all_connections_is_whole_after_restarts(day: Day) -> None:
    until = time.monotonic() + LONGEST_S
    with ExitStack() as within:
        with day.owner() as owner:
            alice = person(owner, "alice")
            owner.execute("update identity.user set timezone = 'Europe/Berlin'")
            headers = alice.headers(
                *("read:activity", "read:code", "read:content"),
                *("read:health", "read:location", "read:music"),
            )
            sent = {kind: authorized(kind, connect(owner, alice, kind).key) for kind in BY_KIND}
            pulled = within.enter_context(
                pulled_day.pulled_day(day.settings, owner, alice, at(0), plays(), meetings())
            )
        total = sum(map(len, sent.values()))

        with ThreadPoolExecutor(len(sent) + len(pulled.pulling)) as threads:
            work = [threads.submit(day.send, messages, until) for messages in sent.values()]
            work += [threads.submit(pulled.work, each, until) for each in pulled.pulling]
            day.wait(total // 4, work)
            pulled.wait_for_requests(until)
            day.restart()
            pulled.may_answer.set()
            day.wait(total // 2, work)
            with pulled.locked(until):
                day.restart()
            day.wait(total * 3 // 4, work)
            day.restart()
            for each in work:
                each.result()
        lines = [each.once(until) for each in pulled.pulling]

    assert [line for line in lines if not line.endswith(" new=0 changed=0")] == []
    with day.owner() as owner:
        asyncio.run(derive(day.settings, alice))
        refused = owner.execute("select reason, count, examples from profile.import_refusal")
        assert refused.fetchall() == []
        # The receipts have counted each of them once.
        assert owner.execute(COUNTED).fetchall() == owner.execute(STORED).fetchall()
    assert answers(day.served.client, headers) == expected()
