"""Answers while eight clients write and two rebuild: they contain whole batches, as of one moment.

A game runs all day. Each batch takes the same time from it on four days, in two sessions a day of which one
covers the other, or has as much coding. The days are Auckland's, so that each has parts of two days in UTC,
and one of two months. Every batch has a name of its own, so that answers show which batches they contain.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import httpx2
import psycopg
import pytest

from resourceserver.timeline import rollups, rounds
from resourceserver.timeline.rollups import Difference
from shared import database
from shared.pool import Connection
from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS
from tests.conftest import MakeRollups, person

Rows = psycopg.Connection[Any]
Body = dict[str, Any]
T = TypeVar("T")

ROUNDS = {"suite": 1, "bounded": 2, "proof": 30}
"""How often all of it happens."""
CLIENTS = 8
RETRIES = 50
BATCHES = frozenset(range(32))
CODING = frozenset(range(3, 32, 4))
APPS = BATCHES - CODING

FIRST = datetime(2025, 6, 28, 12, tzinfo=UTC)
"""Midnight in Auckland."""
RANGE = {"from": "2025-06-28T12:00:00Z", "to": "2025-07-02T12:00:00Z"}
MONTHS = {"from": "2025-06-01T00:00:00Z", "to": "2025-08-01T00:00:00Z"}
ZONE = {"tz": "Pacific/Auckland"}
GAMES = "Games"


def event(start: datetime, minutes: int, **more: str) -> Body:
    end = start + timedelta(minutes=minutes)
    key = "".join([str(start), *more.values()])
    edges = {"started_at": start.isoformat(), "ended_at": end.isoformat()}
    return {"idempotency_key": key} | edges | more


def played() -> list[Body]:
    """Return six sessions of a day each; the first and the last are on none of the four days."""
    return [
        event(FIRST + timedelta(days=day), 1440, device="console", app="Game", category=GAMES)
        for day in range(-1, 5)
    ]


def batch(number: int) -> list[Body]:
    """Return the batch with a number: from five minutes after midnight on, each 28 minutes after the other.

    Batch 25 crosses midnight in UTC.
    """
    starts = [FIRST + timedelta(days=day, minutes=5 + 28 * number) for day in range(4)]
    if number in CODING:
        return [event(start, 20, device="laptop", project=f"{number}") for start in starts]
    return [
        event(
            start + timedelta(minutes=late), minutes, device=device, app=app, category=f"{number}"
        )
        for start in starts
        for late, minutes, device, app in (
            (0, 20, "laptop", f"under {number}"),
            (5, 10, "phone", f"over {number}"),
        )
    ]


def sums(rows: Iterable[Body], name: str, number: str | None = None) -> Counter[str]:
    """Return the sums or counts of rows by the member that names them."""
    added = Counter[str]()
    for row in rows:
        added[row[name]] += row[number] if number else 1
    return added


@dataclass(frozen=True)
class Look:
    """A request, and the parts of its answer about batches and games."""

    path: str
    params: Mapping[str, str]
    parts: Callable[[Body], list[Counter[str]]]
    """The members about each, for several days or for all together."""
    whole: int
    """The values for a batch."""
    games: int = 0
    """The values for games without any batch."""
    taken: int = 0
    """How much less for each batch."""
    batches: frozenset[int] = APPS
    """The batches that the answer can contain."""

    def seen(self, body: Body) -> frozenset[int]:
        """Return which batches are in an answer; each of them has to be whole."""
        parts = self.parts(body)
        seen = frozenset(int(name) for part in parts for name in part if name != GAMES)
        expected = Counter({f"{number}": self.whole for number in seen})
        expected[GAMES] = self.games - self.taken * len(seen)
        assert parts == [expected] * len(parts)
        return seen


LOOKS = [
    Look(
        "app-usage",
        MONTHS,
        lambda body: [sums(body["data"], "category", "total_ms")],
        whole=4_800_000,
        games=518_400_000,
        taken=4_800_000,
    ),
    Look(
        "daily-categories",
        RANGE | ZONE,
        lambda body: [sums(day["categories"], "category", "total_ms") for day in body["data"]],
        whole=1_200_000,
        games=86_400_000,
        taken=1_200_000,
    ),
    Look(
        "hourly",
        {"date": "2025-07-01"} | ZONE,
        lambda body: [
            sum(
                (sums(row["categories"], "category", "total_ms") for row in body["data"]), Counter()
            )
        ],
        whole=1_200_000,
        games=86_400_000,
        taken=1_200_000,
    ),
    # On each day from the game to a batch, from one of its sessions to the other and back, and to the game.
    Look(
        "context-switches",
        RANGE,
        lambda body: [sums(body["data"], "to_category")],
        whole=12,
        taken=-4,
    ),
    Look(
        "focus-streaks",
        RANGE,
        lambda body: [sums(body["data"], "top_category", "duration_ms")],
        whole=4_800_000,
    ),
    Look(
        "coding",
        MONTHS,
        lambda body: [sums(body["data"]["projects"], "project", "total_ms")],
        whole=4_800_000,
        batches=CODING,
    ),
]
DAILY = "daily"
READERS = [DAILY, *(look.path for look in LOOKS)]
JOB = "job"


def counted(body: Body) -> tuple[int, int]:
    """Return how many batches of either kind are in an answer without names: the same on all days."""
    first = body["data"][0]
    apps, coding = first["productive_ms"] // 1_200_000, first["coding_ms"] // 1_200_000
    expected = {
        "tracked_ms": 86_400_000,
        "productive_ms": 1_200_000 * apps,
        "distracted_ms": 86_400_000 - 1_200_000 * apps,
        "coding_ms": 1_200_000 * coding,
        "app_switches": 4 * apps,
        "session_count": 1 + 2 * apps,
    }
    assert [{name: day[name] for name in expected} for day in body["data"]] == [expected] * 4
    return apps, coding


@dataclass
class Story:
    """The state of the test, and the work of its threads."""

    url: str
    headers: dict[str, str]
    moved: threading.Condition = field(default_factory=threading.Condition)
    begun: set[int] = field(default_factory=set)
    """Batches that were sent."""
    done: set[int] = field(default_factory=set)
    """Batches that were answered."""
    turns: Counter[str] = field(default_factory=Counter)
    """The number of answers to each reader, and of runs of the job."""
    is_over: bool = False

    def write(self, numbers: Iterable[int]) -> None:
        """Post batches, and wait after each until others have had their turns."""
        with httpx2.Client(
            base_url=self.url, headers=self.headers, timeout=60, verify=NO_TLS
        ) as http:
            for number in numbers:
                with self.moved:
                    self.begun.add(number)
                # Some go through the days forwards and others backwards.
                post(http, batch(number)[:: 1 - 2 * (number % 2)])
                with self.moved:
                    self.done.add(number)
                self.await_quiet()

    def note(self, who: str) -> None:
        """Note that a reader was answered, or that the job has had a turn."""
        with self.moved:
            self.turns[who] += 1
            self.moved.notify_all()

    def await_turns(self, *others: str) -> None:
        """Return when each of these has had one more turn."""
        with self.moved:
            before = self.turns.copy()
            while not self.is_over and any(self.turns[who] <= before[who] for who in others):
                assert self.moved.wait(60)

    def await_quiet(self) -> None:
        """Return when days were rolled up and read; otherwise they would be marked all the time."""
        self.await_turns(JOB)
        self.await_turns(*READERS)

    def rest(self) -> None:
        """Post idle sessions until the end: they change no answer, and mark one day and not the others."""
        with httpx2.Client(
            base_url=self.url, headers=self.headers, timeout=60, verify=NO_TLS
        ) as http:
            for turn in count():
                self.await_turns(*READERS)
                if self.is_over:
                    return
                start = FIRST + timedelta(days=turn % 4, minutes=turn)
                idle = event(start, 1, device="laptop", app="Game")
                post(http, [idle | {"idle": True}])

    def read(
        self, path: str, params: Mapping[str, str]
    ) -> Iterator[tuple[frozenset[int], Body, frozenset[int]]]:
        """Read until the end; yield the batches done before, the answer, and those begun until then."""
        with httpx2.Client(
            base_url=self.url, headers=self.headers, timeout=60, verify=NO_TLS
        ) as http:
            is_last = False
            while not is_last:
                with self.moved:
                    is_last, done = self.is_over, frozenset(self.done)
                body = answered(lambda: http.get(f"/api/v1/analytics/{path}", params=params))
                with self.moved:
                    begun = frozenset(self.begun)
                self.note(path)
                yield done, body, begun

    def look(self, look: Look) -> list[frozenset[int]]:
        """Read until the end; return the batches in each answer."""
        found = []
        for done, body, begun in self.read(look.path, look.params):
            seen = look.seen(body)
            assert done & look.batches <= seen <= begun & look.batches
            found.append(seen)
        return found

    def count(self) -> list[tuple[int, int]]:
        """Read days until the end; return the numbers of batches of either kind in each answer."""
        found = []
        for done, body, begun in self.read(
            DAILY, {"from": "2025-06-29", "to": "2025-07-02"} | ZONE
        ):
            apps, coding = counted(body)
            assert len(done & APPS) <= apps <= len(begun & APPS)
            assert len(done & CODING) <= coding <= len(begun & CODING)
            found.append((apps, coding))
        return found

    def repeat(self, chosen: Settings, work: Callable[[Connection], Awaitable[T]]) -> list[T]:
        """Repeat work of the worker until the end; return the results."""

        async def found() -> list[T]:
            async with rounds.connected(database.login(chosen, "worker")) as worker:
                results = []
                while not self.is_over:
                    results.append(await work(worker))
                return results

        return asyncio.run(found())

    def end(self) -> None:
        """Stop all threads."""
        with self.moved:
            self.is_over = True
            self.moved.notify_all()

    def attend(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do work; if it fails, stop all threads."""
        try:
            return work(*arguments)
        except BaseException:
            self.end()
            raise


