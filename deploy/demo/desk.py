"""Activity at the desk and on the phone: applications, programming, meetings, code hosting."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from deploy.demo import world
from deploy.demo.days import HOUR, MINUTE, Block, Chapter, Day, Life, Row
from deploy.demo.world import App, Project

MONDAY: Final = 1
WEDNESDAY: Final = 3
THURSDAY: Final = 4
_SHORTEST_S: Final = 1.2
_LONGEST_S: Final = 3600


class Meeting(NamedTuple):
    """An event in the calendar that the person attends."""

    title: str
    block: Block
    series: str | None
    attendees: int
    is_own: bool


def meetings(life: Life, day: Day) -> list[Meeting]:
    """Return the meetings of a day, in order and without overlaps."""
    if not day.is_workday:
        return []
    rng = life.rng("meetings", day.date)
    weekday = day.date.isoweekday()
    planned: list[tuple[str, float, float, str | None, int, bool]] = [
        ("Standup", 9.5, 0.25, "standup", 6, False)
    ]
    if weekday == MONDAY:
        planned.append(("Week planning", 10.0, 1.0, "planning", 5, False))
    if weekday == THURSDAY:
        planned.append(("Bob and I", 16.0, 0.5, "one-to-one", 2, True))
    if rng.random() < (0.7 if weekday == WEDNESDAY else 0.3):
        title = rng.choice(world.MEETINGS)
        planned.append(
            (title, rng.choice((13.5, 14.0, 14.5)), 0.75, None, rng.randint(3, 9), False)
        )
    return [
        Meeting(title, (day.at(hour), day.at(hour + length)), series, attendees, is_own)
        for title, hour, length, series, attendees, is_own in sorted(
            planned, key=lambda each: each[1]
        )
    ]


def work(life: Life, day: Day) -> list[Block]:
    """Return the times of work, between lunch and the other breaks."""
    if not day.is_workday:
        return []
    rng = life.rng("work", day.date)
    begin = rng.gauss(9.1, 0.2)
    lunch = rng.gauss(12.5, 0.15)
    back = lunch + rng.uniform(0.6, 0.9)
    end = rng.gauss(17.6, 0.4)
    blocks = []
    for start, stop in ((begin, lunch), (back, end)):
        at = start
        while at < stop:
            pause = at + rng.uniform(0.8, 1.4)
            blocks.append(day.awake(at, min(pause, stop)))
            at = pause + rng.uniform(0.12, 0.3)
    return [block for block in blocks if block[0] < block[1]]


def leisure(life: Life, day: Day) -> list[Block]:
    """Return the times of private use of the laptop."""
    rng = life.rng("leisure", day.date)
    if day.is_trip:
        hours = [(22.0, 22.6)]
    elif day.is_workday:
        hours = [(20.0, rng.uniform(20.6, 22.4))] if rng.random() < 0.75 else []
    else:
        hours = [(10.5, rng.uniform(11.0, 12.3)), (20.3, rng.uniform(21.0, 23.0))]
    return [block for block in (day.awake(*each) for each in hours) if block[0] < block[1]]


def app_sessions(life: Life, day: Day, devices: dict[str, UUID]) -> Iterator[Row]:
    """Yield the app sessions of each device."""
    chapter = life.chapter("apps", day)
    rng = chapter.rng
    planned = meetings(life, day)
    for block in work(life, day):
        yield from _sitting(chapter, block, world.WORK, planned, devices)
    for block in leisure(life, day):
        yield from _sitting(chapter, block, world.EVENING, [], devices)
    at = day.woke_at + 10 * MINUTE
    while at < day.bed_at:
        app = _choice(rng, world.POCKET)
        until = min(at + _length(rng, app), day.bed_at)
        yield _app_session(chapter, app, (at, until), world.PHONE, devices)
        at = until + timedelta(seconds=round(rng.expovariate(1 / 1900), 3))


def screen_times(life: Life, day: Day, devices: dict[str, UUID]) -> Iterator[Row]:
    """Yield the minutes of each application of the phone, as the phone itself counts them in the evening."""
    chapter = life.chapter("screen time", day)
    used: Counter[str] = Counter()
    for session in app_sessions(life, day, devices):
        if session["device_id"] == devices[world.PHONE] and session["ended_at"] <= day.bed_at:
            length = session["ended_at"] - session["started_at"]
            used[session["app"]] += length // timedelta(seconds=1)
    for app, seconds in used.items():
        if seconds >= 60:
            yield {
                "screen_time_id": chapter.row_id(),
                "source": "life_dashboard",
                "date": day.date,
                "device": world.PHONE,
                "app": f"com.example.{app.lower()}",
                "name": app,
                "duration_ms": seconds // 60 * 60_000,
                "counted_at": day.bed_at,
            }


def _sitting(
    chapter: Chapter,
    block: Block,
    apps: dict[App, float],
    planned: Sequence[Meeting],
    devices: dict[str, UUID],
) -> Iterator[Row]:
    """Yield the app sessions of ``block``, and an idle one after it."""
    rng = chapter.rng
    at, end = block
    app = _choice(rng, apps)
    while at < end:
        meeting = next((each for each in planned if each.block[0] <= at < each.block[1]), None)
        if meeting is not None:
            app, until = world.MEETING, min(meeting.block[1], end)
        else:
            next_start = min((each.block[0] for each in planned if each.block[0] > at), default=end)
            app = _choice(rng, apps) if rng.random() < 0.9 else app
            until = min(at + _length(rng, app), next_start, end)
        yield _app_session(chapter, app, (at, until), world.LAPTOP, devices)
        at = until + timedelta(milliseconds=rng.choice((0, 0, 0, rng.randint(40, 4000))))
    # The person has left, and the tracker marks the last session as idle.
    idle = (end + timedelta(seconds=5), end + timedelta(minutes=rng.randint(3, 8)))
    yield _app_session(chapter, app, idle, world.LAPTOP, devices) | {"idle": True}


def _length(rng: Random, app: App) -> timedelta:
    """Return a random length of one session of ``app``."""
    seconds = min(max(rng.lognormvariate(0, 0.9) * app.seconds, _SHORTEST_S), _LONGEST_S)
    return timedelta(milliseconds=round(seconds * 1000))


def _choice(rng: Random, weights: dict[App, float]) -> App:
    return rng.choices(list(weights), list(weights.values()))[0]


def _app_session(
    chapter: Chapter, app: App, block: Block, device: str, devices: dict[str, UUID]
) -> Row:
    rng, day = chapter.rng, chapter.day
    url = None
    if app.url is not None:
        url = f"{app.url}{rng.choice(('', 'new', f'p/{rng.randint(1, 400)}'))}"
    return {
        "idempotency_key": f"{device}:{_epoch_ms(block[0])}",
        "app_session_id": chapter.row_id(),
        "device_id": devices[device],
        "started_at": block[0],
        "ended_at": block[1],
        "idle": False,
        "app": app.name,
        "title": _title(rng, day, app),
        "url": url,
        "domain": (urlsplit(url).hostname or "").removeprefix("www.") if url else None,
        "category": app.category,
        "utc_offset": day.offset(block[0]),
        "source": world.SOURCE,
        "metadata": '{"monitor":2}' if rng.random() < 0.02 else None,
        "received_at": block[1] + 30 * timedelta(seconds=1),
    }


def _title(rng: Random, day: Day, app: App) -> str | None:
    if app is world.EDITOR:
        project = _project(rng, day, is_work=day.is_workday)
        return f"{rng.choice(project.files)} - {project.name}"
    return rng.choice(app.titles) if app.titles else None


def _epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _project(rng: Random, day: Day, *, is_work: bool) -> Project:
    """Return a random project of that day."""
    projects = [
        each
        for each in world.PROJECTS
        if each.is_work is is_work and each.begins <= day.share <= each.ends
    ]
    return rng.choice(projects)


def coding_sessions(life: Life, day: Day, devices: dict[str, UUID]) -> Iterator[Row]:
    """Yield the coding sessions that an editor's plug-in would send."""
    chapter = life.chapter("coding", day)
    rng = chapter.rng
    busy = [each.block for each in meetings(life, day)]
    for block, is_work in (
        *((each, True) for each in work(life, day)),
        *((each, False) for each in leisure(life, day) if rng.random() < 0.4),
    ):
        at = block[0] + timedelta(seconds=rng.randint(20, 900))
        while at < block[1]:
            until = min(at + timedelta(minutes=rng.randint(6, 28)), block[1])
            clash = next((each for each in busy if each[0] < until and at < each[1]), None)
            if clash is not None:
                at = clash[1] + MINUTE
                continue
            yield _coding_session(chapter, (at, until), devices, is_work=is_work)
            at = until + timedelta(seconds=rng.randint(30, 1500))


