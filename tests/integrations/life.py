"""An archive with files of many formats, which all belong to one invented life."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tests.integrations import more_samples, samples
from tests.integrations.bringing import archive

BEGIN: Final = datetime(2024, 1, 1, 8, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)


def life(path: Path, count: int, begin: datetime = BEGIN, every: timedelta = _MINUTE) -> Path:
    """Write the archive; each of its files has ``count`` records, and a few that cannot be kept."""
    return archive(path, dict(_members(count, begin, every)))


def _members(count: int, begin: datetime, every: timedelta) -> Iterator[tuple[str, bytes]]:
    minutes = [begin + n * every for n in range(count)]
    iso = [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in minutes]
    yield (
        "Spotify/Streaming_History_Audio_2024.json",
        samples.as_json(
            [
                # The last ones have no time.
                *(samples.spotify_play(ts=at) for at in iso),
                *(samples.spotify_play(ts=None) for _ in range(5)),
            ]
        ),
    )
    yield (
        "apple_health_export/export.xml",
        samples.apple_health_export(
            *(
                samples.apple_record(f"QuantityTypeIdentifier{kind}", at, at, "61", unit)
                for at in (f"{at:%Y-%m-%d %H:%M:%S} +0000" for at in minutes)
                for kind, unit in (("StepCount", "count"), ("HeartRate", "count/min"))
            )
        ),
    )
    points = "".join(
        f'<trkpt lat="{52 + n / 1e5:.5f}" lon="4.89"><time>{at}</time></trkpt>'
        for n, at in enumerate(iso)
    )
    yield (
        "ride.gpx",
        '<gpx version="1.1" creator="us" xmlns="http://www.topografix.com/GPX/1/1">'
        f"<trk><trkseg>{points}</trkseg></trk></gpx>".encode(),
    )
    days = json.loads(more_samples.wakatime().content)
    (beat, _) = days["days"][0]["heartbeats"]
    days["days"][0]["heartbeats"] = [
        beat | {"time": (at + n * 20 * _MINUTE).timestamp() + second}
        for n, at in enumerate(minutes)
        for second in (0, 30)
    ]
    yield "wakatime.json", samples.as_json(days)
    head, row, *_ = samples.netflix().content.decode().splitlines()
    rows = (row.replace("2023-11-14 20:18:20", f"{at:%Y-%m-%d %H:%M:%S}") for at in minutes)
    yield "Netflix/ViewingActivity.csv", "\n".join([head, *rows, "broken,,"]).encode()
    yield (
        "trakt/history-1.json",
        samples.as_json([samples.trakt_play(id=n, watched_at=at) for n, at in enumerate(iso)]),
    )
    checkins = json.loads(samples.swarm().content)
    checkins["items"] = [
        checkins["items"][0] | {"id": f"c{n}", "createdAt": int(at.timestamp())}
        for n, at in enumerate(minutes)
    ]
    yield "Swarm/checkins1.json", samples.as_json(checkins)
    yield (
        "Takeout/Fitbit/Global Export Data/steps-2024-01-01.json",
        samples.as_json([{"dateTime": f"{at:%m/%d/%y %H:%M:%S}", "value": "12"} for at in minutes]),
    )
    yield (
        "alice.csv",
        "".join(
            f'Gorillaz,Humanz,Track {n},"{at:%d %b %Y %H:%M}"\n' for n, at in enumerate(minutes)
        ).encode(),
    )
    yield (
        "svc.log",
        "".join(
            f"\x1e{n:040x}\t{at}\tFix {n}\n\n3\t4\tapp.py\n" for n, at in enumerate(iso)
        ).encode(),
    )
    events = "".join(
        f"BEGIN:VEVENT\r\nUID:{n}\r\nDTSTART:{at:%Y%m%dT%H%M%SZ}\r\nDTEND:{at:%Y%m%dT%H%M%SZ}\r\n"
        f"SUMMARY:Event {n}\r\nEND:VEVENT\r\n"
        for n, at in enumerate(minutes)
    )
    yield "own.ics", f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{events}END:VCALENDAR\r\n".encode()
    session = more_samples.OWN_ROWS["app_sessions"] | {"resource": "app_sessions"}
    lines = (
        {"resource": "app_sessions"}
        | session
        | {"idempotency_key": f"s{n}", "started_at": at, "ended_at": at}
        for n, at in enumerate(iso)
    )
    yield (
        "export.ndjson",
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode(),
    )
