"""Day: one axis of time with a row for each kind of record, and the sessions behind each stretch of it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from resourceserver.dashboard.charts import MISSING, Row, Stretch, ribbon
from resourceserver.dashboard.charts.ribbon import Ribbon
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import PartOfDay, day_start, rewritten
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures
from resourceserver.dashboard.views import heart, today
from resourceserver.dashboard.views.today import MOST_NAMES, PARTS, up_to

MOST_STRETCHES: Final = 60
"""The most stretches in the list below the axis: the longest ones."""
MOST_SESSIONS: Final = 50
MOST_ROWS: Final = 500
"""The most plays, meetings and visits on the axis."""
KINDS: Final = {"productive": 1, "neutral": 2, "distracting": 3}
OTHER: Final = 6
"""The kind of all stretches that are neither productive nor distracting, such as music."""
_PIXEL: Final = timedelta(minutes=2)
"""Stretches of one row with a shorter gap between them are drawn as one."""


def asks(scene: Scene) -> Asks:
    """Return the questions about the day, and about its part."""
    day = {"date": str(scene.period.first), "tz": scene.tz}
    most = {**scene.instant_query, "limit": str(MOST_ROWS)}
    found = {
        "normal": Ask("normal", {**day, **up_to(scene)}),
        "timeline": Ask("day_timeline", {**day, **up_to(scene)}),
        "apps": Ask("app_usage", scene.instant_query),
        "meetings": Ask("calendar_load", scene.day_query),
        "events": Ask("calendar_events", most),
        "plays": Ask("music_history", most),
        "visits": Ask("location_events", most),
        "heart": Ask(
            "heart_rate_series",
            {**scene.instant_query, "step_s": str(heart.STEPS_S[-1])},
        ),
    }
    # The first and the last day of the calendar begin or end outside of it in some zones.
    if 1900 < scene.period.first.year < 9998:
        found["music"] = Ask("music_daily", scene.zoned_query)
    part = part_of_day(scene)
    if part is not None:
        found |= {
            "by_app": Ask("sessions_by_app", part),
            "sessions": Ask("app_sessions", {**part, "limit": str(MOST_SESSIONS)}),
            "coding": Ask("coding_sessions", {**part, "limit": str(MOST_SESSIONS)}),
            "devices": Ask("devices"),
        }
    return found


def more(scene: Scene, answers: Answers) -> Asks:
    """Return why the day is unusual, if it is; without a report, from when to when trackers reported."""
    found = dict(today.more(scene, answers))
    if "normal" in answers and today.is_unknown(answers["normal"]):
        found["trackers"] = Ask("integrations")
    return found


def why_unknown(scene: Scene, answers: Answers) -> tuple[str, str] | None:
    """Return why no tracker reported the day: ``never``, ``before``, ``between``, ``after`` or empty.

    With ``before`` the first data of all trackers and ``after`` the newest comes its pointer. None if the day
    was reported, has not begun, or has no time, since the zone skipped it.
    """
    start, end = (datetime.fromisoformat(scene.instant_query[name]) for name in ("from", "to"))
    if "trackers" not in answers or scene.period.first > scene.today or start == end:
        return None
    rows = [
        (row, f"/data/{n}")
        for n, row in enumerate(answers["trackers"]["data"])
        if row["via"] == "tracker" and row["first_record_at"]
    ]
    if not rows:
        return "never", ""
    first, first_place = min((row["first_record_at"], place) for row, place in rows)
    newest, newest_place = max((row["last_record_at"] or "", place) for row, place in rows)
    if end <= datetime.fromisoformat(first):
        return "before", f"{first_place}/first_record_at"
    if newest and start >= datetime.fromisoformat(newest):
        return "after", f"{newest_place}/last_record_at"
    # The first or the newest data may be of this very day, and have been removed.
    is_between = newest and datetime.fromisoformat(first) < start <= end <= datetime.fromisoformat(
        newest
    )
    return ("between" if is_between else ""), ""


def part_of_day(scene: Scene) -> dict[str, str] | None:
    """Return the part of the day whose sessions are listed, as parameters; None without one."""
    if "from" not in scene.parts:
        return None
    return {name: rewritten(scene.parts[name]) for name in ("from", "to")}


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the charts of the page."""
    timeline = answers.get("timeline")
    longest = longest_stretches(timeline) if timeline else []
    return {
        "metrics": today.TILES,
        "is_unknown": "normal" in answers and today.is_unknown(answers["normal"]),
        "why_unknown": why_unknown(scene, answers),
        "part": part_of_day(scene),
        "axis": axis(scene, answers),
        "heart_chart": heart.drawing(scene, answers["heart"])
        if "heart" in answers and answers["heart"]["data"]
        else None,
        "stretches": longest,
        "is_shortened": timeline is not None and len(longest) < len(timeline.at("/data/apps")),
        "shortened": [
            words
            for name, words in (
                ("events", "calendar events"),
                ("plays", "plays"),
                ("visits", "places"),
            )
            if name in answers and answers[name]["has_more"]
        ],
        "most_rows": MOST_ROWS,
        "absent": absent(answers),
        "address": lambda starts_at, ends_at: address(scene, starts_at, ends_at),
        "is_next_day": lambda at: is_next_day(scene, at),
        "apps_chart": today.ranking(scene, answers["apps"], "/data", "app")
        if "apps" in answers
        else None,
        "most_names": MOST_NAMES,
        "device_name": device_name,
    }