def _coding_session(
    chapter: Chapter, block: Block, devices: dict[str, UUID], *, is_work: bool
) -> Row:
    rng, day = chapter.rng, chapter.day
    project = _project(rng, day, is_work=is_work)
    minutes = (block[1] - block[0]) / MINUTE
    file = rng.choice(project.files)
    return {
        "idempotency_key": f"{world.LAPTOP}:{_epoch_ms(block[0])}",
        "coding_session_id": chapter.row_id(),
        "device_id": devices[world.LAPTOP],
        "started_at": block[0],
        "ended_at": block[1],
        "project": project.name,
        "language": "Markdown" if file.endswith(".md") else project.language,
        "branch": rng.choice(("main", "main", f"change-{day.date:%m%d}")),
        "file": file,
        "editor": "vscode",
        "activity": rng.choices(("coding", "debugging", "testing", "reviewing"), (70, 12, 12, 6))[
            0
        ],
        "lines_added": int(rng.expovariate(1 / (1.2 * minutes))),
        "lines_removed": int(rng.expovariate(1 / (0.5 * minutes))),
        "is_write": rng.random() < 0.85,
        "utc_offset": day.offset(block[0]),
        "source": world.SOURCE,
        "metadata": None,
        "received_at": block[1] + 30 * timedelta(seconds=1),
    }


