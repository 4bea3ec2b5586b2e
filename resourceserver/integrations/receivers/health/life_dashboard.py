"""Life Dashboard Companion for Android and iOS.

An element of a list is a record, with the id that Health Connect or HealthKit gave it, or a bucket: what was
measured in a window of time, if the person has chosen to send fewer values. A bucket that comes again holds
only what was measured late, so it is added.

Messages with the source ``screen_time`` are those that files contain too (``formats.life_dashboard``).

An id can stand for a series of heart rates, so their keys contain the instant too.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import Person
from resourceserver.integrations.formats.life_dashboard import screen_times
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.receivers.health import items, quantities, sessions
from resourceserver.integrations.receivers.health.items import EXACT, Bucket, Item, attempt, refused
from resourceserver.integrations.records import HeartRate, Sample, Sensor
from resourceserver.integrations.values import Flaw

SOURCE: Final = "life_dashboard"
_NAME: Final = "Life Dashboard"
_IOS: Final = "healthkit_ios"
_DAILY_TOTALS: Final = {
    "steps": ("steps", 1.0),
    "distance_meters": ("distance_m", 1.0),
    "active_calories": ("active_energy_kj", quantities.TYPES["active_calories"][0].factor),
}
_MOST_COUNTED: Final = 2**31 - 1
_SCREEN_TIME: Final = "screen_time"
_NO_DATA: Final = frozenset({_SCREEN_TIME, "daily_totals", "deletions_unavailable"})
_KEY_NAME: Final = 120


def read(message: dict[str, Any], person: Person) -> Iterator[Item]:
    """Yield what a message contains."""
    is_ios = message.get("source") == _IOS
    for name, element in quantities.elements(message, _NO_DATA):
        yield from attempt(_items(name, element, is_ios=is_ios), name, element)
    totals = message.get("daily_totals")
    for element in totals if isinstance(totals, list) else []:
        found = _totals(element, message.get("timestamp"), person)
        yield from attempt(found, "daily_totals", element)
    if _SCREEN_TIME in message:
        yield from screen_times(message, person)


def _items(name: str, element: Any, *, is_ios: bool) -> Iterator[Item]:
    if name == "deleted_records":
        raise Flaw("removals_are_not_kept")
    quantities.check_type(name)
    given = values.members(element)
    platform = "ios" if is_ios else "android"
    if "bucket_start" in given:
        yield _bucket(name, given, platform)
        return
    source = values.text(given.get("source"))
    sensor = Sensor((source or _NAME)[:_KEY_NAME], platform=platform)
    uuid = values.text(given.get("uuid"))
    if name == quantities.SLEEP:
        yield sessions.sleep(given, uuid and values.key(name, uuid), sensor, sensor.name)
        return
    if name == quantities.HEART_RATE:
        at = values.instant(given.get("time"))
        bpm = round(quantities.number(given.get("bpm"), name))
        yield HeartRate(values.key(uuid or sensor.name, instant_ms(at)), at, bpm, sensor)
        return
    started_at, ended_at = quantities.times(given)
    what = (uuid,) if uuid else (instant_ms(started_at), instant_ms(ended_at), sensor.name)
    if name == quantities.MINDFULNESS:
        lasted_ms = (ended_at - started_at) / quantities.MS
        yield Sample(
            values.key("mindful_ms", *what), "mindful_ms", started_at, ended_at, lasted_ms, sensor
        )
        return
    for quantity in quantities.TYPES[name]:
        metric = _metric(quantity.metric, is_ios=is_ios)
        value = quantities.value_of(given, quantity)
        yield Sample(values.key(metric, *what), metric, started_at, ended_at, value, sensor)


def _metric(metric: str, *, is_ios: bool) -> str:
    # HealthKit measures the deviation of intervals, Health Connect their successive differences.
    return "hrv_sdnn_ms" if is_ios and metric == "hrv_rmssd_ms" else metric


def _bucket(name: str, given: dict[str, Any], platform: str) -> Bucket:
    factor = 1.0
    if name == quantities.HEART_RATE:
        metric = items.HEART_RATE
    else:
        several = quantities.TYPES.get(name, ())
        if len(several) != 1:
            raise Flaw("type_has_no_buckets")
        [quantity] = several
        metric, factor = _metric(quantity.metric, is_ios=platform == "ios"), quantity.factor
    started_at = values.instant(given.get("bucket_start"))
    ended_at = values.instant(given.get("bucket_end"))
    count = given.get("sample_count")
    if not isinstance(count, int) or isinstance(count, bool):
        raise Flaw("value_is_no_number")
    if not 1 <= count <= _MOST_COUNTED:
        raise Flaw("value_out_of_range")
    if quantities.is_sum(metric):
        total = _decimal(given.get("total"), metric, factor)
        minimum = maximum = None
    else:
        total = EXACT.multiply(_decimal(given.get("avg"), metric, factor), Decimal(count))
        minimum, maximum = (
            quantities.converted(quantities.number(given.get(each), metric), factor)
            for each in ("min", "max")
        )
    names = given.get("sources")
    sources = {values.text(each) for each in names} if isinstance(names, list) else set()
    sensor = next(iter(sources)) if len(sources) == 1 else None
    return Bucket(
        key=values.key("bucket", metric, instant_ms(started_at), instant_ms(ended_at)),
        metric_type=metric,
        started_at=started_at,
        ended_at=ended_at,
        sample_count=count,
        total=total,
        minimum=minimum,
        maximum=maximum,
        sensor=Sensor((sensor or _NAME)[:_KEY_NAME], platform=platform),
    )


def _decimal(written: Any, metric: str, factor: float) -> Decimal:
    number = quantities.number(written, metric)
    return EXACT.multiply(Decimal(repr(number)), Decimal(repr(factor)))


def _totals(element: Any, sent: Any, person: Person) -> Iterator[Item]:
    """Yield the totals of a day, which the application has cleared of what two sources say alike.

    The day is one of the phone's zone, which no message names; the profile's stands for it. That of today
    ends when the message was written, so that of two the newer ends later.
    """
    given = values.members(element)
    day = values.wall_time(given.get("date")).date()
    started_at, ended_at = _midnight(day, 0, person), _midnight(day, 1, person)
    try:
        written_at = values.instant(sent)
    except Flaw:
        written_at = ended_at
    if started_at < written_at < ended_at:
        ended_at = written_at
    sensor = Sensor(_NAME)
    for name, written in given.items():
        if name == "date":
            continue
        try:
            if name not in _DAILY_TOTALS:
                raise Flaw("type_is_not_kept" if name == "total_calories" else "unknown_metric")
            metric, factor = _DAILY_TOTALS[name]
            value = quantities.converted(quantities.number(written, metric), factor)
        except Flaw as flaw:
            quoted = {"date": given.get("date"), name: written}
            yield refused(str(flaw), "daily_totals", quoted)
            continue
        # The date is what identifies the day, whatever zone the profile has.
        key = values.key(metric, "day", instant_ms(datetime.combine(day, time(), UTC)))
        yield Sample(key, metric, started_at, ended_at, value, sensor, is_daily_total=True)


def _midnight(day: date, later: int, person: Person) -> datetime:
    try:
        return values.utc(datetime.combine(day + timedelta(days=later), time(), person.zone))
    except OverflowError as error:
        raise Flaw("invalid_time") from error
