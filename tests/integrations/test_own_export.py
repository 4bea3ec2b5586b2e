"""An account's own export, imported into the account that it came from."""

from pathlib import Path
from typing import Any

import pytest
from psycopg.sql import SQL, Identifier
from starlette.testclient import TestClient

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import own
from resourceserver.integrations.records import Sample
from tests.conftest import Person
from tests.integrations.bringing import Importer, counts
from tests.integrations.test_writing import AT, EXAMPLES, HOUR, WATCH, Rows

DAILY = Sample("day", "steps", AT, AT + 24 * HOUR, 9000, WATCH, is_daily_total=True)


def rows_of(owner: Rows, tables: tuple[str, ...]) -> dict[str, list[Any]]:
    return {
        table: owner.execute(
            SQL("select * from {}").format(Identifier(*table.split(".")))
        ).fetchall()
        for table in tables
    }


@pytest.mark.parametrize("format_", [own.OWN_JSON, own.OWN_NDJSON], ids=["json", "ndjson"])
def test_an_account_knows_all_records_of_its_own_export(
    format_: Format,
    importer: Importer,
    api: TestClient,
    alice: Person,
    owner: Rows,
    tmp_path: Path,
) -> None:
    importer.take(tmp_path / "first", DAILY, *(first for first, _ in EXAMPLES.values()))
    params = {"format": format_.name.removeprefix("own_")}
    answer = api.get("/api/v1/export", params=params, headers=alice.headers())
    assert answer.status_code == 200
    (tmp_path / "export").write_bytes(answer.content)
    tables = (*EXAMPLES, "location.place", "content.title", "content.calendar", "health.source")
    rows = rows_of(owner, tables)

    receipt = importer.run(tmp_path / "export", format_)

    assert counts(receipt) == (13, 0, 13, 0, 0)
    again = rows_of(owner, tables)
    assert again == rows
