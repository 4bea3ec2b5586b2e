"""FIT, which watches and cycling computers write: points, heart rates and the totals of sessions.

The totals of laps and the running totals of records say again what the session says, and are left out.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.records import HeartRate, Point, Record, Refused, Sample, Sensor
from resourceserver.integrations.values import Flaw

_DEGREES: Final = 180 / 2**31
"""The unit of angles in FIT."""


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    # Every server has this format and most never read a file of it.
    import fitdecode  # noqa: PLC0415 -- the library takes 1 MiB of each process

    sensor, activity = Sensor("FIT"), None
    with reading.binary(file) as stream:
        try:
            with fitdecode.FitReader(
                stream,
                check_crc=fitdecode.CrcCheck.RAISE,
                error_handling=fitdecode.ErrorHandling.IGNORE,
            ) as frames:
                for frame in frames:
                    if frame.frame_type != fitdecode.FIT_FRAME_DATA:
                        continue
                    if frame.name == "file_id":
                        sensor = _sensor(frame)
                    elif frame.name == "sport":
                        activity = values.text(_value(frame, "sport"))
                    elif frame.name in {"record", "session"}:
                        yield from _records(frame, sensor, activity)
        except fitdecode.FitError as error:
            raise Unreadable(f"the file is no FIT from here on: {str(error)[:200]}") from error
        except (
            *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError),
            # The decoder asserts that a record ends before the data does.
            AssertionError,
        ) as error:
            # What the decoder raises on values that no device writes.
            raise Unreadable("the file holds values that cannot be decoded") from error


def _records(frame: Any, sensor: Sensor, activity: str | None) -> Iterator[Record | Refused]:
    try:
        if frame.name == "session":
            yield from _totals(frame, sensor)
            return
        at = _instant(frame, "timestamp")
        latitude, longitude = _value(frame, "position_lat"), _value(frame, "position_long")
        if isinstance(latitude, int) and isinstance(longitude, int):
            yield tracks.point(
                at,
                latitude * _DEGREES,
                longitude * _DEGREES,
                altitude_m=_first(frame, "enhanced_altitude", "altitude"),
                speed_mps=tracks.at_least_zero(_first(frame, "enhanced_speed", "speed")),
                accuracy_m=tracks.at_least_zero(_value(frame, "gps_accuracy")),
                activity=activity,
                device=sensor.name,
            )
        if rate := tracks.heart_rate(at, _value(frame, "heart_rate"), sensor):
            yield rate
    except Flaw as flaw:
        yield Refused(str(flaw), f"{frame.name} of {_value(frame, 'timestamp')}")


def _totals(frame: Any, sensor: Sensor) -> list[Sample]:
    started_at = _instant(frame, "start_time")
    elapsed_s = values.number(_value(frame, "total_elapsed_time")) or 0.0
    return tracks.totals(
        started_at,
        values.later(started_at, seconds=elapsed_s),
        sensor,
        distance_m=values.number(_value(frame, "total_distance")),
        energy_kcal=values.number(_value(frame, "total_calories")),
        exercise_s=_first(frame, "total_timer_time", "total_elapsed_time"),
    )


def _instant(frame: Any, name: str) -> datetime:
    value = _value(frame, name)
    # Before a device knows the time it counts from when it was switched on, which is no time of day.
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise Flaw("missing_time")
    return values.utc(value)


def _first(frame: Any, *names: str) -> float | None:
    return next(
        filter(
            lambda each: each is not None, map(values.number, (_value(frame, n) for n in names))
        ),
        None,
    )


def _value(frame: Any, name: str) -> Any:
    return frame.get_value(name, fallback=None)


def _sensor(frame: Any) -> Sensor:
    manufacturer = values.text(str(_value(frame, "manufacturer") or "")) or "FIT"
    product = _value(frame, "garmin_product") or _value(frame, "product")
    return Sensor(manufacturer, None if product is None else str(product), "watch")


def _recognise(head: Head) -> float:
    return 1.0 if head.start[8:12] == b".FIT" else 0.0


FIT: Final = Format(
    name="fit",
    title="FIT workouts",
    source=tracks.SOURCE,
    records=(Point, HeartRate, Sample),
    recognise=_recognise,
    read=_read,
    is_proven=True,
)
