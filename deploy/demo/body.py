"""Measurements of a watch, a phone and a strap: sleep, recovery, strain, heart rate, steps."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from uuid import UUID

from deploy.demo.days import HOUR, MINUTE, Block, Chapter, Day, Life, Row

WATCH: Final = "Watch"
PHONE: Final = "Phone"
STRAP: Final = "Strap"
SOURCES: Final = {
    WATCH: ("apple_health", "Watch7,1", "watch", "watchos", 10),
    PHONE: ("apple_health", "Phone15,2", "phone", "ios", 20),
    STRAP: ("whoop", None, "other", None, 30),
}
"""Provider, device, kind, platform and priority of each source, by name."""

METRICS: Final = {
    "steps": ("count", "sum"),
    "distance_m": ("m", "sum"),
    "active_energy_kj": ("kJ", "sum"),
    "exercise_ms": ("ms", "sum"),
    "weight_kg": ("kg", "avg"),
    "blood_oxygen_percent": ("percent", "avg"),
}
"""Unit and aggregation of each metric."""

_TUESDAY: Final = 2
_THURSDAY: Final = 4
_SATURDAY: Final = 6
_SUNDAY: Final = 7
_STRIDE_M: Final = 0.74


def run(life: Life, day: Day) -> Block | None:
    """Return the time of a run on that day, or None."""
    hour = {_TUESDAY: 18.4, _THURSDAY: 18.4, _SATURDAY: 9.6}.get(day.date.isoweekday())
    rng = life.rng("run", day.date)
    if hour is None or rng.random() < 0.2:
        return None
    begin = day.awake(hour, 24)[0]
    return begin, begin + timedelta(minutes=rng.randint(28, 62))


def sleeps(life: Life, day: Day, source_id: UUID) -> Iterator[tuple[Row, Row | None, Row | None]]:
    """Yield each sleep that ended on the day, with recovery and strain unless it is a nap."""
    chapter = life.chapter("sleep", day)
    rng = chapter.rng
    night = _sleep(chapter, (day.fell_asleep_at, day.woke_at), source_id)
    key = {"sleep_id": night["sleep_id"]}
    rested = min(1.0, night["asleep_ms"] / (7.6 * HOUR / timedelta(milliseconds=1)))
    is_scored = rng.random() < 0.97
    recovery = {
        **key,
        "state": "scored" if is_scored else "unscorable",
        "score": round(min(99.0, max(5.0, rng.gauss(72 * rested, 9)))) if is_scored else None,
        "resting_heart_rate_bpm": round(rng.gauss(54, 2)),
        "hrv_rmssd_ms": round(rng.gauss(52 * rested, 6), 1),
        "spo2_percent": round(rng.uniform(94.5, 98.5), 1),
        "skin_temperature_c": round(rng.gauss(33.6, 0.3), 1),
    }
    is_hard = run(life, day) is not None
    cycle = {
        **key,
        "started_at": day.fell_asleep_at,
        "ended_at": day.bed_at,
        "strain": round(min(20.5, max(2.0, rng.gauss(14.0 if is_hard else 8.0, 1.6))), 1),
        "strain_scale_max": 21,
        "energy_kj": round(rng.gauss(10800 if is_hard else 8900, 500), 1),
        "average_heart_rate_bpm": round(rng.gauss(74 if is_hard else 68, 3)),
        "max_heart_rate_bpm": round(rng.gauss(171 if is_hard else 122, 6)),
    }
    yield night, recovery, cycle
    if day.date.isoweekday() == _SUNDAY and rng.random() < 0.5:
        begin = day.awake(14.2, 24)[0]
        nap = (begin, begin + timedelta(minutes=rng.randint(18, 45)))
        yield _sleep(chapter, nap, source_id) | {"is_nap": True}, None, None


def _sleep(chapter: Chapter, block: Block, source_id: UUID) -> Row:
    rng = chapter.rng
    in_bed = (block[1] - block[0]) // timedelta(milliseconds=1)
    awake = round(in_bed * rng.uniform(0.04, 0.11))
    asleep = in_bed - awake
    deep, rem = round(asleep * rng.uniform(0.16, 0.23)), round(asleep * rng.uniform(0.2, 0.27))
    need = round(7.9 * HOUR / timedelta(milliseconds=1))
    return {
        "sleep_id": chapter.row_id(),
        "source": SOURCES[STRAP][0],
        "source_id": source_id,
        "started_at": block[0],
        "ended_at": block[1],
        "utc_offset": chapter.day.offset(block[1]),
        "is_nap": False,
        "in_bed_ms": in_bed,
        "asleep_ms": asleep,
        "awake_ms": awake,
        "light_ms": asleep - deep - rem,
        "deep_ms": deep,
        "rem_ms": rem,
        "no_data_ms": 0,
        "latency_ms": rng.randint(120, 1500) * 1000,
        "disturbance_count": rng.randint(2, 14),
        "cycle_count": max(1, round(asleep / 5_400_000)),
        "efficiency_percent": round(100 * asleep / in_bed, 1),
        "performance_percent": round(min(100.0, 100 * asleep / need)),
        "consistency_percent": round(rng.uniform(55, 95)),
        "need_ms": need,
        "debt_ms": max(0, need - asleep),
        "respiratory_rate_bpm": round(rng.gauss(14.6, 0.4), 1),
        "average_heart_rate_bpm": round(rng.gauss(57, 2)),
        "lowest_heart_rate_bpm": round(rng.gauss(49, 2)),
    }


def heart_rates(life: Life, day: Day, source_id: UUID) -> Iterator[Row]:
    """Yield a reading every five minutes, and every half minute of a run."""
    chapter = life.chapter("heart", day)
    rng = chapter.rng
    running = run(life, day)
    at = day.fell_asleep_at
    while at < day.bed_at:
        is_running = running is not None and running[0] <= at < running[1]
        bpm = 54.0 if at < day.woke_at else 76.0
        bpm = 148.0 if is_running else bpm
        bpm = round(rng.gauss(bpm, 7))
        # At a low heart rate the watch also records the intervals between beats.
        beats = [round(60_000 / bpm + rng.gauss(0, 25)) for _ in range(6)] if bpm < 52 else []
        yield {
            "heart_rate_id": chapter.row_id(),
            "source": SOURCES[WATCH][0],
            "recorded_at": at,
            "bpm": bpm,
            "rr_intervals_ms": beats,
            "contact": True,
            "source_id": source_id,
        }
        at += MINUTE / 2 if is_running else 5 * MINUTE


def samples(life: Life, day: Day, sources: dict[str, UUID]) -> Iterator[Row]:
    """Yield hourly counts of two devices, and the measurements of the morning."""
    chapter = life.chapter("samples", day)
    rng = chapter.rng
    running = run(life, day)
    at = day.woke_at
    while at < day.bed_at:
        until = min(at + HOUR, day.bed_at)
        steps = int(rng.expovariate(1 / 480))
        if running is not None and at <= running[0] < until:
            steps += 5200
            kilojoules, minutes = 1900.0, (running[1] - running[0]) / MINUTE
            yield _sample(chapter, "exercise_ms", (at, until), minutes * 60_000, sources[WATCH])
        else:
            kilojoules = 0.2 * steps
        for name, seen in ((WATCH, 1.0), (PHONE, rng.uniform(0.4, 0.95))):
            count = round(steps * seen)
            yield _sample(chapter, "steps", (at, until), count, sources[name])
            length = round(count * _STRIDE_M, 1)
            yield _sample(chapter, "distance_m", (at, until), length, sources[name])
        energy = round(kilojoules, 1)
        yield _sample(chapter, "active_energy_kj", (at, until), energy, sources[WATCH])
        at = until
    morning = day.woke_at + 8 * MINUTE
    oxygen = round(rng.uniform(94, 99), 1)
    yield _sample(chapter, "blood_oxygen_percent", (morning, morning), oxygen, sources[WATCH])
    if day.date.isoweekday() == _SUNDAY or day.date == life.first:
        weight = round(74.5 - 2.2 * day.share + rng.gauss(0, 0.4), 1)
        yield _sample(chapter, "weight_kg", (morning, morning), weight, sources[PHONE])


def _sample(chapter: Chapter, metric: str, block: Block, value: float, source_id: UUID) -> Row:
    return {
        "sample_id": chapter.row_id(),
        "source": SOURCES[WATCH][0],
        "metric_type": metric,
        "source_id": source_id,
        "started_at": block[0],
        "ended_at": block[1],
        "value": value,
        "utc_offset": chapter.day.offset(block[0]),
        "is_daily_total": False,
    }
