"""Small files of further formats, as ``samples`` has them: one function with the name of the format."""

import json
import struct
from typing import Any

from tests.integrations.samples import Sample, as_json


def wakatime() -> Sample:
    beat = {
        "id": "0c5e8f1e-8e3f-4c43-9a5b-0b2f6a3c1d11",
        "branch": "main",
        "category": "coding",
        "entity": "/code/svc/app.py",
        "is_write": True,
        "language": "Python",
        "project": "svc",
        "time": 1750064400.25,
        "type": "file",
        "machine_name_id": "5b7f2f3a-1111-4222-8333-444455556666",
    }
    days = [{"date": "2025-06-16", "heartbeats": [beat, beat | {"time": 1750064460.0}]}]
    return Sample("wakatime.json", as_json({"user": {}, "range": {}, "days": days}))


def icalendar() -> Sample:
    lines = (
        *("BEGIN:VCALENDAR", "VERSION:2.0", "X-WR-CALNAME:Work", "X-WR-TIMEZONE:Europe/Berlin"),
        *("BEGIN:VEVENT", "UID:1@example.org", "DTSTART:20250616T090000Z"),
        *("DTEND:20250616T100000Z", "SUMMARY:Review", "END:VEVENT"),
        *("BEGIN:VEVENT", "UID:2@example.org", "DTSTART;VALUE=DATE:20250616"),
        *("RRULE:FREQ=WEEKLY;COUNT=3", "SUMMARY:Chores", "END:VEVENT", "END:VCALENDAR"),
    )
    return Sample("work.ics", "".join(f"{line}\r\n" for line in lines).encode())


def gpx() -> Sample:
    return Sample(
        "ride.gpx",
        b"""<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="Garmin Connect" xmlns="http://www.topografix.com/GPX/1/1"
  xmlns:ns3="http://www.garmin.com/xmlschemas/TrackPointExtension/v1"><trk><type>cycling</type>
<trkseg><trkpt lat="52.3702157" lon="4.8951679"><ele>3.1</ele><time>2025-06-16T08:00:00Z</time>
<extensions><ns3:TrackPointExtension><ns3:hr>121</ns3:hr></ns3:TrackPointExtension></extensions>
</trkpt></trkseg></trk></gpx>
""",
    )


_CRC = (
    *(0x0000, 0xCC01, 0xD801, 0x1400, 0xF001, 0x3C00, 0x2800, 0xE401),
    *(0xA001, 0x6C00, 0x7800, 0xB401, 0x5000, 0x9C01, 0x8801, 0x4400),
)
_TYPES = {"B": 0x02, "H": 0x84, "i": 0x85, "I": 0x86}


def _crc(content: bytes) -> bytes:
    value = 0
    for byte in content:
        for nibble in (byte & 0xF, byte >> 4):
            value = (value >> 4 & 0x0FFF) ^ _CRC[value & 0xF] ^ _CRC[nibble]
    return struct.pack("<H", value)


def fit_message(number: int, *fields: tuple[int, str, int]) -> bytes:
    """Return a definition and a data message of fields: number, struct's code, value."""
    definition = struct.pack("<BBBHB", 0x40, 0, 0, number, len(fields))
    for field, code, _ in fields:
        definition += struct.pack("<BBB", field, struct.calcsize(code), _TYPES[code])
    return (
        definition + b"\0" + b"".join(struct.pack("<" + code, value) for _, code, value in fields)
    )


def fit_file(*messages: bytes) -> bytes:
    data = b"".join(messages)
    header = struct.pack("<BBHI4s", 14, 0x20, 2132, len(data), b".FIT")
    header += _crc(header)
    return header + data + _crc(header + data)


FIT_EIGHT = 1_118_995_200
"""2025-06-16T08:00:00Z in seconds since 1989-12-31."""


def fit() -> Sample:
    return Sample(
        "ride.fit",
        fit_file(
            fit_message(0, (0, "B", 4), (1, "H", 1), (2, "H", 3906)),
            fit_message(20, (253, "I", FIT_EIGHT), (0, "i", 2**29), (1, "i", 2**28), (3, "B", 121)),
            fit_message(
                18,
                *((253, "I", FIT_EIGHT + 700), (2, "I", FIT_EIGHT), (7, "I", 660_000)),
                *((8, "I", 600_000), (9, "I", 250_000), (11, "H", 100)),
            ),
        ),
    )


