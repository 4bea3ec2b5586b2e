"""The slow models' answers to requests for sums, in the form of the service.

    timeline.py, attention.py ──► answers.py ◄── equal? ──► the service

All times are whole milliseconds since EPOCH. Parts that only repeat the request are left out.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from tests.endpoints.attention import Streak, Switch, streaks, switches, whole_timeline
from tests.endpoints.timeline import (
    EPOCH,
    CodingSession,
    S,
    Session,
    Span,
    average,
    by_productivity,
    counted,
    days,
    hours,
    instant,
    owned_ms,
    per_category,
    percent,
    productivity,
    rounded,
    segments,
    touched,
)

Row = dict[str, Any]
Body = dict[str, Any]

MOST_LISTED: Final = 20
"""The number of sessions that are listed for an application."""


def owned_by(sessions: Sequence[S], start: int, end: int) -> int:
    """Return how much time is owned by any of these sessions."""
    return sum(owned_ms(sessions, start, end).values())


def edges(
    sessions: Sequence[S], start: int, end: int, of: Sequence[S]
) -> tuple[str | None, str | None]:
    """Return the start of the first segment that one of ``of`` owns, and the end of the last one."""
    keys = {s.key for s in of}
    own = [(left, right) for left, right, s in segments(sessions, start, end) if s.key in keys]
    return (instant(own[0][0]), instant(own[-1][1])) if own else (None, None)


def ranked(rows: list[Row], name: str) -> list[Row]:
    """Return rows in the order of answers: the longest first, of several the first by name."""
    return sorted(rows, key=lambda row: (-row["total_ms"], row[name].encode()))


def category(sessions: Sequence[Session], owned: dict[Session, int]) -> tuple[str, str]:
    """Return the category in which an application's sessions own most, and how productive that is."""
    spent: dict[str, int] = defaultdict(int)
    for s in sessions:
        spent[s.category] += owned.get(s, 0)
    name = min(spent, key=lambda each: (-spent[each], each.encode()))
    score = next(s.score for s in sessions if s.category == name)
    return name, productivity(score)


def of_each_app(
    sessions: Sequence[Session], start: int, end: int
) -> list[tuple[list[Session], Row]]:
    """Return the counted sessions of each application, and the values that two answers share."""
    owned = owned_ms(sessions, start, end)
    present = counted(sessions, start, end)
    found = []
    for app in {s.app for s in present}:
        of_app = [s for s in present if s.app == app]
        total = sum(owned.get(s, 0) for s in of_app)
        known_as, counts_as = category(of_app, owned)
        row = {
            "app": app,
            "category": known_as,
            "productivity": counts_as,
            "total_ms": total,
            "percent": percent(total, sum(owned.values())),
            "session_count": len(of_app),
        }
        found.append((of_app, row))
    return found


def app_totals(rows: list[Row]) -> Row:
    """Return the sums over all applications."""
    return {
        "tracked_ms": sum(row["total_ms"] for row in rows),
        "app_count": len(rows),
        "session_count": sum(row["session_count"] for row in rows),
    }


def app_usage(sessions: Sequence[Session], start: int, end: int) -> Body:
    """Return the answer of analytics/app-usage."""
    owned = owned_ms(sessions, start, end)
    rows = []
    for of_app, row in of_each_app(sessions, start, end):
        first, last = edges(sessions, start, end, of_app)
        rows.append(
            row
            | {
                "longest_session_ms": max(owned.get(s, 0) for s in of_app),
                "first_used_at": first,
                "last_used_at": last,
            }
        )
    sites = domains(sessions, start, end)
    on_sites = sum(row["total_ms"] for row in sites)
    totals = app_totals(rows)
    return {
        "data": ranked(rows, "app"),
        "domains": sites,
        "totals": totals
        | {"domains_ms": on_sites, "without_domain_ms": totals["tracked_ms"] - on_sites},
    }


def domains(sessions: Sequence[Session], start: int, end: int) -> list[Row]:
    """Return the rows of websites in analytics/app-usage."""
    owned = owned_ms(sessions, start, end)
    present = counted(sessions, start, end)
    rows = []
    for domain in {s.domain for s in present if s.domain is not None}:
        of_domain = [s for s in present if s.domain == domain]
        total = sum(owned.get(s, 0) for s in of_domain)
        known_as, counts_as = category(of_domain, owned)
        rows.append(
            {
                "domain": domain,
                "category": known_as,
                "productivity": counts_as,
                "total_ms": total,
                "percent": percent(total, sum(owned.values())),
                "session_count": len(of_domain),
            }
        )
    return ranked(rows, "domain")


