"""Explore: the domains besides activity, each with a year, a chart and a list.

A view without a domain lists them. ``cursor`` in the address is a later page of the list, ``list`` another
one of the domain's lists, and ``area`` a part of the map.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final, Self
from urllib.parse import urlencode

from markupsafe import Markup

from resourceserver.dashboard.charts import (
    DURATION,
    Bar,
    Cell,
    Spot,
    Table,
    bars,
    places,
    top,
    year,
)
from resourceserver.dashboard.charts.bars import Bars, TopBars
from resourceserver.dashboard.charts.grid import Grid
from resourceserver.dashboard.charts.map import distance_m
from resourceserver.dashboard.figures import Answer, count
from resourceserver.dashboard.period import Misaddressed, PagedRange, year_until
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures

LINK: Final = Markup('<a href="{}">{}</a>')
ROWS: Final = 30
"""The rows of a page of a list."""
MOST_NAMES: Final = 10
"""The most bars of a chart."""
MOST_PLACES: Final = 150
"""The most places of a map and of its table."""
MOST_AREAS: Final = 8
AREA_M: Final = 60_000
"""How far the places of an area are from its middle."""
LISTS: Final = {"calendar": "Calendar", "recordings": "Recordings", "insights": "Insights"}
"""The lists of the domain ``content``."""
_AREA: Final = re.compile(r"(-?\d{1,2}(?:\.\d{1,4})?),(-?\d{1,3}(?:\.\d{1,4})?)", re.ASCII)


@dataclass(frozen=True)
class Domain:
    """One domain, with the metric of its year."""

    title: str
    metric: str
    metric_title: str
    kind: str
    """How the metric is written."""
    asks: Callable[[Scene], Asks]
    show: Callable[[Scene, Answers], dict[str, Any]]


@dataclass(frozen=True)
class Explored(PagedRange):
    """A range of days of a domain, ``/explore/code?from=2026-09-01&to=2026-11-21``."""

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the range, and check the parts that it does not know. Raises Misaddressed."""
        if parts.get("domain", "code") not in DOMAINS:
            raise Misaddressed(f"There are {', '.join(DOMAINS)} to explore.")
        if parts.get("list", "calendar") not in LISTS:
            raise Misaddressed(f"The part “list” of the address must be one of {', '.join(LISTS)}.")
        if "area" in parts and area(parts) is None:
            raise Misaddressed("The part “area” of the address must look like 52.37,4.90.")
        kept = {name: parts[name] for name in ("list", "area") if name in parts}
        query = f"?{urlencode(kept)}" if kept else ""
        return super().parse({**parts, "path": parts["path"] + query})


def area(parts: Mapping[str, str]) -> tuple[float, float] | None:
    """Return the latitude and longitude of the part ``area``; None if there is no such place."""
    match = _AREA.fullmatch(parts.get("area", ""))
    if match is None:
        return None
    latitude, longitude = float(match[1]), float(match[2])
    return (latitude, longitude) if abs(latitude) <= 90 and abs(longitude) <= 180 else None


