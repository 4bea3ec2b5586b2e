"""Writing what a message about health contains: all of it and the digest of its body, or nothing.

Messages of one connection are written one after another. One whose digest is there was written before and
changes nothing: its parts of buckets would be added once more. Two phones of one person may send the same
records at once, so all messages write rows in one order (``parts``), as imports do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from resourceserver.integrations import sleep_stages
from resourceserver.integrations.format import Person
from resourceserver.integrations.imports import batches, checks, deliveries, writing
from resourceserver.integrations.imports.batches import Batch, Outcome
from resourceserver.integrations.imports.deliveries import Counts
from resourceserver.integrations.imports.writing import Target, Written, compact, instants
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.receivers.health.items import EXACT, HEART_RATE, Bucket, StageOf
from resourceserver.integrations.receivers.health.messages import Application, Message
from resourceserver.integrations.records import (
    METRICS,
    HeartRate,
    Refused,
    Sample,
    ScreenTime,
    Sensor,
    Sleep,
)
from resourceserver.integrations.sleep_stages import Stage
from shared import connections, queries

SQL: Final = queries.load(Path(__file__).with_name("health.sql"))
KIND: Final = connections.KINDS["health"]
MOST: Final = 1e15
"""The largest value of a sample."""
MOST_SENSORS: Final = 20
"""Sensors of the stages of a message; each takes some statements."""
LONGEST_SLEEP: Final = timedelta(hours=48)
_SUMS: Final = [name for name, (_, aggregation) in METRICS.items() if aggregation == "sum"]


@dataclass
class Prepared:
    """What a message contains, checked, by the way in which it is written."""

    application: Application
    batch: Batch = field(default_factory=Batch)
    samples: list[Sample] = field(default_factory=list)
    growing: list[Sample] = field(default_factory=list)
    heart_rates: list[HeartRate] = field(default_factory=list)
    sleeps: list[Sleep] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)
    stages: list[StageOf] = field(default_factory=list)
    screen_times: list[ScreenTime] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Those of the sensors of stages."""

    def take(self, item: Any) -> None:
        """Check an item, and keep it or count it as refused."""
        self.batch.count += 1
        if isinstance(item, Refused):
            self.batch.take(item)
            return
        reason = _refusal(item) or self._excess(item)
        if reason is not None:
            self.batch.refuse(reason, writing.example(item))
            return
        match item:
            case Sample():
                (self.growing if self.application.grows(item) else self.samples).append(item)
                at = item.started_at
            case HeartRate():
                self.heart_rates.append(item)
                at = item.recorded_at
            case Sleep():
                self.sleeps.append(item)
                at = item.started_at
            case Bucket():
                self.buckets.append(item)
                at = item.started_at
            case ScreenTime():
                self.screen_times.append(item)
                # As in the receipt of a file.
                at = datetime.combine(item.date, time(), UTC)
            case _:
                self.stages.append(item)
                at = item.stage.started_at
        self.batch.first_at = min(self.batch.first_at or at, at)
        self.batch.last_at = max(self.batch.last_at or at, at)

    def _excess(self, item: Any) -> str | None:
        if isinstance(item, StageOf):
            self.names.add(item.sensor.name)
            if len(self.names) > MOST_SENSORS:
                self.names.discard(item.sensor.name)
                return "too_many_sources"
        return None

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics of all samples."""
        of_samples = {each.metric_type for each in (*self.samples, *self.growing)}
        return frozenset(of_samples | {each.metric_type for each in self.buckets} - {HEART_RATE})

    @property
    def sensors(self) -> list[Sensor]:
        """What measured all this, each once."""
        rows: list[Sample | HeartRate | Sleep | Bucket | StageOf] = []
        for some in (self.samples, self.growing, self.heart_rates, self.sleeps, self.buckets):
            rows.extend(some)
        rows.extend(self.stages)
        return list(dict.fromkeys(each.sensor for each in rows))

    def parts(self) -> Iterator[tuple["_Put", Sequence[Any]]]:
        """Yield rows with what writes them, as many as a statement takes, in the order of all messages."""
        by_key = attrgetter("key")
        for put, unordered, order in (
            (_put_samples, self.samples, by_key),
            (_put_growing, self.growing, by_key),
            (_put_heart_rates, self.heart_rates, by_key),
            (writing.put_sleeps, self.sleeps, by_key),
            (_add_buckets, self.buckets, by_key),
            (_join_stages, self.stages, attrgetter("sensor.name", "stage.started_at")),
            (writing.put_screen_times, self.screen_times, by_key),
        ):
            # Of one key the newer row stays the later one.
            rows = sorted(unordered, key=order)
            for start in range(0, len(rows), batches.ROWS):
                yield put, rows[start : start + batches.ROWS]


_Put = Callable[[Target, str, Sequence[Any]], Written]


def prepare(message: Message, person: Person) -> Prepared:
    """Return what a message contains."""
    prepared = Prepared(message.application)
    for item in message.items(person):
        prepared.take(item)
    return prepared


def _refusal(item: Any) -> str | None:
    """Return why an item cannot be written, or None."""
    if isinstance(item, StageOf):
        lasting = Sample(
            "x", "mindful_ms", item.stage.started_at, item.stage.ended_at, 1, item.sensor
        )
        return checks.refusal(lasting)
    if not isinstance(item, Bucket):
        quick = checks.QUICK.get(type(item))
        return None if quick is not None and quick(item) else checks.refusal(item)
    if any(each is not None and abs(each) > MOST for each in (item.minimum, item.maximum)):
        return "value_out_of_range"
    mean = float(item.total / item.sample_count)
    if item.metric_type == HEART_RATE:
        pulse = HeartRate(item.key, item.started_at, round(mean), item.sensor)
        if item.ended_at < item.started_at:
            return "ends_before_start"
        return checks.refusal(pulse)
    value = float(item.total) if METRICS[item.metric_type][1] == "sum" else mean
    lasting = Sample(item.key, item.metric_type, item.started_at, item.ended_at, value, item.sensor)
    return checks.refusal(lasting)


def write(target: Target, prepared: Prepared, digest: bytes, *, in_halves: bool) -> Counts | None:
    """Write a message, and return what became of its records; None if it was written before.

    Raises psycopg.Error. With ``in_halves``, a value that the database refuses is counted instead.
    """
    _execute(target, "lock_connection", "")
    _execute(target, "forget_messages", "")
    if _execute(target, "add_message", "", body_digest=digest).fetchone() is None:
        return None
    target.begin()
    target.touched.clear()
    added = changed = 0
    late = Batch(
        refused={reason: (n, list(them)) for reason, (n, them) in prepared.batch.refused.items()}
    )
    source = prepared.application.source
    # All at once and in one order, since imports and other messages write the same rows.
    writing.add_metrics(target, source, prepared.metrics)
    writing.sensor_ids(target, source, prepared.sensors)
    for put, rows in prepared.parts():
        written = (_in_halves if in_halves else _at_once)(put, target, source, rows)
        added += written.added
        changed += written.changed
        for reason, example in written.refused:
            late.refuse(reason, example)
    target.mark_days()
    return deliveries.count(target, KIND, prepared.batch, Outcome(added, changed, late.refused))


def _execute(target: Target, statement: str, source: str, /, **values: Any) -> Any:
    common = {"user_id": target.user_id, "import_id": target.import_id, "source": source}
    return target.connection.execute(SQL[statement], common | values)


def _at_once(put: _Put, target: Target, source: str, rows: Sequence[Any]) -> Written:
    return put(target, source, rows)


def _in_halves(put: _Put, target: Target, source: str, rows: Sequence[Any]) -> Written:
    """Write rows of which the database refuses some, and refuse these alone."""
    try:
        with target.connection.transaction():
            return put(target, source, rows)
    except batches.OF_A_VALUE:
        target.forget()
        if len(rows) == 1:
            return Written(0, refused=(("refused_by_database", writing.example(rows[0])),))
    middle = len(rows) // 2
    first = _in_halves(put, target, source, rows[:middle])
    second = _in_halves(put, target, source, rows[middle:])
    return Written(
        first.added + second.added, first.changed + second.changed, first.refused + second.refused
    )


def _put_samples(target: Target, source: str, rows: Sequence[Sample]) -> Written:
    return writing.put_samples(target, source, rows, is_growing=False)


def _put_growing(target: Target, source: str, rows: Sequence[Sample]) -> Written:
    return writing.put_samples(target, source, rows, is_growing=True)


def _put_heart_rates(target: Target, source: str, rows: Sequence[HeartRate]) -> Written:
    newest = writing.newest(rows)
    values = writing.columns(newest, skip=("sensor", "rr_intervals_ms", "contact"))
    values |= writing.measured(target, source, newest)
    return writing.counted(_execute(target, "put_heart_rates", source, **values))


def _add_buckets(target: Target, source: str, rows: Sequence[Bucket]) -> Written:
    merged: dict[str, Bucket] = {}
    for row in rows:
        merged[row.key] = _merged(merged[row.key], row) if row.key in merged else row
    whole = list(merged.values())
    values = writing.columns(whole, skip=("sensor", "total"))
    values |= {"total": compact([str(row.total) for row in whole])}
    values |= writing.measured(target, source, whole)
    return writing.counted(_execute(target, "add_buckets", source, sums=_SUMS, **values))


def _merged(first: Bucket, second: Bucket) -> Bucket:
    """Return a bucket with the samples of both."""
    return first._replace(
        sample_count=first.sample_count + second.sample_count,
        total=EXACT.add(first.total, second.total),
        minimum=None if first.minimum is None else min(first.minimum, second.minimum or 0.0),
        maximum=None if first.maximum is None else max(first.maximum, second.maximum or 0.0),
    )


class _StageRow(NamedTuple):
    """A stage as its statement takes it."""

    sensor: str
    started_at: datetime
    ended_at: datetime
    kind: str


class _Span(NamedTuple):
    """The time of a sleep or of a group of stages."""

    started_at: datetime
    ended_at: datetime

    def holds(self, other: "_Span") -> bool:
        """Tell whether all of the other lies within this."""
        return self.started_at <= other.started_at and other.ended_at <= self.ended_at

    def lacks(self, other: "_Span") -> bool:
        """Tell whether only a part of the other lies within this."""
        overlaps = self.started_at < other.ended_at and other.started_at < self.ended_at
        return overlaps and not self.holds(other)


def _span(group: Sequence[Stage]) -> _Span:
    return _Span(group[0].started_at, max(each.ended_at for each in group))


def _is_whole(span: _Span, earlier: Iterable[_Span]) -> bool:
    """Tell whether a group can be a sleep, and has all stages of the earlier sleeps that it overlaps."""
    return span.ended_at - span.started_at <= LONGEST_SLEEP and not any(map(span.lacks, earlier))


def _joined_sleeps(
    target: Target, source: str, sensor: str, groups: Sequence[Sequence[Stage]]
) -> dict[str, _Span]:
    """Return the sleeps that earlier stages were joined to and that overlap groups, by their keys."""
    spans = [_span(group) for group in groups]
    rows = _execute(
        target,
        "joined_sleeps",
        source,
        sensor=sensor,
        firsts=[each.started_at for each in spans],
        lasts=[each.ended_at for each in spans],
    )
    return {key: _Span(started_at, ended_at) for key, started_at, ended_at in rows}


def _join_stages(target: Target, source: str, rows: Sequence[StageOf]) -> Written:
    """Write stages, and join them with those that are there to sleeps, in place of the earlier ones.

    A sleep stays as it is if some of its stages are not kept any more, or if it would become too long.
    """
    by_name: dict[str, list[StageOf]] = {}
    for row in rows:
        by_name.setdefault(row.sensor.name, []).append(row)
    added = 0
    for name, of_sensor in sorted(by_name.items()):
        stages = {each.stage for each in of_sensor}
        added += _add_stages(target, source, name, stages)
        first = min(each.started_at for each in stages)
        last = max(each.ended_at for each in stages)
        held = [
            Stage(started_at.astimezone(UTC), ended_at.astimezone(UTC), kind)
            for started_at, ended_at, kind in _execute(
                target, "stages", source, sensor=name, first=first, last=last
            )
        ]
        touched = [group for group in sleep_stages.groups(held) if not stages.isdisjoint(group)]
        earlier = _joined_sleeps(target, source, name, touched)
        whole = [group for group in touched if _is_whole(_span(group), earlier.values())]
        joined = [
            sleep._replace(key=f"stages:{instant_ms(sleep.started_at)}:{name}")
            for group in whole
            if (sleep := sleep_stages.sleep(group, of_sensor[-1].sensor, name)) is not None
        ]
        replaced = {
            key for key, span in earlier.items() if any(_span(group).holds(span) for group in whole)
        }
        outdated = replaced - {sleep.key for sleep in joined}
        if outdated:
            _execute(target, "remove_joined_sleeps", source, keys=sorted(outdated))
        if joined:
            writing.put_sleeps(target, source, joined)
    return Written(added)


def _add_stages(target: Target, source: str, name: str, stages: set[Stage]) -> int:
    ordered = sorted(stages)
    values = {
        "sensor": compact([name] * len(ordered)),
        "started_at": compact(instants(each.started_at for each in ordered)),
        "ended_at": compact(instants(each.ended_at for each in ordered)),
        "kind": compact([each.kind for each in ordered]),
    }
    added: int = _execute(target, "add_stages", source, **values).rowcount
    return added
