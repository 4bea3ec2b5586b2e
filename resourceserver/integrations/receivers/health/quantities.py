"""What the two applications that read Health Connect send of each type, and the metric that it is.

They name most things alike. Where they differ, a quantity has both names.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from resourceserver.integrations import values
from resourceserver.integrations.records import METRICS
from resourceserver.integrations.units import ENERGY
from resourceserver.integrations.values import Flaw

_KCAL: Final = ENERGY["kcal"]


class Quantity(NamedTuple):
    """A metric, the members that hold its value, and the factor from their unit to that of the metric."""

    metric: str
    members: tuple[str, ...]
    factor: float = 1.0


TYPES: Final[dict[str, tuple[Quantity, ...]]] = {
    "steps": (Quantity("steps", ("count",)),),
    "distance": (Quantity("distance_m", ("meters",)),),
    "active_calories": (Quantity("active_energy_kj", ("calories",), _KCAL),),
    "weight": (Quantity("weight_kg", ("kilograms",)),),
    "height": (Quantity("height_m", ("meters",)),),
    "blood_pressure": (
        Quantity("blood_pressure_systolic_mmhg", ("systolic",)),
        Quantity("blood_pressure_diastolic_mmhg", ("diastolic",)),
    ),
    "blood_glucose": (Quantity("blood_glucose_mmol_per_l", ("mmol_per_liter",)),),
    "oxygen_saturation": (Quantity("blood_oxygen_percent", ("percentage",)),),
    "body_temperature": (Quantity("body_temperature_c", ("celsius",)),),
    "respiratory_rate": (Quantity("respiratory_rate_bpm", ("rate",)),),
    "resting_heart_rate": (Quantity("resting_heart_rate_bpm", ("bpm",)),),
    "hydration": (Quantity("water_ml", ("liters",), 1000.0),),
    "nutrition": (Quantity("dietary_energy_kj", ("calories",), _KCAL),),
    "body_fat": (Quantity("body_fat_percent", ("percentage",)),),
    "lean_body_mass": (Quantity("lean_body_mass_kg", ("kilograms",)),),
    "heart_rate_variability": (
        Quantity("hrv_rmssd_ms", ("rmssd_millis", "heart_rate_variability_millis")),
    ),
    "vo2_max": (Quantity("vo2_max", ("ml_per_kg_per_min", "vo2_ml_per_min_per_kg")),),
}
"""The quantities of each type whose records are samples."""
HEART_RATE: Final = "heart_rate"
MINDFULNESS: Final = "mindfulness"
SLEEP: Final = "sleep"
WORKOUTS: Final = "exercise"
_OTHERS: Final = frozenset({HEART_RATE, MINDFULNESS, SLEEP})
NOT_KEPT: Final = frozenset(
    {
        # Energy of activity and of rest together, and rates of energy and temperatures that are differences.
        *("total_calories", "basal_metabolic_rate", "skin_temperature"),
        *("basal_body_temperature", "bone_mass", "body_water_mass"),
        *("menstruation_period", "menstruation_flow", "intermenstrual_bleeding"),
        *("ovulation_test", "cervical_mucus", "sexual_activity"),
    }
)
"""Types that are counted and left."""


def check_type(name: str) -> None:
    """Raise Flaw for a type that is not kept, or not known."""
    if name not in TYPES and name not in _OTHERS:
        if name == WORKOUTS:
            raise Flaw("workouts_are_not_kept")
        raise Flaw("type_is_not_kept" if name in NOT_KEPT else "unknown_metric")


def value_of(given: dict[str, Any], quantity: Quantity) -> float:
    """Return the value of a quantity in the unit of the API. Raises Flaw."""
    written = next((given[name] for name in quantity.members if name in given), None)
    return converted(number(written, quantity.metric), quantity.factor)


def number(written: Any, metric: str) -> float:
    """Return a number that a metric can have. Raises Flaw."""
    parsed = values.number(written)
    if parsed is None:
        raise Flaw("value_is_no_number")
    if parsed < 0 and is_sum(metric):
        raise Flaw("value_out_of_range")
    return parsed


def is_sum(metric: str) -> bool:
    """Return whether the values of a metric add up."""
    return metric in METRICS and METRICS[metric][1] == "sum"


def converted(number: float, factor: float) -> float:
    """Return a number times a factor, without digits that only the conversion adds."""
    return number if factor == 1 else round(number * factor, 9)


def times(given: dict[str, Any]) -> tuple[datetime, datetime]:
    """Return when a record begins and ends; a measurement has one instant. Raises Flaw."""
    if "start_time" in given:
        return values.instant(given["start_time"]), values.instant(given.get("end_time"))
    at = values.instant(given.get("time"))
    return at, at


def elements(message: dict[str, Any], others: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield the elements of all lists of a message but ``others``, each with the name of its type."""
    for name, value in message.items():
        if isinstance(value, list) and name not in others:
            for element in value:
                yield name, element
        elif name in TYPES:
            yield name, value


MS: Final = timedelta(milliseconds=1)
