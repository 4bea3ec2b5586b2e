"""Measurements of health: samples, heart rate, recovery, strain and sleep."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    DayRangeEcho,
    Device,
    InstantRangeEcho,
    Listing,
    Milliseconds,
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import (
    Instant,
    InstantRange,
    InstantRangeInZone,
    Listed,
    LocalDayRange,
    MetricType,
    at_most,
    between,
)
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql",
    _TIMELINE / "wearables.sql",
    _HERE / "rows.sql",
    _HERE / "health.sql",
)

MOST_STEPS: Final = 10_000
"""The most steps into which a range is divided."""


class HeartRatePage(InstantRange, Listed):
    """The range of heart rate readings, and the page of the list."""

    limit: Annotated[int, at_most(10000)] = Field(
        default=1000, ge=0, description="Most rows of the answer; more than 10000 are 10000."
    )


class HeartRateSteps(InstantRange):
    """The range of heart rate readings, and the length of its steps."""

    to: Instant = Field(
        description=f"End of the range, not part of it; a range has at most {MOST_STEPS} steps.",
        examples=["2025-10-27T00:00:00Z"],
    )
    step_s: Annotated[int, between(10, 86_400)] = Field(
        default=300,
        ge=10,
        le=86_400,
        description="The length of a step in seconds; the first one begins with the range.",
    )

    @model_validator(mode="after")
    def _is_short(self) -> Self:
        if self.to - self.from_ > MOST_STEPS * timedelta(seconds=self.step_s):
            raise PydanticCustomError(
                "length",
                "must be at most {most} steps after from",
                {"parameter": "to", "most": MOST_STEPS},
            )
        return self


class SamplePage(HeartRatePage):
    """The metric and the range of samples, and the page of the list."""

    metric_type: MetricType = Field(
        description="The metric whose samples are returned; a metric without data has none.",
        examples=["steps"],
    )


class Latest(Body):
    """The newest measurement of the range."""

    value: float
    recorded_at: Timestamp


class MetricSummary(Body):
    """One metric in the range."""

    metric_type: str
    unit: str
    """The unit of the metric."""
    aggregation: Literal["sum", "avg"]
    """Whether measurements are added up, as steps are, or averaged, as temperatures are."""
    count: Count
    """The number of samples, including those of several devices for the same time."""
    total: float | None
    """The sum, in which the same time of several devices counts once; null for averaged metrics."""
    average: float
    """The average day with data, or the average sample, as `basis` says."""
    minimum: float
    maximum: float
    basis: Literal["day", "sample"]
    """Whether average, minimum and maximum are of days or of samples."""
    days_with_data: Count
    """Days of the range with at least one sample."""
    latest: Latest
    """The newest sample of the range."""
    sources: list[str]
    """The devices and programs that measured it."""


class HealthSummaryBody(Body):
    """Each metric that was measured in the range, by name."""

    range: InstantRangeEcho
    tz: str
    data: list[MetricSummary]
    """One row for each metric."""


class SampleSource(Body):
    """The device that measured it, and the provider that sent it."""

    provider: str
    name: str
    """The name of the device or program."""
    device: str | None
    """The model of the device; null where it is unknown."""


class Sample(Body):
    """One measurement at an instant, or over a length of time."""

    id: str
    metric_type: str
    value: float
    unit: str
    started_at: Timestamp
    ended_at: Timestamp
    utc_offset: str | None
    """The offset of local time at the place of measurement, such as +02:00."""
    source: SampleSource | None
    """The device that measured it and the provider; null where both are unknown."""


class HealthSamplesBody(Listing):
    """Samples of one metric, the newest first."""

    range: InstantRangeEcho
    metric_type: str
    unit: str | None
    """Null for a metric without any data."""
    data: list[Sample]


class HeartRate(Body):
    """One reading."""

    id: str
    recorded_at: Timestamp
    bpm: Annotated[int, Field(ge=1)]
    """Heart rate, in beats a minute."""
    rr_intervals_ms: list[int]
    """The times between beats."""
    contact: bool | None
    """Whether the sensor touched the skin."""
    device: Device | None
    """The sensor; null where it is unknown."""


class HeartRateSummary(Body):
    """All readings of the range, whatever the page; null without any."""

    minimum: int | None
    maximum: int | None
    average: float | None
    """The average of all readings; null where there is none."""


class HeartRateBody(Listing):
    """Heart rate readings, the newest first."""

    range: InstantRangeEcho
    unit: Literal["bpm"]
    """Beats a minute."""
    data: list[HeartRate]
    summary: HeartRateSummary
    """Smallest, largest and average value of the whole range."""


class HeartRateStep(Body):
    """The readings of one step."""

    starts_at: Timestamp
    """The start of the step; it ends with the next step."""
    count: Count
    minimum: int
    maximum: int
    average: float
    """The average of its readings."""


class HeartRateSeriesBody(Body):
    """Heart rate in steps of equal length, in order; steps without a reading are left out."""

    range: InstantRangeEcho
    unit: Literal["bpm"]
    """Beats a minute."""
    step_ms: Milliseconds
    """The length of a step, in milliseconds."""
    data: list[HeartRateStep]
    summary: HeartRateSummary
    """Smallest, largest and average value of the whole range."""


class Recovery(Body):
    """The recovery after the main sleep."""

    score: Percent | None
    """Recovery, from 0 to 100; null where the provider gave none."""
    state: Literal["scored", "pending", "unscorable"]
    """Whether the provider has a score, will have one, or cannot give one."""
    resting_heart_rate_bpm: float | None
    hrv_rmssd_ms: float | None
    """Heart rate variability: a measure, with decimals."""
    spo2_percent: Percent | None
    """Oxygen saturation of the blood, in percent."""
    skin_temperature_c: float | None
    """Temperature of the skin, in degrees Celsius."""


class Strain(Body):
    """The strain from the main sleep to the next."""

    score: float | None
    """Strain, on the provider's scale; null where it gave none."""
    scale_max: float | None
    """The highest possible score."""
    energy_kj: float | None
    average_heart_rate_bpm: float | None
    max_heart_rate_bpm: float | None