def asks(scene: Scene) -> Asks:
    """Return the questions of a domain, or of the list of domains."""
    name = scene.parts.get("domain")
    if name is None:
        return {
            "repositories": Ask("codehost_repositories", scene.instant_query),
            "artists": Ask("music_top", scene.instant_query),
            "places": Ask("places", scene.instant_query),
            "watched": Ask(
                "trend", {"metric": "watch_ms", **scene.day_query, "include_levels": "false"}
            ),
        }
    domain = DOMAINS[name]
    first, last = year_until(scene.period.last)
    days = {"from": str(first), "to": str(last), "tz": scene.tz, "include_levels": "false"}
    return {"year": Ask("trend", {"metric": domain.metric, **days}), **domain.asks(scene)}


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return what the templates need: charts, tables and the pages of the list."""
    name = scene.parts.get("domain")
    path = f"/explore/{name}" if name else "/explore"
    common = {"domains": DOMAINS, "path": path, "presets": presets(scene, path)}
    if name is None:
        return {"domain": None, **common}
    domain = DOMAINS[name]
    return {
        **common,
        "domain": domain,
        "domain_name": name,
        "year_chart": year_map(scene, domain, answers["year"]) if "year" in answers else None,
        "year_table": year_table(scene, domain, answers["year"]) if "year" in answers else None,
        "page_link": lambda answer: page_link(scene, answer),
        **domain.show(scene, answers),
    }


def presets(scene: Scene, path: str) -> dict[str, str]:
    """Return the addresses of the ranges that end today."""
    kept = {"list": scene.parts["list"]} if "list" in scene.parts else {}
    return scene.ranges(path, "4 weeks", "3 months", "A year", **kept)


def year_map(scene: Scene, domain: Domain, answer: Answer) -> Grid:
    """Return the year as a grid of days, each of which leads to its page."""
    write = figures(scene)
    cells = {}
    for row in answer["data"]:
        day, value = date.fromisoformat(row["from"]), row["value"]
        if day > scene.today:
            break
        words = "no data" if value is None else write.text(value, domain.kind)
        cells[day] = Cell(value, f"{day:%a} {day.day} {day:%b}: {words}", scene.link(f"/day/{day}"))
    first, last = year_until(scene.period.last)
    return year("year", first, last, cells, week_starts_on=scene.week_starts_on - 1)


def year_table(scene: Scene, domain: Domain, answer: Answer) -> Table:
    """Return the table of the days on which there was anything, the newest first, with a link to each."""
    write = figures(scene)
    return Table(
        ("Day", domain.metric_title),
        [
            (
                LINK.format(scene.link(f"/day/{row['from']}"), write.text(row["from"], "day")),
                write.figure(answer, f"/data/{n}/value", domain.kind),
            )
            for n, row in reversed(list(enumerate(answer["data"])))
            if row["value"]
        ],
    )


def page_link(scene: Scene, answer: Answer | None) -> str:
    """Return the address of the next page of a list, or of its first one if there is no answer."""
    query = dict(scene.period.day_query)
    query |= {name: scene.parts[name] for name in ("list", "area") if name in scene.parts}
    if answer is not None:
        query["cursor"] = answer["next_cursor"]
    return scene.link(f"{scene.parts['path']}?{urlencode(query)}")


def _page(scene: Scene) -> dict[str, str]:
    """Return the parameters of the page of a list."""
    cursor = {"cursor": scene.parts["cursor"]} if "cursor" in scene.parts else {}
    return {"limit": str(ROWS), **cursor}


def _code_asks(scene: Scene) -> Asks:
    return {
        "repositories": Ask("codehost_repositories", scene.instant_query),
        "kinds": Ask("codehost_counts", scene.instant_query),
        "list": Ask("codehost_activity", {**scene.instant_query, **_page(scene)}),
    }


def _code_show(_scene: Scene, answers: Answers) -> dict[str, Any]:
    if "repositories" not in answers:
        return {"chart": None}
    kinds = ("commits", "pull_requests", "reviews")
    chart: TopBars = top(
        "repositories",
        [
            Bar(
                row["name"],
                parts=[row[kind] for kind in kinds],
                text=f"{count(row['count'])} {'event' if row['count'] == 1 else 'events'}",
            )
            for row in answers["repositories"]["data"][:MOST_NAMES]
        ],
        parts=[kind.replace("_", " ") for kind in kinds],
    )
    return {"chart": chart}


def _music_asks(scene: Scene) -> Asks:
    return {
        "artists": Ask("music_top", scene.instant_query),
        "tracks": Ask("music_top", {**scene.instant_query, "by": "track"}),
        "list": Ask("music_history", {**scene.instant_query, **_page(scene)}),
    }


def _music_show(scene: Scene, answers: Answers) -> dict[str, Any]:
    if "artists" not in answers:
        return {"chart": None}
    write = figures(scene)
    rows = answers["artists"]["data"][:MOST_NAMES]
    chart: TopBars = top(
        "artists",
        [
            Bar(row["name"], row["listened_ms"], text=write.text(row["listened_ms"], "duration"))
            for row in rows
        ],
    )
    return {"chart": chart}


def _places_asks(scene: Scene) -> Asks:
    return {
        "places": Ask("places", scene.instant_query),
        "list": Ask("location_events", {**scene.instant_query, **_page(scene)}),
    }


def _places_show(scene: Scene, answers: Answers) -> dict[str, Any]:
    if "places" not in answers:
        return {"chart": None}
    write = figures(scene)
    rows = answers["places"]["data"][:MOST_PLACES]
    around, middle = areas(rows), area(scene.parts)
    spots = []
    for n, row in enumerate(rows):
        place = row["place"]
        if place["latitude"] is None or place["longitude"] is None:
            continue
        at = place["latitude"], place["longitude"]
        if middle is not None and distance_m(middle, at) > AREA_M:
            continue
        stay = write.text(row["stayed_ms"], "duration") if row["visit_count"] else "check-ins"
        spots.append(
            Spot(
                *at,
                row["stayed_ms"] if row["visit_count"] else None,
                f"{place['name']}: {stay}",
                number=n + 1,
            )
        )
    return {
        "chart": places("map", spots),
        "areas": [(name, page_link(_within(scene, at), None), at == middle) for name, at in around]
        if len(around) > 1
        else [],
        "whole": page_link(_within(scene, None), None),
        "is_whole": middle is None,
        "most_places": MOST_PLACES,
    }


def areas(rows: list[dict[str, Any]]) -> list[tuple[str, tuple[float, float]]]:
    """Return the parts of the map that are far from each other, most time first, by name and middle."""
    found: list[tuple[str, tuple[float, float]]] = []
    for row in rows:
        place = row["place"]
        if place["latitude"] is None or place["longitude"] is None:
            continue
        at = round(place["latitude"], 2), round(place["longitude"], 2)
        if all(distance_m(at, other) > AREA_M for _, other in found):
            found.append((place["city"] or place["name"], at))
    return found[:MOST_AREAS]


def _within(scene: Scene, at: tuple[float, float] | None) -> Scene:
    """Return the scene for an area, or for the whole map."""
    parts = {name: value for name, value in scene.parts.items() if name != "area"}
    return replace(scene, parts=parts | ({"area": f"{at[0]},{at[1]}"} if at else {}))


def _content_asks(scene: Scene) -> Asks:
    kind = scene.parts.get("list", "calendar")
    days = (scene.period.last - scene.period.first).days
    by = "day" if days < 32 else "week" if days < 370 else "month"
    lists = {
        "calendar": Ask("calendar_events", {**scene.instant_query, **_page(scene)}),
        "recordings": Ask("recordings", _page(scene)),
        "insights": Ask("insights", {**_page(scene), "limit": "12"}),
    }
    return {
        "meetings": Ask(
            "trend",
            {"metric": "meeting_ms", "by": by, **scene.day_query, "include_levels": "false"},
        ),
        "genres": Ask("watching_genres"),
        "list": lists[kind],
    }


def _content_show(scene: Scene, answers: Answers) -> dict[str, Any]:
    rest = {"lists": LISTS, "list_name": scene.parts.get("list", "calendar"), "names": MOST_NAMES}
    if "meetings" not in answers:
        return {"chart": None, **rest}
    write = figures(scene)
    meetings = answers["meetings"]
    chart: Bars = bars(
        "meetings",
        [
            Bar(
                write.text(row["from"], "day")[:-5],
                row["total"],
                title=f"{write.text(row['from'], 'day')}: "
                + ("no data" if row["total"] is None else write.text(row["total"], "duration")),
            )
            for row in meetings["data"]
        ],
        unit=DURATION,
    )
    return {"chart": chart, **rest}


DOMAINS: Final[Mapping[str, Domain]] = {
    "code": Domain(
        "Code",
        "commits",
        "Commits",
        "count",
        _code_asks,
        _code_show,
    ),
    "music": Domain(
        "Music",
        "listened_ms",
        "Listening",
        "duration",
        _music_asks,
        _music_show,
    ),
    "places": Domain(
        "Places",
        "place_count",
        "Places",
        "count",
        _places_asks,
        _places_show,
    ),
    "content": Domain(
        "Content",
        "watch_ms",
        "Watched",
        "duration",
        _content_asks,
        _content_show,
    ),
}
"""The domains by their names in addresses."""

VIEW: Final = View(
    name="explore",
    title="Explore",
    paths=("/explore", "/explore/{domain}"),
    address=Explored,
    endpoints=(
        "trend",
        *("codehost_repositories", "codehost_counts", "codehost_activity"),
        *("music_top", "music_history"),
        *("places", "location_events"),
        *("watching_genres", "calendar_events", "recordings", "insights"),
    ),
    asks=asks,
    show=show,
)