def tcx() -> Sample:
    return Sample(
        "ride.tcx",
        b"""<?xml version="1.0"?>
<TrainingCenterDatabase xmlns="http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2">
<Activities><Activity Sport="Biking"><Lap StartTime="2025-06-16T08:00:00Z">
<TotalTimeSeconds>600</TotalTimeSeconds><DistanceMeters>5000</DistanceMeters><Track><Trackpoint>
<Time>2025-06-16T08:00:00Z</Time><Position><LatitudeDegrees>52.5</LatitudeDegrees>
<LongitudeDegrees>4.5</LongitudeDegrees></Position><HeartRateBpm><Value>118</Value></HeartRateBpm>
</Trackpoint></Track></Lap></Activity></Activities></TrainingCenterDatabase>
""",
    )


def strava_activities() -> Sample:
    return Sample(
        "activities.csv",
        b"Activity ID,Activity Date,Activity Name,Activity Type,Elapsed Time,Distance,Filename,"
        b"Elapsed Time,Moving Time,Distance,Calories\n"
        b'1001,"Jun 16, 2025, 8:00:00 AM","Run, easy",Run,2371,7.21,activities/1.gpx.gz,'
        b"660.0,600.0,7212.3,100\n",
    )


def kml() -> Sample:
    return Sample(
        "tracks.kml",
        b"""<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"
  xmlns:gx="http://www.google.com/kml/ext/2.2"><Document><Placemark><name>Ride</name><gx:Track>
<when>2025-06-16T08:00:00Z</when><gx:coord>4.5 52.5 12</gx:coord>
</gx:Track></Placemark></Document></kml>
""",
    )


_FEATURE = {
    "type": "Feature",
    "geometry": {"type": "Point", "coordinates": [4.5, 52.5]},
    "properties": {"timestamp": "2025-06-16T08:00:00Z"},
}


def geojson() -> Sample:
    features = {"type": "FeatureCollection", "features": [_FEATURE]}
    return Sample("points.geojson", as_json(features))


def overland() -> Sample:
    return Sample("overland.json", as_json({"locations": [_FEATURE]}))


def owntracks() -> Sample:
    message = '{"_type":"location","tst":1750060800,"lat":52.5,"lon":4.5,"tid":"ph"}'
    line = f"2025-06-16T08:00:00Z\t*                 \t{message}\n"
    return Sample("rec/alice/phone/2025-06.rec", line.encode())


_CYCLE = "Cycle start time,Cycle end time,Cycle timezone"
_SLEEP = "Sleep onset,Wake onset,Asleep duration (min),In bed duration (min)"


def whoop_cycles() -> Sample:
    return Sample(
        "physiological_cycles.csv",
        f"{_CYCLE},Recovery score %,Resting heart rate (bpm),Day Strain,{_SLEEP}\n"
        "2026-01-01 22:30:00,2026-01-02 23:00:00,UTC+01:00,66,52,11.4,"
        "2026-01-01 22:30:00,2026-01-02 06:30:00,435,480\n".encode(),
    )


def whoop_sleeps() -> Sample:
    return Sample(
        "sleeps.csv",
        f"{_CYCLE},{_SLEEP},Nap\n2026-01-01 22:30:00,,UTC+01:00,"
        "2026-01-02 14:00:00,2026-01-02 14:30:00,25,30,true\n".encode(),
    )


def whoop_workouts() -> Sample:
    return Sample(
        "workouts.csv",
        f"{_CYCLE},Workout start time,Workout end time,Duration (min),Energy burned (cal)\n"
        "2026-01-01 22:30:00,,UTC+01:00,2026-01-02 08:00:00,2026-01-02 08:30:00,30,500\n".encode(),
    )


