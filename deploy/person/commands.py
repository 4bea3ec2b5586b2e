"""The commands: ``svc login``, ``svc logout``, ``svc today``, ``svc week``, ``svc apps``, ``svc export``."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from deploy.person import discovery, download, keyring, periods, requests, sign_in, store
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


# Sign-in


@click.command()
@click.option("--server", metavar="URL", help="The resource server; default: SVC_BASE_URL.")
@click.option(
    "--scope",
    multiple=True,
    help="Ask for these scopes only; default: all that read. You tick them in the browser.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address, and open no browser.")
@click.option(
    "--keyring", "use_keyring", is_flag=True, help="Keep the tokens in the system's keyring."
)
@click.pass_obj
def login(
    chosen: Settings,
    *,
    server: str | None,
    scope: tuple[str, ...],
    no_browser: bool,
    use_keyring: bool,
) -> None:
    """Sign in with the browser, so that the other commands here can read your data.

    The browser shows which access is asked for, and you tick what to grant. The tokens are kept in
    svc/login.json in XDG_CONFIG_HOME, by default ~/.config, which only you can read. A new sign-in replaces
    the one before and revokes its access.
    """
    try:
        address = requests.origin(server or chosen.base_url)
    except ValueError as error:
        raise click.BadParameter(f"the address {error}", param_hint="--server") from error
    if use_keyring:
        keyring.check()
    where = store.of(chosen)
    with where.locked(), where.replacement():
        # A directory that cannot be written is noticed before the person signs in.
        pass
    with requests.client(address) as http:
        endpoints = discovery.discover(http, address)
        if address.startswith("http:") and not requests.is_loopback(address):
            click.echo(
                f"{address} is not encrypted: others in the network can read along", err=True
            )
        requested = scope or [each for each in endpoints.scopes if each.startswith("read:")]
        new = sign_in.sign_in(
            http,
            endpoints,
            " ".join(requested).split(),
            use_browser=not no_browser,
            is_in_keyring=use_keyring,
            say=click.echo,
        )
        try:
            with where.locked():
                try:
                    before = where.read()
                except click.ClickException:
                    before = None
                with where.replacement() as replace:
                    replace(new)
        except click.ClickException:
            with suppress(click.ClickException):
                sign_in.revoke(http, new)
            raise
    click.echo(f"Signed in at {new.server}. Granted: {screen.plain(new.scope)}")
    if before is not None:
        try:
            where.forget(before, new)
        except click.ClickException as error:
            click.echo(f"The tokens before are still in the keyring: {error.message}", err=True)
        with requests.client(before.server) as http:
            try:
                sign_in.revoke(http, before)
            except click.ClickException as error:
                click.echo(f"The access before is not revoked: {error.message}", err=True)


@click.command()
@click.option("--local", is_flag=True, help="Only remove the tokens from this machine.")
@click.pass_obj
def logout(chosen: Settings, *, local: bool) -> None:
    """Revoke the access of this machine and remove its tokens."""
    where = store.of(chosen)
    # Without a lock first: a machine on which nobody signed in gets no directory.
    where.read()
    with where.locked():
        ended = where.read()
        if not local:
            with requests.client(ended.server) as http:
                try:
                    sign_in.revoke(http, ended)
                except click.ClickException as error:
                    raise click.ClickException(
                        f"{error.message}\nThe access is not revoked. Try again, or revoke it in Settings"
                        " at the server and run 'svc logout --local'."
                    ) from error
        where.remove(ended)
    click.echo(f"Signed out of {ended.server}")


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
            first, last = _clocks(day, period)
            screen.print_facts(
                ("tracked", durations.text(day["tracked_ms"])),
                ("productive", durations.text(day["productive_ms"])),
                ("neutral", durations.text(day["neutral_ms"])),
                ("distracted", durations.text(day["distracted_ms"])),
                ("focus", durations.text(focus["focus_ms"])),
                ("coding", durations.text(day["coding_ms"])),
                ("app switches", str(day["app_switches"])),
                ("first activity", first),
                ("last activity", last),
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
                ["Total", *_time_cells(daily["totals"]), "", ""],
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


_DAY: Final = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help='The file, or "-" for standard output; default: the name that the server gives, here.',
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(("json", "ndjson", "csv", "zip")),
    default="json",
    show_default=True,
)
@click.option("--from", "first", metavar="DAY", type=_DAY, help="First day; default: of all data.")
@click.option(
    "--to", "last", metavar="DAY", type=_DAY, help="Last day, included; the same default."
)
@click.option(
    "--resources",
    metavar="NAMES",
    help="Names with commas between them, such as app_sessions,goals; default: all you may read.",
)
@_zone_option
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_obj
def export(
    chosen: Settings,
    *,
    out: Path | None,
    file_format: str,
    first: datetime | None,
    last: datetime | None,
    resources: str | None,
    zone: str | None,
    force: bool,
) -> None:
    """Save all your data, as far as the granted scopes allow, in a file that only you can read.

    The file appears when it is complete.
    """
    with _api(chosen) as api:
        given = {
            "format": file_format,
            "from": None if first is None else f"{first:%Y-%m-%d}",
            "to": None if last is None else f"{last:%Y-%m-%d}",
            "resources": resources,
            "tz": _zone(api, zone).key,
        }
        parameters = {name: value for name, value in given.items() if value is not None}
        saved = download.save(api, parameters, out, force=force)
    if saved.omitted:
        click.echo(f"Left out, because their scopes were not granted: {saved.omitted}", err=True)
    if saved.name != "-":
        click.echo(f"{saved.name}: {saved.size} bytes")


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

_DAY_COLUMNS: Final = (*("DAY", "TRACKED", "PRODUCTIVE", "DISTRACTED", "CODING", "FIRST", "LAST"),)
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
        *_clocks(day, period),
    ]


def _clocks(day: Mapping[str, Any], period: Period) -> list[str]:
    """Return the local times of the first and the last activity of a day."""
    first, last = day["first_activity_at"], day["last_activity_at"]
    # What lasted until midnight belongs to this day.
    return [period.clock(first), "24:00" if last == day["ends_at"] else period.clock(last)]


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
