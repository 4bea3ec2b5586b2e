"""The turn of a pull: what is written, stored and tried again."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.pulls.pulling import Item, Pull, Pulled, PullFailed, Source
from resourceserver.integrations.pulls.service import resumable
from resourceserver.integrations.pulls.turn import Pulls, Stopped
from resourceserver.integrations.records import CodeEvent, Refused
from shared import sealing
from shared.fetcher import Fetcher, NotHTTPS
from shared.sealing import Opener
from shared.settings import Settings
from tests.conftest import Person
from tests.connecting import Connected, connect, state
from tests.monitoring.scraping import counting
from tests.sql.test_connection_rows import sign_in

Rows = psycopg.Connection[Any]
Run = Callable[[Pull], None]

PRIVATE = sealing.new_private_key()


def commit(number: int) -> CodeEvent:
    return CodeEvent(
        key=f"sha-{number}",
        type="commit",
        action="pushed",
        occurred_at=datetime(2025, 6, 16, 9, tzinfo=UTC) + timedelta(minutes=number),
        repository="alice/notes",
    )


@pytest.fixture
def pulls(deployment: Settings) -> Iterator[Pulls]:
    """The pulls of a worker; each test sets its own."""
    own = Pulls.to(deployment, {}, Opener([PRIVATE]), Fetcher().fetch)
    yield own
    own.close()


@pytest.fixture
def connected(owner: Rows, alice: Person) -> Connected:
    """A connection of alice's to GitHub."""
    return connect(owner, alice, "github")


def take(pulls: Pulls, person: Person, pull: Pull, stop: threading.Event | None = None) -> Any:
    pulls.by_kind = {"github": pull}
    return pulls.take(person.user_id, stop or threading.Event())


def count(owner: Rows) -> int:
    (found,) = owner.execute("select count(*) from code.event").fetchone() or (0,)
    return int(found)