class Sleep(Body):
    """The main sleep, and naps; all but the naps is null on a day with only naps."""

    started_at: Timestamp | None
    ended_at: Timestamp | None
    in_bed_ms: Milliseconds | None
    asleep_ms: Milliseconds | None
    awake_ms: Milliseconds | None
    light_ms: Milliseconds | None
    deep_ms: Milliseconds | None
    rem_ms: Milliseconds | None
    no_data_ms: Milliseconds | None
    latency_ms: Milliseconds | None
    """From going to bed to falling asleep."""
    disturbance_count: Count | None
    cycle_count: Count | None
    efficiency_percent: Percent | None
    performance_percent: Percent | None
    consistency_percent: Percent | None
    need_ms: Milliseconds | None
    debt_ms: Milliseconds | None
    respiratory_rate_bpm: float | None
    average_heart_rate_bpm: float | None
    lowest_heart_rate_bpm: float | None
    nap_count: Count
    """Naps that ended on the day."""
    nap_ms: Milliseconds
    """Asleep in naps, which `asleep_ms` does not include."""


class RecoveryDay(Body):
    """The local date on which the person's main sleep ended."""

    date: CalendarDay
    has_data: bool
    """Whether there is any data for the day."""
    provider: str | None
    """The provider that the row comes from; null without data."""
    utc_offset: str | None
    """The offset of local time where the person woke up."""
    recovery: Recovery | None
    strain: Strain | None
    sleep: Sleep | None
    """The main sleep and naps; null without data."""


class RecoveryAverages(Body):
    """Averages over the days with a value; null without any."""

    recovery_score: float | None
    """Average recovery, from 0 to 100."""
    strain_score: float | None
    """Average strain, on the providers' scale."""
    asleep_ms: Milliseconds | None
    """Average time asleep, in milliseconds."""
    hrv_rmssd_ms: float | None
    resting_heart_rate_bpm: float | None


class RecoveryBody(Body):
    """Every calendar day of the range, in order."""

    range: DayRangeEcho
    data: list[RecoveryDay]
    averages: RecoveryAverages
    """Averages over the days with a value."""


ENDPOINTS: Final = [
    Endpoint(
        name="health_summary",
        path="/api/v1/health/summary",
        scope="read:health",
        summary="Totals, averages, minimum and maximum per metric.",
        params=InstantRangeInZone,
        body=HealthSummaryBody,
        query=SQL["health_summary"],
    ),
    Endpoint(
        name="health_samples",
        path="/api/v1/health/samples",
        scope="read:health",
        summary="Raw samples of one metric, the newest first.",
        params=SamplePage,
        body=HealthSamplesBody,
        query=SQL["health_samples"],
    ),
    Endpoint(
        name="heart_rate",
        path="/api/v1/health/heart-rate",
        scope="read:health",
        summary="Heart rate readings, the newest first.",
        params=HeartRatePage,
        body=HeartRateBody,
        query=SQL["heart_rate"],
    ),
    Endpoint(
        name="heart_rate_series",
        path="/api/v1/health/heart-rate-series",
        scope="read:health",
        summary="Heart rate in steps of equal length.",
        params=HeartRateSteps,
        body=HeartRateSeriesBody,
        query=SQL["heart_rate_series"],
    ),
    Endpoint(
        name="recovery",
        path="/api/v1/health/recovery",
        scope="read:health",
        summary="Recovery, strain and sleep by calendar day.",
        params=LocalDayRange,
        body=RecoveryBody,
        query=SQL["recovery"],
    ),
]