def by_app(sessions: Sequence[Session], start: int, end: int) -> Body:
    """Return the answer of sessions/by-app, in the form of ``without_ids``."""
    owned = owned_ms(sessions, start, end)
    rows = []
    for of_app, row in of_each_app(sessions, start, end):
        first, last = edges(sessions, start, end, of_app)
        newest = sorted(of_app, key=lambda s: s.started, reverse=True)[:MOST_LISTED]
        rows.append(
            row
            | {
                "average_ms": average(row["total_ms"], len(of_app)),
                "longest_ms": max(owned.get(s, 0) for s in of_app),
                "first_started_at": first,
                "last_ended_at": last,
                "sessions": in_order(
                    [
                        {
                            "started_at": instant(s.started),
                            "ended_at": instant(s.ended),
                            "duration_ms": s.ended - s.started,
                            "title": s.title,
                        }
                        for s in newest
                    ]
                ),
            }
        )
    return {"data": ranked(rows, "app"), "totals": app_totals(rows)}


def without_ids(body: Body) -> Body:
    """Return an answer of sessions/by-app without the ids, which are random and order equal starts."""
    rows = [
        row | {"sessions": in_order([{**s, "id": None} for s in row["sessions"]])}
        for row in body["data"]
    ]
    return body | {"data": rows}


def in_order(listed: list[Row]) -> list[Row]:
    """Return listed sessions in an order that does not depend on their ids."""
    bare = [{name: value for name, value in s.items() if name != "id"} for s in listed]
    return sorted(bare, key=lambda s: (s["started_at"], s["ended_at"], s["title"] or ""))


def categories(sessions: Sequence[Session], start: int, end: int) -> Body:
    """Return the answer of analytics/categories."""
    rows = per_category(sessions, start, end)
    tracked = sum(row["total_ms"] for row in rows)
    nameless = [row["total_ms"] for row in rows if row["category"] == "Uncategorized"]
    return {
        "data": [{**row, "percent": percent(row["total_ms"], tracked)} for row in rows],
        "totals": {
            "tracked_ms": tracked,
            **by_productivity(rows),
            "uncategorized_ms": sum(nameless),
        },
    }


SUMMED: Final = (
    "tracked_ms",
    "productive_ms",
    "neutral_ms",
    "distracted_ms",
    "coding_ms",
    "app_switches",
)
AVERAGED: Final = ("tracked_ms", "productive_ms", "distracted_ms", "coding_ms")


def daily(
    sessions: Sequence[Session], coding: Sequence[CodingSession], first: date, last: date, zone: str
) -> Body:
    """Return the answer of analytics/daily."""
    switched = [switch.at for switch in switches(whole_timeline(sessions))]
    rows: list[Row] = []
    for day in days(first, last, zone):
        present = counted(sessions, day.start, day.end)
        tracked = owned_by(sessions, day.start, day.end)
        coded = owned_by(coding, day.start, day.end)
        begun, ended = edges(sessions, day.start, day.end, present)
        rows.append(
            {
                "date": str(day.date),
                "starts_at": instant(day.start),
                "ends_at": instant(day.end),
                "tracked_ms": tracked,
                **by_productivity(per_category(sessions, day.start, day.end)),
                "coding_ms": coded,
                "app_switches": len([at for at in switched if day.start <= at < day.end]),
                "session_count": len(present),
                "first_activity_at": begun,
                "last_activity_at": ended,
                "has_data": tracked > 0 or coded > 0,
            }
        )
    totals = {name: sum(row[name] for row in rows) for name in SUMMED}
    active = sum(row["has_data"] for row in rows)
    return {
        "data": rows,
        "totals": totals | {"days": len(rows), "active_days": active},
        "daily_average": {name: average(totals[name], active) for name in AVERAGED},
    }


def daily_categories(sessions: Sequence[Session], start: int, end: int, zone: str) -> Body:
    """Return the answer of analytics/daily-categories."""
    rows: list[Row] = []
    for day in touched(start, end, zone):
        shares = per_category(sessions, day.start, day.end)
        tracked = sum(share["total_ms"] for share in shares)
        rows.append(
            {
                "date": str(day.date),
                "tracked_ms": tracked,
                "categories": [
                    {
                        "category": share["category"],
                        "productivity": share["productivity"],
                        "total_ms": share["total_ms"],
                        "percent": percent(share["total_ms"], tracked),
                    }
                    for share in shares
                ],
            }
        )
    return {"data": rows, "totals": {"tracked_ms": sum(row["tracked_ms"] for row in rows)}}


