"""Transcripts: WebVTT, SubRip and Granola's cache."""

import importlib
import json
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import transcripts as module
from resourceserver.integrations.formats.transcripts import GRANOLA, SRT, VTT
from resourceserver.integrations.records import Recording, TranscriptSegment
from tests.integrations.memory import read, recognise

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)

WEBVTT = """WEBVTT
Language: en

NOTE not spoken

1
00:00.500 --> 00:04.200 align:start
<v Alice>Good <i>morning</i>,
everybody.

00:01:04.200 --> 00:01:06.000
Bob: Hello.

00:01:07.000 --> 00:01:08.000

"""
SUBRIP = """1
00:00:00,500 --> 00:00:04,200
Good morning.

2
01:00:00,000 --> 01:00:01,000
Bye.
"""


def test_a_line_of_times_ends_the_cue_before_it() -> None:
    content = "WEBVTT\n\n00:01.000 --> 00:02.000\nOne\n00:02.000 --> 00:03.000\nTwo\n"

    [recording] = read(VTT, content, "2025-06-16 10.00 Talk.vtt").records

    assert recording.segments == (
        TranscriptSegment(1000, 2000, None, "One"),
        TranscriptSegment(2000, 3000, None, "Two"),
    )


def test_cues_of_webvtt_are_segments_with_speakers() -> None:
    reading = read(VTT, WEBVTT, "GMT20250616-080000_Recording.transcript.vtt")

    assert recognise(VTT, WEBVTT) == 1.0
    assert reading.refused == []
    assert reading.records == [
        Recording(
            key="rec:1750060800000",
            recorded_at=EIGHT,
            duration_ms=66_000,
            title="GMT20250616-080000_Recording.transcript",
            language="en",
            transcript="Good morning, everybody.\nHello.",
            segments=(
                TranscriptSegment(500, 4200, "Alice", "Good morning, everybody."),
                TranscriptSegment(64_200, 66_000, "Bob", "Hello."),
            ),
        )
    ]


@pytest.mark.parametrize(
    "name",
    [
        "2025-06-16 10.00.00 Talk.srt",
        "talks/2025-06-16T10-00 Talk.srt",
        "20250616_1000.srt",
        "2025-06-16T08:00:00Z.srt",
        "Audio 2025-06-16 at 10.00.00.srt",
    ],
)
def test_the_name_of_a_file_says_when_it_was_recorded(name: str) -> None:
    reading = read(SRT, SUBRIP, name)

    (recording,) = reading.records
    assert (recording.recorded_at, recording.duration_ms) == (EIGHT, 3_601_000)


@pytest.mark.parametrize(
    ("written", "hour", "minute"),
    [
        ("2025-06-16 at 10.30.00 PM", 22, 30),
        # With the narrow space that macOS writes, and one digit.
        ("2025-06-16 at 9.30.00\u202fPM", 21, 30),
        ("2025-06-16 9-05 a.m.", 9, 5),
        ("2025-06-16 12.30 am", 0, 30),
        ("2025-06-16 12.30 pm", 12, 30),
        ("20250616_1030pm", 22, 30),
        ("2025-06-16 22.30 PM", 22, 30),
        ("2025-06-16 10.30 Amsterdam", 10, 30),
        ("2025-06-16 10.30 pmo", 10, 30),
    ],
)
def test_hours_before_and_after_noon_are_understood(written: str, hour: int, minute: int) -> None:
    [recording] = read(SRT, SUBRIP, f"Audio {written}.srt").records

    local = datetime(2025, 6, 16, hour, minute, tzinfo=ZoneInfo("Europe/Berlin"))
    assert recording.recorded_at == local


@pytest.mark.parametrize(
    "name", ["talk.srt", "2025-06-16 9.30 Talk.srt", "2025-13-40 10.00.srt", "0000-01-01 00.00.srt"]
)
def test_a_file_whose_name_says_no_time_is_unreadable(name: str) -> None:
    reading = read(SRT, SUBRIP, name)

    assert reading.records == []
    assert "write that into the name" in str(reading.unreadable)


def test_broken_cues_are_refused_and_an_end_without_a_blank_line_is_read() -> None:
    text = (
        "1\nsoon --> later\nWhat?\n\n2\n00:00:05,000 --> 00:00:01,000\nBack.\n\n"
        "3\n00:00:06,000 --> 99999999999:00:07,000\nLong.\n\n4\n00:00:06,000 --> 00:00:07,000\nEnd."
    )

    for content in (text.encode(), text.encode("utf-16"), text.replace("\n", "\r\n").encode()):
        reading = read(SRT, content, "20250616 1000.srt")
        assert reading.reasons == ["invalid_time", "ends_before_start"]
        assert [each.text for each in reading.records[0].segments] == ["Long.", "End."]


