"""The rows of turns: how they are made due, claimed, renewed and ended, by the login of the worker."""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from shared import SCHEMA_VERSION, tokens
from tests.conftest import Connect, Person

Rows = psycopg.Connection[Any]

LATER: Final = datetime(2999, 1, 1, tzinfo=UTC)


class Claimed(NamedTuple):
    """What a claim returns."""

    user_id: UUID
    kind: str
    leased_until: datetime
    attempt: int


def claim(worker: Rows, *kinds: str, lease: str = "60 seconds") -> Claimed | None:
    row = worker.execute(
        "select * from svc.claim_turn(%s, %s, %s::interval)",
        [list(kinds or ("import",)), SCHEMA_VERSION, lease],
    ).fetchone()
    return None if row is None else Claimed(*row)


def end(worker: Rows, how: LiteralString, turn: Claimed, *more: object) -> Any:
    """Return what a function about a claimed turn returns; None without a row."""
    row = worker.execute(how, [*turn[:3], *more]).fetchone()
    return None if row is None else row[0]


FINISH: Final = "select svc.finish_turn(%s, %s, %s)"
FINISH_AND_WAIT: Final = "select svc.finish_turn(%s, %s, %s, %s::interval)"
PUT_OFF: Final = "select svc.put_off_turn(%s, %s, %s, %s::interval)"
GIVE_BACK: Final = "select svc.give_back_turn(%s, %s, %s)"
RENEW: Final = "select svc.renew_turn(%s, %s, %s)"


def make_due(owner: Rows, person: Person, kind: str = "import", at: datetime | None = None) -> None:
    owner.execute("select svc.make_due(%s, %s, coalesce(%s, now()))", [person.user_id, kind, at])


def rows(owner: Rows) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select kind, due_at, leased_until is not null, attempts from svc.turn order by kind"
    ).fetchall()


