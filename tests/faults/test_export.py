"""Exports whose client, database or server fails.

Their client is a socket, so that a test decides when to read how much, and sees how the answer ends.
"""

import json
import re
import secrets
import socket
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pytest

from resourceserver.export import route
from resourceserver.export.resources import SQL
from shared.settings import Settings
from tests.conftest import Person
from tests.faults.conftest import listening
from tests.waiting import wait_for, wait_for_rivals

Rows = psycopg.Connection[Any]

END = b"\r\n0\r\n\r\n"
"""How a chunked answer ends that is whole (RFC 9112, section 7.1)."""


@pytest.fixture
def much(owner: Rows, alice: Person) -> None:
    """More than sockets buffer: 15 MB of sessions, or 6 MB compressed."""
    owner.execute(
        """
        with laptop as (
            insert into activity.device (user_id, name)
            values (%(user_id)s, 'laptop')
            returning user_id, device_id
        )
        insert into activity.app_session
               (user_id, device_id, idempotency_key, app, title, started_at, ended_at)
        select user_id,
               device_id,
               'k' || number,
               'Code',
               (%(titles)s::text[])[number %% 40 + 1],
               timestamptz '2025-06-16 00:00Z' + number * interval '1 minute',
               timestamptz '2025-06-16 00:00Z' + number * interval '1 minute'
          from laptop
         cross join generate_series(1, 10000) as number
        """,
        # They repeat after more text than compression looks back.
        {"user_id": alice.user_id, "titles": [secrets.token_hex(500) for _ in range(40)]},
    )


@dataclass
class Download:
    """A client that has requested an export, and the part of the answer that it has read."""

    connection: socket.socket
    taken: bytearray = field(default_factory=bytearray)

    def read_until(self, mark: bytes) -> None:
        """Read until ``mark`` has arrived."""
        while mark not in self.taken:
            piece = self.connection.recv(4096)
            assert piece, "the answer ended"
            self.taken += piece

    def read_all(self) -> None:
        """Read until the server closes the connection, however it does that."""
        try:
            while piece := self.connection.recv(65536):
                self.taken += piece
        except ConnectionError:
            pass

    @property
    def status(self) -> int:
        """The status of the answer."""
        return int(self.taken[9:12])

    @property
    def body(self) -> Any:
        """The JSON of the whole answer."""
        assert self.taken.endswith(END)
        rest = bytes(self.taken.partition(b"\r\n\r\n")[2])
        body = bytearray()
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            body += rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]
        return json.loads(body)