def answered(ask: Callable[[], httpx2.Response]) -> Body:
    """Return the answer; a request that is refused because of too many others is repeated."""
    for _ in range(RETRIES):
        answer = ask()
        body: Body = answer.json()
        if answer.status_code == 200:
            return body
        assert (answer.status_code, body["error"]) == (503, "database_unavailable")
    raise AssertionError(f"not answered in {RETRIES} attempts")


def post(http: httpx2.Client, events: list[Body]) -> None:
    """Post a batch of either kind."""
    path = f"/api/v1/ingest/{'coding' if 'project' in events[0] else 'app'}-sessions"
    assert answered(lambda: http.post(path, json={"events": events}))["accepted"] == len(events)


@dataclass(frozen=True)
class Seen:
    """The results of all threads."""

    looks: list[list[frozenset[int]]]
    """By each reader, the batches in each answer."""
    counts: list[tuple[int, int]]
    rebuilt: list[list[int]]
    """For each of two, the number of days of each rebuild: none if the job was first."""
    checks: list[list[Difference]]


def tell(story: Story, chosen: Settings, user_id: UUID, chance: int) -> Seen:
    """Write all batches in any order with eight clients, while other threads work."""

    async def rebuild(worker: Connection) -> int:
        await asyncio.to_thread(story.await_quiet)
        return await rollups.rebuild(worker, user_id)

    async def make_due(worker: Connection) -> None:
        await rollups.make_due(worker, quiet=timedelta(0))
        story.note(JOB)

    async def check(worker: Connection) -> list[Difference]:
        return [difference async for difference in rollups.check(worker, user_id)]

    order = random.Random(chance).sample(sorted(BATCHES), len(BATCHES))
    with ThreadPoolExecutor(20) as pool:

        def begin(work: Callable[..., T], *arguments: Any) -> Future[T]:
            return pool.submit(story.attend, work, *arguments)

        looks = [begin(story.look, look) for look in LOOKS]
        counter, idler = begin(story.count), begin(story.rest)
        rebuilders = [begin(story.repeat, chosen, rebuild) for _ in range(2)]
        maker, checker = begin(story.repeat, chosen, make_due), begin(story.repeat, chosen, check)
        writers = [begin(story.write, order[client::CLIENTS]) for client in range(CLIENTS)]
        wait(writers)
        story.end()
        # The thread that failed first has the cause; others only waited for it.
        seen = Seen(
            [look.result() for look in looks],
            counter.result(),
            [rebuilder.result() for rebuilder in rebuilders],
            checker.result(),
        )
        maker.result()
        idler.result()
        for writer in writers:
            writer.result()
    return seen


