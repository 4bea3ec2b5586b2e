"""Stages of sleep, and the sleeps that consist of them.

Time in bed overlaps the stages, and stages of two recordings overlap each other, so the time of a kind is
the time that its stages cover: what two of them cover counts once.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import Sensor, Sleep

GAP: Final = timedelta(hours=2)
"""Parts of sleep with less than this between them are of one sleep."""
NAP: Final = timedelta(hours=3)
"""A sleep that is shorter is a nap, where the source has no word for naps."""

UNKNOWN_DEPTH: Final = "Asleep"
DEPTHS: Final = ("AsleepCore", "AsleepDeep", "AsleepREM")
ASLEEP: Final = (UNKNOWN_DEPTH, *DEPTHS)
KINDS: Final = frozenset({"InBed", "Awake", *ASLEEP})
"""The kinds of stages, as Apple Health names them."""


class Stage(NamedTuple):
    """A part of a sleep; ``zone`` is the time zone, where the source names one."""

    started_at: datetime
    ended_at: datetime
    kind: str
    zone: str | None = None


def groups(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Return the stages in groups with no gap within them, in the order of time."""
    stages = sorted(stages, key=lambda each: each.started_at)
    first = 0
    ended_at = stages[0].ended_at
    grouped = []
    for at, stage in enumerate(stages):
        if stage.started_at >= ended_at + GAP:
            grouped.append(list(stages[first:at]))
            first = at
        ended_at = max(ended_at, stage.ended_at)
    return [*grouped, list(stages[first:])]


def covered_ms(stages: Sequence[Stage], *kinds: str) -> int:
    """Return the time that stages of these kinds cover. The stages are in the order of their starts."""
    covered = timedelta(0)
    until = datetime.min.replace(tzinfo=UTC)
    for each in stages:
        if each.kind in kinds and each.ended_at > until:
            covered += each.ended_at - max(each.started_at, until)
            until = each.ended_at
    return covered // timedelta(milliseconds=1)


def sleep(stages: Sequence[Stage], sensor: Sensor, name: str) -> Sleep | None:
    """Return the sleep of one group of stages; None for time in bed without sleep.

    ``name`` distinguishes its key from those of other sensors.
    """
    started_at = stages[0].started_at
    ended_at = max(each.ended_at for each in stages)
    asleep_ms = covered_ms(stages, *ASLEEP)
    if not asleep_ms:
        return None
    kinds = {each.kind for each in stages}
    has_depths = not kinds.isdisjoint(DEPTHS)
    return Sleep(
        key=f"{instant_ms(started_at)}:{name}",
        started_at=started_at,
        ended_at=ended_at,
        sensor=sensor,
        in_bed_ms=covered_ms(stages, *kinds),
        asleep_ms=asleep_ms,
        is_nap=ended_at - started_at < NAP,
        awake_ms=covered_ms(stages, "Awake") if has_depths or "Awake" in kinds else None,
        light_ms=covered_ms(stages, "AsleepCore") if has_depths else None,
        deep_ms=covered_ms(stages, "AsleepDeep") if has_depths else None,
        rem_ms=covered_ms(stages, "AsleepREM") if has_depths else None,
    )