def absent(answers: Answers) -> list[str]:
    """Return the kinds of records of which the day has none. Meetings of a calendar have a number instead."""
    names = {"events": "meetings", "plays": "music", "visits": "places", "heart": "heart rate"}
    return [
        words
        for name, words in names.items()
        if name in answers
        and not (
            meetings(answers[name]) or answers["meetings"]["calendar_count"]
            if name == "events"
            else answers[name]["data"]
        )
    ]


def axis(scene: Scene, answers: Answers) -> Ribbon | None:
    """Return the axis of the day with its rows; None for a day that the zone skipped."""
    zone = ZoneInfo(scene.tz)
    start = day_start(scene.period.first, scene.tz).astimezone(zone)
    end = day_start(scene.period.last + timedelta(days=1), scene.tz).astimezone(zone)
    rows = list(_rows(scene, answers))
    if not rows or start.timestamp() == end.timestamp():
        return None
    return ribbon("day", start, end, rows, kinds=PARTS)


def _rows(scene: Scene, answers: Answers) -> Iterator[Row]:
    write = figures(scene)
    if "timeline" in answers:
        timeline = answers["timeline"]
        missing = [
            Stretch(_instant(row["starts_at"]), _instant(row["ends_at"]), MISSING)
            for row in timeline.at("/data/unreported")
        ]
        used = [
            _linked(scene, row, KINDS[row["productivity"]], f"{row['category']}, {row['app']}")
            for row in timeline.at("/data/apps")
        ]
        is_unknown = "normal" in answers and today.is_unknown(answers["normal"])
        tracked = write.text(timeline.at("/totals/tracked_ms"), "duration")
        yield Row("Applications", [*missing, *used], "" if is_unknown else tracked)
        coded = [_linked(scene, row, OTHER, row["project"]) for row in timeline.at("/data/coding")]
        if coded:
            yield Row("Code", coded, write.text(timeline.at("/totals/coding_ms"), "duration"))
    if "events" in answers and meetings(answers["events"]):
        met = [
            _stretch(scene, row["starts_at"], row["ends_at"], row["title"] or "Meeting")
            for row in meetings(answers["events"])
        ]
        text = write.text(answers["meetings"].at("/totals/meeting_ms"), "duration")
        yield Row("Meetings", met, text)
    if "plays" in answers and answers["plays"]["data"]:
        heard = merged(scene, played(answers["plays"]))
        text = (
            write.text(answers["music"].at("/totals/listened_ms"), "duration")
            if "music" in answers
            else ""
        )
        yield Row("Music", heard, text)
    if "visits" in answers and answers["visits"]["data"]:
        visited = [
            _stretch(
                scene, row["started_at"], row["ended_at"] or row["started_at"], row["place"]["name"]
            )
            for row in reversed(answers["visits"]["data"])
        ]
        yield Row("Places", visited)