@contextmanager
def serving(deployment: Settings, log: Path) -> Iterator[str]:
    """Run a resource server as a process of its own, and yield its address."""
    (port,) = processes.free_ports(1)
    chosen = replace(deployment, base_url=f"http://127.0.0.1:{port}")
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    asked = f"{chosen.base_url}/healthz"
    with processes.running(["resource", "serve"], chosen, logins, asked, log):
        yield chosen.base_url


def writers(owner: Rows) -> set[int]:
    """Return the connections of the role that writes batches."""
    found = owner.execute(
        "select pid from pg_stat_activity"
        " where datname = current_database() and usename = 'svc_ingester'"
    )
    return {pid for (pid,) in found}


def deadlocks(owner: Rows, connected: set[int]) -> int:
    """Return the number of deadlocks, once only those writers are ``connected``.

    A connection reports its own at its end, at the latest.
    """
    for _ in range(1000):
        if writers(owner) <= connected:
            break
        owner.execute("select pg_sleep(0.01)")
    found = owner.execute(
        "select deadlocks from pg_stat_database where datname = current_database()"
    ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.fixture
def repetitions(request: pytest.FixtureRequest) -> int:
    """How often all of it happens."""
    return ROUNDS[str(request.config.getoption("--hypothesis-profile") or "suite")]


@pytest.mark.proof
def test_answers_are_whole_batches_while_eight_clients_write_and_two_rebuild(
    deployment: Settings,
    owner: Rows,
    repetitions: int,
    tmp_path: Path,
    make_rollups: MakeRollups,
    record_property: Callable[[str, object], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, answers, connected = tmp_path / "resource.log", 0, writers(owner)
    before = deadlocks(owner, connected)
    with serving(deployment, log) as url:
        for chance in range(repetitions):
            alice = person(owner, f"alice{chance}")
            owner.cursor().executemany(
                "insert into activity.category_score (user_id, category, score) values (%s, %s, 2)",
                [(alice.user_id, f"{number}") for number in APPS],
            )
            story = Story(url, alice.headers())
            with httpx2.Client(base_url=url, headers=story.headers, verify=NO_TLS) as http:
                post(http, played())

            seen = tell(story, deployment, alice.user_id, chance)
            make_rollups()

            # Batches appeared one after the other for every reader, and none disappeared again.
            assert all(found == sorted(found, key=len) for found in seen.looks)
            assert seen.counts == sorted(seen.counts)
            moments = {batches for found in seen.looks for batches in found if batches <= APPS}
            assert all(earlier < later for earlier, later in pairwise(sorted(moments, key=len)))
            # At the end every batch is there, and rollups were written in between.
            assert [found[-1] for found in seen.looks] == [look.batches for look in LOOKS]
            assert seen.counts[-1] == (24, 8)
            assert not any(any(found) for found in seen.checks)
            assert all(seen.rebuilt)
            assert owner.execute(
                "select (select count(*) from activity.rollup_due),"
                " (select sum(started) from activity.app_time where user_id = person and grain = 4),"
                " (select sum(started) from activity.coding_time where user_id = person and grain = 4)"
                " from (select %s::uuid as person) as asked",
                [alice.user_id],
            ).fetchone() == (0, 6 + 24 * 8, 8 * 4)
            answers += sum(len(found) for found in seen.looks) + len(seen.counts)
    record_property("answers while others wrote and rebuilt", answers)
    assert deadlocks(owner, connected) == before
    assert "made later" not in caplog.text + log.read_text()
    assert " status=500" not in log.read_text()