def oura() -> Sample:
    sleep = {
        "day": "2025-06-16",
        "type": "long_sleep",
        "bedtime_start": "2025-06-15T23:30:00.000+02:00",
        "bedtime_end": "2025-06-16T07:30:00.000+02:00",
        "time_in_bed": 28800,
        "total_sleep_duration": 26100,
        "readiness": {"score": 81},
    }
    activity = {"day": "2025-06-16", "timestamp": "2025-06-16T04:00:00.000+02:00", "steps": 8000}
    rate = {"bpm": 61, "source": "awake", "timestamp": "2025-06-16T08:00:00+00:00"}
    return Sample(
        "oura.json",
        as_json({"sleep": [sleep], "daily_activity": [activity], "heartrate": [rate]}),
    )


def garmin_sleeps() -> Sample:
    night = {
        "sleepStartTimestampGMT": "2025-06-15T21:30:00.0",
        "sleepEndTimestampGMT": "2025-06-16T05:30:00.0",
        "calendarDate": "2025-06-16",
        "deepSleepSeconds": 5400,
        "lightSleepSeconds": 13500,
    }
    return Sample("DI_CONNECT/DI-Connect-Wellness/2025_sleepData.json", as_json([night]))


def garmin_days() -> Sample:
    day = {
        "calendarDate": "2025-06-16",
        "wellnessStartTimeGmt": "2025-06-15T22:00:00.0",
        "wellnessEndTimeGmt": "2025-06-16T22:00:00.0",
        "totalSteps": 8000,
    }
    return Sample("DI_CONNECT/DI-Connect-Aggregator/UDSFile_2025.json", as_json([day]))


def withings_weights() -> Sample:
    return Sample(
        "weight.csv",
        b'Date,"Weight (kg)","Fat mass (kg)","Bone mass (kg)",Comments\n'
        b'"2025-06-16 08:00:00",80.00,16.00,3.2,\n',
    )


def withings_blood_pressures() -> Sample:
    return Sample(
        "bp.csv",
        b'Date,"Heart rate",Systolic,Diastolic,Comments\n"2025-06-16 08:00:00",61,121,79,\n',
    )


def withings_sleeps() -> Sample:
    return Sample(
        "sleep.csv",
        b'from,to,"light (s)","deep (s)","rem (s)","awake (s)"\n'
        b"2025-06-15T23:30:00+02:00,2025-06-16T07:30:00+02:00,13500,5400,7200,2700\n",
    )


def withings_heart_rates() -> Sample:
    return Sample(
        "raw_hr_hr.csv",
        b'start,duration,value\n2025-06-16T10:00:00+02:00,"[60,30]","[61,62]"\n',
    )


def withings_days() -> Sample:
    return Sample("aggregates_steps.csv", b"date,value\n2025-06-16,8000\n")


def activitywatch() -> Sample:
    def bucket(kind: str, **data: str) -> dict[str, object]:
        event = {"id": 1, "timestamp": "2025-06-16T08:00:00+00:00", "duration": 60.5, "data": data}
        return {
            "id": f"{kind}_laptop",
            "type": kind,
            "client": "aw-watcher-x",
            "hostname": "laptop",
            "events": [event],
        }

    buckets = (
        bucket("currentwindow", app="Code", title="app.py"),
        bucket("afkstatus", status="not-afk"),
        bucket("app.editor.activity", project="svc", language="python", file="/code/app.py"),
    )
    return Sample("buckets.json", as_json({"buckets": {str(each["id"]): each for each in buckets}}))


def rescuetime() -> Sample:
    return Sample(
        "rescuetime.csv",
        b"Date,Time Spent (seconds),Number of People,Activity,Category,Productivity\n"
        b"2025-06-16T10:00:00,1800,1,Code,Editing,2\n",
    )


def toggl() -> Sample:
    return Sample(
        "toggl.csv",
        b"User,Client,Project,Task,Description,Billable,Start date,Start time,End date,End time\n"
        b"Al,,svc,,Review,No,2025-06-16,10:00:00,2025-06-16,11:30:00\n",
    )


def manictime() -> Sample:
    return Sample(
        "manictime.csv",
        b"Name,Start,End,Duration,Process\n"
        b"main.py - Code,16/06/2025 10:00:00,16/06/2025 10:00:30,0:00:30,code.exe\n",
    )


