"""The functions that delete accounts: their rights, and the tables that they empty."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import errors

from authserver.people import sessions
from deploy.migrate import SQL_DIR
from shared import tokens
from shared.tokens import Token
from tests.conftest import Connect, Person
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

DELETE = "select * from svc.delete_account(%s, %s, '192.0.2.7', 'r1')"


def sign_in(person: Person, *, proved: str = "0 s", seen: str = "0 s") -> Token:
    """Return a sign-in session of a person; the arguments are its ages."""
    session = tokens.mint(tokens.SESSION, person.user_id)
    person.connection.execute(
        "insert into identity.session (user_id, session_hash, authenticated_at, seen_at) "
        "values (%s, %s, now() - %s::interval, now() - %s::interval)",
        [person.user_id, session.hash, proved, seen],
    )
    return session


def people(owner: Rows) -> list[str]:
    return [email for (email,) in owner.execute("select email from identity.user order by email")]


def test_a_fresh_sign_in_deletes_its_own_account(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    authserver = connect_as("authserver")
    session = sign_in(alice, proved="14 min")
    sign_in(bob)

    deleted = authserver.execute(DELETE, [alice.user_id, session.hash]).fetchall()

    assert deleted == [("account_deleted", alice.user_id, None, None)]
    assert people(owner) == [bob.email]
    assert owner.execute("select user_id from identity.departed_user").fetchall() == [
        (alice.user_id,)
    ]
    assert owner.execute(
        "select event, address, request_id from identity.security_event"
    ).fetchall() == [("account_deleted", "192.0.2.7", "r1")]


@pytest.mark.parametrize(
    "ago", [{"proved": "15 min"}, {"proved": "20 days"}, {"seen": "30 days"}], ids=str
)
def test_a_stale_or_ended_sign_in_deletes_nothing(
    connect_as: Connect, owner: Rows, alice: Person, ago: dict[str, str]
) -> None:
    session = sign_in(alice, **ago)

    deleted = connect_as("authserver").execute(DELETE, [alice.user_id, session.hash]).fetchall()

    assert deleted == []
    assert people(owner) == [alice.email]
    assert owner.execute("select from identity.departed_user").fetchall() == []


def test_bob_cannot_delete_alice(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    authserver = connect_as("authserver")
    alices, bobs = sign_in(alice), sign_in(bob)

    answers = [
        authserver.execute(DELETE, [user_id, session_hash]).fetchall()
        for user_id, session_hash in (
            (alice.user_id, bobs.hash),
            (bob.user_id, alices.hash),
            (alice.user_id, b""),
            (alice.user_id, None),
            (None, alices.hash),
        )
    ]

    assert answers == [[]] * 5
    assert people(owner) == [alice.email, bob.email]


def test_a_sign_in_is_fresh_and_valid_here_exactly_as_on_pages() -> None:
    text = (SQL_DIR / "functions" / "sign_ins.sql").read_text()

    assert sessions.FRESH_FOR.total_seconds() == 15 * 60
    assert sessions.IDLE_LIFETIME.days == 30
    assert "session.authenticated_at > now() - interval '15 minutes'" in text
    assert "session.seen_at > now() - interval '30 days'" in text


def test_a_sign_in_that_ends_meanwhile_deletes_nothing(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    session = sign_in(alice)
    authserver = connect_as("authserver")

    with (
        psycopg.connect(owner.info.dsn, password=owner.info.password) as ending,
        ThreadPoolExecutor(1) as rivals,
    ):
        ending.execute("select from identity.user for no key update")
        ending.execute("delete from identity.session")
        deleting = rivals.submit(authserver.execute, DELETE, [alice.user_id, session.hash])
        wait_for_rivals(owner, 1)
        ending.commit()
        deleted = deleting.result().fetchall()

    assert deleted == []
    assert people(owner) == [alice.email]


@pytest.mark.parametrize("role", ["reader", "ingester", "worker"])
@pytest.mark.parametrize(
    "call",
    [
        "svc.delete_account(gen_random_uuid(), '', null, null)",
        "svc.end_account(gen_random_uuid(), null, null)",
        "svc.forget_departed(1)",
        "svc.tables_of_people()",
        "svc.unchecked_references()",
    ],
)
def test_no_other_role_may_call_them(connect_as: Connect, role: str, call: str) -> None:
    connection = connect_as(role)

    with pytest.raises(errors.InsufficientPrivilege):
        connection.execute(f"select {call}")


def test_rows_of_an_existing_account_are_never_removed(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    owner.execute("insert into activity.device (user_id, name) values (%s, 'x')", [alice.user_id])

    removed = connect_as("authserver").execute("select svc.forget_departed(100)").fetchone()

    assert removed == (0,)
    assert owner.execute("select name from activity.device").fetchall() == [("x",)]


def test_no_table_of_data_refers_to_accounts(db: Rows) -> None:
    # With a foreign key, millions of rows would have to go in the transaction that ends an account.
    referring = db.execute(
        """
        select conrelid::regclass::text
          from pg_constraint
          join pg_class on pg_class.oid = conrelid
         where contype = 'f'
           and confrelid = 'identity.user'::regclass
           and relnamespace not in ('identity'::regnamespace, 'oauth'::regnamespace)
        """
    ).fetchall()

    assert referring == []


def test_rows_of_an_account_are_deleted_with_it(db: Rows) -> None:
    # Each table of identity and oauth with a user refers to the account, except the two whose rows outlive
    # it.
    lasting = db.execute(
        """
        with recursive ending as (
            select 'identity.user'::regclass::oid as oid
             union
            select conrelid
              from ending
              join pg_constraint on confrelid = ending.oid
             where contype = 'f'
               and confdeltype = 'c'
        )
        select relname
          from pg_attribute
          join pg_class on pg_class.oid = attrelid
         where attname = 'user_id'
           and relkind in ('r', 'p')
           and relnamespace in ('identity'::regnamespace, 'oauth'::regnamespace)
           and pg_class.oid not in (select oid from ending)
         order by relname
        """
    ).fetchall()

    assert lasting == [("departed_user",), ("security_event",)]


def test_later_tables_are_emptied_in_a_valid_order(db: Rows) -> None:
    db.execute("create schema later authorization svc_owner")
    db.execute("set role svc_owner")
    db.execute(
        """
        create table later.aa_parent (user_id uuid, n integer, primary key (user_id, n));
        create table later.mm_child (
            user_id uuid, n integer, primary key (user_id, n),
            foreign key (user_id, n) references later.aa_parent on delete restrict
        );
        create table later.zz_grandchild (
            user_id uuid, n integer,
            foreign key (user_id, n) references later.mm_child on delete restrict,
            foreign key (user_id, n) references later.aa_parent on delete restrict
        );
        create table later.parted (user_id uuid, at date) partition by range (at);
        create table later.parted_old
            partition of later.parted for values from ('2000-01-01') to ('2020-01-01');
        create table later.parted_new
            partition of later.parted for values from ('2020-01-01') to ('2040-01-01');
        create table later.circle_a (user_id uuid, n integer, primary key (user_id, n));
        create table later.circle_b (
            user_id uuid, n integer, primary key (user_id, n),
            foreign key (user_id, n) references later.circle_a
        );
        alter table later.circle_a add foreign key (user_id, n) references later.circle_b
            on delete cascade deferrable initially deferred;
        create table later.nobodys (n integer);
        """
    )
    for who, n in (("alice", 1), ("alice", 2), ("bob", 3)):
        db.execute(
            """
            with person as (select md5(%(who)s)::uuid as user_id)
            insert into later.aa_parent select user_id, %(n)s from person;
            """,
            {"who": who, "n": n},
        )
    db.execute(
        """
        insert into later.mm_child select * from later.aa_parent;
        insert into later.zz_grandchild select * from later.aa_parent;
        insert into later.parted select user_id, date '2010-01-01' from later.aa_parent;
        insert into later.parted select user_id, date '2030-01-01' from later.aa_parent;
        insert into identity.departed_user (user_id) values (md5('alice')::uuid);
        """
    )

    places = [name for (name,) in db.execute("select svc.tables_of_people()::text")]
    removed: list[int] = []
    while len(removed) < 10 and 0 not in removed:
        row = db.execute("select svc.forget_departed(3)").fetchone()
        assert row is not None
        removed.append(row[0])

    ours = [name for name in places if name.startswith("later.")]
    assert {"later.parted_old", "later.parted_new", "later.circle_a", "later.circle_b"} < set(ours)
    assert "later.parted" not in ours
    assert "later.nobodys" not in ours
    hierarchy = ["later.zz_grandchild", "later.mm_child", "later.aa_parent"]
    assert [name for name in ours if name in hierarchy] == hierarchy
    assert places.index("activity.app_session") < places.index("activity.device")
    # No foreign key says so.
    assert places.index("location.point") < places.index("location.device")
    assert not any(name.startswith(("identity", "oauth", "pg_")) for name in places)
    assert removed == [3, 3, 3, 1, 0]
    kept = db.execute(
        "select (select array_agg(n) from later.aa_parent), (select count(*) from later.parted), "
        "(select count(*) from later.zz_grandchild)"
    ).fetchone()
    assert kept == ([3], 2, 1)
