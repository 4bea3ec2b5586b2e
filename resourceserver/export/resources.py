"""The resources of an export: each with its scope, its rows and its statement.

Rows are those of the read endpoints. Sessions are the events that trackers sent, so that they can be sent
again; values that the service computes from them are left out. Records that integrations brought have the key
by which their source knows them, so that an import of the export knows them too. Short lists are taken from
their endpoint, all others are streamed by statements of their own (export.sql).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

import resourceserver.endpoints
from resourceserver.api.bodies import Body, CalendarDay, Count, Milliseconds, Timestamp
from resourceserver.api.endpoint import Endpoint
from resourceserver.endpoints import (
    code,
    content,
    devices,
    goals,
    health,
    location,
    music,
    profile,
    summaries,
)
from shared import queries

_HERE: Final = Path(__file__).parent
_ENDPOINTS: Final = Path(resourceserver.endpoints.__file__).parent
SQL: Final = queries.load(_ENDPOINTS / "rows.sql", _HERE / "export.sql")

COLUMNS: Final = (
    *("resource", "id", "started_at", "ended_at", "duration_ms", "name", "category", "project"),
    *("language", "title", "device", "value", "unit", "latitude", "longitude", "extra"),
)
"""The columns of the one CSV file; ``extra`` has the members without a column, as JSON."""


@dataclass(frozen=True)
class Resource:
    """One kind of rows."""

    name: str
    scope: str
    row: type[BaseModel]
    """The model of a row, which Postgres writes."""
    rows: str | Endpoint
    """The statement that reads them, each as JSON in the only column; or the endpoint that returns them."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the one CSV file whose member has another name, or is a member of a member:
    ``place.latitude``."""
    most_rows: int = 1000
    """Most rows that are read at once; few if a single one may be long."""

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The names of a row's members, in order."""
        fields = self.row.model_fields.items()
        return tuple(described.alias or name for name, described in fields)

    @cached_property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """The path to the value of each column between the first and the last: a member, and its member."""
        paths = [self.columns.get(column, column).partition(".") for column in COLUMNS[1:-1]]
        return tuple((member, inner) for member, _, inner in paths)

    @cached_property
    def column_names(self) -> frozenset[str]:
        """The members that have a column of their own, and so are not in the last one."""
        return frozenset(member for member, inner in self.sources if not inner)


class SessionEvent(Body):
    """A session as its tracker sent it."""

    id: str
    idempotency_key: str
    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds


class AppSessionEvent(SessionEvent):
    """A session of an application as its tracker sent it."""

    app: str
    title: str | None
    url: str | None
    """The address of the page; null without one. The operator decides whether it keeps its query."""
    category: str | None
    """The category that its tracker sent; category rules may decide for another one."""
    idle: bool
    device: str
    platform: str | None
    utc_offset: str | None
    metadata: dict[str, Any] | None
    source: str | None


class CodingSessionEvent(SessionEvent):
    """A coding session as its tracker sent it."""

    project: str
    language: str | None
    branch: str | None
    file: str | None
    editor: str | None
    activity: str
    lines_added: Count | None
    lines_removed: Count | None
    is_write: bool | None
    device: str
    platform: str | None
    utc_offset: str | None
    metadata: dict[str, Any] | None
    source: str | None


class CategoryRule(Body):
    """A rule that assigns time to a category."""

    id: str
    priority: int
    """The rule with the smallest position is tried first."""
    field: Literal["app", "title", "domain"]
    """The member of a session that is compared."""
    match: Literal["exact", "contains", "regex"]
    """How the pattern is compared with the member."""
    pattern: str
    """The text, or the regular expression."""
    category: str
    """The category of matching sessions."""
    switched_off_at: Timestamp | None
    """Since when the rule decides nothing, because it takes too long; null for one that is in force."""


class CategoryScore(Body):
    """The score of a category."""

    category: str
    """The name of the category."""
    score: Annotated[int, Field(ge=-2, le=2)]
    """From -2, very distracting, to 2, very productive."""


class RefusalReason(Body):
    """Why records of a part were refused."""

    reason: str
    """A code in snake_case, such as ``missing_time``."""
    count: Count
    examples: list[str]
    """The beginnings of the first records."""


class ImportedPart(Body):
    """What became of the records of one file of an archive; a file that is no archive is its only part."""

    position: Count
    """Its place among the parts, from 0."""
    name: str
    format: str | None
    """The name of the format that read it."""
    source: str | None
    """The service that wrote it."""
    size: Count
    """Its size in bytes."""
    read: Count
    """How many records were read: the sum of the next four."""
    new: Count
    """Records that were not known."""
    known: Count
    """Records that were known already."""
    changed: Count
    """Known records of which the file had a newer version."""
    refused: Count
    """Records that could not be kept."""
    first_at: Timestamp | None
    """The instant of the earliest record."""
    last_at: Timestamp | None
    """The instant of the latest record."""
    finished: bool
    """Whether it was read to its end."""
    problem: str | None
    """Why it was not."""
    refusals: list[RefusalReason]
    """Why records were refused, the most frequent reason first."""


