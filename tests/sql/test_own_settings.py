"""The functions about goals and devices: their rights, and the limit on goals."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from shared.tokens import Token
from tests.conftest import Connect, Person
from tests.sql.test_deletion import sign_in
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

GOAL = "'Own', 'focus_ms', 'at_least', %(target)s, 'day', '{1,2,3,4,5,6,7}', '{}', '{}', '{}', '{}', true"
PUT = f"svc.put_goal(%(user_id)s, %(session)s, %(id)s, {GOAL})"
LISTS = [
    "svc.goals(%(user_id)s, %(session)s)",
    "svc.devices(%(user_id)s, %(session)s, 10)",
]
CHANGES = {
    PUT: "signed_out",
    "svc.switch_goal(%(user_id)s, %(session)s, %(id)s, false)": False,
    "svc.remove_goal(%(user_id)s, %(session)s, %(id)s)": False,
    "svc.rename_device(%(user_id)s, %(session)s, %(id)s, 'Own')": False,
    "svc.retire_device(%(user_id)s, %(session)s, %(id)s, true)": False,
}


@pytest.fixture
def alices(owner: Rows, alice: Person) -> UUID:
    """The id of both a goal and a device of alice."""
    own_id = uuid4()
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, device_id, name)
            values (%(user_id)s, %(id)s, 'Alices')
        )
        insert into activity.goal (user_id, goal_id, title, metric, comparison, target, period)
        values (%(user_id)s, %(id)s, 'Alices', 'focus_ms', 'at_least', 1, 'day')
        """,
        {"user_id": alice.user_id, "id": own_id},
    )
    return own_id


@pytest.fixture
def signed_in(alice: Person, bob: Person) -> tuple[Token, Token]:
    """Sessions of alice and of bob."""
    return sign_in(alice), sign_in(bob)


def call(connection: Rows, function: str, user_id: Any, session: Any, own_id: UUID) -> list[Any]:
    return connection.execute(
        f"select * from {function}",  # noqa: S608 -- one of this file
        {"user_id": user_id, "session": session, "id": own_id, "target": 5},
    ).fetchall()


def everything(owner: Rows) -> list[Any]:
    return [
        owner.execute(f"select * from activity.{table} order by 1, 2").fetchall()  # noqa: S608 -- ours
        for table in ("goal", "device")
    ]


@pytest.mark.parametrize("function", LISTS)
def test_the_lists_have_rows_of_the_signed_in_person(
    connect_as: Connect, alice: Person, alices: UUID, signed_in: tuple[Token, Token], function: str
) -> None:
    rows = call(connect_as("authserver"), function, alice.user_id, signed_in[0].hash, alices)

    assert [row[0] for row in rows] == [alices]


@pytest.mark.parametrize("function", [*LISTS, *CHANGES])
def test_nothing_is_read_or_changed_without_a_session_of_the_same_person(
    connect_as: Connect,
    owner: Rows,
    alice: Person,
    bob: Person,
    alices: UUID,
    signed_in: tuple[Token, Token],
    function: str,
) -> None:
    authserver = connect_as("authserver")
    alices_session, bobs_session = (session.hash for session in signed_in)
    over = sign_in(alice, seen="30 days").hash
    before = everything(owner)

    answers = [
        call(authserver, function, user_id, session, alices)
        for user_id, session in (
            (alice.user_id, bobs_session),
            (bob.user_id, alices_session),
            (alice.user_id, over),
            (alice.user_id, None),
            (None, alices_session),
        )
    ]

    nothing = [(CHANGES[function],)] if function in CHANGES else []
    assert answers == [nothing] * 5
    assert everything(owner) == before


@pytest.mark.parametrize("function", list(CHANGES)[1:])
def test_bob_cannot_change_a_row_of_alice(
    connect_as: Connect,
    owner: Rows,
    bob: Person,
    alices: UUID,
    signed_in: tuple[Token, Token],
    function: str,
) -> None:
    owner.execute("insert into activity.device (user_id, name) values (%s, 'b')", [bob.user_id])
    owner.execute(
        "insert into activity.goal (user_id, title, metric, comparison, target, period) "
        "values (%s, 'b', 'focus_ms', 'at_least', 1, 'day')",
        [bob.user_id],
    )
    before = everything(owner)

    answer = call(connect_as("authserver"), function, bob.user_id, signed_in[1].hash, alices)

    assert answer == [(False,)]
    assert everything(owner) == before


def test_goals_added_at_the_same_time_keep_to_the_limit(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    session = sign_in(alice).hash
    owner.execute(
        "insert into activity.goal (user_id, title, metric, comparison, target, period) "
        "select %s, 'goal', 'coding_ms', 'at_least', n, 'day' from generate_series(1, 99) as n",
        [alice.user_id],
    )
    first, second = connect_as("authserver"), connect_as("authserver")

    with ThreadPoolExecutor(1) as rivals:
        with first.transaction():
            added = call(first, PUT, alice.user_id, session, uuid4())
            waiting = rivals.submit(
                call, second, PUT.replace("%(target)s", "6"), alice.user_id, session, uuid4()
            )
            wait_for_rivals(owner, 1)
        refused = waiting.result()

    assert added == [(None,)]
    assert refused == [("too_many",)]
