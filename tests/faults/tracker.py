"""A tracker that sends a batch until it is answered, and the check of the stored rows."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg
import pytest
from starlette.testclient import TestClient

import resourceserver.app
from shared import database
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.faults.proxy import Direction, Proxy, Trap

Rows = psycopg.Connection[Any]

STREAMS = {"app_sessions": "app", "coding_sessions": "project"}
"""The streams, and the field of each with the activity."""

each_stream = pytest.mark.parametrize("stream", list(STREAMS))

SCOPES = tuple(f"ingest:{stream}" for stream in STREAMS)

RETRIES = 40


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: Any


Post = Callable[[str, bytes], Answer | None]
"""Posts a body to a path; returns None without an answer."""


def path(stream: str) -> str:
    return f"/api/v1/ingest/{stream.replace('_', '-')}"


def day(number: int) -> date:
    """Return the day on which the events of a batch are."""
    return date(2020, 1, 1) + timedelta(days=number)


def body(stream: str, number: int, padding: int = 0) -> bytes:
    """Return a batch: four events of its own, one that all batches share, and an invalid one.

    They are of three devices, one of which is new. ``padding`` is the number of characters of noise in each,
    which compression hardly shortens.
    """
    noise = random.Random(number).randbytes(padding // 2).hex()
    what = STREAMS[stream]
    event = {
        "started_at": f"{day(number)}T09:00:00Z",
        "duration_ms": 60_000,
        what: "Code",
        "metadata": {"noise": noise},
    }
    devices = ("laptop", "laptop", "phone", f"device {number:04}")
    shared = {"idempotency_key": "shared", "started_at": "2019-12-31T09:00:00Z", "device": "laptop"}
    events = [
        *(
            event | {"idempotency_key": f"{number:04} {place}", "device": device}
            for place, device in enumerate(devices)
        ),
        event | shared,
        event | {what: " "},
    ]
    return json.dumps({"events": events, "client": {"name": "tracker/1"}}).encode()


REFUSALS: Final = ((503, "database_unavailable"), (503, "storage_full"))
"""The status and the code of batches that a tracker sends again."""


@dataclass
class Tracker:
    """Sends batches of one stream, each until it is answered."""

    stream: str
    post: Post
    mend: Callable[[], object] = lambda: None
    """Runs after a failure and before the next attempt."""
    padding: int = 0
    numbers: list[int] = field(default_factory=list)
    """The batches that were answered, in the end."""
    first_attempts: Counter[str] = field(default_factory=Counter)
    """How many of them were answered, written without an answer, or lost."""

    def send(self, number: int) -> str:
        """Send a batch until it is answered; return the result of the first attempt."""
        content = body(self.stream, number, self.padding)
        failures = 0
        while (answer := self.post(path(self.stream), content)) is None or answer.status != 200:
            assert answer is None or refusal(answer) in REFUSALS, answer
            failures += 1
            assert failures <= RETRIES, answer
            self.mend()
        counts = answer.body["accepted"], answer.body["duplicates"]
        # The shared event of all batches is new only in the first one.
        news = 4 if self.numbers else 5
        assert counts in ((news, 5 - news), (0, 5))
        assert [each["index"] for each in answer.body["rejected"]] == [5]
        is_written = counts[0] == 0
        became = ("written" if is_written else "lost") if failures else "answered"
        assert (became, is_written) != ("answered", True)
        self.numbers.append(number)
        self.first_attempts[became] += 1
        return became


@contextmanager
def serving(deployment: Settings, way: Proxy) -> Iterator[TestClient]:
    """A resource server that reaches the database only through ``way``."""
    urls = {role: way.url(database.role_url(deployment, role)) for role in ("reader", "ingester")}
    urls["worker"] = database.role_url(deployment, "worker")
    chosen = replace(deployment, base_url="http://testserver", role_urls=urls)
    app = resourceserver.app.create(chosen)
    with AppClient(app, raise_server_exceptions=False) as opened:
        yield opened


def through(client: TestClient, person: Person, stream: str) -> Tracker:
    """Return a tracker of a person that posts through ``client``."""
    headers = {"Content-Type": "application/json"} | person.headers(*SCOPES)

    def post(where: str, content: bytes) -> Answer:
        answer = client.post(where, content=content, headers=headers)
        # A full disk takes longer to get room again than a lost connection to be made anew.
        is_full = answer.status_code == 503 and answer.json()["error"] == "storage_full"
        pause = "60" if is_full else "1"
        assert answer.status_code == 200 or answer.headers["retry-after"] == pause
        return Answer(answer.status_code, answer.json())

    return Tracker(stream, post)


def length_of_exchange(way: Proxy, direction: Direction, sender: Tracker, number: int) -> int:
    """Return the number of bytes in one direction while a batch is written."""
    way.trap = Trap(direction, 2**60, never)
    assert sender.send(number) == "answered"
    passed, way.trap = way.trap.passed, None
    return passed


def never() -> None:
    raise AssertionError("nothing is as long as that")


def spread(length: int, count: int) -> list[int]:
    """Return ``count`` numbers from 0 to ``length``: half of them all over, half close to the end.

    There, a few bytes decide whether a batch is written.
    """
    first, second = count // 2, count - count // 2
    return [
        *(length * place // first for place in range(first)),
        *(max(0, length - 8 * place) for place in range(second)),
    ]


def refusal(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["error"]


def assert_whole(owner: Rows, user_id: UUID, trackers: Iterable[Tracker]) -> None:
    """Compare a person's stored rows with the answers: events, counters, days and devices."""
    days = {date(2019, 12, 31)}
    devices = {"laptop", "phone"}
    for tracker in trackers:
        days |= {day(number) for number in tracker.numbers}
        devices |= {f"device {number:04}" for number in tracker.numbers}
        assert _rows(owner, user_id, tracker.stream) == _expected(tracker)
        assert _counted(owner, user_id, tracker.stream) == _counters(tracker)
    marked = owner.execute("select date from activity.summary_due where user_id = %s", [user_id])
    assert {each for (each,) in marked} == days
    known = owner.execute("select name from activity.device where user_id = %s", [user_id])
    assert {name for (name,) in known} == devices