def atimelogger() -> Sample:
    return Sample(
        "report.csv",
        b'Activity type,Duration,From,To,Comment\n"Read","1:00",2025-06-16 10:00,2025-06-16 11:00,\n',
    )


def git_log() -> Sample:
    sha = "9fceb02d0ae598e95dc970b74767f19372d61af8"
    line = f"\x1e{sha}\t2025-06-16T10:00:00+02:00\tFix days\n\n3\t4\tapp.py\n"
    return Sample("svc.log", line.encode())


def vtt() -> Sample:
    return Sample(
        "GMT20250616-080000_Recording.vtt",
        b"WEBVTT\n\n00:00.500 --> 00:04.200\n<v Alice>Good morning.\n",
    )


def srt() -> Sample:
    return Sample(
        "2025-06-16 10.00 Talk.srt",
        b"1\n00:00:00,500 --> 00:00:04,200\nGood morning.\n",
    )


def granola() -> Sample:
    part = {
        "document_id": "d1",
        "start_timestamp": "2025-06-16T08:00:00.000Z",
        "end_timestamp": "2025-06-16T08:00:02.500Z",
        "text": "Hello.",
        "source": "microphone",
    }
    state = {"documents": {"d1": {"id": "d1", "title": "Standup"}}, "transcripts": {"d1": [part]}}
    return Sample("cache-v6.json", as_json({"cache": {"state": state, "version": 5}}))


_SPAN = {"started_at": "2025-06-16T08:00:00.000Z", "ended_at": "2025-06-16T09:00:00.000Z"}
_EVENT = _SPAN | {"idempotency_key": "k1", "device": "laptop", "utc_offset": "+02:00"}

