"""WakaTime's dumps: how beats become coding sessions."""

import json
from datetime import UTC, datetime
from typing import Any

from resourceserver.integrations.beats import OPEN_RUNS, WINDOW, Beat, coding_sessions
from resourceserver.integrations.formats.wakatime import DAILY_TOTALS, HEARTBEATS
from resourceserver.integrations.records import CodingSession
from tests.integrations.memory import Reading, read, recognise

NINE = datetime(2025, 6, 16, 9, tzinfo=UTC)
NINE_S = 1750064400
MINUTE = 60


def beat(at: float, **members: Any) -> dict[str, Any]:
    return {
        "id": "0c5e8f1e-8e3f-4c43-9a5b-0b2f6a3c1d11",
        "branch": "main",
        "category": "coding",
        "entity": "/code/svc/app.py",
        "is_write": False,
        "language": "Python",
        "project": "svc",
        "time": at,
        "type": "file",
        "machine_name_id": "5b7f2f3a-1111-4222-8333-444455556666",
        "user_agent_id": "9d7f2f3a-1111-4222-8333-444455556666",
        "line_additions": None,
        "line_deletions": None,
    } | members


def dump(*days: list[Any]) -> bytes:
    return json.dumps(
        {
            "user": {"id": "u", "username": "alice"},
            "range": {"start": NINE_S, "end": NINE_S + 86400},
            "days": [{"date": "2025-06-16", "heartbeats": day} for day in days],
        }
    ).encode()


def read_beats(*days: list[Any]) -> Reading:
    return read(HEARTBEATS, dump(*days))


def spans(reading: Reading) -> list[tuple[int, int]]:
    return [
        (round(each.started_at.timestamp()) - NINE_S, round(each.ended_at.timestamp()) - NINE_S)
        for each in reading.records
    ]


def test_beats_less_than_a_quarter_of_an_hour_apart_are_one_session() -> None:
    reading = read_beats(
        [
            beat(NINE_S + 0.25, line_additions=3),
            beat(NINE_S + 14 * MINUTE, line_additions=4, line_deletions=1, is_write=True),
        ]
    )

    assert reading.records == [
        CodingSession(
            key="wk:svc:Python:1750064400250",
            started_at=NINE.replace(microsecond=250_000),
            ended_at=NINE.replace(minute=14),
            device="wakatime-5b7f2f3a",
            project="svc",
            language="Python",
            file="/code/svc/app.py",
            branch="main",
            activity="coding",
            lines_added=7,
            lines_removed=1,
            is_write=True,
        )
    ]
    assert reading.refused == []


def test_a_quarter_of_an_hour_between_beats_separates_sessions() -> None:
    reading = read_beats([beat(NINE_S), beat(NINE_S + 15 * MINUTE)])

    assert spans(reading) == [(0, 0), (900, 900)]


def test_projects_and_languages_are_sessions_of_their_own_and_files_are_not() -> None:
    reading = read_beats(
        [
            beat(NINE_S),
            beat(NINE_S + 60, language="SQL"),
            beat(NINE_S + 120, entity="/code/svc/other.py", branch="fix"),
            beat(NINE_S + 180, project="site"),
        ]
    )

    found = {each.key: (each.file, each.branch) for each in reading.records}
    assert found == {
        "wk:svc:Python:1750064400000": (None, None),
        "wk:svc:SQL:1750064460000": ("/code/svc/app.py", "main"),
        "wk:site:Python:1750064580000": ("/code/svc/app.py", "main"),
    }


def test_a_session_goes_on_over_midnight_and_beats_of_a_day_may_be_in_any_order() -> None:
    reading = read_beats([beat(NINE_S + 600), beat(NINE_S)], [beat(NINE_S + 1200)])

    assert spans(reading) == [(0, 1200)]


def test_no_session_is_longer_than_a_day() -> None:
    reading = read_beats([beat(NINE_S + minutes * 60) for minutes in range(0, 24 * 60 + 20, 10)])

    assert spans(reading) == [(0, 86400), (87000, 87000)]


def test_names_of_wakapi_are_kept_and_unknown_categories_are_other() -> None:
    reading = read_beats(
        [
            beat(
                NINE_S,
                machine_name_id="laptop",
                user_agent_id="wakatime/13.0.7 (Linux) Python3 vscode/1.90 vscode-wakatime/24.5",
                category="browsing",
                project=None,
                language=" ",
            )
        ]
    )

    (session,) = reading.records
    assert (session.device, session.editor, session.activity) == ("laptop", "vscode", "other")
    assert (session.project, session.language) == ("unknown", None)
    assert session.key == "wk:unknown::1750064400000"


def test_beats_without_a_usable_time_are_refused_and_the_others_kept() -> None:
    reading = read_beats(
        [
            "no object",
            beat(NINE_S, time=None),
            beat(NINE_S, time="yesterday"),
            beat(NINE_S, time=1e300),
            beat(NINE_S, time=f"{NINE_S}.5", line_additions="12", language=7, entity=["x"]),
        ]
    )

    assert reading.reasons == ["not_an_object", "missing_time", "invalid_time", "invalid_time"]
    assert reading.refused[0].example == "no object"
    (session,) = reading.records
    assert (session.lines_added, session.language, session.file) == (12, None, None)
    assert session.started_at == NINE.replace(microsecond=500_000)


def test_a_truncated_dump_keeps_the_sessions_before_the_break() -> None:
    whole = dump([beat(NINE_S), beat(NINE_S + 60)])

    reading = read(HEARTBEATS, whole[: whole.index(b'"line_deletions": null}]')])

    assert spans(reading) == [(0, 0)]
    assert reading.unreadable is not None


def test_an_empty_file_is_unreadable_and_a_byte_order_mark_is_left_out() -> None:
    assert read(HEARTBEATS, b"").unreadable is not None
    assert spans(read(HEARTBEATS, b"\xef\xbb\xbf" + dump([beat(NINE_S)]))) == [(0, 0)]


def test_daily_totals_are_recognised_and_say_what_to_export_instead() -> None:
    totals = json.dumps(
        {"user": {}, "range": {}, "days": [{"date": "2025-06-16", "grand_total": {}}]}
    )

    assert (recognise(DAILY_TOTALS, totals), recognise(HEARTBEATS, totals)) == (1.0, 0.0)
    reading = read(DAILY_TOTALS, totals)
    assert reading.records == []
    assert "export the heartbeats instead" in str(reading.unreadable)


def test_heartbeats_are_recognised() -> None:
    content = dump([beat(NINE_S)])

    assert (recognise(HEARTBEATS, content), recognise(DAILY_TOTALS, content)) == (1.0, 0.0)
    assert recognise(HEARTBEATS, b'{"days": [1, 2]}') == 0.0


def test_what_is_kept_in_memory_is_bounded_whatever_the_beats() -> None:
    beats = [Beat(number, "d", f"project {number}") for number in range(OPEN_RUNS + WINDOW + 5)]

    sessions = coding_sessions(iter(beats))

    # The first is closed as soon as one group too many is open, long before the beats end.
    assert next(sessions) == CodingSession(
        key="wk:project 0::0",
        started_at=datetime(1970, 1, 1, tzinfo=UTC),
        ended_at=datetime(1970, 1, 1, tzinfo=UTC),
        device="d",
        project="project 0",
        is_write=False,
    )
    assert sum(1 for _ in sessions) == len(beats) - 1


def test_a_project_too_long_for_a_key_has_a_digest_in_it() -> None:
    (session,) = read_beats([beat(NINE_S, project="p" * 300)]).records

    assert len(session.key) == 67
    assert session.key.startswith("wk:")
