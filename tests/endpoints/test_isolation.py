"""Bob's data is in the same tables, and no answer to alice contains it or depends on it.

Derived from the list of declarations and from the catalogue, without naming any endpoint or table.
"""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.errors import IntegrityError, StringDataRightTruncation
from starlette.testclient import TestClient

from deploy.demo.command import demo
from resourceserver.api.operation import Operation
from shared.settings import Settings
from tests.conftest import Person, owning, person
from tests.endpoints.test_contract import READS, each_read, schemas, valid, with_parameter

MARKER: Final = "BOBS-OWN-"
DAYS: Final = 15
"""They contain a whole week, on any weekday."""
LAST: Final = datetime.now(UTC).date() - timedelta(days=1)
FIRST: Final = LAST - timedelta(days=DAYS)
WIDE: Final = {
    "date-time": {"from": f"{FIRST}T00:00:00Z", "to": f"{LAST + timedelta(days=1)}T00:00:00Z"},
    "date": {"from": f"{FIRST}", "to": f"{LAST}"},
}
UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Life:
    """Two people's data; bob's was added second."""

    api: TestClient
    alice: dict[str, str]
    bob: dict[str, str]
    """The headers of each."""
    before: dict[str, Any]
    """The answers to alice while she was alone, by the name of the endpoint."""
    ids: set[str]
    """Every id of a row of bob's."""

    def get(self, read: Operation, headers: dict[str, str], **changed: str) -> Any:
        """Request the longest range."""
        return self.api.get(read.path, params=widest(read) | changed, headers=headers)

    def of_bob(self, answer: Any) -> set[str]:
        """Return the parts of an answer that contain bob's data."""
        marks = {MARKER} if MARKER in answer.text else set()
        return marks | (self.ids & set(UUID.findall(answer.text)))


def widest(read: Operation) -> dict[str, str]:
    """Return the parameters of a question about everything."""
    params = valid(read)
    for name, schema in schemas(read).items():
        if name in ("from", "to"):
            params[name] = WIDE[schema["format"]][name]
        elif name == "date":
            params[name] = f"{LAST - timedelta(days=3)}"
        elif name == "limit":
            params[name] = "100000"
    return params


def answered(response: Any) -> Any:
    """Return an answer without the time at which it was given."""
    assert response.status_code == 200, response.text
    body = response.json()
    body.pop("exported_at", None)
    return body


@pytest.fixture(scope="module")
def life(deployment: Settings, resource_client: TestClient) -> Iterator[Life]:
    """Alice's days, the answers about them, and then bob's days."""
    with owning(deployment) as owner:
        alice, bob = person(owner, "alice"), person(owner, "bob")
        fill(deployment, alice, seed=1)
        headers = alice.headers()
        before = {
            read.name: answered(
                resource_client.get(read.path, params=widest(read), headers=headers)
            )
            for read in READS
        }
        fill(deployment, bob, seed=2)
        mark(owner, bob)
        yield Life(resource_client, headers, bob.headers(), before, ids(owner, bob))


def fill(deployment: Settings, who: Person, *, seed: int) -> None:
    words = [who.email, f"--days={DAYS}", f"--until={LAST}", f"--seed={seed}"]
    made = CliRunner().invoke(demo, words, obj=deployment)
    assert made.exit_code == 0, made.output


def columns(owner: psycopg.Connection[Any], kind: str) -> list[tuple[sql.SQL, sql.Identifier]]:
    """Return the columns of a type in all tables of people."""
    rows = owner.execute(
        """
        select attrelid::regclass::text,
               attname
          from svc.tables_of_people() as place
          join pg_attribute on attrelid = place
         where atttypid = %s::regtype
           and attnum > 0
           and attname <> 'user_id'
        """,
        [kind],
    ).fetchall()
    return [(sql.SQL(table), sql.Identifier(name)) for table, name in rows]


def mark(owner: psycopg.Connection[Any], who: Person) -> None:
    """Put the marker before every text of a person's that may be any text."""
    for table, name in columns(owner, "text"):
        try:
            with owner.transaction():
                owner.execute(
                    sql.SQL(
                        "update {table} set {name} = %s || {name} where user_id = %s and {name} <> ''"
                    ).format(table=table, name=name),
                    [MARKER, who.user_id],
                )
        except (IntegrityError, StringDataRightTruncation):
            # The column has a few allowed words, or a name to which other tables refer.
            continue
    owner.execute(
        "update identity.user set display_name = %s where user_id = %s", [MARKER, who.user_id]
    )
    owner.execute(
        """
        insert into profile.subscription (user_id, plan, status, billing)
        values (%s, %s, 'active', 'none')
        """,
        [who.user_id, MARKER],
    )


def ids(owner: psycopg.Connection[Any], who: Person) -> set[str]:
    found = {str(who.user_id)}
    for table, name in columns(owner, "uuid"):
        query = sql.SQL(
            "select {name}::text from {table} where user_id = %s and {name} is not null"
        )
        found |= {
            text for (text,) in owner.execute(query.format(table=table, name=name), [who.user_id])
        }
    return found


@each_read
def test_data_of_bob_does_not_change_the_answers_to_alice(life: Life, read: Operation) -> None:
    answer = life.get(read, life.alice)

    assert answered(answer) == life.before[read.name]
    assert life.of_bob(answer) == set()


@each_read
def test_bob_gets_other_answers_than_alice(life: Life, read: Operation) -> None:
    answer = answered(life.get(read, life.bob))

    assert answer != life.before[read.name]


def test_answers_to_bob_contain_his_marker(life: Life) -> None:
    marked = [read.name for read in READS if MARKER in life.get(read, life.bob).text]

    # Answers of numbers alone have no place for it.
    assert len(marked) > len(READS) / 2


@with_parameter("cursor")
def test_a_cursor_of_bob_gives_alice_only_rows_of_her_own(life: Life, read: Operation) -> None:
    limited = {"limit": "1"} if "limit" in schemas(read) else {}
    cursor = life.get(read, life.bob, **limited).json()["next_cursor"] or ""

    for end in range(1, len(cursor) + 1):
        answer = life.get(read, life.alice, cursor=cursor[:end], **limited)

        assert answer.status_code in (200, 400)
        assert life.of_bob(answer) == set()


@each_read
def test_a_long_answer_is_compressed_on_request(life: Life, read: Operation) -> None:
    plain = life.get(read, life.alice | {"Accept-Encoding": "identity"})
    with life.api.stream(
        "GET",
        read.path,
        params=widest(read),
        headers=life.alice | {"Accept-Encoding": "br, gzip;q=0.5"},
    ) as packed:
        sent = b"".join(packed.iter_raw())

    assert "content-encoding" not in plain.headers
    assert "Authorization" in plain.headers["vary"].split(", ")
    assert packed.headers["vary"] == plain.headers["vary"]
    if len(plain.content) >= 1024:
        assert packed.headers["vary"] == "Authorization, Accept-Encoding"
        assert packed.headers["content-encoding"] == "gzip"
        assert answered_bytes(gzip.decompress(sent)) == answered_bytes(plain.content)
    else:
        assert "content-encoding" not in packed.headers
        assert sent == plain.content


def answered_bytes(body: bytes) -> Any:
    read = json.loads(body)
    read.pop("exported_at", None)
    return read
