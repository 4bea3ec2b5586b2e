"""The records that integrations write: one type for each kind of data.

A record is what a reader found in one line, row or element of a file, in the units of the API: instants
are aware datetimes, durations are milliseconds, distances metres, energy kilojoules. Optional values are
None if the file does not have them; a reader never guesses one.

Every record begins with its ``key``, which identifies it among the records of its source: a record with the
same key, in this file or in a newer export, is the same record. A key consists of the source's own id if that
is permanent, else of instants and names, never of a local time or a position in the file. It has at most
``KEY_LENGTH`` characters.

They are named tuples because a file can hold millions of them: a tuple costs a third of a frozen
dataclass, and the writer sends it as a row. Their values are checked before they are written
(``imports/checks.py``), so a reader checks only what it needs for reading.
"""

from datetime import date, datetime
from typing import Any, Final, Literal, NamedTuple

KEY_LENGTH: Final = 200
"""The most characters of a key."""


class Listen(NamedTuple):
    """One play of a track; ``listened_at`` is when it began."""

    key: str
    listened_at: datetime
    track: str
    artist: str
    artists: tuple[str, ...] = ()
    album: str | None = None
    played_ms: int | None = None
    duration_ms: int | None = None
    is_skipped: bool | None = None
    spotify_uri: str | None = None
    isrc: str | None = None
    recording_mbid: str | None = None


class Sensor(NamedTuple):
    """A device that measures: a watch, a phone, a scale. ``device`` is its model, as the source names it.

    Of several that measured the same, the one with the smallest priority counts.
    """

    name: str
    device: str | None = None
    kind: Literal["watch", "phone", "other"] = "other"
    platform: str | None = None
    priority: int = 100


class Sample(NamedTuple):
    """One measurement of a metric that METRICS names, between two instants, which may be the same.

    A measurement does not change, so the first of a key is kept. A total of a day grows until it is over. Of
    two with one key, the one that ends later is kept, and of two with the same end the larger one. So an
    older file that is imported after a newer one changes nothing, whether or not it says when it was written.
    """

    key: str
    metric_type: str
    started_at: datetime
    ended_at: datetime
    value: float
    sensor: Sensor
    utc_offset: str | None = None
    is_daily_total: bool = False


class HeartRate(NamedTuple):
    """The heart rate at an instant, in beats per minute."""

    key: str
    recorded_at: datetime
    bpm: int
    sensor: Sensor
    rr_intervals_ms: tuple[int, ...] = ()
    contact: bool | None = None


class Recovery(NamedTuple):
    """The recovery of the body after a sleep, as its source scored it."""

    state: Literal["scored", "pending", "unscorable"]
    score: float | None = None
    resting_heart_rate_bpm: float | None = None
    hrv_rmssd_ms: float | None = None
    spo2_percent: float | None = None
    skin_temperature_c: float | None = None


class Cycle(NamedTuple):
    """The physiological day that began with a sleep, and its strain on the body."""

    started_at: datetime
    ended_at: datetime | None
    strain: float | None = None
    strain_scale_max: float | None = None
    energy_kj: float | None = None
    average_heart_rate_bpm: float | None = None
    max_heart_rate_bpm: float | None = None


class Sleep(NamedTuple):
    """One sleep or nap, with the recovery and the cycle that its source computed from it.

    ``utc_offset`` is None if the file does not have it; the importer then uses the offset of the place where
    the person was that night, or else of the time zone of the profile.
    """

    key: str
    started_at: datetime
    ended_at: datetime
    sensor: Sensor
    in_bed_ms: int
    asleep_ms: int
    utc_offset: str | None = None
    is_nap: bool = False
    awake_ms: int | None = None
    light_ms: int | None = None
    deep_ms: int | None = None
    rem_ms: int | None = None
    no_data_ms: int | None = None
    latency_ms: int | None = None
    disturbance_count: int | None = None
    cycle_count: int | None = None
    efficiency_percent: float | None = None
    performance_percent: float | None = None
    consistency_percent: float | None = None
    need_ms: int | None = None
    debt_ms: int | None = None
    respiratory_rate_bpm: float | None = None
    average_heart_rate_bpm: float | None = None
    lowest_heart_rate_bpm: float | None = None
    recovery: Recovery | None = None
    cycle: Cycle | None = None


