"""Transcripts of speech: WebVTT and SubRip files, and the cache of Granola.

WebVTT and SubRip count from the beginning of a recording and do not say when that was. It is read from the
name of the file, where programs such as Zoom write it.
"""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from resourceserver.integrations import json_stream, reading, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import Record, Recording, Refused, TranscriptSegment
from resourceserver.integrations.values import Flaw

SEGMENTS: Final = 50_000
"""Most segments of one transcript."""
LENGTH: Final = 5_000_000
"""Most characters of one transcript."""

_HALF: Final = r"[\s_-]?[AaPp]\.?[Mm](?![A-Za-z])"
"""AM or PM."""
_TIMED: Final = re.compile(
    r"(GMT|UTC)?(\d{4})-?(\d\d)-?(\d\d)[ T_-]*(?:at )?"
    # Only before AM and PM are hours written with one digit.
    rf"(\d\d|\d(?=(?:[-.:_]\d\d){{1,2}}{_HALF}))"
    rf"[-.:h_]?(\d\d)(?:[-.:m_]?(\d\d))?(Z)?({_HALF})?"
)
_CUE: Final = re.compile(r"((?:\d+:)?\d+:\d+[.,]\d+)\s*-->\s*((?:\d+:)?\d+:\d+[.,]\d+)")
_SPEAKER: Final = re.compile(r"<v(?:\.[^ >]*)? ([^>]+)>")
_NAMED: Final = re.compile(r"([^:<>\d][^:<>]{0,60}): ")
_TAG: Final = re.compile(r"<[^>]*>")
_LANGUAGE: Final = re.compile(r"Language:\s*(\S+)")
_FIRST_CUE: Final = re.compile(r"\A\s*\d+\s*\r?\n\d+:\d\d:\d\d[,.]\d+ --> ")

_DOCUMENTS: Final = "cache.state.documents.*"
_TRANSCRIPTS: Final = "cache.state.transcripts.*"
_IS_TEXT: Final = re.compile(r'\s*\{\s*"cache"\s*:\s*"')
_IS_CACHE: Final = re.compile(r'\A\s*\{\s*"cache"\s*:\s*(\{|")')


def recorded_at(name: str, person: Person) -> datetime:
    """Return the instant that the name of a file says, local where it names no zone. Raises Unreadable."""
    found = _TIMED.search(name)
    try:
        if not found:
            raise Flaw("missing_time")
        zone = UTC if found.group(1) or found.group(8) else person.zone
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[1:7])
        half = found.group(9)
        if half and hour <= 12:
            hour = hour % 12 + (12 if "p" in half.lower() else 0)
        return values.utc(datetime(year, month, day, hour, minute, second, tzinfo=zone))
    except (Flaw, ValueError) as error:
        raise Unreadable(
            "a transcript does not say when it was recorded; write that into the name of the file,"
            " such as '2025-06-16 10.30 Standup.vtt'"
        ) from error


def _read_cues(file: File, person: Person) -> Iterator[Record | Refused]:
    name = file.name.rpartition("/")[2]
    at = recorded_at(name, person)
    cues = _Cues()
    broken: Unreadable | None = None
    refused: list[Refused] = []
    try:
        with reading.text(file) as stream:
            while line := stream.readline(reading.LINE_LENGTH):
                refused += cues.add(line.replace("\0", "").strip())
        refused += cues.add("")
    except Unreadable as error:
        broken = error
    yield from refused
    title = values.text(name.rpartition(".")[0]) or name
    if cues.segments:
        yield _recording(f"rec:{instant_ms(at)}", at, title, cues.segments, cues.language)
    if broken:
        raise broken


class _Cues:
    """What has been read of the cues of one file."""

    def __init__(self) -> None:
        self.segments: list[TranscriptSegment] = []
        self.language: str | None = None
        self._length = 0
        self._times: tuple[int, int] | None = None
        self._lines: list[str] = []

    def add(self, line: str) -> list[Refused]:
        """Take a line; return the cue that ended with it and could not be kept. Raises Unreadable."""
        if cue := _CUE.match(line):
            # A line of times ends the cue before it, even without an empty line between them.
            refused = self._end(*self._times) if self._times else []
            self._times = _ms(cue.group(1)), _ms(cue.group(2))
            return refused
        if line and self._times:
            self._lines.append(line)
        elif line.startswith("Language:") and (named := _LANGUAGE.match(line)):
            self.language = named.group(1)
        elif "-->" in line:
            return [Refused("invalid_time", values.example(line))]
        elif not line and self._times:
            return self._end(*self._times)
        return []

    def _end(self, start_ms: int, end_ms: int) -> list[Refused]:
        text = " ".join(self._lines)
        self._times, self._lines = None, []
        speaker = _SPEAKER.search(text) or _NAMED.match(text)
        said = _TAG.sub("", text)
        if speaker and not text.startswith("<"):
            said = said[speaker.end() :]
        if end_ms < start_ms:
            return [Refused("ends_before_start", values.example(text))]
        if said := said.strip():
            name = values.text(speaker.group(1)) if speaker else None
            self.segments.append(TranscriptSegment(start_ms, end_ms, name, said))
            self._length += len(said)
        if len(self.segments) > SEGMENTS or self._length > LENGTH:
            raise Unreadable("the transcript is too long")
        return []


