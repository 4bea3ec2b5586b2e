"""A real streaming replica: whether it has what the primary has."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from tests import replica
from tests.conftest import for_tests

FAST: Final = {"fsync": "off", "full_page_writes": "off", "hot_standby_feedback": "on"}


@dataclass(frozen=True)
class Pair:
    """A primary and its replica."""

    primary: EmbeddedPostgres
    replica: EmbeddedPostgres
    owner: psycopg.Connection[Any]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Both servers, for all tests of this module."""
    with replica.streaming(FAST | replica.STREAMED) as (primary, copy):
        migrate(for_tests(primary.url, str(Path(primary.data_dir).parent)), lambda _: None)
        replica.catch_up(primary.url, copy.url)
        with closing(psycopg.connect(primary.url, autocommit=True)) as owner:
            yield Pair(primary, copy, owner)


def test_a_server_is_used_only_as_a_replica_of_this_primary(pair: Pair) -> None:
    row = pair.owner.execute("select cluster, timeline, log_end from svc.log_position()").fetchone()
    assert row is not None
    cluster, timeline, log_end = row
    refused = []
    with closing(psycopg.connect(pair.replica.url, autocommit=True)) as connection:
        for given in (
            (cluster + 1, timeline, log_end),
            (cluster, timeline + 1, log_end),
            (cluster, timeline, "FFFF/0"),
        ):
            with pytest.raises(psycopg.Error) as error:
                connection.execute("select svc.await_replay(%s, %s, %s, 1)", given)
            refused.append(error.value.sqlstate)
    with pytest.raises(psycopg.Error) as error:
        pair.owner.execute("select svc.await_replay(%s, %s, %s, 1)", row)
    refused.append(error.value.sqlstate)

    assert refused == ["57SV3", "57SV3", "57SV4", "57SV3"]


def test_the_log_has_no_end_for_a_replica_where_its_last_record_may_be_cut(pair: Pair) -> None:
    pair.owner.execute("select pg_switch_wal()")

    switched = pair.owner.execute(
        "select cluster is not null, log_end from svc.log_position()"
    ).fetchone()
    pair.owner.execute("set synchronous_commit = off")
    risky = pair.owner.execute("select cluster, log_end from svc.log_position()").fetchone()
    pair.owner.execute("reset synchronous_commit")
    # The next commit ends the log with a whole record.
    pair.owner.execute("update svc.schema_version set version = version")

    assert switched == (True, None)
    assert risky == (None, None)