def sessions_daily(
    sessions: Sequence[Session], coding: Sequence[CodingSession], start: int, end: int, zone: str
) -> Body:
    """Return the answer of sessions/daily."""
    rows: list[Row] = []
    for day in touched(start, end, zone):
        owned = owned_ms(sessions, day.start, day.end)
        present = counted(sessions, day.start, day.end)
        longest = min(((-owned.get(s, 0), s.app.encode(), s.app) for s in present), default=None)
        begun, ended = edges(sessions, day.start, day.end, present)
        rows.append(
            {
                "date": str(day.date),
                "session_count": len(present),
                "app_count": len({s.app for s in present}),
                "tracked_ms": sum(owned.values()),
                "average_session_ms": average(sum(owned.values()), len(present)),
                "longest_session_ms": -longest[0] if longest else None,
                "longest_session_app": longest[2] if longest else None,
                "first_started_at": begun,
                "last_ended_at": ended,
                "coding_session_count": len(counted(coding, day.start, day.end)),
                "coding_ms": owned_by(coding, day.start, day.end),
            }
        )
    return {
        "data": rows,
        "totals": {
            "session_count": len(counted(sessions, start, end)),
            "tracked_ms": sum(row["tracked_ms"] for row in rows),
        },
    }


def coding(sessions: Sequence[CodingSession], start: int, end: int) -> Body:
    """Return the answer of analytics/coding."""
    owned = owned_ms(sessions, start, end)
    present = counted(sessions, start, end)
    begun = [s for s in present if s.started >= start]
    of_project, of_language = defaultdict(list), defaultdict(list)
    for s in present:
        of_project[s.project].append(s)
        of_language[s.language or "unknown"].append(s)

    def spent(some: Sequence[CodingSession]) -> int:
        return sum(owned.get(s, 0) for s in some)

    projects = [
        {
            "project": name,
            "total_ms": spent(some),
            "percent": percent(spent(some), sum(owned.values())),
            "session_count": len(some),
            "last_coded_at": edges(sessions, start, end, some)[1],
            "languages": ranked(
                [
                    {
                        "language": language,
                        "total_ms": spent(both := [s for s in of_it if s in some]),
                        "percent": percent(spent(both), spent(some)),
                    }
                    for language, of_it in of_language.items()
                    if any(s in some for s in of_it)
                ],
                "language",
            ),
        }
        for name, some in of_project.items()
    ]
    languages = [
        {
            "language": name,
            "total_ms": spent(some),
            "percent": percent(spent(some), sum(owned.values())),
            "session_count": len(some),
        }
        for name, some in of_language.items()
    ]
    return {
        "data": {
            "projects": ranked(projects, "project"),
            "languages": ranked(languages, "language"),
        },
        "totals": {
            "coding_ms": sum(owned.values()),
            "session_count": len(present),
            "project_count": len(projects),
            "language_count": len(languages),
            "lines_added": sum(s.added or 0 for s in begun),
            "lines_removed": sum(s.removed or 0 for s in begun),
        },
    }


def hourly(
    sessions: Sequence[Session], coding: Sequence[CodingSession], day: date, zone: str
) -> Body:
    """Return the answer of analytics/hourly."""
    rows: list[Row] = []
    for hour in hours(day, day, zone):
        shares = per_category(sessions, hour.start, hour.end)
        rows.append(
            {
                "hour": hour.hour,
                "utc_offset": hour.utc_offset,
                "starts_at": instant(hour.start),
                "ends_at": instant(hour.end),
                "total_ms": sum(share["total_ms"] for share in shares),
                **by_productivity(shares),
                "coding_ms": owned_by(coding, hour.start, hour.end),
                "categories": [
                    {name: share[name] for name in ("category", "productivity", "total_ms")}
                    for share in shares
                ],
            }
        )
    return {"data": rows, "totals": {"tracked_ms": sum(row["total_ms"] for row in rows)}}