def _ms(written: str) -> int:
    *hours, minutes, seconds = written.replace(",", ".").split(":")
    whole, _, fraction = seconds.partition(".")
    total = (int(hours[0][:6]) if hours else 0) * 3600 + int(minutes[:6]) * 60 + int(whole[:6])
    return total * 1000 + int(fraction[:3].ljust(3, "0"))


def _recording(
    key: str,
    at: datetime,
    title: str | None,
    segments: list[TranscriptSegment],
    language: str | None = None,
) -> Recording:
    return Recording(
        key=key,
        recorded_at=at,
        duration_ms=max(segment.end_ms for segment in segments),
        title=title,
        language=language,
        transcript="\n".join(segment.text for segment in segments),
        segments=tuple(segments),
    )


def _read_granola(file: File, _person: Person) -> Iterator[Record | Refused]:
    # Their titles may stand behind the transcripts.
    titles: dict[str, str | None] = {}
    for _, document in _cached(file, _DOCUMENTS):
        if isinstance(document, dict) and isinstance(document.get("id"), str):
            titles[document["id"]] = values.text(document.get("title"))
    for _, parts in _cached(file, _TRANSCRIPTS):
        try:
            recording = _meeting(parts, titles)
        except Flaw as flaw:
            yield values.refused(flaw, parts)
        else:
            titles.pop(recording.key.removeprefix("granola:"), None)
            yield recording
    for document_id, title in titles.items():
        yield Refused("no_transcript", values.example(title or document_id))


def _cached(file: File, path: str) -> Iterator[tuple[str, Any]]:
    """Yield values of the cache, which older versions wrote as a text of JSON within JSON."""
    with reading.text(file) as stream:
        is_text = _IS_TEXT.match(stream.read(1000))
    if not is_text:
        yield from reading.elements(file, path)
        return
    for text in reading.items(file, "cache"):
        if isinstance(text, str):
            inner = path.removeprefix("cache.")
            yield from json_stream.elements(io.StringIO(text), (inner,))


def _meeting(parts: Any, titles: dict[str, str | None]) -> Recording:
    if not isinstance(parts, list) or not parts:
        raise Flaw("no_transcript")
    spoken = [values.members(part) for part in parts]
    document_id = values.text(spoken[0].get("document_id"))
    if document_id is None:
        raise Flaw("missing_id")
    times = [
        (values.instant(part.get("start_timestamp")), values.instant(part.get("end_timestamp")))
        for part in spoken
    ]
    begin = min(started_at for started_at, _ in times)
    segments = [
        TranscriptSegment(
            instant_ms(started_at) - instant_ms(begin),
            instant_ms(max(started_at, ended_at)) - instant_ms(begin),
            # Granola tells its own person from all others by where the sound came from.
            values.text(part.get("source")),
            values.text(part.get("text")) or "",
        )
        for part, (started_at, ended_at) in zip(spoken, times, strict=True)
    ]
    segments.sort(key=lambda segment: segment.start_ms)
    return _recording(f"granola:{document_id}", begin, titles.get(document_id), segments)


def _recognise_vtt(head: Head) -> float:
    return 1.0 if head.text.startswith("WEBVTT") else 0.0


def _recognise_srt(head: Head) -> float:
    return 1.0 if _FIRST_CUE.match(head.text) else 0.0


def _recognise_granola(head: Head) -> float:
    text = head.text
    is_cache = _IS_CACHE.match(text) and "state" in text
    return 0.9 if is_cache and ("documents" in text or "transcripts" in text) else 0.0


VTT: Final = Format(
    name="vtt",
    title="Transcript, WebVTT",
    source="transcript",
    records=(Recording,),
    recognise=_recognise_vtt,
    read=_read_cues,
    is_proven=True,
)

SRT: Final = Format(
    name="srt",
    title="Transcript, SubRip",
    source="transcript",
    records=(Recording,),
    recognise=_recognise_srt,
    read=_read_cues,
    is_proven=True,
)

GRANOLA: Final = Format(
    name="granola",
    title="Granola, cache of meetings",
    source="granola",
    records=(Recording,),
    recognise=_recognise_granola,
    read=_read_granola,
)
