"""The file that moves a database to a Citus cluster, run as psql runs it, and tests on a cluster.

``SVC_TEST_CITUS_URL`` names a database for tests alone, on the coordinator, with extension and nodes::

    SVC_TEST_CITUS_URL=postgresql://... .venv/bin/pytest -n0 tests/endpoints tests/ingest
"""

import os
import re
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from deploy.migrate import migrate
from shared.settings import Settings

DISTRIBUTE: Final = Path(__file__).parents[1] / "deploy" / "citus" / "distribute.sql"


def move(connection: psycopg.Connection[Any]) -> None:
    """Run the file without the commands of psql. The connection is in autocommit mode."""
    text = DISTRIBUTE.read_text(encoding="utf-8")
    connection.execute(re.sub(r"^\\.*\n", "", text, flags=re.MULTILINE).encode())


def prepared(chosen: Settings) -> Settings:
    """Return ``chosen`` after its database was migrated and its tables were moved."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        raise pytest.UsageError("SVC_TEST_CITUS_URL names one database; use -n0")
    migrate(chosen, lambda _: None)
    with psycopg.connect(chosen.database_url or "", autocommit=True) as connection:
        move(connection)
        connection.execute("delete from oauth.client")
    return chosen
