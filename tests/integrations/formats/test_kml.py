"""KML: tracks, and places and lines with a time."""

from datetime import UTC, datetime

import pytest

from resourceserver.integrations.formats import kml as module
from resourceserver.integrations.formats.kml import KML
from resourceserver.integrations.records import Point
from tests.integrations.memory import Reading, read, recognise

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)


def kml(*placemarks: str) -> str:
    inner = "".join(f"<Placemark>{each}</Placemark>" for each in placemarks)
    return (
        '<kml xmlns="http://www.opengis.net/kml/2.2" xmlns:gx="http://www.google.com/kml/ext/2.2">'
        f"<Document><name>Tracks</name><Folder>{inner}</Folder></Document></kml>"
    )


def read_placemarks(*placemarks: str) -> Reading:
    return read(KML, kml(*placemarks))


SPAN = "<TimeSpan><begin>2025-06-16T08:00:00Z</begin><end>2025-06-16T08:00:30Z</end></TimeSpan>"


@pytest.mark.parametrize(
    "track",
    [
        "<when>2025-06-16T08:00:00Z</when><gx:coord>4.5 52.5 12</gx:coord>"
        "<when>2025-06-16T10:00:30+02:00</when><gx:coord>4.6 52.6</gx:coord>",
        "<when>2025-06-16T08:00:00Z</when><when>2025-06-16T08:00:30Z</when>"
        "<gx:coord>4.5 52.5 12</gx:coord><gx:coord>4.6 52.6</gx:coord>",
    ],
)
def test_times_and_places_of_a_track_are_joined_in_their_order(track: str) -> None:
    reading = read_placemarks(
        f"<name>Ride</name><gx:MultiTrack><gx:Track>{track}</gx:Track></gx:MultiTrack>"
    )

    assert reading.records == [
        Point("pt:1750060800000", EIGHT, 52.5, 4.5, altitude_m=12.0),
        Point("pt:1750060830000", EIGHT.replace(second=30), 52.6, 4.6),
    ]
    assert reading.refused == []


def test_the_ends_of_a_line_or_a_visit_with_a_span_are_points() -> None:
    line = "<LineString><coordinates>4.5,52.5,0 4.7,52.7\n4.6,52.6</coordinates></LineString>"
    visit = "<Point><coordinates>4.5,52.5,0</coordinates></Point>"

    assert [
        (each.recorded_at.second, each.latitude)
        for each in read_placemarks(SPAN + line, visit + SPAN).records
    ] == [(0, 52.5), (30, 52.6), (0, 52.5), (30, 52.5)]


def test_a_place_with_one_time_is_one_point_and_a_local_time_is_the_persons() -> None:
    reading = read_placemarks(
        "<TimeStamp><when>2025-06-16T10:00:00</when></TimeStamp>"
        "<Point><coordinates>4.5,52.5</coordinates></Point>"
    )

    assert reading.records == [Point("pt:1750060800000", EIGHT, 52.5, 4.5)]


def test_what_has_no_usable_time_or_place_is_refused() -> None:
    reading = read_placemarks(
        "<name>Home</name><Point><coordinates>4.5,52.5</coordinates></Point>",
        "<name>Area</name>" + SPAN + "<Polygon><outerBoundaryIs><LinearRing><coordinates>4,5"
        "</coordinates></LinearRing></outerBoundaryIs></Polygon>",
        "<TimeStamp><when>2025-06</when></TimeStamp><Point><coordinates>4,5</coordinates></Point>",
        "<gx:Track><when>2025-06-16T08:00:00Z</when></gx:Track>",
        SPAN + "<Point><coordinates>one,two</coordinates></Point>",
    )

    assert reading.records == []
    assert reading.reasons == [
        "placemark_without_time",
        "placemark_without_time",
        "time_without_hour",
        "incomplete_point",
        "missing_place",
        "missing_place",
    ]
    assert reading.refused[0].example == "Home"


def test_a_truncated_track_keeps_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    text = kml("<gx:Track><when>2025-06-16T08:00:00Z</when><gx:coord>4 5</gx:coord><when>2025")

    reading = read(KML, text[: text.index("<when>2025<")])

    assert len(reading.records) == 1
    assert "no XML" in str(reading.unreadable)


def test_a_track_with_too_many_times_before_its_places_is_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITING", 3)

    reading = read_placemarks(
        "<gx:Track>" + "<when>2025-06-16T08:00:00Z</when>" * 4 + "</gx:Track>"
    )

    assert "more than 3 times" in str(reading.unreadable)


def test_kml_is_recognised() -> None:
    assert recognise(KML, '<?xml version="1.0"?>\n' + kml()) == 1.0
    assert recognise(KML, "<gpx></gpx>") == 0.0