class Point(NamedTuple):
    """Where the person was at an instant, in degrees of WGS 84."""

    key: str
    recorded_at: datetime
    latitude: float
    longitude: float
    accuracy_m: float | None = None
    altitude_m: float | None = None
    vertical_accuracy_m: float | None = None
    speed_mps: float | None = None
    course_deg: float | None = None
    battery_percent: int | None = None
    activity: str | None = None
    device: str | None = None
    platform: str | None = None


class Place(NamedTuple):
    """A place with a name. ``key`` is the source's id of it, else its name and coordinates."""

    key: str
    name: str
    category: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    address: str | None = None
    city: str | None = None
    country_code: str | None = None


class PlaceEvent(NamedTuple):
    """A check-in at a place, or a visit to one. A check-in is always confirmed."""

    key: str
    type: Literal["check_in", "visit"]
    status: Literal["suggested", "confirmed", "declined"]
    started_at: datetime
    ended_at: datetime | None
    place: Place
    utc_offset: str | None = None
    note: str | None = None


class Title(NamedTuple):
    """A film or a show, with its genres in lower case."""

    kind: Literal["movie", "show"]
    name: str
    genres: tuple[str, ...] = ()


class Play(NamedTuple):
    """One time that a film or an episode of a show was watched.

    If ``is_of_a_day``, only the day is known, and ``watched_at`` is its noon; the play is not kept beside one
    of the same source and title whose time lies on that day.
    """

    key: str
    title: Title
    watched_at: datetime
    watch_ms: int
    season: int | None = None
    episode: int | None = None
    is_of_a_day: bool = False


class Calendar(NamedTuple):
    """A calendar. ``key`` is an id that stays the same when the name changes, or else the name."""

    key: str
    name: str
    timezone: str = "UTC"


class CalendarEvent(NamedTuple):
    """One event, or one instance of a recurring event.

    An all-day event has dates, the last one excluded; its instants are the local midnights in the calendar's
    time zone.
    """

    key: str
    calendar: Calendar
    starts_at: datetime
    ends_at: datetime
    status: Literal["confirmed", "tentative", "cancelled"]
    title: str | None = None
    description: str | None = None
    location: str | None = None
    start_date: date | None = None
    end_date: date | None = None
    timezone: str | None = None
    response: Literal["accepted", "declined", "tentative", "needs_action"] | None = None
    organizer_name: str | None = None
    organizer_is_self: bool = False
    attendee_count: int = 0
    series_id: str | None = None
    conference_url: str | None = None
    updated_at: datetime | None = None


class TranscriptSegment(NamedTuple):
    """A part of a transcript, in milliseconds from the beginning of the recording."""

    start_ms: int
    end_ms: int
    speaker: str | None
    text: str


class Recording(NamedTuple):
    """A recording of speech, of which only the transcript is kept.

    ``status`` is that of the transcript; None if it follows from the transcript.
    """

    key: str
    recorded_at: datetime
    duration_ms: int
    title: str | None = None
    language: str | None = None
    transcript: str | None = None
    segments: tuple[TranscriptSegment, ...] = ()
    status: Literal["ready", "pending", "failed", "none"] | None = None


class CodeEvent(NamedTuple):
    """One event in a repository; counts of lines are None if the source does not have them."""

    key: str
    type: Literal["commit", "pull_request", "review"]
    action: str
    occurred_at: datetime
    repository: str
    is_private: bool | None = None
    title: str | None = None
    url: str | None = None
    ref: str | None = None
    sha: str | None = None
    number: int | None = None
    state: str | None = None
    additions: int | None = None
    deletions: int | None = None
    changed_files: int | None = None


class AppSession(NamedTuple):
    """Time that an application was used, as an event of ingest (contract, chapter 3).

    Of two from files with one key, the end of the longer one is kept: a session may go on after a file.
    What a tracker sent stays as it is.
    """

    key: str
    started_at: datetime
    ended_at: datetime
    device: str
    app: str
    title: str | None = None
    url: str | None = None
    category: str | None = None
    is_idle: bool = False
    utc_offset: str | None = None
    platform: str | None = None
    metadata: dict[str, Any] | None = None


