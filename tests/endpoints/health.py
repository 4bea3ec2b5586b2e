"""A slow and simple model of sums of health metrics over devices, and of the sleep of a day."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction


@dataclass(frozen=True)
class Source:
    """A device that measures; ``kind`` is watch, phone or other."""

    provider: str
    name: str
    kind: str
    priority: int

    @property
    def rank(self) -> tuple[int, int, bytes, bytes]:
        """Return the sort key of sources: the smallest is the best."""
        kinds = ["watch", "phone", "other"]
        return (
            self.priority,
            kinds.index(self.kind),
            self.provider.encode(),
            self.name.encode(),
        )


@dataclass(frozen=True)
class Sample:
    """One sample; times are milliseconds since some instant."""

    source: Source
    started: int
    ended: int
    value: int
    is_daily_total: bool = False

    @property
    def end(self) -> int:
        """Return its end: a sample without length gets a millisecond."""
        return max(self.ended, self.started + 1)

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether any part of it is in the range."""
        return self.started < end and self.end > start


def counts(sample: Sample, samples: list[Sample], start: int, end: int) -> bool:
    """Return whether the sample counts between ``start`` and ``end``; only daily totals may not."""
    if not sample.is_daily_total:
        return True
    is_cut = sample.started < start or sample.end > end
    for other in samples:
        if not other.overlaps(sample.started, sample.end):
            continue
        if other.source.provider != sample.source.provider:
            if other.source.priority < sample.source.priority:
                return False
        elif is_cut and not other.is_daily_total:
            return False
    return True


def amounts(samples: list[Sample], start: int, end: int, midnight: int) -> dict[int, Fraction]:
    """Return the sums before (0) and after (1) ``midnight``, computed millisecond by millisecond."""
    counting = [
        sample
        for sample in samples
        if sample.overlaps(start, end) and counts(sample, samples, start, end)
    ]
    total: dict[int, Fraction] = defaultdict(Fraction)
    for at in range(start, end):
        there = [sample for sample in counting if sample.started <= at < sample.end]
        if not there:
            continue
        best = min(there, key=lambda sample: (not sample.is_daily_total, sample.source.rank))
        for sample in there:
            if (sample.source, sample.is_daily_total) == (best.source, best.is_daily_total):
                total[int(at >= midnight)] += Fraction(sample.value, sample.end - sample.started)
    return total


@dataclass(frozen=True)
class Sleep:
    """One sleep; ``woke_at`` is the local time of its end."""

    source: Source
    woke_at: datetime
    is_nap: bool
    asleep_ms: int


def day(sleeps: list[Sleep], of: date) -> tuple[str | None, int | None, int, int] | None:
    """Return the provider, the main sleep's time asleep, and how many naps of what length."""
    ended = [sleep for sleep in sleeps if sleep.woke_at.date() == of]
    if not ended:
        return None
    mains = [sleep for sleep in ended if not sleep.is_nap]
    best = min(sleep.source.rank for sleep in mains or ended)
    of_best = [sleep for sleep in mains or ended if sleep.source.rank == best]
    provider = of_best[0].source.provider
    naps = [sleep for sleep in ended if sleep.is_nap and sleep.source.provider == provider]
    return (
        provider,
        max(sleep.asleep_ms for sleep in of_best) if mains else None,
        len(naps),
        sum(nap.asleep_ms for nap in naps),
    )