def meetings(events: Answer) -> list[dict[str, Any]]:
    """Return the events that count as meetings, the earliest first: confirmed, accepted and not all day."""
    return [
        row
        for row in reversed(events["data"])
        if (row["status"], row["response"], row["all_day"]) == ("confirmed", "accepted", False)
    ]


def played(plays: Answer) -> Iterator[tuple[datetime, datetime]]:
    """Return start and end of each play, the earliest first."""
    for row in reversed(plays["data"]):
        start = _instant(row["listened_at"])
        length = row["duration_ms"] if row["played_ms"] is None else row["played_ms"]
        yield start, start + timedelta(milliseconds=length or 0)


def merged(scene: Scene, times: Iterable[tuple[datetime, datetime]]) -> list[Stretch]:
    """Return stretches without the gaps between them that nobody could see."""
    joined: list[tuple[datetime, datetime]] = []
    for start, end in times:
        if joined and start - joined[-1][1] < _PIXEL:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return [_stretch(scene, start.isoformat(), end.isoformat(), "Music") for start, end in joined]


def longest_stretches(timeline: Answer) -> list[int]:
    """Return the places of the longest stretches in the list of the answer, in order of time."""
    rows: Sequence[dict[str, Any]] = timeline.at("/data/apps")
    by_length = sorted(range(len(rows)), key=lambda place: -rows[place]["total_ms"])
    return sorted(by_length[:MOST_STRETCHES])


def address(scene: Scene, starts_at: str, ends_at: str) -> str:
    """Return the link to the sessions from one instant to another."""
    return scene.link(f"{scene.period.path}?from={starts_at}&to={ends_at}") + "#sessions"


def is_next_day(scene: Scene, instant: str) -> bool:
    """Tell whether an instant is after the midnight at which the day ends."""
    return figures(scene).local(instant).date() > scene.period.last


def device_name(device: dict[str, Any], devices: Answer | None) -> str:
    """Return what the person calls a device; its own name where they have given it no other."""
    rows = devices["data"] if devices is not None else []
    names = {row["id"]: row["display_name"] for row in rows}
    return str(names.get(device["id"]) or device["name"])


def _linked(scene: Scene, row: dict[str, Any], kind: int, words: str) -> Stretch:
    title = f"{_clock(scene, row['starts_at'])} to {_clock(scene, row['ends_at'])}: {words}"
    href = address(scene, row["starts_at"], row["ends_at"])
    return Stretch(_instant(row["starts_at"]), _instant(row["ends_at"]), kind, title, href)


def _stretch(scene: Scene, starts_at: str, ends_at: str, words: str) -> Stretch:
    title = f"{_clock(scene, starts_at)} to {_clock(scene, ends_at)}: {words}"
    return Stretch(_instant(starts_at), _instant(ends_at), OTHER, title)


def _clock(scene: Scene, instant: str) -> str:
    return figures(scene).text(instant, "time")


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


VIEW: Final = View(
    name="day",
    title="Day",
    paths=("/day", "/day/{day}"),
    address=PartOfDay,
    endpoints=(
        "normal",
        "day_difference",
        "day_timeline",
        "app_usage",
        "calendar_load",
        "calendar_events",
        "music_daily",
        "music_history",
        "location_events",
        "heart_rate_series",
        "sessions_by_app",
        "app_sessions",
        "coding_sessions",
        "devices",
        "integrations",
    ),
    asks=asks,
    show=show,
    more=more,
)