class CodingSession(NamedTuple):
    """Time in an editor, as an event of ingest (contract, chapter 3). The longer one is kept, as above."""

    key: str
    started_at: datetime
    ended_at: datetime
    device: str
    project: str
    language: str | None = None
    file: str | None = None
    branch: str | None = None
    editor: str | None = None
    activity: str | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    is_write: bool | None = None
    utc_offset: str | None = None
    platform: str | None = None
    metadata: dict[str, Any] | None = None


class ScreenTime(NamedTuple):
    """For how long an application was in use on a day of a device, which does not say when on the day.

    Of two with one key, the one that was counted later is kept: a day grows until it is over.
    """

    key: str
    date: date
    device: str
    app: str
    duration_ms: int
    counted_at: datetime
    name: str | None = None
    last_used_at: datetime | None = None


Record = (
    Listen
    | Sample
    | HeartRate
    | Sleep
    | Point
    | PlaceEvent
    | Play
    | CalendarEvent
    | Recording
    | CodeEvent
    | AppSession
    | CodingSession
    | ScreenTime
)
"""All types of records."""


KINDS: Final[dict[type[Record], str]] = {
    Listen: "music",
    Sample: "health",
    HeartRate: "health",
    Sleep: "health",
    Point: "location",
    PlaceEvent: "location",
    Play: "content",
    CalendarEvent: "content",
    Recording: "content",
    CodeEvent: "code",
    AppSession: "activity",
    CodingSession: "activity",
    ScreenTime: "activity",
}
"""The kind of data that each record is: the word of the scope that opens it."""


class Sourced(NamedTuple):
    """A record with its own source, which is written instead of the source of its format.

    An export of this service contains records of several sources, and a log of git those of a code host. None
    is the source of a session whose tracker sent no name.
    """

    source: str | None
    record: Record


class Refused(NamedTuple):
    """A part of a file from which a reader could not make a record.

    ``reason`` is a code in snake_case; ``example`` quotes at most 200 characters of the file, so that the
    person can find the part.
    """

    reason: str
    example: str


METRICS: Final[dict[str, tuple[str, Literal["sum", "avg"]]]] = {
    "steps": ("count", "sum"),
    "distance_m": ("m", "sum"),
    "cycling_distance_m": ("m", "sum"),
    "swimming_distance_m": ("m", "sum"),
    "floors": ("count", "sum"),
    "active_energy_kj": ("kJ", "sum"),
    "basal_energy_kj": ("kJ", "sum"),
    "dietary_energy_kj": ("kJ", "sum"),
    "exercise_ms": ("ms", "sum"),
    "stand_ms": ("ms", "sum"),
    "daylight_ms": ("ms", "sum"),
    "water_ml": ("mL", "sum"),
    "weight_kg": ("kg", "avg"),
    "height_m": ("m", "avg"),
    "body_mass_index": ("kg/m2", "avg"),
    "body_fat_percent": ("percent", "avg"),
    "lean_body_mass_kg": ("kg", "avg"),
    "blood_oxygen_percent": ("percent", "avg"),
    "blood_pressure_systolic_mmhg": ("mmHg", "avg"),
    "blood_pressure_diastolic_mmhg": ("mmHg", "avg"),
    "blood_glucose_mmol_per_l": ("mmol/L", "avg"),
    "body_temperature_c": ("degC", "avg"),
    "respiratory_rate_bpm": ("bpm", "avg"),
    "resting_heart_rate_bpm": ("bpm", "avg"),
    "walking_heart_rate_bpm": ("bpm", "avg"),
    "hrv_sdnn_ms": ("ms", "avg"),
    "hrv_rmssd_ms": ("ms", "avg"),
    "vo2_max": ("mL/kg/min", "avg"),
    "walking_speed_mps": ("m/s", "avg"),
    "environmental_sound_db": ("dB", "avg"),
    "headphone_sound_db": ("dB", "avg"),
    "mindful_ms": ("ms", "sum"),
    "stress_score": ("score", "avg"),
}
"""Unit and aggregation of each metric of samples; a reader converts values into this unit."""
