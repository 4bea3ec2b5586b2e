"""The rules by which the same schema runs on a Citus cluster, and the file that moves a database to one.

No cluster is here. The file runs on plain PostgreSQL, where functions with the names of Citus's check what
its manual requires of a table ("Creating and Modifying Distributed Objects"), and record the calls.
tests/citus.py runs other tests on a cluster.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from tests.citus import DISTRIBUTE, move
from tests.conftest import owning

STAND_IN: Final = (Path(__file__).parent / "citus.sql").read_text(encoding="utf-8")

SCHEMAS: Final = (
    *("svc", "identity", "oauth", "reference", "activity", "code"),
    *("content", "health", "location", "music", "profile"),
)
LEFT_OUT: Final = {
    ("oauth.device_authorization", "device_authorization_has_a_grant"),
    ("profile.integration_key", "integration_key_is_of_a_connection"),
}
"""Foreign keys of copies to tables of people, which a cluster cannot have."""

Rows = psycopg.Connection[Any]


@pytest.fixture
def cluster(database_of_its_own: Any) -> Iterator[Rows]:
    """A database that answers like the coordinator of a cluster without any rows of its own."""
    with psycopg.connect(database_of_its_own.database_url, autocommit=True) as connection:
        connection.execute(STAND_IN.encode())
        connection.execute("set search_path = citus_stand_in, public")
        yield connection


def placed(connection: Rows) -> dict[str, str]:
    """Return the place of each table that was moved."""
    rows = connection.execute("select logicalrelid::text, place from pg_dist_partition").fetchall()
    return {name.replace('"', ""): place for name, place in rows}


def foreign_keys(connection: Rows) -> set[tuple[str, str]]:
    """Return table and name of each foreign key."""
    rows = connection.execute(
        "select conrelid::regclass::text, conname from pg_constraint where contype = 'f'"
    ).fetchall()
    return {(table.replace('"', ""), name) for table, name in rows}


def test_each_table_has_a_place(cluster: Rows) -> None:
    # A new table is a decision: it belongs to a person, is small, or is for the service alone.
    move(cluster)

    owned = cluster.execute(
        "select nspname from pg_namespace where nspowner = 'svc_owner'::regrole"
    ).fetchall()
    assert {name for (name,) in owned} == set(SCHEMAS)
    tables = cluster.execute(
        """
        select table_schema || '.' || table_name
          from information_schema.tables
         where table_schema = any (%s)
           and table_type = 'BASE TABLE'
        """,
        [list(SCHEMAS)],
    ).fetchall()
    text = DISTRIBUTE.read_text(encoding="utf-8")
    of_coordinator = text[text.index("('coordinator', array[") :]
    kept = set(re.findall(r"'(\w+\.\w+)'", of_coordinator[: of_coordinator.index("]")]))
    assert {name for (name,) in tables} == placed(cluster).keys() | kept
    assert not placed(cluster).keys() & kept


def test_tables_of_people_are_spread_by_person_and_kept_together(cluster: Rows) -> None:
    move(cluster)

    calls = cluster.execute(
        "select column_name, colocated_with, count(*) from citus_stand_in.call group by 1, 2 order by 2"
    ).fetchall()
    first, others, copies = calls
    assert first == ("user_id", "none", 1)
    assert others[:2] == ("user_id", "oauth.grant")
    assert copies[:2] == (None, None)
    assert others[2] > 50


def test_a_second_run_changes_nothing(cluster: Rows) -> None:
    move(cluster)
    keys, places = foreign_keys(cluster), placed(cluster)
    count = cluster.execute("select count(*) from citus_stand_in.call").fetchone()

    move(cluster)

    assert (foreign_keys(cluster), placed(cluster)) == (keys, places)
    assert cluster.execute("select count(*) from citus_stand_in.call").fetchone() == count


def test_all_foreign_keys_remain_but_those_of_copies_to_tables_of_people(cluster: Rows) -> None:
    before = foreign_keys(cluster)

    move(cluster)

    assert before - foreign_keys(cluster) == LEFT_OUT


def test_a_failed_run_leaves_every_table_and_key_as_it_was(cluster: Rows) -> None:
    before = foreign_keys(cluster)
    cluster.execute("insert into citus_stand_in.refused values ('music.listen')")

    with pytest.raises(psycopg.errors.RaiseException, match=r"no place for music\.listen"):
        move(cluster)

    cluster.execute("rollback")
    assert foreign_keys(cluster) == before
    assert placed(cluster) == {}


def test_a_key_without_the_person_is_refused(cluster: Rows) -> None:
    cluster.execute("create unique index on music.listen (track)")

    with pytest.raises(psycopg.errors.RaiseException, match="must include user_id"):
        move(cluster)


@pytest.fixture(scope="module")
def keys(deployment: Any) -> Iterator[list[tuple[str, str, list[str], str | None, str]]]:
    """Every key and foreign key: table, kind, columns, the table it refers to, and what a deletion does."""
    with owning(deployment) as owner:
        yield owner.execute(
            """
            select conrelid::regclass::text,
                   contype::text,
                   array(
                       select attname::text
                         from unnest(conkey) with ordinality as part (number, position)
                         join pg_attribute on attrelid = conrelid
                                          and attnum = number
                        order by position
                   ),
                   nullif(confrelid, 0)::regclass::text,
                   confdeltype::text
              from pg_constraint
             where connamespace::regnamespace::text = any (%s)
               and contype in ('p', 'u', 'f', 'x')
            """,
            [list(SCHEMAS)],
        ).fetchall()


def of_people() -> set[str]:
    """Return the tables that the file spreads by person."""
    text = DISTRIBUTE.read_text(encoding="utf-8")
    part = text[text.index("('person', array[") :]
    return set(re.findall(r"'(\w+\.\w+)'", part[: part.index("]")]))


def test_every_key_of_a_persons_table_begins_with_the_person(keys: list[Any]) -> None:
    wrong = [
        (table, columns)
        for table, kind, columns, _, _ in keys
        if table.replace('"', "") in of_people() and kind in "pux" and columns[0] != "user_id"
    ]

    assert wrong == []


def test_foreign_keys_between_tables_of_people_have_the_person_and_set_nothing_to_null(
    keys: list[Any],
) -> None:
    foreign = [
        (table.replace('"', ""), columns, referred.replace('"', ""), action)
        for table, kind, columns, referred, action in keys
        if kind == "f" and table.replace('"', "") in of_people()
    ]

    assert len(foreign) > 20
    assert [each for each in foreign if each[2] in of_people() and each[1][0] != "user_id"] == []
    # a: no action, r: restrict, c: cascade.
    assert [each for each in foreign if each[3] not in "arc"] == []


def test_no_table_has_triggers_or_identity_columns(db: Rows) -> None:
    triggers = db.execute("select tgname from pg_trigger where not tgisinternal").fetchall()
    identities = db.execute(
        """
        select attrelid::regclass::text, attname::text
          from pg_attribute
         where attidentity <> ''
           and attnum > 0
        """
    ).fetchall()

    assert triggers == []
    # Not public: answers have the names that labels stand for.
    assert identities == [("activity.label", "label_id")]