OWN_ROWS: dict[str, dict[str, Any]] = {
    "app_sessions": _EVENT
    | {
        "id": "1",
        "app": "Code",
        "title": "main.py",
        "url": "https://example.org/a",
        "category": "Development",
        "idle": True,
        "source": "aw-bridge/1.2",
    },
    "coding_sessions": _EVENT
    | {
        "id": "2",
        "project": "svc",
        "language": "Python",
        "branch": "main",
        "file": "app.py",
        "editor": "vscode",
        "activity": "coding",
        "lines_added": 7,
        "lines_removed": 1,
        "is_write": True,
        "source": "wakatime",
    },
    "screen_times": {
        "id": "13",
        "date": "2025-06-16",
        "device": "Pixel",
        "app": "org.mozilla.firefox",
        "name": "Firefox",
        "duration_ms": 2_700_000,
        "last_used_at": "2025-06-16T08:00:00.000Z",
        "counted_at": "2025-06-16T09:00:00.000Z",
        "source": "life_dashboard",
    },
    "code_events": {
        "id": "3",
        "type": "pull_request",
        "action": "merged",
        "occurred_at": "2025-06-16T08:00:00.000Z",
        "provider": "github",
        "repository": {"name": "me/svc", "private": True},
        "title": "Fix days",
        "number": 7,
        "additions": 41,
        "deletions": 7,
        "changed_files": 3,
    },
    "health_samples": _SPAN
    | {
        "id": "4",
        "metric_type": "steps",
        "value": 212.0,
        "utc_offset": "+02:00",
        "source": {"provider": "apple_health", "name": "Watch", "device": "Watch6,2"},
        "sensor": {"kind": "watch", "platform": "watchos", "priority": 10},
    },
    "heart_rates": {
        "id": "5",
        "recorded_at": "2025-06-16T08:00:00.000Z",
        "bpm": 61,
        "rr_intervals_ms": [982, 975],
        "contact": True,
        "device": {"id": "d", "name": "H10", "platform": "ble"},
    },
    "sleeps": _SPAN
    | {
        "id": "6",
        "provider": "whoop",
        "utc_offset": "+02:00",
        "nap": True,
        "in_bed_ms": 3_600_000,
        "asleep_ms": 3_000_000,
        "recovery": {
            "score": 66.0,
            "state": "scored",
            "resting_heart_rate_bpm": 52.0,
            "hrv_rmssd_ms": 48.2,
            "spo2_percent": 96.1,
            "skin_temperature_c": 33.7,
        },
        "strain": {
            "score": 11.4,
            "scale_max": 21.0,
            "energy_kj": 9210.4,
            "average_heart_rate_bpm": 68.0,
            "max_heart_rate_bpm": 165.0,
            "started_at": "2025-06-16T08:00:00.000Z",
            "ended_at": None,
        },
    },
    "listens": {
        "id": "7",
        "listened_at": "2025-06-16T08:00:00.000Z",
        "track": "Andromeda",
        "artist": "Gorillaz",
        "artists": ["Gorillaz", "D.R.A.M."],
        "album": "Humanz",
        "played_ms": 178_778,
        "duration_ms": 197_000,
        "skipped": False,
        "source": "spotify",
        "ids": {"spotify": "spotify:track:x", "isrc": None, "recording_mbid": None},
    },
    "locations": {
        "id": "8",
        "recorded_at": "2025-06-16T08:00:00.000Z",
        "latitude": 52.37,
        "longitude": 4.89,
        "accuracy_m": 12.0,
        "device": {"id": "d", "name": "phone", "platform": None},
        "source": "owntracks",
    },
    "location_events": {
        "id": "9",
        "type": "check_in",
        "status": "confirmed",
        "started_at": "2025-06-16T08:00:00.000Z",
        "ended_at": None,
        "utc_offset": "+02:00",
        "place": {"id": "p", "name": "Café X", "city": "Amsterdam", "country_code": "NL"},
        "note": "with friends",
        "source": "swarm",
    },
    "recordings": {
        "id": "10",
        "recorded_at": "2025-06-16T08:00:00.000Z",
        "duration_ms": 184_000,
        "title": "Standup",
        "language": "en",
        "source": "phone",
        "transcript": {
            "status": "ready",
            "text": "Hello.",
            "segments": [{"start_ms": 0, "end_ms": 4200, "speaker": None, "text": "Hello."}],
        },
    },
    "plays": {
        "id": "11",
        "watched_at": "2025-06-16T08:00:00.000Z",
        "watch_ms": 3_000_000,
        "title": {"id": "t", "kind": "show", "name": "Dark", "genres": ["drama"]},
        "season": 1,
        "episode": 2,
        "source": "trakt",
    },
    "calendar_events": {
        "id": "12",
        "calendar": {"id": "c", "name": "Work", "provider": "google"},
        "title": "Review",
        "starts_at": "2025-06-16T08:00:00.000Z",
        "ends_at": "2025-06-16T09:00:00.000Z",
        "start_date": "2025-06-16",
        "end_date": "2025-06-17",
        "timezone": "Europe/Berlin",
        "status": "confirmed",
        "response": "accepted",
        "organizer": {"name": "Bob", "self": True},
        "attendee_count": 5,
        "series_id": "s",
        "updated_at": "2025-06-16T09:00:00.000Z",
    },
}
"""A row of each resource of our own export that comes back."""


def own_json() -> Sample:
    resources = {name: [row] for name, row in OWN_ROWS.items()}
    body = {"exported_at": "2025-06-17T08:00:00.000Z", "user": {"id": "u"}, "resources": resources}
    return Sample("activity-export-2025-06-17.json", json.dumps(body).encode())


def own_ndjson() -> Sample:
    lines = (
        json.dumps({"resource": name} | row, separators=(",", ":")) + "\n"
        for name, row in OWN_ROWS.items()
    )
    return Sample("activity-export-2025-06-17.ndjson", "".join(lines).encode())


def screen_time_message(**members: Any) -> dict[str, Any]:
    """Return a message of Life Dashboard Companion about a day of a phone."""
    app = {
        "package": "org.mozilla.firefox",
        "name": "Firefox",
        "minutes": 45,
        "last_used": "2025-06-16T08:00:00Z",
    }
    day = {"date": "2025-06-16", "total_screen_time_minutes": 46, "apps": [app]}
    return {
        "timestamp": "2025-06-16T09:00:00Z",
        "app_version": "2.4.0",
        "device": "Google Pixel 8",
        "source": "screen_time",
        "screen_time": [day],
    } | members


def screen_time() -> Sample:
    return Sample("screen-time.json", json.dumps(screen_time_message(), indent=2).encode())
