"""A day of work as watchers record it: the service's sums beside those of ActivityWatch."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from tests.bridge.conftest import Crossing, Watch
from tests.conftest import Person

APPS = ["Code", "Firefox", "Terminal", "Mail", "Slack", "Spotify"]


def record(watch: Watch, host: str, start: datetime, end: datetime, seed: int) -> None:
    """Write the events of a host's watchers from ``start`` to ``end``.

    The window watcher polls once a second, so between two windows a second belongs to neither. The person
    leaves and returns; the presence watcher records that without gaps.
    """
    dice = random.Random(seed)
    windows: list[dict[str, Any]] = []
    at = start
    while at < end:
        seconds = min(round(dice.expovariate(1 / 40)), (end - at).total_seconds())
        data = {"app": dice.choice(APPS), "title": f"{dice.randrange(50)}"}
        windows.append({"timestamp": at.isoformat(), "duration": seconds, "data": data})
        at += timedelta(seconds=seconds + 1, milliseconds=dice.randrange(30))
    presence: list[dict[str, Any]] = []
    at, is_there = start - timedelta(minutes=1), True
    while at < end + timedelta(minutes=1):
        seconds = dice.uniform(600, 3000) if is_there else dice.uniform(181, 1500)
        status = {"status": "not-afk" if is_there else "afk"}
        presence.append({"timestamp": at.isoformat(), "duration": seconds, "data": status})
        at += timedelta(seconds=seconds, milliseconds=1)
        is_there = not is_there
    watch.make(f"aw-watcher-window_{host}", "currentwindow", host=host)
    watch.make(f"aw-watcher-afk_{host}", "afkstatus", host=host)
    watch.insert(f"aw-watcher-window_{host}", *windows)
    watch.insert(f"aw-watcher-afk_{host}", *presence)


def own_sums(watch: Watch, host: str, *, is_flooded: bool) -> dict[str, float]:
    """Return ActivityWatch's own milliseconds by application on a host."""
    flood = "events = flood(events); present = flood(present);" if is_flooded else ""
    answer = watch.ask(
        f'events = query_bucket("aw-watcher-window_{host}");'
        f'present = query_bucket("aw-watcher-afk_{host}");'
        f"{flood}"
        'present = filter_keyvals(present, "status", ["not-afk"]);'
        "events = filter_period_intersect(events, present);"
        'RETURN = merge_events_by_keys(events, ["app"]);'
    )
    return {each["data"]["app"]: each["duration"] * 1000 for each in answer}


def test_the_sums_of_a_day_equal_those_of_activitywatch(
    watch: Watch, crossing: Crossing, alice: Person
) -> None:
    noon = datetime(2025, 6, 16, 12, tzinfo=UTC)
    record(watch, "laptop", noon - timedelta(hours=4), noon, seed=1)
    record(watch, "desk", noon + timedelta(hours=1), noon + timedelta(hours=5), seed=2)

    done = crossing.run("2025-06-17T12:00:00")

    headers = alice.headers("read:activity")
    days = {"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"}
    url = f"{crossing.server}/api/v1/analytics/app-usage"
    answer = httpx2.get(url, params=days, headers=headers).raise_for_status().json()
    sums = {row["app"]: row["total_ms"] for row in answer["data"]}
    hosts = ("laptop", "desk")
    raw = [own_sums(watch, host, is_flooded=False) for host in hosts]
    flooded = [own_sums(watch, host, is_flooded=True) for host in hosts]
    sessions = done["app-sessions"][0]
    assert done == {"app-sessions": (sessions, 0, 0)}
    assert sessions > 400
    assert sorted(sums) == sorted(APPS)
    for app in APPS:
        # Their sums have fractions of milliseconds, and each session of the service may have cut one.
        theirs = sum(host[app] for host in raw)
        assert theirs - sessions <= sums[app] <= theirs + 1
        # Flooding gives the second between two windows to both, half and half: to each at most two halves.
        assert sums[app] <= sum(host[app] for host in flooded)
    filled = sum(sum(host.values()) for host in flooded) - sum(sums.values())
    assert 0 < filled <= 1.03 * 1000 * sessions + 1000