def hourly_patterns(
    sessions: Sequence[Session],
    coding: Sequence[CodingSession],
    today: date,
    weeks: int,
    zone: str,
) -> Body:
    """Return the answer of analytics/hourly-patterns on some day."""
    first, last = today - timedelta(days=7 * weeks), today - timedelta(days=1)
    times = {hour: _measures(sessions, coding, hour) for hour in hours(first, last, zone)}
    tracked = {hour.date for hour, (in_use, *_, coded) in times.items() if in_use or coded}
    begun = first_tracked_day([*sessions, *coding], zone)
    alike: dict[tuple[int, int | None], list[Span]] = defaultdict(list)
    for hour in times:
        if begun is not None and hour.date >= begun:
            alike[hour.date.isoweekday(), hour.hour].append(hour)
            alike[hour.date.isoweekday(), None].append(hour)

    def averages(weekday: int, hour: int | None) -> tuple[list[int], int]:
        some = alike[weekday, hour]
        divisor = len({each.date for each in some})
        sums = [sum(times[each][n] for each in some) for n in range(4)]
        return [average(total, divisor) or 0 for total in sums], divisor

    rows, of_days = [], []
    for weekday in range(1, 8):
        (in_use, *_), divisor = averages(weekday, None)
        of_days.append({"day_of_week": weekday, "average_ms": in_use, "sample_count": divisor})
        for hour_of_day in range(24):
            (in_use, productive, distracted, coded), divisor = averages(weekday, hour_of_day)
            rows.append(
                {
                    "day_of_week": weekday,
                    "hour": hour_of_day,
                    "average_ms": in_use,
                    "productive_average_ms": productive,
                    "distracted_average_ms": distracted,
                    "coding_average_ms": coded,
                    "sample_count": divisor,
                }
            )
    return {
        "range": {"from": str(first), "to": str(last)},
        "weeks_with_data": len({(day - first).days // 7 for day in tracked}),
        "data": rows,
        "by_day": of_days,
    }


def _measures(
    sessions: Sequence[Session], coding: Sequence[CodingSession], hour: Span
) -> tuple[int, int, int, int]:
    """Return tracked, productive, distracted and coding time of an hour."""
    kinds = by_productivity(per_category(sessions, hour.start, hour.end))
    coded = owned_by(coding, hour.start, hour.end)
    return sum(kinds.values()), kinds["productive_ms"], kinds["distracted_ms"], coded


def first_tracked_day(sessions: Sequence[Session | CodingSession], zone: str) -> date | None:
    """Return the local day on which anything was first tracked."""
    starts = [s.started for s in sessions if not s.idle and s.started < s.ended]
    if not starts:
        return None
    return (EPOCH + timedelta(milliseconds=min(starts))).astimezone(ZoneInfo(zone)).date()


def median(values: list[int]) -> int | None:
    """Return a median as in answers."""
    if not values:
        return None
    return int(Decimal(statistics.median(values)).quantize(Decimal(1), ROUND_HALF_UP))


def context_switches(sessions: Sequence[Session], start: int, end: int) -> Body:
    """Return the answer of analytics/context-switches."""
    inside = [s for s in switches(whole_timeline(sessions)) if start <= s.at < end]
    befores = [s.before_ms for s in inside]
    tracked = owned_by(sessions, start, end)
    hourly_rate = float(rounded(len(inside) * 3_600_000, tracked, "0.1")) if tracked else None
    return {
        "data": [_switch_row(s) for s in reversed(inside)],
        "pairs": _pair_rows(inside),
        "totals": {
            "switch_count": len(inside),
            "average_before_ms": average(sum(befores), len(befores)),
            "median_before_ms": median(befores),
            "per_active_hour": hourly_rate,
        },
    }


def _switch_row(switch: Switch) -> Row:
    return {
        "at": instant(switch.at),
        "from_app": switch.from_app,
        "to_app": switch.to_app,
        "from_category": switch.from_category,
        "to_category": switch.to_category,
        "before_ms": switch.before_ms,
    }


def _pair_rows(inside: list[Switch]) -> list[Row]:
    """Return how often which application followed which."""
    pairs = defaultdict(list)
    for switch in inside:
        pairs[switch.from_app, switch.to_app].append(switch.before_ms)
    rows = [
        {
            "from_app": from_app,
            "to_app": to_app,
            "count": len(befores),
            "average_before_ms": average(sum(befores), len(befores)),
            "median_before_ms": median(befores),
        }
        for (from_app, to_app), befores in pairs.items()
    ]
    return sorted(
        rows, key=lambda row: (-row["count"], row["from_app"].encode(), row["to_app"].encode())
    )


def focus_streaks(sessions: Sequence[Session], start: int, end: int, now: datetime) -> Body:
    """Return the answer of analytics/focus-streaks at some time."""
    timeline = whole_timeline(sessions)
    every_switch = switches(timeline)
    inside = [
        s
        for s in streaks(timeline, (now - EPOCH) // timedelta(milliseconds=1))
        if s.start < end and s.end > start and start < end
    ]
    clipped = [min(s.end, end) - max(s.start, start) for s in inside]
    return {
        "data": [_streak_row(s, every_switch) for s in reversed(inside)],
        "totals": {
            "streak_count": len(inside),
            "focus_ms": sum(clipped),
            "longest_ms": max(clipped, default=0),
            "average_ms": average(sum(clipped), len(clipped)),
        },
    }


def _streak_row(streak: Streak, every_switch: list[Switch]) -> Row:
    breaker = streak.breaker and streak.breaker.session
    return {
        "started_at": instant(streak.start),
        "ended_at": instant(streak.end),
        "duration_ms": streak.end - streak.start,
        "productive_ms": streak.productive_ms,
        "top_app": streak.top({part: part.session.app for part in streak.parts}),
        "top_category": streak.top({part: part.session.category for part in streak.parts}),
        "app_count": len({part.session.app for part in streak.parts}),
        "switch_count": len([s for s in every_switch if streak.start <= s.at < streak.end]),
        "broken_by": {
            "reason": streak.reason,
            "at": instant(streak.at),
            "app": breaker and breaker.app,
            "category": breaker and breaker.category,
            "gap_ms": streak.gap_ms,
        },
    }
