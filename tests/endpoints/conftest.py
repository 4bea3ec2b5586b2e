"""Answers must not depend on rollups: requests for sums are repeated after rollups have changed."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import MakeRollups, mark_all_days

ABOUT_ROLLUPS = {
    "test_app_usage",
    "test_attention",
    "test_categories",
    "test_coding",
    "test_context_switches",
    "test_correlation",
    "test_daily",
    "test_daily_categories",
    "test_day_timeline",
    "test_extremes",
    "test_focus_breaks",
    "test_focus_streaks",
    "test_goals",
    "test_hourly",
    "test_hourly_patterns",
    "test_hours",
    "test_normal",
    "test_sessions_by_app",
    "test_sessions_daily",
    "test_trend",
}
"""The modules whose answers come from rollups if there are any."""


@pytest.fixture(autouse=True)
def day_that_goes_on() -> None:
    """Let a day that is about to end end first: many tests put their data on today and then ask about today.

    Days of the zones that they name end with an hour. A few seconds are more than such a test takes.
    """
    now = datetime.now(UTC)
    if (now.minute, now.second // 10) == (59, 5):
        time.sleep(60 - now.second)


@dataclass(frozen=True)
class AskedAgain:
    """A client whose every answer must be the same from sessions, from rollups and from both."""

    client: TestClient
    owner: psycopg.Connection[Any]
    make_rollups: MakeRollups
    one_in: int = 1
    """Every how many requests one is repeated, for tests with hundreds: rolling up takes a while."""

    def post(self, *arguments: Any, **more: Any) -> httpx2.Response:
        """Send a request that may write; the days that it writes to are marked."""
        return self.client.post(*arguments, **more)

    def get(self, *arguments: Any, **more: Any) -> httpx2.Response:
        """Send a request while all days are rolled up, none of them, and every other one."""
        if crc32(repr(more.get("params")).encode()) % self.one_in:
            return self.client.get(*arguments, **more)
        self.make_rollups()
        answer = self.client.get(*arguments, **more)
        # A mark never makes an answer wrong, so marks may be set and removed without a write.
        mark_all_days(self.owner)
        raw = self.client.get(*arguments, **more)
        assert raw.json() == answer.json()
        self.owner.execute("delete from activity.rollup_due where (date - '2000-01-01') % 2 = 0")
        mixed = self.client.get(*arguments, **more)
        assert mixed.json() == answer.json()
        self.owner.execute("delete from activity.rollup_due")
        return answer


@pytest.fixture
def api(
    api: TestClient,
    request: pytest.FixtureRequest,
    owner: psycopg.Connection[Any],
    make_rollups: MakeRollups,
) -> TestClient | AskedAgain:
    """The resource server; where answers come from rollups, a client that repeats requests."""
    if request.module.__name__.rpartition(".")[2] not in ABOUT_ROLLUPS:
        return api
    is_property = hasattr(request.function, "hypothesis")
    return AskedAgain(api, owner, make_rollups, one_in=4 if is_property else 1)
