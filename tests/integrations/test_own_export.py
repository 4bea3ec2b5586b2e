"""An account's own export, imported into the account that it came from, and into an empty one."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from psycopg.sql import SQL, Identifier
from starlette.testclient import TestClient

from deploy.demo.command import demo
from resourceserver.export.resources import RESOURCES
from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import own
from resourceserver.integrations.records import Sample
from shared.settings import Settings
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

    assert counts(receipt) == (14, 0, 14, 0, 0)
    again = rows_of(owner, tables)
    assert again == rows


STAYS_BEHIND = {
    **dict.fromkeys(
        ("goals", "category_rules", "category_scores", "insights"),
        "no records: the person keeps them",
    ),
    "daily_summaries": "the service computes them",
    "profile": "it is the user's",
    **dict.fromkeys(
        ("integrations", "imports"), "they say how data came into the account that was exported"
    ),
    **dict.fromkeys(
        ("organizations", "teams", "subscription"),
        "the person cannot write them into another account",
    ),
}
"""The resources of an export that an import does not bring, and why."""
OF_TRACKERS = frozenset({"id", "source", "first_seen_at", "last_sync_at", "status"})
"""What the list of devices says of their trackers, which have sent nothing to the other account."""


def without_ids(value: Any, left_out: frozenset[str] = frozenset({"id"})) -> Any:
    """Return a row without its ids, and those of what it refers to."""
    if isinstance(value, dict):
        return {name: without_ids(each) for name, each in value.items() if name not in left_out}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


def rows_by_resource(api: TestClient, person: Person) -> dict[str, Counter[str]]:
    answer = api.get("/api/v1/export", headers=person.headers())
    assert answer.status_code == 200
    assert answer.json()["omitted"] == []
    return {
        resource: Counter(
            json.dumps(
                without_ids(row, OF_TRACKERS if resource == "devices" else frozenset({"id"})),
                sort_keys=True,
            )
            for row in rows
        )
        for resource, rows in answer.json()["resources"].items()
    }


def test_the_export_of_an_account_comes_back_whole_in_an_empty_one(
    api: TestClient, deployment: Settings, alice: Person, bob: Person, owner: Rows, tmp_path: Path
) -> None:
    owner.execute("update identity.user set timezone = 'Europe/Berlin'")
    done = CliRunner().invoke(
        demo, [alice.email, "--days=10", "--until=2025-10-31"], obj=deployment
    )
    assert done.exit_code == 0, done.output
    nameless = {
        "started_at": "2025-10-31T23:30:00Z",
        "duration_ms": 1000,
        "app": "Code",
        "device": "phone",
        "metadata": {"tabs": [1, {"a": None}]},
    }
    api.post(
        "/api/v1/ingest/app-sessions",
        json={"events": [nameless]},
        headers=alice.headers("ingest:app_sessions"),
    ).raise_for_status()
    answer = api.get("/api/v1/export", headers=alice.headers())
    (tmp_path / "export.json").write_bytes(answer.content)

    receipt = Importer(deployment, bob).run(tmp_path / "export.json", own.OWN_JSON)

    exported, again = rows_by_resource(api, alice), rows_by_resource(api, bob)
    read, new, *_ = counts(receipt)
    assert (read - new, [each["reason"] for each in receipt["refused"]]) == (
        sum(exported[name].total() for name in STAYS_BEHIND if name in own.SETTINGS),
        ["no_record_for_it"],
    )
    assert list(exported) == [each.name for each in RESOURCES]
    for name, rows in exported.items():
        if name not in STAYS_BEHIND:
            assert rows.total() > 0, name
            assert again[name] == rows, name


def test_the_rows_of_the_demo_name_their_source(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    done = CliRunner().invoke(demo, [alice.email, "--days=10"], obj=deployment)
    assert done.exit_code == 0, done.output
    for table in (
        *("health.sample", "health.heart_rate", "health.sleep", "location.place"),
        *("content.title", "content.calendar_event"),
    ):
        nameless = owner.execute(
            SQL("select count(*) from {} where source = 'unknown'").format(
                Identifier(*table.split("."))
            )
        ).fetchone()
        assert nameless == (0,), table
