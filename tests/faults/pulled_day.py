"""Services that learn of a day in portions, and workers that pull from them while the database restarts."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import psycopg

from resourceserver.integrations.pulls import calendar, github, gitlab, lastfm, listenbrainz
from resourceserver.integrations.pulls.pulling import Pull
from resourceserver.integrations.pulls.turn import Pulls
from shared import sealing
from shared.sealing import Opener
from shared.settings import Settings
from tests import connecting
from tests.conftest import Person
from tests.connecting import Connected
from tests.pulls import calendars, pulled, test_github, test_gitlab, test_lastfm, test_listenbrainz
from tests.pulls.pulled import Answer, Answering, Call, Service

PORTIONS: Final = 3
COMMITS: Final = 8
"""The commits of a portion at each code host."""
PLAYS: Final = 5
"""The plays of a portion that no player sent here, only to ListenBrainz."""
PLAY_MS: Final = 180_000
SCROBBLES: Final = 4
"""The plays of a portion that Last.fm knows as well."""

_PRIVATE: Final = sealing.new_private_key()
_TABLES: Final = "code.event, music.listen, content.calendar_event"


@dataclass(frozen=True)
class Known:
    """A service, and how it learns of one more portion of the day."""

    kind: str
    answering: Answering
    learn: Callable[[int], None]
    pull: Callable[[str], Pull]
    """Returns the pull from an address."""
    settings: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


def _written(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def commits(midnight: datetime, portion: int) -> list[datetime]:
    """Return when the commits of a portion were made."""
    first = midnight + timedelta(hours=9 + portion, milliseconds=1)
    return [first + timedelta(seconds=97 * number) for number in range(COMMITS)]


def _github(midnight: datetime) -> Known:
    hub = test_github.GitHub()

    def learn(portion: int) -> None:
        times = commits(midnight, portion)
        name = f"notes-{portion}"
        hub.commits[name] = [
            test_github.commit(100 * portion + number, _written(at))
            for number, at in enumerate(times)
        ]
        opened = _written(times[-1])
        hub.authored.append(test_github.change(portion, opened, createdAt=opened))
        # From now on the repository is seen, so what is read of it later is not read again.
        hub.own[name] = opened

    secrets = {"token": test_github.TOKEN}
    return Known(
        "github",
        hub,
        learn,
        lambda address: partial(github.pull, address=address + "/graphql"),
        secrets=secrets,
    )


def _gitlab(midnight: datetime) -> Known:
    lab = test_gitlab.GitLab()

    def learn(portion: int) -> None:
        times = commits(midnight, portion)
        lab.commits[10 + portion] = [
            test_gitlab.commit(
                100 * portion + number, authored_date=_written(at), committed_date=_written(at)
            )
            for number, at in enumerate(times)
        ]
        lab.projects.append(test_gitlab.project(10 + portion, _written(times[-1])))

    return Known(
        "gitlab",
        lab,
        learn,
        lambda _: gitlab.pull,
        {"address": "{address}/sub"},
        {"token": test_gitlab.TOKEN},
    )


def _listenbrainz(midnight: datetime, sent: list[dict[str, Any]]) -> Known:
    """What a player sent here (``sent``), it sent to ListenBrainz as well."""
    brainz = test_listenbrainz.Listens([])

    def learn(portion: int) -> None:
        at = int((midnight + timedelta(hours=12 + portion)).timestamp())
        about = {"additional_info": {"duration_ms": PLAY_MS}}
        brainz.listens += [{**each, "user_name": "alice"} for each in sent[portion::PORTIONS]]
        brainz.listens += [
            test_listenbrainz.listen(at + 200 * number, f"Elsewhere {number}", **about)
            for number in range(PLAYS)
        ]

    return Known(
        "listenbrainz_user",
        brainz,
        learn,
        lambda address: partial(listenbrainz.pull, address=address),
        {"user": "al/ice"},
    )


def _lastfm(sent: list[dict[str, Any]]) -> Known:
    """Some of what was played was scrobbled to Last.fm too."""
    fm = test_lastfm.Scrobbles([])

    def learn(portion: int) -> None:
        for each in sent[portion * SCROBBLES : (portion + 1) * SCROBBLES]:
            about = each["track_metadata"]
            scrobble = test_lastfm.track(each["listened_at"], about["track_name"])
            fm.tracks.append(scrobble | {"artist": {"#text": about["artist_name"]}})

    return Known(
        "lastfm",
        fm,
        learn,
        lambda address: partial(lastfm.pull, address=address + "/2.0/"),
        {"user": "alice"},
        {"key": "key"},
    )


def _calendar(events: list[str]) -> Known:
    """A calendar that gets one event more with each portion."""
    given: list[str] = []

    def answer(_: Call) -> Answer:
        return Answer(calendars.text(*given), headers={"Content-Type": "text/calendar"})

    return Known(
        "calendar",
        answer,
        lambda portion: given.append(events[portion]),
        lambda _: calendar.pull,
        secrets={"address": "{address}" + calendars.PATH, "password": ""},
    )


@dataclass(eq=False)
class Pulling:
    """The pulls of a connection by a worker of its own, which is repeated when it failed."""

    settings: Settings
    known: Known
    connected: Connected
    pulls: Pulls
    has_request: threading.Event = field(default_factory=threading.Event)

    def once(self, until: float) -> str:
        """Pull until a pull has succeeded; return what the log says of it."""
        while True:
            assert time.monotonic() < until, f"{self.known.kind} is not pulled"
            with suppress(psycopg.OperationalError):
                line = self._taken()
                assert " read=" in line, line
                return line
            time.sleep(0.01)  # the database starts again

    def _taken(self) -> str:
        with psycopg.connect(self.settings.database_url or "", autocommit=True) as owner:
            row = owner.execute(
                """
                   update profile.connection
                      set next_pull_at = now()
                    where connection_id = %s
                returning user_id
                """,
                [self.connected.connection_id],
            ).fetchone()
        assert row is not None
        return self.pulls.take(row[0], threading.Event()).line

    @property
    def backend(self) -> int | None:
        """The process of the database that writes for this pull."""
        writer = self.pulls.importer.connection
        return None if writer is None or writer.closed else writer.info.backend_pid


@dataclass(eq=False)
class PulledDay:
    """All pulls of the day.

    The first portion is requested when the database is killed for the first time, the second one waits to be
    written when it is killed again, and the third one comes at any time.
    """

    settings: Settings
    pulling: list[Pulling] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    is_locked: threading.Event = field(default_factory=threading.Event)

    def work(self, pulling: Pulling, until: float) -> None:
        """Pull one portion after the other."""
        pulling.once(until)
        pulling.known.learn(1)
        assert self.is_locked.wait(until - time.monotonic())
        pulling.once(until)
        pulling.known.learn(2)
        pulling.once(until)

    def wait_for_requests(self, until: float) -> None:
        """Wait until each service has a request that it does not answer before ``may_answer``."""
        for each in self.pulling:
            assert each.has_request.wait(until - time.monotonic()), each.known.kind

    @contextmanager
    def locked(self, until: float) -> Iterator[None]:
        """Lock what the pulls write, and wait until all of them wait for it."""
        with ExitStack() as within:
            owner = psycopg.connect(self.settings.database_url or "")
            within.callback(owner.close)
            owner.execute(f"lock table {_TABLES} in share mode")
            self.is_locked.set()
            waiting: set[int | None] = set()
            while not {each.backend for each in self.pulling} <= waiting:
                assert time.monotonic() < until, "a pull does not wait for the lock"
                rows = owner.execute("select pid from pg_locks where not granted").fetchall()
                waiting = {pid for (pid,) in rows}
            yield

    def hold(self, pulling: Pulling, call: Call) -> Answer:
        """Answer as soon as it is allowed."""
        pulling.has_request.set()
        self.may_answer.wait()
        return pulling.known.answering(call)


@contextmanager
def pulled_day(
    settings: Settings,
    owner: psycopg.Connection[Any],
    person: Person,
    midnight: datetime,
    sent: list[dict[str, Any]],
    events: list[str],
) -> Iterator[PulledDay]:
    """Connect a person to services, and run these until the end of the block.

    ``sent`` are listens that a player submitted, ``events`` those of the calendar, one a portion.
    """
    day = PulledDay(settings)
    services = (
        _github(midnight),
        _gitlab(midnight),
        _listenbrainz(midnight, sent),
        _lastfm(sent),
        _calendar(events),
    )
    with ExitStack() as within:
        # No answer is waited for when the block ends early.
        within.callback(day.may_answer.set)
        for known in services:
            day.pulling.append(within.enter_context(_pulling(settings, owner, person, known, day)))
        yield day


@contextmanager
def _pulling(
    settings: Settings,
    owner: psycopg.Connection[Any],
    person: Person,
    known: Known,
    day: PulledDay,
) -> Iterator[Pulling]:
    held: list[Pulling] = []
    with pulled.service(lambda call: day.hold(held[0], call)) as running:
        named = _at(running, known.settings)
        connected = connecting.connect(owner, person, known.kind, **named)
        connecting.seal(owner, person, connected, _PRIVATE, _at(running, known.secrets))
        pulls = Pulls.to(
            settings,
            {known.kind: known.pull(running.address)},
            Opener([_PRIVATE]),
            running.host.fetcher().fetch,
        )
        held.append(Pulling(settings, known, connected, pulls))
        known.learn(0)
        try:
            yield held[0]
        finally:
            pulls.close()


def _at(running: Service, texts: dict[str, str]) -> dict[str, Any]:
    return {name: text.format(address=running.address) for name, text in texts.items()}
