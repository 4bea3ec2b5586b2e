"""GPX: points and heart rates of tracks."""

import tarfile
from datetime import UTC, datetime
from pathlib import Path

import gpxpy
import pytest

from resourceserver.integrations.formats.gpx import GPX
from resourceserver.integrations.records import HeartRate, Point, Sensor
from tests.integrations.memory import MemoryFile, read, recognise

FOREIGN = sorted((Path(__file__).parent.parent / "foreign").glob("gpxpy-*.tar.gz"))

TRACK = """<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="Garmin Connect" xmlns="http://www.topografix.com/GPX/1/1"
  xmlns:ns3="http://www.garmin.com/xmlschemas/TrackPointExtension/v2">
 <wpt lat="52" lon="4"><time>2025-06-16T08:00:00Z</time><name>Café</name></wpt>
 <trk><name>Ride</name><type>cycling</type><trkseg>
  <trkpt lat="52.3702157" lon="4.8951679"><ele>3.1</ele><time>2025-06-16T08:00:00.500Z</time>
   <extensions><ns3:TrackPointExtension><ns3:hr>121</ns3:hr><ns3:speed>7.5</ns3:speed>
   </ns3:TrackPointExtension></extensions></trkpt>
  <trkpt lat="-33.8" lon="-70.5"><time>2025-06-16T10:00:01+02:00</time></trkpt>
  <trkpt lat="52.4" lon="4.9"><ele>4</ele></trkpt>
  <trkpt lat="92.4" lon="4.9"><time>2025-06-16T08:00:02Z</time></trkpt>
  <trkpt lat="52.4"><time>2025-06-16T08:00:03Z</time></trkpt>
  <trkpt lat="52.4" lon="4.9"><time>0001-01-01T00:00:00+01:00</time></trkpt>
 </trkseg></trk>
 <rte><rtept lat="52" lon="4"/></rte>
</gpx>"""


def test_points_and_heart_rates_are_read_and_the_rest_is_accounted_for() -> None:
    reading = read(GPX, TRACK)

    assert reading.unreadable is None
    assert reading.records == [
        Point(
            "pt:1750060800500",
            datetime(2025, 6, 16, 8, microsecond=500_000, tzinfo=UTC),
            52.3702157,
            4.8951679,
            altitude_m=3.1,
            speed_mps=7.5,
            activity="cycling",
        ),
        HeartRate(
            "hr:1750060800500",
            datetime(2025, 6, 16, 8, microsecond=500_000, tzinfo=UTC),
            121,
            Sensor("Garmin Connect"),
        ),
        Point(
            "pt:1750060801000",
            datetime(2025, 6, 16, 8, second=1, tzinfo=UTC),
            -33.8,
            -70.5,
            activity="cycling",
        ),
    ]
    assert [(each.reason, each.example) for each in reading.refused] == [
        ("waypoint", "2025-06-16T08:00:00Z 52, 4 Café"),
        ("missing_time", "52.4, 4.9"),
        ("place_out_of_range", "2025-06-16T08:00:02Z 92.4, 4.9"),
        ("missing_place", "2025-06-16T08:00:03Z 52.4, None"),
        ("invalid_time", "0001-01-01T00:00:00+01:00 52.4, 4.9"),
        ("planned_route", "52, 4"),
    ]


def test_encodings_are_those_that_the_file_declares() -> None:
    latin = TRACK.replace("UTF-8", "ISO-8859-1").encode("latin-1")
    wide = TRACK.replace("UTF-8", "UTF-16").encode("utf-16")

    for content in (latin, wide, b"\xef\xbb\xbf" + TRACK.encode()):
        assert recognise(GPX, content) == 1.0
        reading = read(GPX, content)
        assert (len(reading.records), reading.unreadable) == (3, None)
        assert reading.refused[0].example.endswith("Café")


@pytest.mark.parametrize(
    ("cut", "problem"),
    [
        ('<trkpt lat="52.4" lon="4.9"><ele>', "the file is no XML at line "),
        ("</gpx>", "the file is no XML at line 16: no element found"),
    ],
)
def test_a_truncated_file_keeps_the_points_before_the_break(cut: str, problem: str) -> None:
    reading = read(GPX, TRACK[: TRACK.index(cut)])

    assert len(reading.records) == 3
    assert str(reading.unreadable).startswith(problem)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no element found"),
        ("<gpx><trkpt>\0</trkpt></gpx>", "not well-formed"),
        ('<!DOCTYPE gpx [<!ENTITY a "b">]><gpx>&a;</gpx>', "declares entities"),
        ('<!DOCTYPE gpx [<!ENTITY a SYSTEM "file:///etc/passwd">]><gpx>&a;</gpx>', "entities"),
        ('<!DOCTYPE gpx SYSTEM "x.dtd"><gpx>&a;</gpx>', ""),
        ("<gpx>" + "<a>" * 100_000, "nested too deeply"),
        ("<gpx><trkpt>" + "x" * 9_000_000, "too long"),
        ('<?xml version="1.0" encoding="nothing"?><gpx/>', "unknown encoding"),
    ],
)
def test_hostile_files_are_unreadable(content: str, problem: str) -> None:
    reading = read(GPX, content)

    assert reading.records == []
    assert problem in str(reading.unreadable or "")


def test_other_xml_is_not_recognised() -> None:
    assert recognise(GPX, "<kml><gpxfile/></kml>") == 0.0
    assert recognise(GPX, "a note about <gpx >") == 0.0


@pytest.mark.foreign
@pytest.mark.skipif(not FOREIGN, reason="make proof downloads the files of gpxpy")
def test_the_files_of_gpxpy_are_read_as_gpxpy_reads_them() -> None:
    compared = 0
    with tarfile.open(FOREIGN[-1]) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".gpx") else None
            if file is None:
                continue
            content = file.read()
            theirs = [
                (point.time.astimezone(UTC), point.latitude, point.longitude, point.elevation)
                for track in gpxpy.parse(content).tracks
                for segment in track.segments
                for point in segment.points
                if point.time
            ]
            reading = read(GPX, content)
            ours = [
                (each.recorded_at, each.latitude, each.longitude, each.altitude_m)
                for each in reading.records
                if isinstance(each, Point)
            ]
            assert GPX.recognise(MemoryFile(content).head) == 1.0, member.name
            assert (ours, reading.unreadable) == (theirs, None), member.name
            compared += len(ours)
    assert compared > 2000