@contextmanager
def download(
    port: int, person: Person, format_: str = "json", encoding: str = "identity"
) -> Iterator[Download]:
    """Request everything, and read nothing yet."""
    with socket.socket() as connection:
        # A small buffer, so that the server soon notices that the client does not read.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", port))
        connection.sendall(
            f"GET /api/v1/export?format={format_} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {person.token()}\r\nAccept-Encoding: {encoding}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        yield Download(connection)


def under_way(owner: Rows) -> list[int]:
    """Return the backends of exports, which have a transaction from their first statement to their end."""
    found = owner.execute(
        """
        select pid
          from pg_stat_activity
         where application_name = 'svc reader'
           and datname = current_database()
           and state <> 'idle'
         order by pid
        """
    ).fetchall()
    return [pid for (pid,) in found]


def is_idle(owner: Rows) -> bool:
    """Tell whether an export is running and has sent no statement for a while."""
    found = owner.execute(
        """
        select
          from pg_stat_activity
         where application_name = 'svc reader'
           and datname = current_database()
           and state = 'idle in transaction'
           and state_change < clock_timestamp() - interval '0.5 s'
        """
    )
    return found.fetchone() is not None


def soon(owner: Rows, count: int) -> list[int]:
    """Return the backends of exports, once they are ``count``."""
    wait_for(lambda: len(under_way(owner)) == count, f"{count} exports under way")
    return under_way(owner)


@pytest.mark.usefixtures("much")
def test_the_first_rows_come_before_the_last_are_read(
    port: int, alice: Person, owner: Rows
) -> None:
    with download(port, alice) as answer:
        answer.read_until(b'"idempotency_key":"k1"')
        first = len(answer.taken)
        wait_for(lambda: is_idle(owner), "the export to wait for its reader")
        answer.read_all()

    assert first < 64 * 1024
    assert answer.status == 200
    assert len(answer.body["resources"]["app_sessions"]) == 10000


def test_the_first_piece_can_be_unpacked_by_itself(port: int, alice: Person) -> None:
    with download(port, alice, encoding="gzip") as answer:
        answer.read_all()

    head, _, body = bytes(answer.taken).partition(b"\r\n\r\n")
    size, _, rest = body.partition(b"\r\n")
    first = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(rest[: int(size, 16)])
    assert b"content-encoding: gzip" in head.lower()
    assert first.startswith(b'{"exported_at":"')
    assert first.endswith(b'"resources":{')


@pytest.mark.usefixtures("much")
def test_an_export_has_the_data_of_one_moment(port: int, alice: Person, owner: Rows) -> None:
    with download(port, alice) as answer:
        answer.read_until(b'"idempotency_key":"k1"')
        soon(owner, 1)
        owner.execute(
            "insert into activity.category_score (user_id, category, score) values (%s, 'Late', 1)",
            [alice.user_id],
        )
        owner.execute("delete from activity.app_session where idempotency_key = 'k10000'")
        answer.read_all()

    assert answer.body["resources"]["category_scores"] == []
    assert answer.body["resources"]["app_sessions"][-1]["idempotency_key"] == "k10000"


def test_an_export_that_waited_for_a_migration_is_checked_against_its_version(
    port: int, alice: Person, owner: Rows, deployment: Settings
) -> None:
    (before,) = owner.execute("select oldest_code from svc.schema_version").fetchall()

    try:
        with ExitStack() as client:
            with psycopg.connect(deployment.database_url or "") as migration:
                migration.execute("lock table svc.schema_version in access exclusive mode")
                migration.execute("update svc.schema_version set oldest_code = 9000")
                answer = client.enter_context(download(port, alice))
                wait_for_rivals(owner, 1)
            answer.read_all()
    finally:
        owner.execute("update svc.schema_version set oldest_code = %s", before)

    assert answer.status == 503
    assert b"outdated_server" in answer.taken


@pytest.mark.usefixtures("much")
@pytest.mark.parametrize("format_", ["json", "csv", "ndjson", "zip"])
def test_a_database_that_fails_midway_breaks_the_answer_off(
    port: int, alice: Person, owner: Rows, format_: str
) -> None:
    with download(port, alice, format_) as answer:
        answer.read_until(b"app_sessions")
        (backend,) = soon(owner, 1)
        owner.execute("select pg_terminate_backend(%s)", [backend])
        answer.read_all()
    soon(owner, 0)

    assert answer.status == 200
    assert not answer.taken.endswith(END)


@pytest.mark.usefixtures("much")
def test_a_client_that_disconnects_frees_its_connection(
    port: int, alice: Person, owner: Rows
) -> None:
    with download(port, alice) as answer:
        answer.read_until(b'"idempotency_key":"k1"')
        soon(owner, 1)

    soon(owner, 0)


@pytest.mark.usefixtures("much")
def test_an_export_to_a_client_that_stops_reading_is_broken_off(
    port: int, alice: Person, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "STALLED_S", 0.5)

    with download(port, alice) as answer:
        answer.read_until(b'"idempotency_key":"k1"')
        soon(owner, 0)
        answer.read_all()

    assert not answer.taken.endswith(END)


@pytest.mark.usefixtures("much")
def test_an_export_without_end_is_broken_off(
    port: int, alice: Person, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "LONGEST_S", 1.0)

    with download(port, alice) as answer:
        # The head comes before the first row is read, so a busy machine has sent it by then.
        answer.read_until(b"\r\n\r\n")
        soon(owner, 0)
        answer.read_all()

    assert not answer.taken.endswith(END)


def test_the_database_lets_an_export_wait_longer_than_the_server(
    port: int, alice: Person, owner: Rows
) -> None:
    (allowed,) = re.findall(
        r"idle_in_transaction_session_timeout = '(\d+)s'",
        SQL["allow_slow_client"],
    )

    assert int(allowed) > 2 * route.STALLED_S


@pytest.mark.usefixtures("much")
def test_one_person_has_two_exports_at_once_and_others_have_places_left(
    port: int, alice: Person, bob: Person, owner: Rows
) -> None:
    with download(port, alice) as first, download(port, alice) as second:
        for each in (first, second):
            each.read_until(b'"idempotency_key":"k1"')
        soon(owner, 2)
        with download(port, alice) as third, download(port, bob) as other:
            other.read_all()
            soon(owner, 2)
            # She gets the next one after she has read one to its end.
            first.read_all()
            third.read_all()
    soon(owner, 0)

    assert other.status == 200
    assert other.body["user"]["id"] == str(bob.user_id)
    assert [answer.status for answer in (first, third)] == [200, 200]
    assert len(third.body["resources"]["app_sessions"]) == 10000


@pytest.mark.usefixtures("much")
def test_a_person_without_a_place_comes_before_the_second_place_of_another(
    port: int, alice: Person, bob: Person, owner: Rows
) -> None:
    with (
        download(port, alice) as first,
        download(port, alice) as second,
        download(port, bob) as his,
    ):
        for each in (first, second):
            each.read_until(b'"idempotency_key":"k1"')
        his.read_all()
        with download(port, alice) as third:
            third.connection.settimeout(60)
            first.connection.close()
            third.read_until(b'"idempotency_key":"k1"')
            soon(owner, 2)

    soon(owner, 0)


@pytest.mark.usefixtures("much")
def test_a_slow_export_is_broken_off_only_while_another_person_waits(
    deployment: Settings,
    alice: Person,
    bob: Person,
    owner: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Any rate counts as slow.
    monkeypatch.setattr(route, "SLOW_S", 0.0)
    monkeypatch.setattr(route, "LOWEST_RATE", 1e12)
    chosen = replace(deployment, export_connections=1)

    with listening(chosen) as port:
        with download(port, alice) as alone:
            alone.read_all()
        soon(owner, 0)
        with download(port, alice) as slow:
            slow.read_until(b'"idempotency_key":"k1"')
            soon(owner, 1)
            with download(port, bob) as other:
                slow.read_all()
                other.read_all()

    assert alone.taken.endswith(END)
    assert not slow.taken.endswith(END)
    assert other.status == 200
    assert other.taken.endswith(END)


@pytest.mark.usefixtures("much")
def test_a_process_has_a_few_exports_at_once(
    deployment: Settings, alice: Person, bob: Person, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "PATIENCE_S", 0.5)
    chosen = replace(deployment, export_connections=1)

    with listening(chosen) as port, download(port, alice) as first:
        first.read_until(b'"idempotency_key":"k1"')
        soon(owner, 1)
        with download(port, bob) as other, download(port, alice) as again:
            other.read_all()
            again.read_all()
    soon(owner, 0)

    assert other.status == 503
    assert b"as many exports are under way as there may be at once" in other.taken
    assert again.status == 429
    assert b"retry-after: " in again.taken.lower()


def connected(owner: Rows) -> set[int]:
    """Return the backends of the reader's connections, whether they are in use or not."""
    found = owner.execute(
        """
        select pid
          from pg_stat_activity
         where application_name = 'svc reader'
           and datname = current_database()
        """
    ).fetchall()
    return {pid for (pid,) in found}


@pytest.mark.usefixtures("much")
def test_exports_one_after_the_other_share_a_connection_and_nothing_else(
    port: int, alice: Person, bob: Person, owner: Rows
) -> None:
    used: set[int] = set()
    for _ in range(5):
        with download(port, alice) as answer:
            answer.read_until(b'"idempotency_key":"k1"')
            used.update(soon(owner, 1))
            answer.read_all()
        soon(owner, 0)
    with download(port, bob) as other:
        other.read_all()

    # Earlier tests may have left several connections.
    assert len(used) < 5
    assert used <= connected(owner)
    assert other.body["user"]["id"] == str(bob.user_id)
    assert other.body["resources"]["app_sessions"] == []


@pytest.mark.usefixtures("much")
def test_an_export_that_was_broken_off_leaves_a_good_connection(
    port: int, alice: Person, owner: Rows
) -> None:
    # More often than there are connections.
    for _ in range(5):
        with download(port, alice) as answer:
            answer.read_until(b'"idempotency_key":"k1"')
            soon(owner, 1)
        soon(owner, 0)
    with download(port, alice) as last:
        last.read_all()

    assert len(last.body["resources"]["app_sessions"]) == 10000