def _rows(owner: Rows, user_id: UUID, stream: str) -> list[Any]:
    return owner.execute(
        f"select idempotency_key, name, started_at, ended_at, {STREAMS[stream]}, source"  # noqa: S608 - ours
        f" from activity.{stream.removesuffix('s')} join activity.device using (user_id, device_id)"
        ' where user_id = %s order by idempotency_key collate "C"',
        [user_id],
    ).fetchall()


def _expected(tracker: Tracker) -> list[Any]:
    rows = [
        (f"{number:04} {place}", device, day(number))
        for number in sorted(tracker.numbers)
        for place, device in enumerate(("laptop", "laptop", "phone", f"device {number:04}"))
    ]
    rows.append(("shared", "laptop", date(2019, 12, 31)))
    return [
        (key, device, nine(of, 0), nine(of, 1), "Code", "tracker/1") for key, device, of in rows
    ]


def nine(of: date, minute: int) -> datetime:
    return datetime(of.year, of.month, of.day, 9, minute, tzinfo=UTC)


def _counted(owner: Rows, user_id: UUID, stream: str) -> list[Any]:
    return owner.execute(
        "select name, event_count, last_event_at, last_sync_at > now() - interval '1 hour', source"
        "  from activity.device_stream join activity.device using (user_id, device_id)"
        ' where user_id = %s and stream = %s order by name collate "C"',
        [user_id, stream],
    ).fetchall()


def _counters(tracker: Tracker) -> list[Any]:
    batches, last = len(tracker.numbers), day(max(tracker.numbers))
    counters = [(f"device {number:04}", 1, day(number)) for number in sorted(tracker.numbers)]
    counters += [("laptop", 2 * batches + 1, last), ("phone", batches, last)]
    return [(name, count, nine(of, 1), True, "tracker/1") for name, count, of in counters]
