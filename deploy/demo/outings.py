"""Activity away from the desk: places, music, films, recordings."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Final
from uuid import UUID

from deploy.demo import world
from deploy.demo.body import run
from deploy.demo.days import MINUTE, Block, Chapter, Day, Life, Row
from deploy.demo.desk import leisure, work
from deploy.demo.world import Spot
from resourceserver.derived import zones

_SATURDAY: Final = 6
_EPISODES: Final = 8
"""The number of episodes of a season."""
_SPEED_MPS: Final = {"stationary": 0.0, "running": 2.8, "driving": 8.0}
_NOTES: Final = (None, "with friends", "too loud today")


def places(life: Life, rng: Random) -> dict[str, Row]:
    """Return the places at home and on trips, by name."""
    away = next((day.town for day in life.days() if day.is_trip), life.home)
    spots = [(life.home, each) for each in (world.HOME, world.OFFICE, *world.CAFES)]
    spots.append((away, Spot("Pensão Sol", "Hotel", 0.002, 0.003)))
    return {
        spot.name: {
            "place_id": life.row_id(rng),
            "source": "phone",
            "name": spot.name,
            "category": spot.category,
            "latitude": round(town.latitude + spot.north, 6),
            "longitude": round(town.longitude + spot.east, 6),
            "address": None,
            "city": town.name,
            "country_code": town.country_code,
        }
        for town, spot in spots
    }


def stays(life: Life, day: Day) -> list[tuple[str, Block]]:
    """Return the stays at places in order, by their names; between two stays the person is on the way."""
    if day.is_trip:
        return [("Pensão Sol", (day.woke_at, day.at(10.5))), ("Pensão Sol", day.awake(22.0, 30))]
    blocks = work(life, day)
    if blocks:
        begin, end = blocks[0][0], blocks[-1][1]
        return [
            ("Home", (day.woke_at, begin - 35 * MINUTE)),
            ("Lantern Works", (begin - 5 * MINUTE, end)),
            ("Home", (end + 30 * MINUTE, day.bed_at)),
        ]
    if day.date.isoweekday() == _SATURDAY:
        out = day.awake(13.0, 15.0)
        return [
            ("Home", (day.woke_at, out[0] - 20 * MINUTE)),
            ("Saturday market", out),
            ("Home", (out[1] + 20 * MINUTE, day.bed_at)),
        ]
    return [("Home", (day.woke_at, day.bed_at))]


def location_events(life: Life, day: Day, known: dict[str, Row]) -> Iterator[Row]:
    """Yield visits, which the phone suggests, and check-ins."""
    chapter = life.chapter("visits", day)
    rng = chapter.rng
    for name, block in stays(life, day):
        if name != "Home" and block[0] < block[1]:
            # The person has not confirmed the latest suggestions yet.
            guess = "confirmed" if day.share < 0.97 else "suggested"
            status = "declined" if rng.random() < 0.03 else guess
            yield _event(chapter, known[name], "visit", status, block)
    if rng.random() < 0.3 and not day.is_trip:
        at = day.awake(19.2 + rng.random(), 24)[0]
        place = known[rng.choice(world.CAFES).name]
        yield _event(chapter, place, "check_in", "confirmed", (at, None))


def _event(
    chapter: Chapter, place: Row, kind: str, status: str, block: tuple[datetime, datetime | None]
) -> Row:
    is_check_in = kind == "check_in"
    return {
        "event_id": chapter.row_id(),
        "type": kind,
        "status": status,
        "started_at": block[0],
        "ended_at": block[1],
        "utc_offset": chapter.day.offset(block[0]),
        "place_id": place["place_id"],
        "note": chapter.rng.choice(_NOTES) if is_check_in else None,
        "source": "swarm" if is_check_in else "phone",
    }


def points(life: Life, day: Day, known: dict[str, Row], device_id: UUID) -> Iterator[Row]:
    """Yield positions of the phone: every half hour at a place, every two minutes on the way."""
    chapter = life.chapter("points", day)
    before: Row | None = None
    left_at = day.woke_at
    for name, (begin, end) in stays(life, day):
        place = known[name]
        at = left_at
        while before is not None and at < begin:
            share = (at - left_at) / (begin - left_at)
            spot = {
                axis: before[axis] + share * (place[axis] - before[axis])
                for axis in ("latitude", "longitude")
            }
            yield _point(chapter, spot, device_id, at, "driving")
            at += 2 * MINUTE
        at = begin
        while at < end:
            yield _point(chapter, place, device_id, at, "stationary")
            at += 30 * MINUTE
        before, left_at = place, end
    running = run(life, day)
    if running is not None and not day.is_trip:
        at = running[0]
        while at < running[1]:
            turn = (at - running[0]) / (running[1] - running[0])
            spot = {
                "latitude": known["Home"]["latitude"] + 0.02 * min(turn, 1 - turn),
                "longitude": known["Home"]["longitude"] + 0.01 * turn * (1 - turn),
            }
            yield _point(chapter, spot, device_id, at, "running")
            at += MINUTE


def _point(chapter: Chapter, spot: Row, device_id: UUID, at: datetime, activity: str) -> Row:
    rng, speed = chapter.rng, _SPEED_MPS[activity]
    return {
        "point_id": chapter.row_id(),
        "device_id": device_id,
        "recorded_at": at,
        "latitude": round(spot["latitude"] + rng.gauss(0, 0.00004), 6),
        "longitude": round(spot["longitude"] + rng.gauss(0, 0.00004), 6),
        "accuracy_m": rng.choice((5, 8, 12, 30)),
        "altitude_m": round(rng.gauss(4, 1), 1),
        "vertical_accuracy_m": 4,
        "speed_mps": round(max(0.0, rng.gauss(speed, 0.3)), 1) if speed else 0,
        "course_deg": rng.randint(0, 359) if speed else None,
        "battery_percent": rng.randint(20, 100),
        "activity": activity,
        "source": "owntracks",
        "timezone": zones.zone(spot["latitude"], spot["longitude"]),
    }


def listens(life: Life, day: Day) -> Iterator[Row]:
    """Yield the tracks that were played during work and leisure."""
    chapter = life.chapter("music", day)
    rng = chapter.rng
    for block in (*work(life, day), *leisure(life, day)):
        if rng.random() < 0.55:
            continue
        artist = _artist(rng, day)
        album = rng.choice(("Tidelines", "Low Water", "Lamps"))
        at = block[0] + timedelta(seconds=rng.randint(30, 600))
        while at < block[1]:
            row = _listen(chapter, artist, album, at)
            yield row
            at += timedelta(milliseconds=row["played_ms"] + 700)
            if rng.random() < 0.2:
                artist = _artist(rng, day)


def _artist(rng: Random, day: Day) -> str:
    """Return a random artist; the favourite changes every month."""
    artists = list(world.ARTISTS)
    favourite = artists[day.date.month % len(artists)]
    return favourite if rng.random() < 0.4 else rng.choice(artists)


def _listen(chapter: Chapter, artist: str, album: str, at: datetime) -> Row:
    rng = chapter.rng
    track = rng.choice(world.ARTISTS[artist])
    # A track has the same length each time it is played.
    length = Random(track).randint(140_000, 340_000)  # noqa: S311 -- a song's length is no secret
    is_skipped = rng.random() < 0.08
    guests = [rng.choice(list(world.ARTISTS))] if rng.random() < 0.06 else []
    return {
        "listen_id": chapter.row_id(),
        "listened_at": at,
        "track": track,
        "artist": artist,
        "artists": list(dict.fromkeys([artist, *guests])),
        "album": album,
        "played_ms": rng.randint(5_000, 40_000) if is_skipped else length,
        "duration_ms": length,
        "is_skipped": is_skipped,
        "source": "listenbrainz",
        "spotify_uri": None,
        "isrc": None,
        "recording_mbid": None,
    }


def plays(life: Life, day: Day, titles: dict[str, UUID]) -> Iterator[Row]:
    """Yield the films and episodes of an evening."""
    rng = life.rng("films", day.date)
    evening = day.awake(20.7, 22.5)[0]
    row: Row = {"season": None, "episode": None, "source": "trakt"}
    if day.date.isoweekday() == _SATURDAY and rng.random() < 0.6:
        name = rng.choice(list(world.MOVIES))
        watch_ms = rng.randint(84, 141) * 60_000
    elif rng.random() < 0.4:
        # One show after the other, one episode an evening.
        name = list(world.SHOWS)[min(int(day.share * len(world.SHOWS)), len(world.SHOWS) - 1)]
        earlier = (day.date - life.first).days // 2
        row |= {"season": 1 + earlier // _EPISODES, "episode": 1 + earlier % _EPISODES}
        watch_ms = rng.randint(41, 55) * 60_000
    else:
        return
    yield {
        "play_id": life.row_id(rng),
        "title_id": titles[name],
        **row,
        "watched_at": evening + timedelta(milliseconds=watch_ms),
        "watch_ms": watch_ms,
    }


def recordings(life: Life, day: Day) -> Iterator[Row]:
    """Yield voice notes that the person recorded with the phone."""
    rng = life.rng("recordings", day.date)
    if rng.random() > 0.35:
        return
    title, sentences = rng.choice(world.NOTES)
    status = rng.choices(("ready", "failed", "none"), (90, 4, 6))[0]
    segments = []
    end_ms = 0
    for sentence in sentences:
        start_ms, end_ms = end_ms, end_ms + 90 * len(sentence)
        segments.append({"start_ms": start_ms, "end_ms": end_ms, "speaker": None, "text": sentence})
    is_ready = status == "ready"
    yield {
        "recording_id": life.row_id(rng),
        "recorded_at": day.awake(8.2 + 10 * rng.random(), 24)[0] + MINUTE,
        "duration_ms": end_ms + 1500,
        "title": title,
        "language": "en",
        "source": "phone",
        "transcript_status": status,
        "transcript": " ".join(sentences) if is_ready else None,
        "transcript_segments": json.dumps(segments if is_ready else []),
    }