class Import(Body):
    """A file that the person brought from another service."""

    id: str
    file: str
    """Its name."""
    size: Count
    """Its size in bytes."""
    digest: str
    """The SHA-256 of its content: ``sha256:`` and 64 hexadecimal digits."""
    status: Literal["running", "interrupted", "done", "failed", "undone"]
    """``undone``: what it brought was removed."""
    problem: str | None
    """Why it was interrupted, or failed."""
    started_at: Timestamp
    finished_at: Timestamp | None
    """Null while it runs."""
    ignored: Count
    """How many parts no format recognised."""
    ignored_names: list[str]
    """The names of the first of them."""
    parts: list[ImportedPart]
    """The files of an archive, or the file itself."""


class ExportedSensor(Body):
    """What decides between several devices that measured the same."""

    kind: Literal["watch", "phone", "other"]
    """What the device is."""
    platform: str | None
    """Its operating system; null where it is unknown."""
    priority: int
    """The device with the smallest priority counts."""


class Cycle(health.Strain):
    """The strain of the day that began with a sleep."""

    started_at: Timestamp
    ended_at: Timestamp | None


class RecordedSleep(Body):
    """One sleep, or one nap."""

    id: str
    date: CalendarDay
    """The local day on which it ended."""
    provider: str
    started_at: Timestamp
    ended_at: Timestamp
    utc_offset: str
    nap: bool
    """Whether it is a nap."""
    in_bed_ms: Milliseconds
    asleep_ms: Milliseconds
    awake_ms: Milliseconds | None
    light_ms: Milliseconds | None
    deep_ms: Milliseconds | None
    rem_ms: Milliseconds | None
    no_data_ms: Milliseconds | None
    latency_ms: Milliseconds | None
    disturbance_count: Count | None
    cycle_count: Count | None
    efficiency_percent: float | None
    performance_percent: float | None
    consistency_percent: float | None
    need_ms: Milliseconds | None
    debt_ms: Milliseconds | None
    respiratory_rate_bpm: float | None
    average_heart_rate_bpm: float | None
    lowest_heart_rate_bpm: float | None
    recovery: health.Recovery | None
    strain: Cycle | None
    source: health.SampleSource
    sensor: ExportedSensor
    """What the device is; it decides which of several counts."""
    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ScreenTime(Body):
    """For how long an application was in use on a phone on a day."""

    id: str
    date: CalendarDay
    """A day of the phone, which says nothing of when on the day."""
    device: str
    """The name of the phone; empty where it is unknown."""
    app: str
    """The id of the application."""
    name: str | None
    """What people call the application."""
    duration_ms: Milliseconds
    last_used_at: Timestamp | None
    """When it was last used on this day."""
    counted_at: Timestamp
    """When the phone counted; a newer count replaces an older one."""
    source: str
    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ExportedCodeEvent(code.CodeEvent):
    """An event of a code host, with its key in the source."""

    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ExportedSample(health.Sample):
    """A measurement, with its key in the source."""

    sensor: ExportedSensor
    """What the device is; it decides which of several counts."""
    is_daily_total: bool
    """Whether it is the total of a day, which is not added to the other samples of its provider."""
    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ExportedHeartRate(health.HeartRate):
    """A heart rate, with its key in the source."""

    source: health.SampleSource | None
    """What measured it; null where that is unknown."""
    sensor: ExportedSensor | None
    """What it is; null where that is unknown."""
    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ExportedListen(music.Listen):
    """A play of a track, with its key in the source."""

    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ExportedLocation(location.Location):
    """A point, with its key in the source."""

    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ExportedLocationEvent(location.LocationEvent):
    """A check-in or a visit, with its key and that of its place in the source."""

    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""
    place_key: str
    """The key of the place in the source."""


class ExportedRecording(content.Recording):
    """A recording, with its key in the source."""

    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


class ExportedCalendarEvent(content.CalendarEvent):
    """An event of a calendar, with its key and that of its calendar in the source."""

    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""
    calendar_key: str
    """The key of the calendar in the source."""
    calendar_timezone: str
    """The time zone of its whole days."""


class WatchedTitle(Body):
    """A film or a show."""

    id: str
    kind: Literal["movie", "show"]
    """A film or a show."""
    name: str
    genres: list[str]
    """The genres; empty where they are unknown."""


class Play(Body):
    """A film or an episode that the person watched."""

    id: str
    watched_at: Timestamp
    """When the play began."""
    watch_ms: Milliseconds
    title: WatchedTitle
    """The film or the show."""
    season: int | None
    """The number of the season; null for films."""
    episode: int | None
    """The number of the episode; null for films."""
    source: str | None
    provider_key: str
    """The key of the record in its source, by which a later import recognises it."""


