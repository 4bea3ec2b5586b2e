"""The commands: ``svc today``, ``svc week``, ``svc apps``."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from io import TextIOWrapper
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from deploy.person import periods, requests, store
from deploy.person.access import API, Answer, MissingScope
from deploy.person.periods import Period
from shared import durations, screen
from shared.settings import Settings

_ME: Final = "/api/v1/me"
_DAILY: Final = "/api/v1/analytics/daily"
_APP_USAGE: Final = "/api/v1/analytics/app-usage"
_FOCUS: Final = "/api/v1/analytics/focus-streaks"
_GOALS: Final = "/api/v1/goals"

_json_option: Final = click.option(
    "--json", "is_json", is_flag=True, help="Print the API's answer instead of a table."
)
_zone_option: Final = click.option(
    "--tz",
    "zone",
    metavar="ZONE",
    help="The time zone in which days begin, such as Europe/Berlin; default: that of your profile.",
)
_limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=10,
    show_default=True,
    help="How many applications to print.",
)


# Reading


@click.command()
@_json_option
@_zone_option
@_limit_option
@click.pass_obj
def today(chosen: Settings, *, is_json: bool, zone: str | None, limit: int) -> None:
    """Print your day so far: time, focus, applications and goals.

    With --json, the answers of the endpoints daily, focus-streaks, app-usage and goals.
    """
    with _api(chosen) as api:
        period = periods.this_day(_zone(api, zone))
        answers = {
            "daily": api.get(_DAILY, period.days),
            "focus_streaks": api.get(_FOCUS, period.instants),
            "app_usage": api.get(_APP_USAGE, period.instants),
            "goals": api.get(_GOALS, {}),
        }
        if is_json:
            _print_json(answers)
            return
        (day,) = answers["daily"].body["data"]
        focus = answers["focus_streaks"].body["totals"]
        click.echo(f"{_long_day(period.first)}, {period.zone.key}\n")
        if not day["has_data"]:
            click.echo("No activity is recorded today yet.")
        else:
            screen.print_facts(
                ("tracked", durations.text(day["tracked_ms"])),
                ("productive", durations.text(day["productive_ms"])),
                ("neutral", durations.text(day["neutral_ms"])),
                ("distracted", durations.text(day["distracted_ms"])),
                ("focus", durations.text(focus["focus_ms"])),
                ("coding", durations.text(day["coding_ms"])),
                ("app switches", str(day["app_switches"])),
                ("first activity", period.clock(day["first_activity_at"])),
                ("last activity", period.clock(day["last_activity_at"])),
            )
            click.echo()
            _print_apps(answers["app_usage"].body, limit)
        _print_goals(answers["goals"].body)


@click.command()
@click.argument("week_of_year", metavar="[WEEK]", required=False, callback=periods.week_name)
@_json_option
@_zone_option
@_limit_option
@click.pass_obj
def week(
    chosen: Settings, *, week_of_year: str | None, is_json: bool, zone: str | None, limit: int
) -> None:
    """Print a week, day by day, and its applications.

    WEEK is an ISO week, from Monday to Sunday, such as 2026-W47; by default the current one. With --json, the
    answers of the endpoints daily and app-usage.
    """
    with _api(chosen) as api:
        period = periods.week(week_of_year, _zone(api, zone))
        answers = {
            "daily": api.get(_DAILY, period.days),
            "app_usage": api.get(_APP_USAGE, period.instants),
        }
        if is_json:
            _print_json(answers)
            return
        year, number, _ = period.first.isocalendar()
        click.echo(f"{year}-W{number:02}, {period.first} to {period.last}, {period.zone.key}\n")
        daily = answers["daily"].body
        screen.table(
            _DAY_COLUMNS,
            [
                *(_day_cells(day, period) for day in daily["data"]),
                [
                    "Total",
                    *_time_cells(daily["totals"]),
                    str(daily["totals"]["app_switches"]),
                    "",
                    "",
                ],
            ],
            right=_DAY_COLUMNS[1:],
        )
        click.echo()
        _print_apps(answers["app_usage"].body, limit)


@click.command()
@click.option(
    "--last",
    "days",
    metavar="SPAN",
    default="7d",
    show_default=True,
    callback=periods.span,
    help="So many days or weeks, such as 30d or 4w, today included.",
)
@_json_option
@_zone_option
@_limit_option
@click.pass_obj
def apps(chosen: Settings, *, days: int, is_json: bool, zone: str | None, limit: int) -> None:
    """Print the time in each application, longest first.

    With --json, the answer of the endpoint app-usage.
    """
    with _api(chosen) as api:
        period = periods.last(days, _zone(api, zone))
        answer = api.get(_APP_USAGE, period.instants)
        if is_json:
            _print_json_text(answer.text)
            return
        click.echo(f"{period.first} to {period.last}, {period.zone.key}\n")
        _print_apps(answer.body, limit)


@contextmanager
def _api(chosen: Settings) -> Iterator[API]:
    """Yield the API of the server at which the person is signed in. Raises ClickException."""
    where = store.of(chosen)
    if isinstance(sys.stdout, TextIOWrapper):
        # A name in letters that the locale does not have is no reason to print nothing.
        sys.stdout.reconfigure(errors="replace")
    with requests.client(where.read().server) as http:
        try:
            yield API(http, where)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise click.ClickException("the server answers as no server of this version") from error


def _zone(api: API, name: str | None) -> ZoneInfo:
    """Return the zone of this name, else that of the profile, else UTC. Raises ClickException."""
    if name is not None:
        return periods.zone(name)
    try:
        return periods.zone(str(api.get(_ME, {}).body["data"]["timezone"]))
    except MissingScope as error:
        click.echo(
            f"Days begin in UTC: without {' '.join(error.scopes)}, the time zone of your profile is not"
            " readable. Choose one with --tz.",
            err=True,
        )
        return periods.zone("UTC")


# Printing

_DAY_COLUMNS: Final = (
    *("DAY", "TRACKED", "PRODUCTIVE", "DISTRACTED", "CODING", "SWITCHES", "FIRST", "LAST"),
)
_APP_COLUMNS: Final = ("TIME", "SHARE", "CATEGORY", "APPLICATION")
_GOAL_COLUMNS: Final = ("VALUE", "TARGET", "STATUS", "GOAL")
_LONGEST_CATEGORY: Final = 24


def _long_day(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B %Y}"


def _day_cells(day: Mapping[str, Any], period: Period) -> list[str]:
    """Return the cells of a day. One without data has dashes: nothing recorded is not zero."""
    name = f"{date.fromisoformat(day['date']):%a %d %b}"
    if not day["has_data"]:
        return [name, *["-"] * (len(_DAY_COLUMNS) - 1)]
    return [
        name,
        *_time_cells(day),
        str(day["app_switches"]),
        period.clock(day["first_activity_at"]),
        period.clock(day["last_activity_at"]),
    ]


def _time_cells(sums: Mapping[str, Any]) -> list[str]:
    names = ("tracked_ms", "productive_ms", "distracted_ms", "coding_ms")
    return [durations.text(sums[name]) for name in names]


def _print_apps(body: Mapping[str, Any], limit: int) -> None:
    listed = body["data"][:limit]
    if not listed:
        click.echo("No activity is recorded in this time.")
        return
    screen.table(
        _APP_COLUMNS,
        [
            [
                durations.text(each["total_ms"]),
                "-" if each["percent"] is None else f"{each['percent']:.2f} %",
                screen.shortened(screen.plain(each["category"]), _LONGEST_CATEGORY),
                "all others" if each["app"] is None else each["app"],
            ]
            for each in listed
        ],
        right=_APP_COLUMNS[:2],
        elastic="APPLICATION",
    )
    if len(body["data"]) > limit:
        more = screen.counted(len(body["data"]) - limit, "application")
        click.echo(f"{more} more: see --limit", err=True)


def _print_goals(body: Mapping[str, Any]) -> None:
    goals = [each for each in body["data"] if each["enabled"]]
    if not goals:
        return
    click.echo()
    screen.table(
        _GOAL_COLUMNS,
        [
            [
                _amount(each["progress"]["value"], each["unit"]),
                ("at least " if each["comparison"] == "at_least" else "at most ")
                + _amount(each["target"], each["unit"]),
                each["progress"]["status"].replace("_", " "),
                f"{each['title']} ({each['period']})",
            ]
            for each in goals
        ],
        right=_GOAL_COLUMNS[:1],
        elastic="GOAL",
    )


def _amount(value: int, unit: str) -> str:
    return durations.text(value) if unit == "ms" else str(value)


def _print_json(answers: Mapping[str, Answer]) -> None:
    """Print an object with the answers of endpoints, unchanged, under the endpoints' names."""
    members = ", ".join(f"{json.dumps(name)}: {each.text}" for name, each in answers.items())
    _print_json_text(f"{{{members}}}")


def _print_json_text(text: str) -> None:
    """Print JSON in UTF-8; on a screen with escapes for what a terminal would interpret.

    Such characters stand in strings only, where an escape means the same.
    """
    if sys.stdout.isatty():
        text = "".join(
            each if each.isprintable() or each == "\n" else _escaped(each) for each in text
        )
    # Whatever the locale is (RFC 8259, section 8.1).
    click.echo(text.encode())


def _escaped(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else json.dumps(letter)[1:-1]
