"""Tracks that GPSBabel wrote; `make proof` installs it."""

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import FORMATS
from resourceserver.integrations.formats.fit import FIT
from resourceserver.integrations.formats.gpx import GPX
from resourceserver.integrations.formats.kml import KML
from resourceserver.integrations.formats.tcx import TCX
from resourceserver.integrations.records import Point
from tests.integrations.memory import MemoryFile, read

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(
        shutil.which("gpsbabel") is None, reason="GPSBabel is not installed; make proof does it"
    ),
]

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)
POINTS = [(EIGHT + timedelta(seconds=5 * n), 52 + n / 1000, -4 - n / 500) for n in range(300)]


def track() -> str:
    points = "".join(
        f'<trkpt lat="{lat:.6f}" lon="{lon:.6f}"><ele>12.5</ele><time>{at:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>'
        for at, lat, lon in POINTS
    )
    return (
        '<gpx version="1.1" creator="us" xmlns="http://www.topografix.com/GPX/1/1">'
        f"<trk><name>Ride</name><trkseg>{points}</trkseg></trk></gpx>"
    )


@pytest.mark.parametrize(
    ("own", "written"),
    [(GPX, "gpx"), (TCX, "gtrnctr,course=0"), (FIT, "garmin_fit"), (KML, "kml,track=1,points=0")],
    ids=["gpx", "tcx", "fit", "kml"],
)
def test_a_track_that_gpsbabel_converted_is_the_track(
    tmp_path: Path, own: Format, written: str
) -> None:
    given, converted = tmp_path / "given.gpx", tmp_path / "converted"
    given.write_text(track())
    subprocess.run(
        ["gpsbabel", "-t", "-i", "gpx", "-f", given, "-o", written, "-F", converted],
        check=True,
        capture_output=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    content = converted.read_bytes()

    reading = read(own, content)

    head = MemoryFile(content).head
    assert [each.name for each in FORMATS if each.recognise(head)] == [own.name]
    assert reading.unreadable is None
    points = {each.key: each for each in reading.records if isinstance(each, Point)}
    assert [each.recorded_at for each in points.values()] == [at for at, _, _ in POINTS]
    for point, (_, latitude, longitude) in zip(points.values(), POINTS, strict=True):
        assert abs(point.latitude - latitude) < 2e-6
        assert abs(point.longitude - longitude) < 2e-6