def _streamed(
    name: str, scope: str, row: type[BaseModel], columns: Mapping[str, str] | None = None
) -> Resource:
    """Return a resource with a statement of its own."""
    return Resource(name, scope, row, SQL[name], columns or {})


def _whole(
    name: str,
    endpoints: list[Endpoint],
    path: str,
    row: type[BaseModel],
    columns: Mapping[str, str] | None = None,
) -> Resource:
    """Return a resource whose rows are the answer of the endpoint at ``path``."""
    (endpoint,) = [each for each in endpoints if each.path == path]
    (scope,) = endpoint.scopes
    return Resource(name, scope, row, endpoint, columns or {})


PROFILE: Final = _whole(
    "profile",
    profile.ENDPOINTS,
    "/api/v1/me",
    profile.Profile,
    {"started_at": "created_at", "name": "email", "title": "display_name"},
)

RESOURCES: Final = (
    _streamed("app_sessions", "read:activity", AppSessionEvent, {"name": "app"}),
    _streamed("coding_sessions", "read:activity", CodingSessionEvent, {"name": "file"}),
    _streamed(
        "devices",
        "read:activity",
        devices.Tracker,
        {"started_at": "first_seen_at", "ended_at": "last_event_at", "value": "event_count"},
    ),
    _whole(
        "goals",
        goals.ENDPOINTS,
        "/api/v1/goals",
        goals.Goal,
        {"started_at": "created_at", "name": "metric", "value": "target"},
    ),
    _streamed("category_rules", "read:activity", CategoryRule, {"name": "pattern"}),
    _streamed("category_scores", "read:activity", CategoryScore, {"value": "score"}),
    _streamed(
        "daily_summaries",
        "read:activity",
        summaries.Summary,
        {"id": "date", "duration_ms": "tracked_ms", "name": "status", "title": "text"},
    ),
    _streamed("screen_times", "read:activity", ScreenTime, {"started_at": "date", "title": "app"}),
    _streamed(
        "code_events",
        "read:code",
        ExportedCodeEvent,
        {"started_at": "occurred_at", "name": "repository.name", "category": "type"},
    ),
    _streamed(
        "health_samples",
        "read:health",
        ExportedSample,
        {"name": "metric_type", "device": "source.name"},
    ),
    _streamed(
        "heart_rates",
        "read:health",
        ExportedHeartRate,
        {"started_at": "recorded_at", "value": "bpm", "device": "device.name"},
    ),
    _streamed(
        "sleeps", "read:health", RecordedSleep, {"duration_ms": "asleep_ms", "name": "provider"}
    ),
    _streamed(
        "listens",
        "read:music",
        ExportedListen,
        {
            "started_at": "listened_at",
            "duration_ms": "played_ms",
            "name": "artist",
            "title": "track",
        },
    ),
    _streamed(
        "locations",
        "read:location",
        ExportedLocation,
        {"started_at": "recorded_at", "name": "activity", "device": "device.name"},
    ),
    _streamed(
        "location_events",
        "read:location",
        ExportedLocationEvent,
        {
            "name": "place.name",
            "category": "place.category",
            "title": "note",
            "latitude": "place.latitude",
            "longitude": "place.longitude",
        },
    ),
    _streamed(
        "insights",
        "read:content",
        content.Insight,
        {"started_at": "week_start", "ended_at": "week_end", "name": "model"},
    ),
    replace(
        _streamed("recordings", "read:content", ExportedRecording, {"started_at": "recorded_at"}),
        # A transcript may have any length.
        most_rows=10,
    ),
    _streamed(
        "plays",
        "read:content",
        Play,
        {
            "started_at": "watched_at",
            "duration_ms": "watch_ms",
            "title": "title.name",
            "category": "title.kind",
        },
    ),
    _streamed(
        "calendar_events",
        "read:content",
        ExportedCalendarEvent,
        {"started_at": "starts_at", "ended_at": "ends_at", "name": "calendar.name"},
    ),
    PROFILE,
    _whole(
        "integrations",
        profile.ENDPOINTS,
        "/api/v1/integrations",
        profile.Integration,
        {"id": "provider", "started_at": "connected_at", "name": "provider", "category": "kind"},
    ),
    _streamed(
        "imports",
        "read:profile",
        Import,
        {"ended_at": "finished_at", "name": "file", "category": "status"},
    ),
    _whole(
        "organizations",
        profile.ENDPOINTS,
        "/api/v1/orgs",
        profile.Organization,
        {"started_at": "joined_at", "category": "role"},
    ),
    _whole(
        "teams",
        profile.ENDPOINTS,
        "/api/v1/teams",
        profile.Team,
        {"started_at": "joined_at", "category": "role", "project": "organization.name"},
    ),
    _whole(
        "subscription",
        profile.ENDPOINTS,
        "/api/v1/account/subscription",
        profile.Subscription,
        {"name": "plan", "value": "seats"},
    ),
)
"""All resources, in the order in which they are written."""