def test_a_transcript_that_is_too_long_keeps_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENTS", 1)

    reading = read(SRT, SUBRIP, "20250616 1000.srt")

    assert len(reading.records) == 1
    assert reading.unreadable == "the transcript is too long"


def cache(*, is_text: bool) -> str:
    def part(start: str, end: str, text: Any, source: str) -> dict[str, Any]:
        return {
            "document_id": "d1",
            "start_timestamp": f"2025-06-16T{start}Z",
            "end_timestamp": f"2025-06-16T{end}Z",
            "text": text,
            "source": source,
            "id": "x",
            "is_final": True,
        }

    state = {
        "transcripts": {
            "d1": [
                part("08:00:01.000", "08:00:02.500", "Hello.", "microphone"),
                part("08:00:00.000", "08:00:00.500", "Hi.", "system"),
            ],
            "d2": [],
            "d3": [{"document_id": "d3", "start_timestamp": "soon"}],
        },
        "documents": {
            "d1": {"id": "d1", "title": "Standup", "created_at": "2025-06-16T07:59:00Z"},
            "d4": {"id": "d4", "title": "Notes alone"},
        },
    }
    inner = {"state": state, "version": 5}
    return json.dumps({"cache": json.dumps(inner) if is_text else inner})


@pytest.mark.parametrize("is_text", [False, True])
def test_meetings_of_granola_are_recordings(is_text: bool) -> None:
    content = cache(is_text=is_text)

    reading = read(GRANOLA, content)

    assert recognise(GRANOLA, content) == 0.9
    assert reading.records == [
        Recording(
            key="granola:d1",
            recorded_at=EIGHT,
            duration_ms=2500,
            title="Standup",
            transcript="Hi.\nHello.",
            segments=(
                TranscriptSegment(0, 500, "system", "Hi."),
                TranscriptSegment(1000, 2500, "microphone", "Hello."),
            ),
        )
    ]
    assert [(each.reason, each.example) for each in reading.refused] == [
        ("no_transcript", "[]"),
        ("invalid_time", '[{"document_id": "d3", "start_timestamp": "soon"}]'),
        ("no_transcript", "Notes alone"),
    ]


def test_other_files_are_not_recognised() -> None:
    assert recognise(SRT, "1\n2\n") == 0.0
    assert recognise(VTT, "1\n2\n") == 0.0
    assert recognise(GRANOLA, '{"cache": [], "state": "documents"}') == 0.0


FOREIGN = {
    name: sorted((Path(__file__).parent.parent / "foreign").glob(f"{name}-*.tar.gz"))
    for name in ("srt", "webvtt_py")
}


def unpacked(name: str, folder: Path) -> Path:
    """Return the folder of a library that `make proof` downloads."""
    with tarfile.open(FOREIGN[name][-1]) as archive:
        archive.extractall(folder, filter="data")
    (found,) = folder.iterdir()
    return found


def compare(chosen: Format, content: bytes, theirs: list[tuple[int, int]]) -> int:
    """Assert that a file has these cues, and return their number."""
    reading = read(chosen, content, "2025-06-16 10.00 Talk")
    assert reading.unreadable is None
    ours = [(each.start_ms, each.end_ms) for one in reading.records for each in one.segments]
    assert ours == theirs
    return len(ours)


@pytest.mark.foreign
@pytest.mark.skipif(not FOREIGN["webvtt_py"], reason="make proof downloads the files of webvtt-py")
def test_the_files_of_webvtt_py_are_read_as_webvtt_py_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked("webvtt_py", tmp_path)
    monkeypatch.syspath_prepend(folder)
    webvtt = importlib.import_module("webvtt")
    compared = []
    for path in sorted((folder / "tests" / "samples").glob("*.vtt")):
        content = path.read_bytes()
        if recognise(VTT, content) == 1.0:
            theirs = [
                (milliseconds(cue.start), milliseconds(cue.end))
                for cue in webvtt.read(path)
                if cue.text.strip()
            ]
            compared.append(compare(VTT, content, theirs))
    assert len(compared) > 15
    assert sum(compared) > 900


def milliseconds(written: str) -> int:
    hours, minutes, seconds = written.split(":")
    return round((int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000)


@pytest.mark.foreign
@pytest.mark.skipif(not FOREIGN["srt"], reason="make proof downloads the files of srt")
def test_the_files_of_srt_are_read_as_srt_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked("srt", tmp_path)
    monkeypatch.syspath_prepend(folder)
    srt = importlib.import_module("srt")
    paths = sorted(folder.rglob("*.srt"))
    for path in paths:
        content = path.read_bytes()
        cues = srt.parse(content.decode("utf-8", "replace"))
        theirs = [
            (cue.start // timedelta(milliseconds=1), cue.end // timedelta(milliseconds=1))
            for cue in cues
            if cue.content.strip()
        ]
        assert recognise(SRT, content) == 1.0
        assert compare(SRT, content, theirs) > 0
    assert len(paths) == 2
