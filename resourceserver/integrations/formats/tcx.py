"""TCX (Training Center XML): workouts with their points, heart rates and the totals of their laps.

Courses are routes that a person planned, and say nothing of where the person was.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.records import HeartRate, Point, Record, Refused, Sample, Sensor
from resourceserver.integrations.values import Flaw
from resourceserver.integrations.xml_stream import Element, elements

_WHOLE: Final = frozenset(("Trackpoint", "TotalTimeSeconds", "DistanceMeters", "Calories"))
_OPENED: Final = frozenset(("Activity", "Lap"))
_ROOT: Final = re.compile(r"<(\w+:)?TrainingCenterDatabase[\s>]")
_SENSOR: Final = Sensor("TCX")
_UTC: Final = ZoneInfo("UTC")


@dataclass
class _Workout:
    """One activity, whose totals are the sums of its laps."""

    activity: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    lap_at: datetime | None = None
    distance_m: float = 0.0
    energy_kcal: float = 0.0
    exercise_s: float = 0.0

    def add(self, element: Element) -> None:
        """Take what an element says of the workout or of a lap. Raises Flaw."""
        number = values.number(element.text)
        if element.name == "Lap":
            self.lap_at = values.instant_in(element.attributes.get("StartTime"), _UTC)
            self.started_at = self.started_at or self.lap_at
        elif number is None or element.path[-1:] != ("Lap",):
            return
        elif element.name == "DistanceMeters":
            self.distance_m += number
        elif element.name == "Calories":
            self.energy_kcal += number
        else:
            self.exercise_s += number
            if self.lap_at:
                self.ended_at = values.later(self.lap_at, seconds=number)

    def totals(self) -> list[Sample]:
        if self.started_at is None or self.ended_at is None:
            return []
        return tracks.totals(
            self.started_at,
            self.ended_at,
            _SENSOR,
            distance_m=self.distance_m,
            energy_kcal=self.energy_kcal,
            exercise_s=self.exercise_s,
        )


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    workout, broken = _Workout(), list[Unreadable]()

    def parsed() -> Iterator[Element]:
        try:
            with reading.binary(file) as stream:
                yield from elements(stream, _WHOLE, _OPENED)
        except Unreadable as error:
            # The totals of what was read come first.
            broken.append(error)

    for each in parsed():
        try:
            if "Courses" in each.path:
                if each.name == "Trackpoint":
                    yield Refused(
                        "planned_route", values.example(each.text_of("Time") or "a course")
                    )
            elif each.name == "Trackpoint":
                yield from _records(each, workout.activity)
            elif each.name == "Activity":
                yield from workout.totals()
                workout = _Workout((each.attributes.get("Sport") or "").lower() or None)
            else:
                workout.add(each)
        except Flaw as flaw:
            yield Refused(str(flaw), values.example(each.text_of("Time") or each.name))
    yield from workout.totals()
    if broken:
        raise broken[0]


def _records(element: Element, activity: str | None) -> Iterator[Record]:
    at = values.instant_in(element.text_of("Time"), _UTC)
    # A watch without reception, or indoors, writes points without a place.
    if position := element.child("Position"):
        yield tracks.point(
            at,
            position.text_of("LatitudeDegrees"),
            position.text_of("LongitudeDegrees"),
            altitude_m=values.number(element.text_of("AltitudeMeters")),
            speed_mps=next(
                (tracks.at_least_zero(speed.text) for speed in element.inside("Speed")), None
            ),
            activity=activity,
        )
    if rate := tracks.heart_rate(at, element.text_of("HeartRateBpm", "Value"), _SENSOR):
        yield rate


def _recognise(head: Head) -> float:
    return 1.0 if head.text.lstrip().startswith("<") and _ROOT.search(head.text) else 0.0


TCX: Final = Format(
    name="tcx",
    title="TCX workouts",
    source=tracks.SOURCE,
    records=(Point, HeartRate, Sample),
    recognise=_recognise,
    read=_read,
    is_proven=True,
)
