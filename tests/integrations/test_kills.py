"""``svc import``, killed at many points of an archive of many formats, and continued each time."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from shared.settings import Settings
from tests.conftest import Person
from tests.integrations.life import life
from tests.integrations.test_own_export import rows_by_resource
from tests.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

KILLS: Final = {"bounded": 6, "proof": 50}
RECORDS: Final = {"bounded": 300, "proof": 1500}
"""The records of each file of the archive."""
SMALL_BATCHES: Final = (
    "from resourceserver.integrations.imports import running; running.BATCH = 25; "
    "from deploy.cli import main; main()"
)
"""A ``svc`` of many transactions."""


def start(chosen: Settings, file: Path, email: str) -> subprocess.Popen[str]:
    variables = os.environ | {
        "DATABASE_URL": chosen.database_url or "",
        "SVC_DATA_DIR": str(chosen.data_dir),
    }
    return subprocess.Popen(
        [sys.executable, "-c", SMALL_BATCHES, "import", str(file), "--user", email, "--json"],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def receipt_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    receipt: dict[str, Any] = json.loads(out)
    return receipt


def progress(owner: psycopg.Connection[Any], person: Person) -> int:
    row = owner.execute(
        "select coalesce(sum(records), 0) from profile.import_part where user_id = %s",
        [person.user_id],
    ).fetchone()
    assert row is not None
    return int(row[0])


def nameless_places(rows: Counter[str]) -> Counter[str]:
    """Return exported rows without the keys of places that were derived: these are random."""
    key = re.compile(r'"place_key": "[^"]*"')
    return Counter(
        key.sub('"place_key": ""', row) if '"source": "derived"' in row else row
        for row in rows.elements()
    )


def test_an_import_that_is_killed_at_many_points_writes_what_an_unkilled_one_does(
    request: pytest.FixtureRequest,
    api: TestClient,
    deployment: Settings,
    owner: psycopg.Connection[Any],
    alice: Person,
    bob: Person,
    tmp_path: Path,
) -> None:
    profile = request.config.getoption("--hypothesis-profile")
    kills = KILLS[profile]
    file = life(tmp_path / "life.zip", RECORDS[profile])
    whole = receipt_of(start(deployment, file, alice.email))
    total = whole["records"]["read"]
    killed_at = []

    for kill in range(kills):
        target = max(1, total * kill // kills)
        with start(deployment, file, bob.email) as process:
            wait_for(
                lambda: process.poll() is not None or progress(owner, bob) >= target,  # noqa: B023 -- called at once
                f"{target} records",
            )
            process.kill()
            process.wait()
        assert process.returncode == -9
        killed_at.append(progress(owner, bob))
    receipt = receipt_of(start(deployment, file, bob.email))

    assert len(set(killed_at)) == kills
    for name in ("records", "refused", "formats", "first_at", "last_at", "ignored"):
        assert receipt[name] == whole[name]
    for one, other in zip(receipt["parts"], whole["parts"], strict=True):
        assert one == other
    row = owner.execute("select count(*) from profile.import group by user_id").fetchall()
    assert row == [(1,), (1,)]
    expected, found = rows_by_resource(api, alice), rows_by_resource(api, bob)
    for resource, rows in expected.items():
        if resource not in {"profile", "imports", "integrations"}:
            assert nameless_places(found[resource]) == nameless_places(rows), resource
    assert sum(map(Counter.total, expected.values())) > whole["records"]["new"]