def test_a_turn_is_served_when_it_is_due_and_is_gone_when_it_is_done(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    worker = connect_as("worker")
    make_due(owner, alice, at=LATER)
    early = claim(worker)
    make_due(owner, alice)

    other_kind = claim(worker, "rollups")
    turn = claim(worker, "rollups", "import")
    again = claim(worker)

    assert early is other_kind is again is None
    assert turn is not None
    assert (turn.user_id, turn.kind, turn.attempt) == (alice.user_id, "import", 1)
    assert end(worker, FINISH, turn) is True
    assert rows(owner) == []


def test_the_turn_that_waited_longest_is_next_and_one_that_comes_again_is_last(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    worker = connect_as("worker")
    long_ago = datetime(2025, 6, 16, tzinfo=UTC)
    make_due(owner, bob, at=long_ago + timedelta(minutes=1))
    make_due(owner, alice, at=long_ago)
    served = []

    for _ in range(4):
        turn = claim(worker)
        assert turn is not None
        served.append(turn.user_id)
        end(worker, FINISH_AND_WAIT, turn, "0 s")

    assert served == [alice.user_id, bob.user_id, alice.user_id, bob.user_id]


def test_what_becomes_due_while_the_turn_is_taken_is_not_lost(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    worker = connect_as("worker")
    make_due(owner, alice)
    turn = claim(worker)
    assert turn is not None

    make_due(owner, alice, at=LATER)
    make_due(owner, alice, at=LATER - timedelta(days=1))
    make_due(owner, alice, at=LATER)
    meanwhile = claim(worker)
    ended = end(worker, FINISH, turn)

    assert meanwhile is None
    assert ended is True
    assert rows(owner) == [("import", LATER - timedelta(days=1), False, 0)]


def test_an_ended_lease_frees_the_turn_and_its_worker_ends_it_no_more(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    killed, worker = connect_as("worker"), connect_as("worker")
    make_due(owner, alice)
    lost = claim(killed, lease="0 seconds")
    assert lost is not None
    make_due(owner, alice, at=LATER)

    turn = claim(worker)

    assert turn is not None
    assert turn.attempt == 2
    assert end(killed, RENEW, lost) is None
    assert [end(killed, how, lost) for how in (FINISH, GIVE_BACK)] == [None, None]
    assert end(killed, PUT_OFF, lost, "1 hour") is None
    renewed = end(worker, RENEW, turn)
    assert isinstance(renewed, datetime)
    assert renewed > turn.leased_until
    assert end(worker, FINISH, turn) is None
    assert end(worker, FINISH, turn._replace(leased_until=renewed)) is True
    assert rows(owner) == [("import", LATER, False, 0)]


def test_a_turn_that_fails_is_put_off_and_a_new_reason_does_not_hurry_it(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    worker = connect_as("worker")
    make_due(owner, alice)
    turn = claim(worker)
    assert turn is not None
    make_due(owner, alice)

    assert end(worker, PUT_OFF, turn, "1 hour") is True
    make_due(owner, alice)

    assert claim(worker) is None
    owner.execute("update svc.turn set due_at = now()")
    second = claim(worker)
    assert second is not None
    assert second.attempt == 2
    assert end(worker, FINISH_AND_WAIT, second, "1 hour") is True
    ((_, due_at, is_leased, attempts),) = rows(owner)
    assert (due_at > datetime.now(UTC), is_leased, attempts) == (True, False, 0)


def test_a_turn_that_kills_its_workers_comes_back_ever_less_often(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    worker = connect_as("worker")
    make_due(owner, alice)
    leases = []

    for _ in range(9):
        # In a transaction now() stands still, however long the claim takes.
        with worker.transaction():
            now = worker.execute("select now()").fetchone()
            turn = claim(worker)
        assert now is not None
        assert turn is not None
        leases.append((turn.leased_until - now[0]).total_seconds())
        # As if the time had passed.
        owner.execute("update svc.turn set leased_until = now()")

    assert leases == [60, 120, 240, 480, 960, 1920, 3840, 3840, 3840]


def test_a_list_of_people_makes_turns_due_and_leaves_those_that_exist(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    worker = connect_as("worker")
    make_due(owner, alice, at=LATER)

    worker.execute("select svc.add_turns('import', %s)", [[alice.user_id, bob.user_id]])

    turn = claim(worker)
    assert turn is not None
    assert turn.user_id == bob.user_id
    assert claim(worker) is None


def test_a_turn_that_is_given_back_is_free_at_once_and_was_no_attempt(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    worker = connect_as("worker")
    make_due(owner, alice)
    turn = claim(worker)
    assert turn is not None

    assert end(worker, GIVE_BACK, turn) is True

    again = claim(worker)
    assert again is not None
    assert again.attempt == 1


def test_workers_side_by_side_take_each_turn_once(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    kinds = [f"kind_{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    for kind in kinds:
        make_due(owner, alice, kind)
        make_due(owner, bob, kind)
    taken: list[tuple[UUID, str]] = []

    def work(worker: Rows) -> None:
        while (turn := claim(worker, *kinds)) is not None:
            taken.append((turn.user_id, turn.kind))

    workers = [
        threading.Thread(target=work, args=[connection])
        for connection in [connect_as("worker") for _ in range(4)]
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len(taken) == 2 * len(kinds)
    assert set(Counter(taken).values()) == {1}


def test_a_claim_does_not_wait_for_one_who_makes_a_turn_due(
    connect_as: Connect, owner: Rows, deployment: Any, alice: Person, bob: Person
) -> None:
    worker = connect_as("worker")
    make_due(owner, alice)
    make_due(owner, bob)

    with psycopg.connect(deployment.database_url) as other:
        make_due(other, alice, at=datetime(2025, 6, 16, tzinfo=UTC))
        turn = claim(worker)

    assert turn is not None
    assert turn.user_id == bob.user_id


def test_a_session_makes_turns_of_its_own_person_due(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    ingester = connect_as("ingester")
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None

    with ingester.transaction():
        ingester.execute(
            "call svc.open_token_session(%s, %s, '{}', '{}', p_version => %s)",
            [alice.user_id, token.hash, SCHEMA_VERSION],
        )
        make_due(ingester, alice)
        make_due(ingester, alice, at=datetime(2025, 6, 16, tzinfo=UTC))
        with pytest.raises(errors.InsufficientPrivilege), ingester.transaction():
            make_due(ingester, bob)

    assert rows(owner) == [("import", datetime(2025, 6, 16, tzinfo=UTC), False, 0)]


@pytest.mark.parametrize("version", [None, SCHEMA_VERSION + 1])
def test_a_worker_that_does_not_fit_the_schema_claims_nothing(
    connect_as: Connect, owner: Rows, alice: Person, version: int | None
) -> None:
    make_due(owner, alice)

    with pytest.raises(psycopg.Error) as refusal:
        connect_as("worker").execute("select svc.claim_turn('{import}', %s)", [version])

    assert refusal.value.sqlstate == ("57SV1" if version is None else "57SV2")
    assert rows(owner)[0][2] is False


def test_commits_of_claims_and_ends_do_not_wait_for_the_disk(
    owner: Rows, connect_as: Connect, alice: Person
) -> None:
    make_due(owner, alice)
    worker = connect_as("worker")
    worker.execute("set synchronous_commit = on")
    seen = []

    with worker.transaction():
        turn = claim(worker)
        seen.append(worker.execute("show synchronous_commit").fetchone())
    assert turn is not None
    with worker.transaction():
        end(worker, FINISH, turn)
        seen.append(worker.execute("show synchronous_commit").fetchone())
    seen.append(worker.execute("show synchronous_commit").fetchone())

    assert seen == [("off",), ("off",), ("on",)]