def test_what_is_pulled_is_written_and_counted(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    finished: list[Target] = []

    def pull(source: Source) -> Pulled:
        assert source.state == {}
        items: list[Item] = [commit(1), commit(2), commit(1), Refused("no_repository", "{}")]
        return Pulled(iter(items), {"cursor": "2"}, finished.append)

    with counting() as sample:
        taken = take(pulls, alice, pull)

        outcomes = ("added", "known", "refused")
        service = {"service": "github"}
        assert sample("svc_pulls_total", outcome="done", **service) == 1
        records = [sample("svc_pull_records_total", outcome=each, **service) for each in outcomes]
        assert records == [2, 1, 1]
    row = state(owner, connected)
    assert taken.line.endswith("read=4 new=2 changed=0")
    assert timedelta(minutes=53) < taken.wait < timedelta(minutes=67)
    assert (count(owner), len(finished)) == (2, 1)
    assert (row["reached"], row["record_count"], row["state"]) == ("live", 2, {"cursor": "2"})
    assert owner.execute(
        "select records, added, known, refused, source from profile.import_part"
    ).fetchall() == [(4, 2, 1, 1, "github")]


def test_what_came_before_a_failure_is_kept(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    def pull(_: Source) -> Pulled:
        def items() -> Iterator[Item]:
            yield from map(commit, range(8001))
            raise PullFailed("rate_limited", timedelta(hours=2))

        return Pulled(items(), {"cursor": "8001"})

    taken = take(pulls, alice, pull)

    row = state(owner, connected)
    assert count(owner) == 8001
    assert (row["reached"], row["problem"], [*row["state"]]) == (
        *("failing", "rate_limited"),
        ["retry_at"],
    )
    assert timedelta(minutes=119) < taken.wait < timedelta(minutes=121)


def look_now(owner: Rows, person: Person, connected: Connected) -> None:
    """Ask for a pull a minute after the last one, as the page does."""
    owner.execute("update profile.connection set last_pull_at = now() - interval '2 minutes'")
    assert owner.execute(
        "select svc.pull_now(%s, %s, %s)",
        [person.user_id, sign_in(person).hash, connected.connection_id],
    ).fetchone() == (True,)


def test_a_person_cannot_shorten_the_wait_that_a_service_has_named(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    states: list[Any] = []

    def limited(source: Source) -> Pulled:
        states.append(source.state)
        raise PullFailed("rate_limited", timedelta(hours=2))

    def failing(source: Source) -> Pulled:
        states.append(source.state)
        raise PullFailed("server_error")

    take(pulls, alice, limited)
    look_now(owner, alice, connected)
    early = take(pulls, alice, limited)
    owner.execute("update profile.connection set next_pull_at = now()")
    later = take(pulls, alice, failing)
    look_now(owner, alice, connected)
    with counting() as sample:
        soon = take(pulls, alice, limited)

        assert sample("svc_pulls_total", outcome="rate_limited", service="github") == 1
    assert early.line == ""
    assert timedelta(minutes=119) < early.wait < timedelta(minutes=121)
    assert later.wait < timedelta(minutes=30)
    assert "problem=rate_limited" in soon.line
    assert states == [{}, {}, {}]


def test_a_pull_that_is_late_changes_nothing_of_a_newer_one(
    pulls: Pulls, deployment: Settings, owner: Rows, alice: Person, connected: Connected
) -> None:
    later: list[Pulled | PullFailed] = [Pulled([], {"cursor": "late"}), PullFailed("server_error")]
    lines = []
    with closing(Pulls.to(deployment, {}, Opener([PRIVATE]), Fetcher().fetch)) as newer:

        def late(_: Source) -> Pulled:
            owner.execute("update profile.connection set next_pull_at = now()")
            take(newer, alice, lambda _: Pulled([commit(1)], {"cursor": "new"}))
            match later.pop():
                case Pulled() as pulled:
                    return pulled
                case failure:
                    raise failure

        while later:
            lines.append(take(pulls, alice, late).line)
            row = state(owner, connected)
            assert (row["reached"], row["state"], row["failures"]) == ("live", {"cursor": "new"}, 0)
            owner.execute("update profile.connection set next_pull_at = now()")

    assert all(line.endswith(" ended") for line in lines)


def test_a_pull_that_ends_early_waits_as_long_as_the_service_wants(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    def pull(_: Source) -> Pulled:
        cursor: dict[str, Any] = {}

        def items() -> Iterator[Item]:
            yield commit(1)
            cursor["at"] = 1
            raise PullFailed("rate_limited", timedelta(hours=5))

        return resumable(items(), cursor)

    taken = take(pulls, alice, pull)

    row = state(owner, connected)
    assert (row["reached"], row["problem"], row["state"]["at"]) == ("live", None, 1)
    assert timedelta(minutes=299) < taken.wait < timedelta(minutes=301)


@pytest.mark.parametrize(
    ("error", "problem", "reached", "least", "most"),
    [
        (PullFailed("key_refused", is_refused=True), "key_refused", "refused", 23, 25),
        (PullFailed("not_found"), "not_found", "failing", 0.06, 0.11),
        (NotHTTPS(), "not_https", "failing", 0.06, 0.11),
        (ValueError("the secret is hunter2"), "failed", "failing", 0.06, 0.11),
    ],
    ids=["refused", "not found", "fetch", "bug"],
)
def test_a_failure_says_why_and_waits(
    pulls: Pulls,
    owner: Rows,
    alice: Person,
    connected: Connected,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    problem: str,
    reached: str,
    least: float,
    most: float,
) -> None:
    def pull(_: Source) -> Pulled:
        raise error

    taken = take(pulls, alice, pull)

    row = state(owner, connected)
    assert (row["problem"], row["reached"], row["failures"]) == (problem, reached, 1)
    assert row["failing_since"] is not None
    assert least < taken.wait / timedelta(hours=1) < most
    assert "hunter2" not in caplog.text


def test_failures_wait_longer_each_time_and_success_ends_them(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    def failing(_: Source) -> Pulled:
        raise PullFailed("unreachable")

    def due_again() -> None:
        owner.execute("update profile.connection set next_pull_at = now()")

    waits, since = [], set()
    for _ in range(8):
        waits.append(take(pulls, alice, failing).wait)
        since.add(state(owner, connected)["failing_since"])
        due_again()
    take(pulls, alice, lambda _: Pulled([]))

    row = state(owner, connected)
    assert waits[0] < timedelta(minutes=7) < waits[3] < waits[7] < timedelta(hours=8)
    assert len(since) == 1
    assert (row["reached"], row["failures"], row["failing_since"]) == ("waiting", 0, None)


def test_one_connection_that_fails_does_not_delay_another(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    other = connect(owner, alice, "github")
    asked: list[int] = []

    def pull(_: Source) -> Pulled:
        asked.append(1)
        if len(asked) == 1:
            raise PullFailed("unreachable")
        return Pulled([commit(1)])

    first, second = (take(pulls, alice, pull) for _ in range(2))

    assert first.wait < timedelta(seconds=10) < second.wait
    assert sorted(state(owner, each)["reached"] for each in (connected, other)) == [
        "failing",
        "live",
    ]


def test_a_connection_that_ends_meanwhile_gets_nothing(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    def pull(_: Source) -> Pulled:
        owner.execute("select svc.stop_connection(%s, %s, true)", [alice.user_id, connected[0]])
        return Pulled([commit(1)], {"cursor": "1"})

    taken = take(pulls, alice, pull)

    assert (taken.line.endswith("ended"), taken.wait, count(owner)) == (True, None, 0)
    assert state(owner, connected)["state"] == {}


def test_a_worker_that_stops_keeps_what_is_written_and_pulls_again(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    stop = threading.Event()

    def pull(_: Source) -> Pulled:
        def items() -> Iterator[Item]:
            yield from map(commit, range(8000))
            stop.set()
            yield commit(8000)

        return Pulled(items(), {"cursor": "8001"})

    with pytest.raises(Stopped):
        take(pulls, alice, pull, stop)
    assert (count(owner), state(owner, connected)["state"]) == (8000, {})
    owner.execute("update profile.connection set next_pull_at = now()")
    stop = threading.Event()
    take(pulls, alice, lambda _: Pulled(map(commit, range(8001)), {"cursor": "8001"}))

    assert (count(owner), state(owner, connected)["state"]) == (8001, {"cursor": "8001"})


def test_secrets_reach_the_pull_of_their_own_connection_alone(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    other = connect(owner, alice, "github")
    key_id, sealed = sealing.seal(
        sealing.public_key_of(PRIVATE),
        "ghp_secret",
        user_id=alice.user_id,
        connection_id=connected.connection_id,
        field="token",
    )
    for each in (connected, other):
        owner.execute(
            "insert into profile.connection_secret (user_id, connection_id, field, key_id, sealed)"
            " values (%s, %s, 'token', %s, %s)",
            [alice.user_id, each.connection_id, key_id, sealed],
        )
    opened: list[Any] = []

    def pull(source: Source) -> Pulled:
        opened.append(source.secrets)
        return Pulled([])

    for _ in range(2):
        take(pulls, alice, pull)

    assert opened == [{"token": "ghp_secret"}]
    assert state(owner, connected)["problem"] is None
    assert state(owner, other)["problem"] == "secret_unreadable"


def test_secrets_that_are_entered_during_a_pull_are_tried_at_once(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    def refusing(_: Source) -> Pulled:
        # The stored time has milliseconds.
        owner.execute(
            "insert into profile.connection_secret"
            " values (%s, %s, 'token', 'k', '', now() + interval '2 ms')",
            [alice.user_id, connected.connection_id],
        )
        raise PullFailed("key_refused", is_refused=True)

    taken = take(pulls, alice, refusing)

    assert taken.wait == timedelta()
    assert state(owner, connected)["reached"] == "refused"


def test_a_paused_connection_is_not_pulled(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    owner.execute("update profile.connection set paused_at = now()")

    taken = take(pulls, alice, lambda _: Pulled([commit(1)]))

    assert (taken.line, taken.wait, count(owner)) == ("", None, 0)


def test_nul_in_a_text_refuses_this_record_alone(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    spoiled = commit(2)._replace(title="a\0b")

    take(pulls, alice, lambda _: Pulled([commit(1), spoiled]))

    assert count(owner) == 1
    assert state(owner, connected)["reached"] == "live"


def test_a_refused_connection_that_is_accepted_again_is_live(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    def refused(_: Source) -> Pulled:
        raise PullFailed("key_refused", is_refused=True)

    take(pulls, alice, refused)
    owner.execute("update profile.connection set next_pull_at = now()")
    take(pulls, alice, lambda _: Pulled([commit(1)]))

    row = state(owner, connected)
    assert (row["reached"], row["problem"], row["failing_since"]) == ("live", None, None)
    assert count(owner) == 1


def test_a_part_of_a_pull_does_not_end_its_problem(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    def pull(_: Source) -> Pulled:
        def items() -> Iterator[Item]:
            yield commit(1)
            raise PullFailed("server_error")

        return Pulled(items())

    since = []
    for _ in range(2):
        take(pulls, alice, pull)
        since.append(state(owner, connected)["failing_since"])
        owner.execute("update profile.connection set next_pull_at = now()")

    assert since[0] == since[1] is not None


def test_a_state_that_cannot_be_stored_is_a_failure(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    taken = take(pulls, alice, lambda _: Pulled([commit(1)], {"cursor": "x" * 100_000}))

    row = state(owner, connected)
    assert (row["problem"], row["state"], row["failures"]) == ("failed", {}, 1)
    assert taken.wait > timedelta(minutes=1)


def test_a_statement_that_the_database_does_not_know_is_a_failure(
    pulls: Pulls,
    owner: Rows,
    alice: Person,
    connected: Connected,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def finish(target: Target) -> None:
        target.connection.execute("select hunter2 from nothing")

    taken = take(pulls, alice, lambda _: Pulled([commit(1)], {"cursor": "1"}, finish))

    row = state(owner, connected)
    assert (row["problem"], row["state"], count(owner)) == ("failed", {}, 0)
    assert "problem=failed" in taken.line
    assert "hunter2" not in caplog.text


def test_nothing_is_due_for_a_person_whose_account_is_deleted(
    pulls: Pulls, owner: Rows, alice: Person, connected: Connected
) -> None:
    owner.execute("select svc.end_account(%s, null, null)", [alice.user_id])

    taken = take(pulls, alice, lambda _: Pulled([commit(1)]))

    assert (taken.line, taken.wait) == ("", None)
    assert state(owner, connected)["next_pull_at"] is not None
