"""TCX: points, heart rates and totals of workouts."""

from datetime import UTC, datetime

from resourceserver.integrations.formats.tcx import TCX
from resourceserver.integrations.records import HeartRate, Point, Sample, Sensor
from tests.integrations.memory import read, recognise

WORKOUT = """<?xml version="1.0"?>
<TrainingCenterDatabase xmlns="http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2"
  xmlns:x="http://www.garmin.com/xmlschemas/ActivityExtension/v2"><Activities>
 <Activity Sport="Biking"><Id>2025-06-16T08:00:00.000Z</Id>
  <Lap StartTime="2025-06-16T08:00:00.000Z">
   <TotalTimeSeconds>600.5</TotalTimeSeconds><DistanceMeters>5000</DistanceMeters>
   <Calories>100</Calories>
   <Track>
    <Trackpoint><Time>2025-06-16T08:00:00.000Z</Time>
     <Position><LatitudeDegrees>52.5</LatitudeDegrees><LongitudeDegrees>4.5</LongitudeDegrees></Position>
     <AltitudeMeters>12.5</AltitudeMeters><DistanceMeters>1</DistanceMeters>
     <HeartRateBpm><Value>118</Value></HeartRateBpm>
     <Extensions><x:TPX><x:Speed>6.5</x:Speed></x:TPX></Extensions></Trackpoint>
    <Trackpoint><Time>2025-06-16T08:00:01.000Z</Time>
     <HeartRateBpm><Value>119</Value></HeartRateBpm></Trackpoint>
    <Trackpoint><Time>yesterday</Time></Trackpoint>
   </Track></Lap>
  <Lap StartTime="2025-06-16T08:10:30Z">
   <TotalTimeSeconds>30</TotalTimeSeconds><DistanceMeters>250</DistanceMeters>
   <Calories>0</Calories></Lap>
 </Activity>
 <Activity Sport="Other"><Lap StartTime="2025-06-17T08:00:00Z">
  <TotalTimeSeconds>60</TotalTimeSeconds></Lap></Activity>
</Activities></TrainingCenterDatabase>"""

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)
ENDED = datetime(2025, 6, 16, 8, 11, tzinfo=UTC)
SENSOR = Sensor("TCX")


def test_points_heart_rates_and_the_sums_of_the_laps_are_read() -> None:
    reading = read(TCX, WORKOUT)

    assert reading.records == [
        Point(
            "pt:1750060800000",
            EIGHT,
            52.5,
            4.5,
            altitude_m=12.5,
            speed_mps=6.5,
            activity="biking",
        ),
        HeartRate("hr:1750060800000", EIGHT, 118, SENSOR),
        HeartRate("hr:1750060801000", EIGHT.replace(second=1), 119, SENSOR),
        Sample("distance_m:1750060800000", "distance_m", EIGHT, ENDED, 5250.0, SENSOR),
        Sample("active_energy_kj:1750060800000", "active_energy_kj", EIGHT, ENDED, 418.4, SENSOR),
        Sample("exercise_ms:1750060800000", "exercise_ms", EIGHT, ENDED, 630_500.0, SENSOR),
        Sample(
            "exercise_ms:1750147200000",
            "exercise_ms",
            datetime(2025, 6, 17, 8, tzinfo=UTC),
            datetime(2025, 6, 17, 8, 1, tzinfo=UTC),
            60_000.0,
            SENSOR,
        ),
    ]
    assert [(each.reason, each.example) for each in reading.refused] == [
        ("invalid_time", "yesterday")
    ]


def test_a_truncated_file_keeps_its_points_and_the_totals_of_the_laps_before_the_break() -> None:
    reading = read(TCX, WORKOUT[: WORKOUT.index("<Trackpoint><Time>yesterday")])

    assert [each.key for each in reading.records] == [
        "pt:1750060800000",
        "hr:1750060800000",
        "hr:1750060801000",
        "distance_m:1750060800000",
        "active_energy_kj:1750060800000",
        "exercise_ms:1750060800000",
    ]
    assert "no XML" in str(reading.unreadable)


def test_white_space_before_the_text_is_left_out() -> None:
    content = " " * 10 + "\n" + WORKOUT

    assert recognise(TCX, content) == 1.0
    assert read(TCX, content) == read(TCX, WORKOUT)


def test_points_of_courses_are_planned() -> None:
    reading = read(TCX, WORKOUT.replace("Activities", "Courses").replace("Activity", "Course"))

    assert reading.records == []
    assert reading.reasons == ["planned_route"] * 3


def test_workouts_are_recognised() -> None:
    assert recognise(TCX, WORKOUT) == 1.0
    assert recognise(TCX, "<gpx></gpx>") == 0.0
