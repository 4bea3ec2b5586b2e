"""The functions of uploads: what a ticket opens, who creates one, and which files are needed."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, LiteralString

import psycopg
import pytest

from shared import SCHEMA_VERSION, tokens
from shared.tokens import Token
from tests.conftest import Connect, Person
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]
MOST: Final = 100


def sign_in(person: Person, *, proved: str = "0 s", seen: str = "0 s") -> Token:
    """Return a sign-in session of a person; the arguments are its ages."""
    session = tokens.mint(tokens.SESSION, person.user_id)
    person.connection.execute(
        "insert into identity.session (user_id, session_hash, authenticated_at, seen_at) "
        "values (%s, %s, now() - %s::interval, now() - %s::interval)",
        [person.user_id, session.hash, proved, seen],
    )
    return session


def ticket(person: Person) -> Token:
    """Return a ticket of a person."""
    made = tokens.mint(tokens.UPLOAD, person.user_id)
    person.connection.execute(
        "insert into profile.upload (user_id, ticket_hash) values (%s, %s)",
        [person.user_id, made.hash],
    )
    return made


def create(authserver: Rows, person: Person, session: Token) -> list[Any]:
    made = tokens.mint(tokens.UPLOAD, person.user_id)
    return authserver.execute(
        "select upload_id from svc.create_upload(%s, %s, %s)",
        [person.user_id, session.hash, made.hash],
    ).fetchall()


def begin(ingester: Rows, presented: Token, length: int = 10, *, may_restart: bool = False) -> Any:
    (outcome,) = ingester.execute(
        "select svc.begin_upload(%s, %s, 'a.json', null, %s, %s, %s, %s)",
        [presented.user_id, presented.hash, length, MOST, may_restart, SCHEMA_VERSION],
    ).fetchone() or (None,)
    return outcome


def advance(ingester: Rows, presented: Token, before: int, received: int, length: int = 10) -> Any:
    (status,) = ingester.execute(
        "select svc.advance_upload(%s, %s, %s, %s, %s, %s)",
        [presented.user_id, presented.hash, before, received, length, SCHEMA_VERSION],
    ).fetchone() or (None,)
    return status


def find(ingester: Rows, presented: Token) -> list[Any]:
    return ingester.execute(
        "select status, length, received, is_valid from svc.find_upload(%s, %s, %s)",
        [presented.user_id, presented.hash, SCHEMA_VERSION],
    ).fetchall()


def test_a_ticket_needs_a_fresh_sign_in_of_the_person(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    authserver = connect_as("authserver")
    refused = [
        (alice, sign_in(alice, proved="15 min")),
        (alice, sign_in(alice, seen="30 days")),
        (alice, sign_in(bob)),
    ]

    answers = [create(authserver, person, session) for person, session in refused]
    made = create(authserver, alice, sign_in(alice, proved="14 min"))

    assert answers == [[]] * 3
    assert owner.execute(
        "select user_id, upload_id, status, expires_at - created_at = '24 h' from profile.upload"
    ).fetchall() == [(alice.user_id, made[0][0], "ticket", True)]


def test_a_person_has_twenty_unused_tickets_at_most(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    authserver, session = connect_as("authserver"), sign_in(alice)
    ticket(bob)
    begun = ticket(alice)
    begin(connect_as("ingester"), begun)

    created = [create(authserver, alice, session)[0][0] for _ in range(22)]

    kept = owner.execute(
        "select upload_id from profile.upload where status = 'ticket' and user_id = %s",
        [alice.user_id],
    ).fetchall()
    assert len(kept) == 20
    assert created[-1] in {upload_id for (upload_id,) in kept}
    assert owner.execute("select count(*) from profile.upload").fetchone() == (22,)


def test_a_ticket_opens_its_own_upload_until_the_last_byte(
    connect_as: Connect, alice: Person, bob: Person
) -> None:
    ingester = connect_as("ingester")
    own, other = ticket(alice), ticket(bob)

    steps = [
        find(ingester, own),
        begin(ingester, own),
        begin(ingester, own),
        advance(ingester, own, 0, 4),
        advance(ingester, own, 0, 5),
        find(ingester, own),
        advance(ingester, own, 4, 10),
        find(ingester, own),
        advance(ingester, own, 10, 10),
        begin(ingester, own, may_restart=True),
    ]

    assert steps == [
        [("ticket", None, 0, True)],
        *("begun", "exists", "receiving", None),
        [("receiving", 10, 4, True)],
        "complete",
        [("complete", 10, 10, False)],
        *(None, "not_valid"),
    ]
    assert find(ingester, other) == [("ticket", None, 0, True)]
    assert find(ingester, tokens.mint(tokens.UPLOAD, alice.user_id)) == []


def test_a_form_may_start_again_and_gives_its_ticket_back(
    connect_as: Connect, alice: Person
) -> None:
    ingester, own = connect_as("ingester"), ticket(alice)
    begin(ingester, own)
    advance(ingester, own, 0, 4)

    again = begin(ingester, own, 20, may_restart=True)
    restarted = find(ingester, own)
    ingester.execute(
        "select svc.release_upload(%s, %s, %s)", [own.user_id, own.hash, SCHEMA_VERSION]
    )

    assert (again, restarted) == ("begun", [("receiving", 20, 0, True)])
    assert find(ingester, own) == [("ticket", None, 0, True)]


def test_all_files_of_a_person_are_within_the_limit(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    ingester = connect_as("ingester")
    first, second = ticket(alice), ticket(alice)

    outcomes = [
        begin(ingester, first, MOST - 10),
        begin(ingester, second, 11),
        begin(ingester, ticket(bob), MOST),
        begin(ingester, second, 10),
    ]
    owner.execute("update profile.upload set status = 'ended', ended_at = now()")
    afterwards = begin(ingester, ticket(alice), MOST)

    assert outcomes == ["begun", "too_much", "begun", "begun"]
    assert afterwards == "begun"


@pytest.mark.parametrize(
    ("ending", "row"),
    [
        (
            "update profile.upload set expires_at = now() - interval '1 ms'",
            [("receiving", 10, 0, False)],
        ),
        ("delete from identity.user", []),
    ],
)
def test_an_expired_ticket_and_that_of_a_deleted_account_open_nothing(
    connect_as: Connect, owner: Rows, alice: Person, ending: LiteralString, row: list[Any]
) -> None:
    ingester, worker = connect_as("ingester"), connect_as("worker")
    own, unused = ticket(alice), ticket(alice)
    begin(ingester, own)
    (upload_id,) = owner.execute(
        "select upload_id from profile.upload where status = 'receiving'"
    ).fetchone() or (None,)
    unneeded: LiteralString = "select svc.unneeded_uploads(%s, %s)"
    needed = worker.execute(unneeded, [[upload_id], SCHEMA_VERSION]).fetchall()

    owner.execute(ending)

    assert needed == []
    assert find(ingester, own) == row
    assert [advance(ingester, own, 0, 4), begin(ingester, unused)] == [None, "not_valid"]
    assert worker.execute(unneeded, [[upload_id], SCHEMA_VERSION]).fetchall() == [(upload_id,)]


def test_what_has_expired_ends(connect_as: Connect, owner: Rows, alice: Person) -> None:
    ingester, worker = connect_as("ingester"), connect_as("worker")
    old, unused, current, waiting = (ticket(alice) for _ in range(4))
    for each in (old, current, waiting):
        begin(ingester, each)
    advance(ingester, waiting, 0, 10)
    owner.execute(
        "update profile.upload set expires_at = now() - interval '1 ms' where ticket_hash = any (%s)",
        [[old.hash, unused.hash]],
    )

    worker.execute("select svc.expire_uploads(%s)", [SCHEMA_VERSION])

    assert owner.execute(
        "select ticket_hash, status, problem from profile.upload order by status"
    ).fetchall() == [
        (waiting.hash, "complete", None),
        (old.hash, "ended", "expired"),
        (current.hash, "receiving", None),
    ]
    owner.execute(
        "update profile.upload set ended_at = now() - interval '30 days 1 s' where problem > ''"
    )
    worker.execute("select svc.expire_uploads(%s)", [SCHEMA_VERSION])
    assert owner.execute("select count(*) from profile.upload").fetchone() == (2,)


def test_only_a_sign_in_of_the_person_lists_and_cancels(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    authserver, ingester = connect_as("authserver"), connect_as("ingester")
    own = ticket(alice)
    ticket(alice)
    begin(ingester, own)
    session, other = sign_in(alice, proved="2 days"), sign_in(bob)
    (upload_id,) = owner.execute(
        "select upload_id from profile.upload where status = 'receiving'"
    ).fetchone() or (None,)

    def listed(user_id: object, session_hash: bytes) -> list[Any]:
        return authserver.execute(
            "select upload_id, status, problem from svc.uploads(%s, %s)", [user_id, session_hash]
        ).fetchall()

    def cancel(user_id: object, session_hash: bytes) -> Any:
        return authserver.execute(
            "select svc.cancel_upload(%s, %s, %s)", [user_id, session_hash, upload_id]
        ).fetchone()

    strangers = [(alice.user_id, other.hash), (bob.user_id, other.hash)]
    assert [listed(*each) for each in strangers] == [[], []]
    assert [cancel(*each) for each in strangers] == [(False,), (False,)]
    assert listed(alice.user_id, session.hash) == [(upload_id, "receiving", None)]
    assert cancel(alice.user_id, session.hash) == (True,)
    assert cancel(alice.user_id, session.hash) == (False,)
    assert listed(alice.user_id, session.hash) == [(upload_id, "ended", "canceled")]
    assert advance(ingester, own, 0, 4) is None


def test_server_and_worker_note_their_directories_for_each_other(connect_as: Connect) -> None:
    worker = connect_as("worker")
    note: LiteralString = "select svc.note_upload_directory(%s, %s, %s)"
    one, two = ("01234567-89ab-cdef-0123-456789abcde" + end for end in "01")

    with worker.transaction(force_rollback=True):
        answers = [
            worker.execute(note, [process, directory, SCHEMA_VERSION]).fetchone()
            for process, directory in (("server", one), ("worker", two), ("server", two))
        ]

    assert [None if row is None or row[0] is None else str(row[0]) for row in answers] == [
        None,
        one,
        two,
    ]


def test_two_servers_that_start_together_both_note_their_directory(
    connect_as: Connect, owner: Rows
) -> None:
    first, second = connect_as("worker"), connect_as("worker")
    note: LiteralString = "select svc.note_upload_directory('server', gen_random_uuid(), %s)"

    with ThreadPoolExecutor(1) as threads:
        with first.transaction():
            first.execute(note, [SCHEMA_VERSION])
            later = threads.submit(second.execute, note, [SCHEMA_VERSION])
            wait_for_rivals(owner, 1)
        noted = later.result(60).fetchone()

    owner.execute("delete from svc.upload_directory")
    assert noted == (None,)
