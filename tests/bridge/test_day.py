"""A day of work as watchers record it: what we say of it, beside what ActivityWatch itself says."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from tests.bridge.conftest import Crossing, Watch
from tests.conftest import Person

APPS = ["Code", "Firefox", "Terminal", "Mail", "Slack", "Spotify"]


def record(watch: Watch, host: str, start: datetime, end: datetime, seed: int) -> None:
    """Write what the watchers of a host see from ``start`` to ``end``.

    The window watcher looks once a second, so between two windows a second belongs to neither. Somebody
    comes and goes; the watcher of presence notices without a gap.
    """
    dice = random.Random(seed)  # noqa: S311 -- a day to be had again, and no secret
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


def asked(watch: Watch, host: str, *, is_flooded: bool) -> dict[str, float]:
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


def test_a_day_comes_to_what_activitywatch_says(
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
    said = {row["app"]: row["total_ms"] for row in answer["data"]}
    hosts = ("laptop", "desk")
    raw = [asked(watch, host, is_flooded=False) for host in hosts]
    flooded = [asked(watch, host, is_flooded=True) for host in hosts]
    sessions = done["app-sessions"][0]
    assert done == {"app-sessions": (sessions, 0, 0)}
    assert sessions > 400
    assert sorted(said) == sorted(APPS)
    for app in APPS:
        # Theirs has parts of milliseconds, of which each of our sessions may have cut one.
        theirs = sum(host[app] for host in raw)
        assert theirs - sessions <= said[app] <= theirs + 1
        # Flooding gives the second between two windows to both, half and half: to each at most two halves.
        assert said[app] <= sum(host[app] for host in flooded)
    filled = sum(sum(host.values()) for host in flooded) - sum(said.values())
    assert 0 < filled <= 1.03 * 1000 * sessions + 1000
