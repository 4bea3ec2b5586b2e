"""Exports of this service: each kind of row becomes the record from which it was written."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from resourceserver.integrations.formats.own import OWN_JSON, OWN_NDJSON
from resourceserver.integrations.records import (
    AppSession,
    Calendar,
    CalendarEvent,
    CodeEvent,
    CodingSession,
    Cycle,
    HeartRate,
    Listen,
    Place,
    PlaceEvent,
    Play,
    Point,
    Recording,
    Recovery,
    Sample,
    ScreenTime,
    Sensor,
    Sleep,
    Sourced,
    Title,
    TranscriptSegment,
)
from tests.integrations.memory import ALICE, MemoryFile, read, recognise
from tests.integrations.more_samples import OWN_ROWS, own_json, own_ndjson

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)
NINE = datetime(2025, 6, 16, 9, tzinfo=UTC)

EXPECTED = [
    Sourced(
        "aw-bridge/1.2",
        AppSession(
            "k1",
            EIGHT,
            NINE,
            "laptop",
            "Code",
            "main.py",
            "https://example.org/a",
            "Development",
            is_idle=True,
            utc_offset="+02:00",
        ),
    ),
    Sourced(
        "wakatime",
        CodingSession(
            "k1",
            EIGHT,
            NINE,
            "laptop",
            "svc",
            "Python",
            "app.py",
            "main",
            "vscode",
            "coding",
            lines_added=7,
            lines_removed=1,
            is_write=True,
            utc_offset="+02:00",
        ),
    ),
    Sourced(
        "life_dashboard",
        ScreenTime(
            *("svc:13", date(2025, 6, 16), "Pixel", "org.mozilla.firefox", 2_700_000, NINE),
            *("Firefox", EIGHT),
        ),
    ),
    Sourced(
        "github",
        CodeEvent(
            "svc:3",
            "pull_request",
            "merged",
            EIGHT,
            "me/svc",
            is_private=True,
            title="Fix days",
            number=7,
            additions=41,
            deletions=7,
            changed_files=3,
        ),
    ),
    Sourced(
        "apple_health",
        Sample(
            "svc:4",
            "steps",
            EIGHT,
            NINE,
            212.0,
            Sensor("Watch", "Watch6,2", "watch", "watchos", 10),
            "+02:00",
        ),
    ),
    Sourced("svc", HeartRate("svc:5", EIGHT, 61, Sensor("H10", platform="ble"), (982, 975), True)),
    Sourced(
        "whoop",
        Sleep(
            "svc:6",
            EIGHT,
            NINE,
            Sensor("whoop"),
            in_bed_ms=3_600_000,
            asleep_ms=3_000_000,
            utc_offset="+02:00",
            is_nap=True,
            recovery=Recovery("scored", 66.0, 52.0, 48.2, 96.1, 33.7),
            cycle=Cycle(EIGHT, None, 11.4, 21.0, 9210.4, 68.0, 165.0),
        ),
    ),
    Sourced(
        "spotify",
        Listen(
            "svc:7",
            EIGHT,
            "Andromeda",
            "Gorillaz",
            ("Gorillaz", "D.R.A.M."),
            "Humanz",
            178_778,
            197_000,
            is_skipped=False,
            spotify_uri="spotify:track:x",
        ),
    ),
    Sourced("owntracks", Point("svc:8", EIGHT, 52.37, 4.89, accuracy_m=12.0, device="phone")),
    Sourced(
        "swarm",
        PlaceEvent(
            "svc:9",
            "check_in",
            "confirmed",
            EIGHT,
            None,
            Place("svc:p", "Café X", city="Amsterdam", country_code="NL"),
            "+02:00",
            "with friends",
        ),
    ),
    Sourced(
        "phone",
        Recording(
            "svc:10",
            EIGHT,
            184_000,
            "Standup",
            "en",
            "Hello.",
            (TranscriptSegment(0, 4200, None, "Hello."),),
            "ready",
        ),
    ),
    Sourced("trakt", Play("svc:11", Title("show", "Dark", ("drama",)), EIGHT, 3_000_000, 1, 2)),
    Sourced(
        "google",
        CalendarEvent(
            "svc:12",
            Calendar("svc:c", "Work"),
            EIGHT,
            NINE,
            "confirmed",
            title="Review",
            start_date=date(2025, 6, 16),
            end_date=date(2025, 6, 17),
            timezone="Europe/Berlin",
            response="accepted",
            organizer_name="Bob",
            organizer_is_self=True,
            attendee_count=5,
            series_id="s",
            updated_at=NINE,
        ),
    ),
]


def sourced(content: bytes) -> Iterator[Any]:
    chosen = OWN_JSON if content.startswith(b'{"exported_at"') else OWN_NDJSON
    return chosen.read(MemoryFile(content), ALICE)


@pytest.mark.parametrize("content", [own_json().content, own_ndjson().content])
def test_rows_are_the_records_of_which_they_were_written(content: bytes) -> None:
    assert list(sourced(content)) == EXPECTED


@pytest.mark.parametrize("resource", list(OWN_ROWS))
def test_rows_with_values_of_other_types_raise_nothing(resource: str) -> None:
    row = OWN_ROWS[resource]
    broken: list[Any] = [
        {name: value for name, value in row.items() if name != left_out} for left_out in row
    ]
    for other in (None, 5, "5", [1], {"a": 1}, True, 1e300, "0001-01-01T00:00:00+10:00"):
        broken += [row | {name: other} for name in row]
    broken += [None, [], "row", {}]

    content = json.dumps({"exported_at": "", "resources": {resource: broken}}).encode()
    results = list(sourced(content))

    assert len(results) == len(broken)


def test_settings_are_refused_and_what_is_computed_is_left_out() -> None:
    resources = {
        "goals": [{"title": "Code"}],
        "daily_summaries": [{"date": "2025-06-16"}],
        "profile": [{"id": "1"}],
    }
    lines = "".join(
        json.dumps({"resource": name} | rows[0], separators=(",", ":")) + "\n"
        for name, rows in resources.items()
    )

    for chosen, content in (
        (OWN_JSON, json.dumps({"exported_at": "", "resources": resources})),
        (OWN_NDJSON, lines),
    ):
        reading = read(chosen, content)
        assert reading.reasons == ["no_record_for_it"]
        assert reading.records == []


def test_a_truncated_export_keeps_the_records_before_the_break() -> None:
    as_json = read(OWN_JSON, own_json().content[:-30])
    as_lines = read(OWN_NDJSON, own_ndjson().content[:-30])

    assert (len(as_json.records), len(as_lines.records)) == (12, 12)
    assert "no JSON" in str(as_json.unreadable)
    assert as_lines.reasons == ["not_json"]


def test_exports_are_recognised() -> None:
    assert recognise(OWN_JSON, own_json().content) == 1.0
    assert recognise(OWN_NDJSON, own_ndjson().content) == 1.0
    assert recognise(OWN_NDJSON, '{"resource":"a"}') == 0.0
