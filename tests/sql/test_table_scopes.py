"""Which scope opens each table of user data."""

import re
from typing import Any, Final

import psycopg
import pytest

from resourceserver.api.endpoint import Endpoint
from resourceserver.endpoints import ENDPOINTS

SCOPES: Final = {
    "read:activity": {
        *("activity.app_session", "activity.app_time", "activity.app_timeline", "activity.beat"),
        "activity.attention",
        *("activity.category_rule", "activity.category_score", "activity.coding_session"),
        *("activity.coding_time", "activity.daily_summary", "activity.device"),
        *("activity.device_stream", "activity.goal", "activity.label", "activity.rollup_due"),
        *("activity.raw_limit", "activity.removed_day", "activity.screen_time"),
        "activity.summary_due",
    },
    "read:code": {"code.event"},
    "read:content": {
        *("content.calendar", "content.calendar_event", "content.insight", "content.play"),
        *("content.recording", "content.title", "content.title_genre"),
    },
    "read:health": {
        *("health.bucket", "health.cycle", "health.heart_rate", "health.message"),
        *("health.metric", "health.recovery", "health.sample", "health.sleep"),
        *("health.sleep_stage", "health.source"),
    },
    "read:location": {
        *("location.derivation_due", "location.device", "location.event", "location.place"),
        "location.point",
    },
    "read:music": {"music.listen"},
    "read:profile": {
        *("profile.import", "profile.import_part", "profile.import_refusal"),
        *("profile.connection", "profile.connection_secret", "profile.integration_key"),
        *("profile.integration", "profile.membership"),
        *("profile.subscription", "profile.team_membership", "profile.upload"),
    },
}
"""The tables that each read scope opens; a new table is a decision."""
UNREAD: Final = {"activity.attention_due", "svc.turn"}
"""Tables with a user that no scope opens: work of the service itself."""
MIXED: Final = {"correlation", "integrations", "trend"}
"""Endpoints that read tables of other scopes too: correlation and trend need the scope of each metric;
integrations leaves trackers out for a token that may not read activity
(tests/integrations/test_sources.py)."""


def test_every_table_of_user_data_belongs_to_one_read_scope(
    db: psycopg.Connection[Any],
) -> None:
    tables = {name for (name,) in db.execute("select svc.tables_of_people()::text").fetchall()}
    listed = [table for opened in SCOPES.values() for table in opened]

    assert sorted([*listed, *UNREAD]) == sorted(tables)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_an_endpoint_reads_only_what_its_scope_opens(endpoint: Endpoint) -> None:
    code = re.sub(r"--.*", "", endpoint.query)
    named = set(re.findall(r"\b(?:from|join)\s+(\w+\.\w+)\b(?!\()", code))
    opened = {table for scope in endpoint.scopes for table in SCOPES[scope]}
    others = {table for tables in SCOPES.values() for table in tables} - opened

    if endpoint.name not in MIXED:
        assert named & others == set()
