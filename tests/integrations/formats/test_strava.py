"""The list of activities in Strava's bulk export."""

from datetime import UTC, datetime

from resourceserver.integrations.formats.strava import ACTIVITIES
from resourceserver.integrations.records import Sample, Sensor
from tests.integrations.memory import read, recognise

HEADER = (
    "Activity ID,Activity Date,Activity Name,Activity Type,Elapsed Time,Distance,Filename,"
    "Elapsed Time,Moving Time,Distance,Calories\n"
)


def test_totals_are_read_in_metres_and_seconds() -> None:
    reading = read(
        ACTIVITIES,
        HEADER
        + '1001,"Jun 16, 2025, 8:00:00 AM","Run, easy",Run,2371,7.21,activities/1.gpx.gz,'
        + "660.0,600.0,7212.3,100\n",
    )

    at, ended = datetime(2025, 6, 16, 8, tzinfo=UTC), datetime(2025, 6, 16, 8, 11, tzinfo=UTC)
    sensor = Sensor("Strava")
    assert reading.records == [
        Sample("distance_m:1750060800000", "distance_m", at, ended, 7212.3, sensor),
        Sample("active_energy_kj:1750060800000", "active_energy_kj", at, ended, 418.4, sensor),
        Sample("exercise_ms:1750060800000", "exercise_ms", at, ended, 600_000.0, sensor),
    ]


def test_rows_whose_totals_are_elsewhere_or_that_cannot_be_read_are_refused() -> None:
    reading = read(
        ACTIVITIES,
        HEADER
        + '1,"Jun 16, 2025, 8:00:00 AM",Ride,Ride,1,1,activities/1.fit.gz,1,1,1,1\n'
        + "2,yesterday,Ride,Ride,1,1,,1,1,1,1\n"
        + "3\n"
        + '4,"Jun 16, 2025, 8:00:00 AM",Gym,Weights,,,,,,,\n',
    )

    assert reading.records == []
    assert reading.reasons == [
        "totals_are_in_its_own_file",
        "invalid_time",
        "missing_time",
        "missing_duration",
    ]


def test_the_list_is_recognised_by_its_header() -> None:
    assert recognise(ACTIVITIES, "\ufeff" + HEADER) == 1.0
    assert recognise(ACTIVITIES, "Activity,Date\n") == 0.0