def calendar_events(life: Life, day: Day, calendar_id: UUID) -> Iterator[Row]:
    """Yield the meetings of a day, and sometimes one that did not take place."""
    chapter = life.chapter("calendar", day)
    rng = chapter.rng
    for meeting in meetings(life, day):
        yield _calendar_event(chapter, calendar_id, meeting, "accepted", "confirmed")
    if day.is_workday and rng.random() < 0.25:
        hour = rng.choice((11.0, 15.0, 15.5))
        off = Meeting(
            rng.choice(world.MEETINGS), (day.at(hour), day.at(hour + 0.5)), None, 4, False
        )
        response, status = rng.choice(
            (("declined", "confirmed"), ("needs_action", "tentative"), ("accepted", "cancelled"))
        )
        yield _calendar_event(chapter, calendar_id, off, response, status)


def _calendar_event(
    chapter: Chapter, calendar_id: UUID, meeting: Meeting, response: str, status: str
) -> Row:
    return {
        "calendar_event_id": chapter.row_id(),
        "source": "google",
        "calendar_id": calendar_id,
        "title": meeting.title,
        "description": None,
        "location": chapter.rng.choice(("Lamp room", "Deck", None)),
        "starts_at": meeting.block[0],
        "ends_at": meeting.block[1],
        "start_date": None,
        "end_date": None,
        "timezone": chapter.day.town.zone,
        "status": status,
        "response": response,
        "organizer_name": None if meeting.is_own else "Bob",
        "organizer_is_self": meeting.is_own,
        "attendee_count": meeting.attendees,
        "series_id": meeting.series,
        "conference_url": "https://meet.example.org/lamp" if meeting.attendees > 2 else None,
        "updated_at": meeting.block[0] - 30 * HOUR,
    }


def code_events(life: Life, day: Day) -> Iterator[Row]:
    """Yield commits, pull requests and reviews."""
    chapter = life.chapter("code", day)
    rng = chapter.rng
    blocks = work(life, day)
    if not blocks:
        return
    number = 100 + 2 * (day.date - life.first).days
    for _ in range(rng.randint(1, 6)):
        additions, deletions = int(rng.expovariate(1 / 40)), int(rng.expovariate(1 / 15))
        lines = {"additions": additions, "deletions": deletions, "changed_files": rng.randint(1, 6)}
        sha = f"{rng.getrandbits(160):040x}"
        yield _code_event(chapter, blocks, "commit", "pushed", {"sha": sha, **lines})
    for action, chance in (("opened", 0.3), ("merged", 0.25)):
        if rng.random() < chance:
            lines = {"additions": rng.randint(5, 400), "deletions": rng.randint(0, 90)}
            about = {"number": number, "state": "open" if action == "opened" else "closed"}
            yield _code_event(chapter, blocks, "pull_request", action, about | lines)
    for _ in range(rng.choice((0, 0, 1, 2))):
        action = rng.choice(("approved", "approved", "commented", "changes_requested"))
        yield _code_event(chapter, blocks, "review", action, {"number": number + 1})


def _code_event(
    chapter: Chapter, blocks: Sequence[Block], kind: str, action: str, about: dict[str, Any]
) -> Row:
    rng, day = chapter.rng, chapter.day
    begin, end = rng.choice(blocks)
    project = _project(rng, day, is_work=True)
    row_id = chapter.row_id()
    repository = f"lantern-works/{project.name}"
    path = f"commit/{about['sha']}" if "sha" in about else f"pull/{about['number']}"
    empty = dict.fromkeys(("sha", "number", "state", "additions", "deletions", "changed_files"))
    return {
        "event_id": row_id,
        "provider": "github",
        "provider_key": f"demo-{row_id}",
        "type": kind,
        "action": action,
        "occurred_at": begin
        + timedelta(seconds=round(rng.random() * (end - begin).total_seconds())),
        "repository": repository,
        "is_private": project.name != "lighthouse",
        "title": rng.choice(world.CHANGES),
        "url": f"https://code.example.org/{repository}/{path}",
        "ref": "main" if kind == "commit" else f"change-{day.date:%m%d}",
        **empty,
        **about,
    }
